//! Hooks: exactly one of their two functions is called, once.

use crate::common::prelude::*;
use crate::{give_way_until_parked, parked, until_parked};

/// C36, C39.
#[test]
fn a_hook_is_told_of_a_cancel_once_before_the_call_returns() {
    in_task(|_| {
        let (tell, told) = channel();
        let [calls, kept, late] = [(); 3].map(|()| Calls::default());
        scope(|s| {
            let hook = on_cancel(move |cancelled: Cancelled| tell.send(cancelled).unwrap());
            let counted = on_cancel(calls.clone());
            on_cancel(kept.clone()).keep();
            s.cancel("enough");
            assert_eq!(*told.try_recv().unwrap().reason(), Reason::from("enough"));
            assert_eq!(kept.get(), (1, 0));
            s.cancel("again");
            drop((hook, counted));
            // In a scope that is cancelled already.
            scope(|_| {
                let _hook = on_cancel(late.clone());
                assert_eq!(late.get(), (1, 0));
            });
        });
        assert!(told.try_recv().is_err());
        assert_eq!([calls, kept, late].map(|calls| calls.get()), [(1, 0); 3]);
    });
}

/// C35, C36.
#[test]
fn a_hook_is_cleaned_up_by_the_end_of_its_scope_or_task_or_by_its_guard() {
    with_each(|rt| {
        let calls: [Calls; 2] = Default::default();
        let [of_task, of_scope] = calls.clone();
        let task = rt.spawn(move || {
            let taken_back = Calls::default();
            on_cancel(of_task.clone()).keep();
            scope(|s| {
                on_cancel(of_scope.clone()).keep();
                drop(on_cancel(taken_back.clone()));
                assert_eq!(taken_back.get(), (0, 1));
                // The children of a scope end before its hooks are called.
                s.spawn(|| assert_eq!(of_scope.get(), (0, 0)));
            });
            assert_eq!((of_scope.get(), of_task.get()), ((0, 1), (0, 0)));
        });
        task.join().unwrap();
        assert_eq!(calls.map(|calls| calls.get()), [(0, 1); 2], "before the end can be seen");
    });
}

#[test]
fn a_cancel_of_a_task_reaches_the_hooks_of_all_its_descendants() {
    with_each(|rt| {
        let calls = Calls::default();
        let root = rt.spawn(own(&calls, |calls| {
            for _ in 0..10 {
                spawn(own(&calls, |calls| {
                    let _own = on_cancel(calls.clone());
                    scope(|_| {
                        let _inner = on_cancel(calls);
                        park().is_err()
                    })
                }))
                .detach();
            }
            let _ = park();
        }));
        until_parked(rt, 11);
        root.cancel("enough");
        // A woken task may be calling its own hooks now.
        root.join().unwrap();
        assert_eq!(calls.get(), (20, 0));
    });
}

/// However fast the task is, its hooks are told of the cancel and not of the end.
#[test]
fn a_hook_of_a_cancelled_task_is_never_told_of_its_end() {
    in_task_and_many(|rt| {
        for _ in 0..scaled_in_debug(200) {
            let (calls, before) = (Calls::default(), parks(rt));
            let (upper, lower) = (calls.clone(), calls.clone());
            let task = spawn(move || {
                on_cancel(upper).keep();
                spawn(move || {
                    on_cancel(lower).keep();
                    assert!(park().is_err());
                })
                .detach();
                assert!(park().is_err());
            });
            give_way_until_parked(before + 2);
            task.cancel("enough");
            task.join().unwrap();
            assert_eq!(calls.get(), (2, 0));
        }
    });
}

/// The canceller calls hooks one after the other, and the tasks that it has woken run meanwhile.
/// C40.
#[test]
fn guards_and_scopes_that_end_before_the_canceller_comes_tell_of_the_cancel() {
    with_each(|rt| {
        let calls = Calls::default();
        let seen = calls.clone();
        let (ended, until_ended) = channel();
        let root = rt.spawn(move || {
            on_cancel(move |_| until_ended.recv().unwrap()).keep();
            spawn(move || {
                let guard = on_cancel(calls.clone());
                on_cancel(calls).keep();
                let of_scope = Calls::default();
                scope(|_| {
                    on_cancel(of_scope.clone()).keep();
                    assert!(park().is_err());
                });
                assert_eq!(of_scope.get(), (1, 0));
                drop(guard);
                ended.send(()).unwrap();
            })
            .detach();
            assert!(park().is_err());
        });
        until_parked(rt, 2);
        root.cancel("enough");
        root.join().unwrap();
        assert_eq!(seen.get(), (2, 0));
    });
}

#[test]
fn a_deadline_calls_the_hooks_and_an_ignoring_section_defers_them() {
    in_task(|_| {
        let (calls, later) = (Calls::default(), Calls::default());
        let late = timeout(Duration::from_millis(2), || {
            let hook = on_cancel(calls.clone());
            let told = park();
            // The canceller may not have come to the hook yet.
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
}

/// C38.
#[test]
fn a_hook_that_panics_or_waits_does_no_harm() {
    in_task(|_| {
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
}

/// C37.
#[test]
fn a_hook_may_cancel_others_and_drop_guards_and_its_own_guard() {
    in_task(|_| {
        let other = spawn(parked);
        give_way_until_parked(1);
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
}

/// C41.
#[test]
fn dropping_a_guard_on_another_thread_waits_for_a_running_hook() {
    with(&[1, 2], |rt| {
        let (begun, begins) = channel();
        let over = Flag::new();
        let (give, guards) = channel::<HookGuard>();
        let foreign = thread::spawn(move || {
            let guard = guards.recv().unwrap();
            begins.recv().unwrap();
            drop(guard);
            over.get()
        });
        rt.block_on(|| {
            scope(|s| {
                let hook = on_cancel(move |_: Cancelled| {
                    begun.send(()).unwrap();
                    thread::sleep(Duration::from_millis(20));
                    over.set();
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
    within(|| {
        let rt = runtime(2);
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
        let (give, given) = channel::<(CancelHandle, Option<HookGuard>)>();
        let foreign = thread::spawn(move || {
            for (handle, guard) in given {
                handle.cancel("now");
                drop(guard);
            }
        });
        let rounds = scaled_in_debug(1_000);
        let calls = Calls::default();
        rt.block_on(|| {
            for round in 0..rounds {
                scope(|s| {
                    let handle = s.cancel_handle();
                    let mut guard = Some(on_cancel(calls.clone()));
                    let given_away = if round % 3 == 0 { guard.take() } else { None };
                    give.send((handle, given_away)).unwrap();
                    if round % 3 == 2 {
                        guard.unwrap().keep();
                    }
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
fn hooks_are_called_after_all_descendants_are_marked() {
    with_each(|rt| {
        let (give, given) = channel();
        let (tell, told) = channel();
        let root = rt.spawn(move || {
            on_cancel(move |_: Cancelled| {
                let handles: Vec<CancelHandle> = given.try_iter().collect();
                let marked = handles.iter().filter(|handle| handle.is_cancelled()).count();
                tell.send((handles.len(), marked)).unwrap();
            })
            .keep();
            for _ in 0..5 {
                spawn(own(&give, |give| {
                    scope(|s| {
                        give.send(s.cancel_handle()).unwrap();
                        s.spawn(own(&give, |inner| {
                            inner.send(cancel_handle()).unwrap();
                            let _ = park();
                        }));
                        let _ = park();
                    });
                }))
                .detach();
            }
        });
        until_parked(rt, 10);
        root.cancel("enough");
        assert_eq!(told.try_recv(), Ok((10, 10)));
        root.join().unwrap();
    });
}
