//! Permits: `park` and `unpark`, by tasks and by foreign threads.

use crate::common::mpsc::channel;
use crate::common::{
    self, eventually, give_way_until, parks, scaled, with_each, with_each_and_many,
};
use cygnet::{Unparker, blocking, park, spawn, unparker, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn an_unpark_before_the_park_is_kept_and_two_count_as_one() {
    with_each(|rt| {
        rt.block_on(|| {
            let me = unparker();
            me.unpark();
            me.unpark();
            park().unwrap();
            // The second would have been kept as another permit: this park must wait for the third.
            let (third, before) = (Arc::new(AtomicBool::new(false)), parks(rt));
            let waker = spawn({
                let (third, handle) = (third.clone(), rt.handle());
                move || {
                    give_way_until(|| {
                        handle.metrics().workers.iter().map(|w| w.parks).sum::<u64>() > before
                    });
                    third.store(true, Ordering::Relaxed);
                    me.unpark();
                }
            });
            park().unwrap();
            assert!(third.load(Ordering::Relaxed));
            waker.join().unwrap();
        });
    });
}

#[test]
fn a_foreign_thread_wakes_a_parked_task() {
    with_each_and_many(|rt| {
        let (tell, unparkers) = channel::<Unparker>();
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let tell = tell.clone();
                rt.spawn(move || {
                    tell.send(unparker()).unwrap();
                    park().is_ok()
                })
            })
            .collect();
        let unparkers: Vec<_> = unparkers.iter().take(100).collect();
        eventually("all are parked", || parks(rt) >= 100);
        unparkers.iter().for_each(Unparker::unpark);
        assert!(tasks.into_iter().all(|task| task.join().unwrap()));
    });
}

#[test]
fn every_permit_of_many_foreign_threads_at_once_is_seen() {
    with_each(|rt| {
        let each = scaled(2_000);
        let sent = Arc::new(AtomicUsize::new(0));
        let (tell, unparkers) = channel();
        let task = rt.spawn({
            let sent = sent.clone();
            move || {
                tell.send(unparker()).unwrap();
                // A count that was stored before an unpark is seen after the park that it ends.
                while sent.load(Ordering::Relaxed) < 3 * each {
                    park().unwrap();
                }
            }
        });
        let unparker = unparkers.recv().unwrap();
        common::thread::scope(|scope| {
            for _ in 0..3 {
                let (sent, unparker) = (&sent, unparker.clone());
                scope.spawn(move || {
                    for _ in 0..each {
                        sent.fetch_add(1, Ordering::Relaxed);
                        unparker.unpark();
                    }
                });
            }
        });
        task.join().unwrap();
    });
}

#[test]
fn two_tasks_wake_each_other_many_times() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let rounds = scaled(5_000);
            let me = unparker();
            let (tell, other) = channel();
            let turn = Arc::new(AtomicUsize::new(0));
            let partner = spawn({
                let turn = turn.clone();
                move || {
                    tell.send(unparker()).unwrap();
                    for round in 0..rounds {
                        while turn.load(Ordering::Acquire) != 2 * round + 1 {
                            park().unwrap();
                        }
                        turn.store(2 * round + 2, Ordering::Release);
                        me.unpark();
                    }
                }
            });
            let mut found = None;
            give_way_until(|| {
                found = other.try_recv().ok();
                found.is_some()
            });
            let other = found.unwrap();
            for round in 0..rounds {
                turn.store(2 * round + 1, Ordering::Release);
                other.unpark();
                while turn.load(Ordering::Acquire) != 2 * round + 2 {
                    park().unwrap();
                }
            }
            partner.join().unwrap();
        });
    });
}

#[test]
fn an_unpark_after_the_task_s_end_and_after_the_runtime_s_does_nothing() {
    for workers in common::WORKERS {
        common::within(|| {
            let rt = common::runtime(workers);
            let task = rt.spawn(unparker);
            let id = task.id();
            let unparker = task.join().unwrap();
            unparker.unpark();
            let copy = unparker.clone();
            assert_eq!(copy.id(), id);
            drop(rt);
            copy.unpark();
            unparker.unpark();
        });
    }
}

#[test]
fn an_unpark_does_not_end_a_wait_of_another_kind_and_is_kept() {
    with_each(|rt| {
        let (open, gate) = channel::<()>();
        let (tell, told) = channel();
        let task = rt.spawn(move || {
            tell.send(unparker()).unwrap();
            blocking(move || gate.recv().unwrap());
            tell.send(unparker()).unwrap();
            park().unwrap();
        });
        let unparker = told.recv().unwrap();
        eventually("it waits for the blocking call", || parks(rt) == 1);
        unparker.unpark();
        assert!(told.try_recv().is_err());
        open.send(()).unwrap();
        task.join().unwrap();
        assert_eq!(parks(rt), 1, "the permit was kept for the park");
    });
}

#[test]
fn a_park_outside_a_task_says_where_to_call_it() {
    let said = common::panic_of(park);
    assert!(said.contains("outside a task") && said.contains("block_on"), "{said}");
    assert!(common::panic_of(|| spawn(|| ()).detach()).contains("outside a task"));
    assert!(common::panic_of(yield_now).contains("outside a task"));
    assert!(common::panic_of(unparker).contains("outside a task"));
    assert!(common::panic_of(cygnet::Handle::current).contains("outside a runtime"));
}
