//! What a task is told of its cancel.

use crate::runtime;
use cygnet::sim::{self, Options};
use cygnet::sync::oneshot;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cygnet::{
    Cancelled, TaskGroup, cancel_handle, ignore_cancellation, is_cancelled, park, scope, spawn,
    yield_now,
};

/// Calls itself in place, or has somebody steal it, `depth` times, and then `f`.
fn nested(depth: usize, f: impl FnOnce() + Send + 'static) {
    if depth == 0 {
        f();
    } else {
        let _ = spawn(move || nested(depth - 1, f)).join();
    }
}

/// An ancestor that another worker links just then looks for a moment as if it were not cancelled: what is above it is marked, and the walk has not come to it.
fn is_not_told_otherwise(stays: fn() -> bool) {
    sim::check(&Options::new().seeds(0..4_000), || {
        let rt = runtime(2);
        for depth in [1, 4, 10] {
            let (about_to, mut waits) = oneshot();
            let (tell, mut told) = oneshot();
            let parent = rt.spawn(move || {
                nested(depth, move || {
                    about_to.send(()).unwrap();
                    while yield_now().is_ok() {}
                    let _ = tell.send(stays());
                });
            });
            waits.recv().unwrap();
            drop(parent);
            assert!(told.recv().unwrap(), "it is cancelled no more");
        }
    });
}

#[test]
fn who_was_told_of_a_cancel_is_not_told_otherwise_later() {
    is_not_told_otherwise(|| is_cancelled() && yield_now().is_err() && is_cancelled());
}

#[test]
fn who_was_told_of_a_cancel_is_not_told_otherwise_in_a_new_scope() {
    is_not_told_otherwise(|| {
        is_cancelled() && scope(|_| is_cancelled() && yield_now().is_err()) && is_cancelled()
    });
}

#[test]
fn who_was_told_of_a_cancel_in_a_scope_is_not_told_otherwise_after_it() {
    is_not_told_otherwise(|| scope(|_| scope(|_| is_cancelled())) && is_cancelled());
}

#[test]
fn who_was_told_of_a_cancel_is_not_told_otherwise_when_others_may_cancel_it() {
    is_not_told_otherwise(|| {
        let first = is_cancelled();
        let handle = cancel_handle();
        first && is_cancelled() && handle.is_cancelled() && ignore_cancellation(|| ()).is_err()
    });
}

/// One that has looked past its parent goes on to look above it, where a cancel comes when the parent ignores it.
#[test]
fn one_below_a_task_that_ignores_a_cancel_is_not_told_of_it_meanwhile() {
    sim::check(&Options::new().seeds(0..4_000), || {
        let rt = runtime(2);
        let flags: Arc<[AtomicBool; 5]> = Arc::default();
        let until = |flag: &AtomicBool| {
            while !flag.load(Relaxed) {
                sim::thread::yield_now();
            }
        };
        let of_tasks = Arc::clone(&flags);
        let above = rt.spawn(move || {
            let ignores = move || {
                let of_child = Arc::clone(&of_tasks);
                spawn(move || {
                    let [started, _, _, over, told] = &*of_child;
                    started.store(true, Relaxed);
                    // Who asks more often is made known to the walk.
                    let is_told = (0..2).any(|_| is_cancelled() && !over.load(Relaxed));
                    told.store(is_told, Relaxed);
                })
                .detach();
                let [started, begun, cancelled, over, _] = &*of_tasks;
                until(started);
                let section = ignore_cancellation(|| {
                    begun.store(true, Relaxed);
                    until(cancelled);
                    (0..10).for_each(|_| sim::thread::yield_now());
                    over.store(true, Relaxed);
                });
                section.unwrap();
            };
            spawn(ignores).detach();
        });
        let handle = above.cancel_handle();
        until(&flags[1]);
        handle.cancel("while it is ignored");
        flags[2].store(true, Relaxed);
        above.join().unwrap();
        assert!(!flags[4].load(Relaxed), "it is told in the middle of that");
    });
}

/// Somebody else cancels a scope: it is before its handle says so.
#[test]
fn a_scope_is_cancelled_when_its_handle_says_so() {
    sim::check(&Options::new().seeds(0..2_000), || {
        let rt = runtime(2);
        rt.block_on(|| {
            scope(|s| {
                let handle = s.cancel_handle();
                sim::thread::scope(|threads| {
                    threads.spawn(|| handle.cancel("it is enough"));
                    while !handle.is_cancelled() {
                        sim::thread::yield_now();
                    }
                    assert!(is_cancelled() && yield_now().is_err());
                });
            });
        });
    });
}

/// It has a task in it, which waits, and so has all above it linked.
#[test]
fn who_was_told_of_a_cancel_is_not_told_otherwise_when_a_child_waits() {
    is_not_told_otherwise(|| {
        is_cancelled()
            && scope(|s| {
                s.spawn(|| while yield_now().is_ok() {});
                yield_now().is_err() && is_cancelled()
            })
            && is_cancelled()
    });
}

/// Its owner cancels a group while another thread cancels the task above it, sooner or later.
#[test]
fn a_member_that_hands_on_its_cancel_has_not_failed_whoever_else_cancels() {
    for seed in 0..1_000 {
        let run = sim::run(seed, || {
            let rt = runtime(2);
            let task = rt.spawn(|| {
                let group = TaskGroup::<Cancelled>::fallible();
                group.spawn(park);
                let _ = yield_now();
                group.cancel_and_join("by the owner")
            });
            let above = task.cancel_handle();
            let other = sim::thread::spawn(move || {
                (0..seed % 80).for_each(|_| sim::thread::yield_now());
                above.cancel("from above");
            });
            if let Ok(joined) = task.join() {
                assert!(joined.is_ok(), "{joined:?}");
            }
            other.join().unwrap();
        });
        run.unwrap();
    }
}
