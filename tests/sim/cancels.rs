//! The answers of a task that is being cancelled.

use crate::common::prelude::*;
use cygnet::sim::{self, Options};
use std::sync::atomic::Ordering::Relaxed;

/// Calls `f` below `depth` tasks, each of which its parent calls in place or another worker steals.
fn nested(depth: usize, f: impl FnOnce() + Send + 'static) {
    if depth == 0 {
        f();
    } else {
        let _ = spawn(move || nested(depth - 1, f)).join();
    }
}

type Ask = fn() -> bool;

/// Ways to ask again in a task that was told of a cancel. They return whether each answer is the
/// same.
const ASKED_AGAIN: [(&str, Ask); 5] = [
    ("at once", || is_cancelled() && yield_now().is_err() && is_cancelled()),
    ("in a new scope", || {
        is_cancelled() && scope(|_| is_cancelled() && yield_now().is_err()) && is_cancelled()
    }),
    ("after a scope that was told", || scope(|_| scope(|_| is_cancelled())) && is_cancelled()),
    ("by a handle", || {
        let first = is_cancelled();
        let handle = cancel_handle();
        first && is_cancelled() && handle.is_cancelled() && ignore_cancellation(|| ()).is_err()
    }),
    // A child that waits has all tasks above it linked.
    ("beside a child that waits", || {
        is_cancelled()
            && scope(|s| {
                s.spawn(|| while yield_now().is_ok() {});
                yield_now().is_err() && is_cancelled()
            })
            && is_cancelled()
    }),
];

/// An ancestor that another worker links just then looks for a moment as if it were not cancelled:
/// a task above it is marked, and the walk has not come to the ancestor.
#[test]
fn a_task_that_was_told_of_a_cancel_is_not_told_otherwise_later() {
    for (how, stays) in ASKED_AGAIN {
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
                assert!(told.recv().unwrap(), "asked {how}, it is cancelled no more");
            }
        });
    }
}

/// A task looks past its parent and goes on to look above it. A cancel comes there when the parent
/// ignores it.
#[test]
fn a_child_of_a_task_that_ignores_a_cancel_is_not_told_of_it_meanwhile() {
    sim::check(&Options::new().seeds(0..4_000), || {
        let rt = runtime(2);
        let flags: Arc<[AtomicBool; 5]> = Arc::default();
        let of_tasks = Arc::clone(&flags);
        let above = rt.spawn(move || {
            let ignores = move || {
                let of_child = Arc::clone(&of_tasks);
                spawn(move || {
                    let [started, _, _, over, told] = &*of_child;
                    started.store(true, Relaxed);
                    // A task that asks twice is made known to the walk.
                    let is_told = (0..2).any(|_| is_cancelled() && !over.load(Relaxed));
                    told.store(is_told, Relaxed);
                })
                .detach();
                let [started, begun, cancelled, over, _] = &*of_tasks;
                spin_until(|| started.load(Relaxed));
                let section = ignore_cancellation(|| {
                    begun.store(true, Relaxed);
                    spin_until(|| cancelled.load(Relaxed));
                    (0..10).for_each(|_| sim::thread::yield_now());
                    over.store(true, Relaxed);
                });
                section.unwrap();
            };
            spawn(ignores).detach();
        });
        let handle = above.cancel_handle();
        spin_until(|| flags[1].load(Relaxed));
        handle.cancel("while it is ignored");
        flags[2].store(true, Relaxed);
        above.join().unwrap();
        assert!(!flags[4].load(Relaxed), "it is told while its parent ignores the cancel");
    });
}

#[test]
fn a_scope_is_cancelled_before_its_handle_says_so() {
    sim::check(&Options::new().seeds(0..2_000), || {
        runtime(2).block_on(|| {
            scope(|s| {
                let handle = s.cancel_handle();
                sim::thread::scope(|threads| {
                    threads.spawn(|| handle.cancel("it is enough"));
                    spin_until(|| handle.is_cancelled());
                    assert!(is_cancelled() && yield_now().is_err());
                });
            });
        });
    });
}

/// The owner cancels a group while another thread cancels the task above it, sooner or later.
#[test]
fn a_member_that_returns_its_cancel_has_not_failed_whatever_cancels_it() {
    for seed in 0..1_000 {
        let run = sim::run(seed, || {
            let rt = runtime(2);
            let task = rt.spawn(|| {
                let group = TaskGroup::<(), Cancelled>::fallible();
                group.add(park);
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
