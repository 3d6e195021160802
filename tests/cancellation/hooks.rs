//! Hooks: one of their two calls is made, once.

use crate::common::mpsc::{Sender, channel};
use crate::common::{Calls, give_way_until, scaled_in_debug, with, with_each, with_each_and_many};
use cygnet::{
    Cancelled, HookGuard, Reason, cancel_handle, checkpoint, ignore_cancellation, on_cancel, park,
    scope, sleep, spawn, timeout,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_hook_is_told_of_the_cancel_with_its_reason_and_once() {
    with_each(|rt| {
        rt.block_on(|| {
            let (tell, told) = channel();
            let calls = Calls::default();
            scope(|s| {
                let hook = on_cancel(move |cancelled: Cancelled| tell.send(cancelled).unwrap());
                let counted = on_cancel(calls.clone());
                s.cancel("enough");
                assert_eq!(*told.try_recv().unwrap().reason(), Reason::from("enough"));
                s.cancel("again");
                drop((hook, counted));
            });
            assert!(told.try_recv().is_err());
            assert_eq!(calls.get(), (1, 0));
        });
    });
}

#[test]
fn a_hook_on_a_scope_that_is_cancelled_already_is_called_at_once() {
    with_each(|rt| {
        rt.block_on(|| {
            let calls = Calls::default();
            scope(|outer| {
                outer.cancel("before");
                scope(|_| {
                    let _hook = on_cancel(calls.clone());
                    assert_eq!(calls.get(), (1, 0));
                });
            });
            assert_eq!(calls.get(), (1, 0));
        });
    });
}

#[test]
fn a_hook_is_cleaned_up_at_the_end_of_its_scope_or_task_or_when_it_is_taken_back() {
    with_each(|rt| {
        let (of_scope, of_task, taken_back) =
            (Calls::default(), Calls::default(), Calls::default());
        let task = rt.spawn({
            let (of_scope, of_task, taken_back) =
                (of_scope.clone(), of_task.clone(), taken_back.clone());
            move || {
                on_cancel(of_task.clone()).keep();
                scope(|s| {
                    on_cancel(of_scope.clone()).keep();
                    drop(on_cancel(taken_back.clone()));
                    assert_eq!(taken_back.get(), (0, 1));
                    // Its children have ended by then.
                    let seen = of_scope.clone();
                    s.spawn(move || assert_eq!(seen.get(), (0, 0)));
                });
                assert_eq!((of_scope.get(), of_task.get()), ((0, 1), (0, 0)));
            }
        });
        task.join().unwrap();
        assert_eq!(of_task.get(), (0, 1), "before the end can be seen");
    });
}

#[test]
fn the_cancel_of_a_task_reaches_the_hooks_of_all_below() {
    with_each(|rt| {
        let calls = Calls::default();
        let before = crate::common::parks(rt);
        let root = rt.spawn({
            let calls = calls.clone();
            move || {
                let children: Vec<_> = (0..10)
                    .map(|_| {
                        let calls = calls.clone();
                        spawn(move || {
                            let _own = on_cancel(calls.clone());
                            scope(|_| {
                                let _inner = on_cancel(calls);
                                park().is_err()
                            })
                        })
                    })
                    .collect();
                let _ = park();
                children.len()
            }
        });
        crate::until_parked(rt, before, 11);
        root.cancel("enough");
        // A task that was woken by it may be calling its own at this moment.
        root.join().unwrap();
        assert_eq!(calls.get(), (20, 0));
    });
}

/// A walk has hooks to call one after the other, and the tasks that it has woken run meanwhile.
#[test]
fn a_guard_that_is_faster_than_the_canceller_tells_of_the_cancel() {
    with_each(|rt| {
        let calls = Calls::default();
        let (dropped, until_dropped) = channel();
        let before = crate::common::parks(rt);
        let root = rt.spawn({
            let calls = calls.clone();
            move || {
                on_cancel(move |_| until_dropped.recv().unwrap()).keep();
                let child = spawn(move || {
                    let guard = on_cancel(calls.clone());
                    on_cancel(calls).keep();
                    assert!(park().is_err());
                    drop(guard);
                    dropped.send(()).unwrap();
                });
                assert!(park().is_err());
                child.detach();
            }
        });
        crate::until_parked(rt, before, 2);
        root.cancel("enough");
        root.join().unwrap();
        assert_eq!(calls.get(), (2, 0));
    });
}

/// Nor is a hook left to be called by a canceller that takes its time, when its scope has ended.
#[test]
fn a_scope_that_ends_before_the_canceller_has_come_to_its_hooks_has_called_them() {
    with_each(|rt| {
        let before = crate::common::parks(rt);
        let (seen, until_seen) = channel();
        let root = rt.spawn(move || {
            on_cancel(move |_| until_seen.recv().unwrap()).keep();
            let calls = Calls::default();
            scope(|_| {
                on_cancel(calls.clone()).keep();
                assert!(park().is_err());
            });
            let called = calls.get();
            seen.send(()).unwrap();
            called
        });
        crate::until_parked(rt, before, 1);
        root.cancel("enough");
        assert_eq!(root.join().unwrap(), (1, 0));
    });
}

#[test]
fn a_deadline_calls_the_hooks_and_a_section_that_ignores_it_puts_that_off() {
    with_each(|rt| {
        rt.block_on(|| {
            let (calls, later) = (Calls::default(), Calls::default());
            let late = timeout(Duration::from_millis(2), || {
                let hook = on_cancel(calls.clone());
                let told = park();
                // The canceller may not have come to it yet.
                drop(hook);
                (told.is_err(), calls.get())
            });
            assert_eq!(late.unwrap_err().into_inner(), (true, (1, 0)));
            let handle = cancel_handle();
            ignore_cancellation(|| {
                on_cancel(later.clone()).keep();
                handle.cancel("deferred");
                assert_eq!(later.get(), (0, 0));
            })
            .unwrap();
            assert_eq!(later.get(), (1, 0));
        });
    });
}

#[test]
fn a_hook_that_panics_or_waits_does_no_harm() {
    with_each(|rt| {
        rt.block_on(|| {
            let calls = Calls::default();
            scope(|s| {
                on_cancel(|_: Cancelled| panic!("from a hook")).keep();
                on_cancel(|_: Cancelled| drop(sleep(Duration::from_secs(3600)))).keep();
                on_cancel(calls.clone()).keep();
                s.cancel("enough");
                assert_eq!(calls.get(), (1, 0));
            });
            checkpoint().unwrap();
        });
    });
}

#[test]
fn a_hook_may_cancel_others_and_drop_guards_also_its_own() {
    with_each(|rt| {
        rt.block_on(|| {
            let before = crate::common::parks(rt);
            let other = spawn(crate::parked);
            give_way_until(|| crate::common::parks(rt) > before);
            let handle = other.cancel_handle();
            let (give, given) = channel::<HookGuard>();
            let calls = Calls::default();
            scope(|s| {
                let inner = on_cancel(calls.clone());
                let own = on_cancel(move |_: Cancelled| {
                    handle.cancel("by a hook");
                    drop(inner);
                    drop(given.recv().unwrap());
                });
                give.send(own).unwrap();
                s.cancel("enough");
            });
            assert_eq!(other.join().unwrap(), "by a hook");
            let (cancels, cleanups) = calls.get();
            assert_eq!(cancels + cleanups, 1);
        });
    });
}

#[test]
fn taking_a_hook_back_on_another_thread_waits_for_its_end() {
    with(&[1, 2], |rt| {
        let (begun, begins) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let (give, guards) = channel::<HookGuard>();
        let foreign = crate::common::thread::spawn(move || {
            let guard: HookGuard = guards.recv().unwrap();
            begins.recv().unwrap();
            drop(guard);
            over.load(Ordering::Acquire)
        });
        rt.block_on(|| {
            scope(|s| {
                let hook = on_cancel(move |_: Cancelled| {
                    begun.send(()).unwrap();
                    crate::common::thread::sleep(Duration::from_millis(20));
                    ends.store(true, Ordering::Release);
                });
                give.send(hook).unwrap();
                s.cancel("enough");
            });
        });
        assert!(foreign.join().unwrap(), "the drop has not waited");
    });
}

#[test]
fn a_guard_may_outlive_its_scope_and_the_runtime() {
    crate::common::within(|| {
        let rt = crate::common::runtime(2);
        let calls = Calls::default();
        let kept = calls.clone();
        let guard = rt.block_on(move || scope(|_| on_cancel(kept)));
        assert_eq!(calls.get(), (0, 1));
        drop(rt);
        drop(guard);
        assert_eq!(calls.get(), (0, 1));
    });
}

#[test]
fn a_cancel_races_the_end_of_the_scope_and_the_drop_of_the_guard_elsewhere() {
    with_each_and_many(|rt| {
        let (give, given) = channel::<(cygnet::CancelHandle, Option<HookGuard>)>();
        let foreign = crate::common::thread::spawn(move || {
            for (handle, guard) in given {
                handle.cancel("now");
                drop(guard);
            }
        });
        let elsewhere = |give: &Sender<_>, guard: HookGuard, handle, round: usize| match round % 3 {
            0 => give.send((handle, Some(guard))).unwrap(),
            1 => {
                give.send((handle, None)).unwrap();
                drop(guard);
            }
            _ => {
                give.send((handle, None)).unwrap();
                guard.keep();
            }
        };
        let rounds = scaled_in_debug(1_000);
        let calls = Calls::default();
        rt.block_on(|| {
            for round in 0..rounds {
                scope(|s| {
                    let handle = s.cancel_handle();
                    let guard = on_cancel(calls.clone());
                    elsewhere(&give, guard, handle, round);
                });
            }
            drop(give);
        });
        foreign.join().unwrap();
        let (cancels, cleanups) = calls.get();
        assert_eq!(cancels + cleanups, rounds);
    });
}

#[test]
fn hooks_are_called_when_all_that_is_below_is_marked() {
    with_each(|rt| {
        let before = crate::common::parks(rt);
        let (give, given) = channel();
        let (tell, told) = channel();
        let root = rt.spawn(move || {
            on_cancel(move |_: Cancelled| {
                let handles: Vec<cygnet::CancelHandle> = given.try_iter().collect();
                let marked = handles.iter().filter(|handle| handle.is_cancelled()).count();
                tell.send((handles.len(), marked)).unwrap();
            })
            .keep();
            for _ in 0..5 {
                let give = give.clone();
                spawn(move || {
                    scope(|s| {
                        give.send(s.cancel_handle()).unwrap();
                        let inner = give.clone();
                        s.spawn(move || {
                            inner.send(cancel_handle()).unwrap();
                            let _ = park();
                        });
                        let _ = park();
                    });
                })
                .detach();
            }
        });
        crate::until_parked(rt, before, 10);
        root.cancel("enough");
        assert_eq!(told.try_recv(), Ok((10, 10)));
        root.join().unwrap();
    });
}
