//! How a task ends.

use crate::common::mpsc::channel;
use crate::common::{self, give_way_until, with_each, with_each_and_many};
use crate::{Log, give_way_until_parked, receive};
use cygnet::{
    CancelHook, Cancelled, JoinError, Reason, cancel_handle, checkpoint, on_cancel, park, scope,
    spawn, spawn_local, unparker, yield_now,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn normal_1_the_body_returns_or_panics_and_the_result_is_published() {
    with_each(|rt| {
        rt.block_on(|| {
            assert_eq!(spawn(|| 7).join().unwrap(), 7);
            let panics = spawn(|| -> u8 { std::panic::resume_unwind(Box::new("boom")) });
            let payload = panics.join().unwrap_err().into_panic().unwrap();
            assert_eq!(payload.downcast_ref(), Some(&"boom"));
        });
    });
}

#[test]
fn normal_2_with_children_left_it_waits_and_the_last_one_completes_it() {
    with_each(|rt| {
        rt.block_on(|| {
            let log = Log::default();
            let seen = log.clone();
            let (give, given) = channel();
            let parent = spawn(move || {
                for (name, dropped) in [("first", "first child"), ("second", "last child")] {
                    let (local, give) = (seen.on_drop(dropped), give.clone());
                    spawn(move || {
                        let _local = local;
                        give.send((name, unparker())).unwrap();
                        park().unwrap();
                    })
                    .detach();
                }
                seen.add("the body returns");
                "its result"
            });
            let mut children = std::collections::HashMap::new();
            give_way_until(|| {
                children.extend(given.try_iter());
                children.len() == 2
            });
            give_way_until(|| !log.0.lock().unwrap().is_empty());
            assert!(!parent.is_finished(), "it has children left");
            children["first"].unpark();
            while log.0.lock().unwrap().len() < 2 {
                yield_now().unwrap();
            }
            (0..20).for_each(|_| yield_now().unwrap());
            assert!(!parent.is_finished(), "it has a child left");
            children["second"].unpark();
            assert_eq!(parent.join().unwrap(), "its result");
            log.assert(&["the body returns", "first child", "last child"]);
        });
    });
}

#[test]
fn normal_3_without_children_it_ends_at_once_and_its_waiter_goes_on() {
    with_each(|rt| {
        rt.block_on(|| {
            let (give, given) = channel();
            let waiter = spawn(move || {
                let awaited = spawn(move || {
                    give.send(unparker()).unwrap();
                    park().unwrap();
                    7
                });
                awaited.join().unwrap()
            });
            receive(&given).unpark();
            assert_eq!(waiter.join().unwrap(), 7);
        });
    });
}

#[test]
fn cancelled_1_each_wait_asks_whether_it_is_cancelled_before_and_after() {
    with_each(|rt| {
        rt.block_on(|| {
            let before = common::parks(rt);
            let (give, given) = channel();
            let task = spawn(move || {
                give.send(cancel_handle()).unwrap();
                let after = park().is_err();
                // A permit that is there does not count any more, and stays.
                unparker().unpark();
                (after, park().is_err(), yield_now().is_err(), checkpoint().is_err())
            });
            give_way_until_parked(before, 1);
            receive(&given).cancel("enough");
            assert_eq!(task.join().unwrap(), (true, true, true, true));
        });
    });
}

#[test]
fn cancelled_2_with_children_left_it_waits_for_them_too() {
    with_each(|rt| {
        rt.block_on(|| {
            let before = common::parks(rt);
            let log = Log::default();
            let seen = log.clone();
            let parent = spawn(move || {
                let (local, inner) = (seen.on_drop("the child's local"), seen.clone());
                spawn(move || {
                    let _local = local;
                    assert!(park().is_err());
                    // It takes its time.
                    for _ in 0..20 {
                        let _ = yield_now();
                    }
                    inner.add("the child is about to return");
                })
                .detach();
                let told = park().unwrap_err();
                told.reason().clone()
            });
            give_way_until_parked(before, 2);
            parent.cancel("enough");
            assert_eq!(parent.join().unwrap(), Reason::from("enough"));
            log.assert(&["the child is about to return", "the child's local"]);
        });
    });
}

/// What hangs on a task that is being cancelled is told of the cancel, and not of the end, however fast the task is.
#[test]
fn cancelled_3_while_a_walk_is_under_way_what_hangs_on_it_sees_the_cancel_before_the_end() {
    struct Told(Log);
    impl CancelHook for Told {
        fn on_cancel(self: Box<Self>, _: Cancelled) {
            self.0.add("cancel");
        }

        fn on_cleanup(self: Box<Self>) {
            self.0.add("end");
        }
    }
    with_each_and_many(|rt| {
        rt.block_on(|| {
            for _ in 0..common::scaled_in_debug(200) {
                let log = Log::default();
                let before = common::parks(rt);
                let (upper, lower) = (log.clone(), log.clone());
                let task = spawn(move || {
                    on_cancel(Told(upper)).keep();
                    spawn(move || {
                        on_cancel(Told(lower)).keep();
                        assert!(park().is_err());
                    })
                    .detach();
                    assert!(park().is_err());
                });
                give_way_until_parked(before, 2);
                task.cancel("enough");
                task.join().unwrap();
                log.assert(&["cancel", "cancel"]);
            }
        });
    });
}

#[test]
fn cancelled_4_it_leaves_the_lists_and_drops_its_locals_before_its_parent_is_released() {
    with_each(|rt| {
        let before = common::parks(rt);
        let log = Log::default();
        let seen = log.clone();
        // Joined by a thread: a task that joins it would park, too.
        let parent = rt.spawn(move || {
            let (captured, local) = (seen.on_drop("captured"), seen.on_drop("local"));
            let child = spawn(move || {
                let (_captured, _local) = (captured, local);
                park()
            });
            give_way_until_parked(before, 1);
            child.cancel("enough");
            assert!(child.join().unwrap().is_err());
            seen.add("the parent goes on");
        });
        parent.join().unwrap();
        log.assert(&["local", "captured", "the parent goes on"]);
    });
}

#[test]
fn cancelled_5_the_child_s_locals_are_dropped_before_the_parent_goes_on_however_it_ends() {
    with_each(|rt| {
        rt.block_on(|| {
            // Returns, fails, panics, is unwound, never starts.
            let endings: [fn() -> Result<(), ()>; 4] = [
                || Ok(()),
                || Err(()),
                || std::panic::resume_unwind(Box::new("on purpose")),
                || park().map_err(|cancelled| cancelled.unwind()),
            ];
            for (n, ending) in endings.into_iter().enumerate() {
                let log = Log::default();
                let seen = log.clone();
                let caught = common::payload_of(|| {
                    scope(|s| {
                        let local = seen.on_drop("the child's local");
                        let before = common::parks(rt);
                        let child = s.spawn(move || {
                            let _local = local;
                            ending()
                        });
                        if n == 3 {
                            give_way_until_parked(before, 1);
                            child.cancel("enough");
                        }
                    });
                });
                log.add("the parent goes on");
                log.assert(&["the child's local", "the parent goes on"]);
                assert_eq!(caught.is_some(), n == 2, "a panic surfaces, an unwinding does not");
            }
            let log = Log::default();
            scope(|s| {
                let captured = log.on_drop("captured");
                s.cancel("before its start");
                s.spawn(move || drop(captured));
            });
            log.add("the parent goes on");
            log.assert(&["captured", "the parent goes on"]);
        });
    });
}

#[test]
fn last_reference_1_it_ends_what_is_left_of_the_task_and_nothing_of_its_parent() {
    with_each(|rt| {
        let (handle, unparker) = rt.block_on(|| {
            let (give, given) = channel();
            let child = spawn(move || give.send((cancel_handle(), unparker())).unwrap());
            child.join().unwrap();
            given.recv().unwrap()
        });
        // The task, its parent and its scope have ended long ago.
        assert!(!handle.is_cancelled());
        handle.cancel("too late");
        unparker.unpark();
        drop((handle, unparker));
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn last_reference_2_a_task_that_never_ran_has_dropped_its_captures_once() {
    with_each(|rt| {
        rt.block_on(|| {
            let drops = common::Drops::new();
            for n in 0..20 {
                let captured = drops.guard();
                let handle = scope(|s| {
                    if n % 2 == 0 {
                        s.cancel("before its start");
                    }
                    let task = spawn(move || drop(captured));
                    let handle = task.cancel_handle();
                    drop(task);
                    handle
                });
                assert_eq!((drops.left(), drops.count()), (0, n + 1));
                drop(handle);
                assert_eq!(drops.count(), n + 1);
            }
            // Nor is a local one forgotten.
            let captured = std::rc::Rc::new(());
            let count = std::rc::Rc::downgrade(&captured);
            scope(|_| drop(spawn_local(move || drop(captured))));
            assert_eq!(count.strong_count(), 0);
        });
    });
}

#[test]
fn last_reference_3_a_result_that_nobody_took_is_dropped_and_the_memory_comes_back() {
    with_each(|rt| {
        let drops = common::Drops::new();
        let handles: Vec<_> = rt.block_on(|| {
            let handles = (0..100).map(|_| {
                let value = drops.guard();
                let task = spawn(move || value);
                let handle = task.cancel_handle();
                task.detach();
                handle
            });
            handles.collect()
        });
        common::eventually("the results are dropped", || drops.left() == 0);
        drop(handles);
        assert_eq!(drops.count(), 100);
        let waiting = rt.metrics().workers.iter().map(|worker| worker.retiring).sum::<u64>();
        assert!(waiting <= 200, "the records come home, or wait for it: {waiting}");
    });
}

/// A wait that is cut short leaves its place in what it has waited for.
#[test]
fn a_joined_task_that_is_left_goes_its_own_way() {
    with_each(|rt| {
        rt.block_on(|| {
            let [begun, gone] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let (begins, told) = (begun.clone(), gone.clone());
            let joiner = spawn(move || {
                let joined = spawn(move || {
                    begins.store(true, Ordering::Release);
                    let cut = park().is_err();
                    told.store(true, Ordering::Release);
                    cut
                });
                matches!(joined.join(), Ok(true) | Err(JoinError::Cancelled(_)))
            });
            give_way_until(|| begun.load(Ordering::Acquire));
            joiner.cancel("enough");
            assert!(joiner.join().unwrap());
            assert!(gone.load(Ordering::Acquire), "its parent has waited for it");
        });
    });
}
