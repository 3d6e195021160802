//! What holds at all times.

use crate::common::mpsc::{Sender, channel};
use crate::common::thread::ThreadId;
use crate::common::{self, with, with_each};
use crate::{Log, give_way_until_parked, receive};
use cygnet::{
    CancelHook, Cancelled, cancel_handle, ignore_cancellation, lease, on_cancel, park, promise,
    scope, spawn, spawn_now, unparker, yield_now,
};

#[test]
fn invariant_1_leases_and_all_that_is_below_count_as_children() {
    with_each(|rt| {
        rt.block_on(|| {
            let (give, given) = channel();
            let parent = spawn(move || {
                let (promise, answer) = promise::<()>();
                answer.detach();
                give.send((lease(), promise)).unwrap();
            });
            let (lease, promise) = receive(&given);
            let clone = lease.clone();
            let is_open = || {
                (0..20).for_each(|_| yield_now().unwrap());
                !parent.is_finished()
            };
            assert!(is_open());
            promise.complete(()).unwrap();
            assert!(is_open(), "two leases");
            drop(lease);
            assert!(is_open(), "one lease");
            let child = clone.spawn(|| park().unwrap());
            drop(clone);
            assert!(is_open(), "what was spawned by it");
            child.cancel("enough");
            let _ = child.join();
            parent.join().unwrap();
        });
    });
}

#[test]
fn invariant_2_a_detached_handle_does_not_detach_the_task() {
    with_each(|rt| {
        rt.block_on(|| {
            let log = Log::default();
            scope(|_| {
                let (seen, local) = (log.clone(), log.on_drop("its local"));
                spawn(move || {
                    let _local = local;
                    (0..10).for_each(|_| yield_now().unwrap());
                    seen.add("it has run on");
                })
                .detach();
            });
            log.add("the scope has ended");
            log.assert(&["it has run on", "its local", "the scope has ended"]);
            // And a cancel reaches it.
            let before = common::parks(rt);
            scope(|s| {
                spawn(|| assert!(park().is_err())).detach();
                give_way_until_parked(before, 1);
                s.cancel("enough");
            });
        });
    });
}

#[test]
fn invariant_3_the_drop_of_a_lease_may_complete_a_parent_and_only_schedules_it() {
    struct Told(Log);
    impl CancelHook for Told {
        fn on_cancel(self: Box<Self>, _: Cancelled) {}

        fn on_cleanup(self: Box<Self>) {
            self.0.add("the parent ends");
        }
    }
    // With one worker nobody else can run what the drop schedules.
    with(&[1], |rt| {
        rt.block_on(|| {
            let log = Log::default();
            let (give, given) = channel();
            let seen = log.clone();
            let parent = spawn_now(move || {
                on_cancel(Told(seen)).keep();
                give.send(lease()).unwrap();
            });
            let lease = given.recv().unwrap();
            drop(lease);
            log.add("the drop has returned");
            parent.join().unwrap();
            log.assert(&["the drop has returned", "the parent ends"]);
        });
    });
}

/// There a child that is torn down without having run never completes its parent, which can hang a shutdown. Ours
/// does, and never on the thread that gives it up.
#[test]
fn invariant_4_a_child_that_never_ran_completes_its_parent_but_not_on_a_foreign_thread() {
    struct Where(Sender<ThreadId>);
    impl CancelHook for Where {
        fn on_cancel(self: Box<Self>, _: Cancelled) {}

        fn on_cleanup(self: Box<Self>) {
            self.0.send(crate::common::thread::current().id()).unwrap();
        }
    }
    with_each(|rt| {
        let (give, given) = channel();
        let (tell, told) = channel();
        let parent = rt.spawn(move || {
            on_cancel(Where(tell)).keep();
            let (promise, answer) = promise::<()>();
            answer.detach();
            give.send(promise).unwrap();
        });
        let promise = given.recv().unwrap();
        assert!(!parent.is_finished());
        drop(promise);
        parent.join().unwrap();
        assert_ne!(told.recv().unwrap(), crate::common::thread::current().id());
    });
}

#[test]
fn invariant_5_while_it_is_ignored_a_cancel_marks_and_tells_nobody() {
    with_each(|rt| {
        rt.block_on(|| {
            let before = common::parks(rt);
            let (give, given) = channel();
            let task = spawn(move || {
                give.send((cancel_handle(), unparker())).unwrap();
                ignore_cancellation(|| {
                    let child = spawn(|| park().unwrap_err().reason().to_string());
                    park().unwrap();
                    child
                })
                .unwrap()
                .detach();
                park().unwrap_err().reason().to_string()
            });
            give_way_until_parked(before, 2);
            let (handle, unparker) = receive(&given);
            let parked = common::parks(rt);
            handle.cancel("later");
            assert!(handle.is_cancelled(), "it is marked");
            (0..50).for_each(|_| yield_now().unwrap());
            assert_eq!(common::parks(rt), parked, "nobody was woken by it");
            unparker.unpark();
            assert_eq!(task.join().unwrap(), "later");
        });
    });
}

#[test]
fn invariant_6_a_child_s_locals_are_gone_before_its_parent_goes_on_on_every_path() {
    with_each(|rt| {
        rt.block_on(|| {
            let drops = common::Drops::new();
            let paths: [fn(common::drops::Guard); 4] = [
                drop,
                |local| {
                    let _local = local;
                    std::panic::resume_unwind(Box::new("on purpose"));
                },
                |local| {
                    let _local = local;
                    assert!(park().is_err());
                },
                |local| {
                    let _local = local;
                    if let Err(cancelled) = park() {
                        cancelled.unwind();
                    }
                },
            ];
            for (n, path) in paths.into_iter().enumerate() {
                for cancelled_first in [false, true] {
                    let _ = common::payload_of(|| {
                        scope(|s| {
                            let before = common::parks(rt);
                            if cancelled_first {
                                s.cancel("before the start");
                            }
                            let local = drops.guard();
                            s.spawn(move || path(local));
                            if n >= 2 && !cancelled_first {
                                give_way_until_parked(before, 1);
                                s.cancel("after it");
                            }
                        });
                    });
                    assert_eq!(drops.left(), 0, "path {n}");
                }
            }
        });
    });
}
