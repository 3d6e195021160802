//! Tasks without a stack wait until there is one, and none is lost.

use crate::common::{Drops, within};
use crate::runtime;
use cygnet::{Runtime, YieldTo, checkpoint, park, scope, spawn, unparker, yield_now, yield_to};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn fresh_tasks_wait_for_a_stack_and_none_is_lost() {
    within(|| {
        for (workers, stacks) in [(1, 1), (1, 2), (2, 2), (2, 3), (4, 4)] {
            let rt = runtime(workers, stacks);
            let ended = Arc::new(AtomicUsize::new(0));
            for _ in 0..1_000 {
                let ended = ended.clone();
                rt.spawn(move || {
                    for _ in 0..3 {
                        yield_now().unwrap();
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
            while ended.load(Ordering::Relaxed) < 1_000 {
                crate::common::thread::yield_now();
            }
            assert!(rt.metrics().stacks_high_water <= stacks);
        }
    });
}

#[test]
fn no_fresh_task_is_lost_while_another_joins_again_and_again_on_the_only_stack() {
    within(|| {
        let rt = runtime(1, 1);
        let handle = rt.handle();
        let ended = Arc::new(AtomicUsize::new(0));
        rt.block_on(|| {
            for _ in 0..100 {
                let ended = ended.clone();
                let count = move || ended.fetch_add(1, Ordering::Relaxed);
                handle.spawn(count).unwrap().detach();
            }
            // Often enough that the fresh ones have their turn many times, and never a stack.
            for _ in 0..10_000 {
                spawn(|| ()).join().unwrap();
            }
        });
        while ended.load(Ordering::Relaxed) < 100 {
            crate::common::thread::yield_now();
        }
    });
}

#[test]
fn parked_tasks_that_hold_all_stacks_keep_fresh_ones_waiting_until_they_go_on() {
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers, 2);
            let (send, receive) = crate::common::mpsc::channel();
            let parked: Vec<_> = (0..2)
                .map(|_| {
                    let send = send.clone();
                    rt.spawn(move || {
                        send.send(unparker()).unwrap();
                        park().unwrap();
                    })
                })
                .collect();
            let unparkers: Vec<_> = receive.iter().take(2).collect();
            let fresh: Vec<_> = (0..10).map(|i| rt.spawn(move || i)).collect();
            // Long enough for a wrong verdict.
            crate::common::thread::sleep(std::time::Duration::from_millis(50));
            assert!(fresh.iter().all(|task| !task.is_finished()));
            unparkers.iter().for_each(|unparker| unparker.unpark());
            parked.into_iter().for_each(|task| task.join().unwrap());
            let sum: i32 = fresh.into_iter().map(|task| task.join().unwrap()).sum();
            assert_eq!(sum, 45);
        }
    });
}

#[test]
fn a_waiter_that_was_cancelled_goes_on_and_is_not_asked_for_its_stack_for_ever() {
    within(|| {
        let rt = runtime(1, 2);
        let (send, receive) = crate::common::mpsc::channel();
        let (give, take) = crate::common::mpsc::channel();
        let waiter = rt.spawn(move || {
            let child = spawn(move || {
                send.send(unparker()).unwrap();
                park().unwrap();
                // Its parent is ready from now on, and would have had room for a child of ours.
                drop::<cygnet::Task<bool>>(take.recv().unwrap());
                spawn(|| ()).detach();
            });
            assert_eq!(yield_to(&child), Ok(YieldTo::Ran));
            // No stack is left for this one.
            cygnet::task().stack_size(4 << 20).unwrap().spawn(|| ()).detach();
            child.join().is_err()
        });
        let child = receive.recv().unwrap();
        give.send(waiter).unwrap();
        // Long enough for the parent to wait.
        crate::common::thread::sleep(std::time::Duration::from_millis(20));
        child.unpark();
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn nested_scopes_on_few_stacks_end() {
    fn tree(depth: u32, leaves: &AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        scope(|s| {
            for _ in 0..3 {
                s.spawn(move || tree(depth - 1, leaves));
            }
            let _ = checkpoint();
        });
    }
    within(|| {
        for (workers, stacks) in [(1, 1), (1, 2), (2, 2), (2, 5), (4, 4)] {
            // Large enough that depth is no matter; their number is.
            let rt = Runtime::builder()
                .workers(workers)
                .max_stacks(stacks)
                .stack_size(1 << 20)
                .build()
                .unwrap();
            for _ in 0..10 {
                let leaves = AtomicUsize::new(0);
                rt.block_on(|| tree(5, &leaves));
                assert_eq!(leaves.into_inner(), 243);
            }
        }
    });
}

#[test]
fn a_runtime_that_is_dropped_while_tasks_wait_for_stacks_ends_without_calling_them() {
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers, workers);
            let (send, receive) = crate::common::mpsc::channel();
            let cut = Arc::new(AtomicUsize::new(0));
            for _ in 0..workers {
                let (send, cut) = (send.clone(), cut.clone());
                rt.spawn(move || {
                    send.send(()).unwrap();
                    cut.fetch_add(usize::from(park().is_err()), Ordering::Relaxed);
                })
                .detach();
            }
            receive.iter().take(workers).for_each(drop);
            let dropped = Drops::new();
            let called = Arc::new(AtomicUsize::new(0));
            for _ in 0..100 {
                let (captured, called) = (dropped.guard(), called.clone());
                rt.spawn(move || {
                    let _captured = captured;
                    called.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
            drop(rt);
            assert_eq!(cut.load(Ordering::Relaxed), workers);
            assert_eq!(called.load(Ordering::Relaxed), 0);
            assert_eq!(dropped.count(), 100);
        }
    });
}
