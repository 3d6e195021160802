//! [`CancelHandle::cancelled_async`]: futures that are ready when a task or scope is cancelled or
//! has ended.

use crate::common::prelude::*;
use crate::until_parked;

/// Waits for the reason of a cancel, or for the end without one.
pub(crate) fn why(future: CancelledFuture) -> Option<Reason> {
    wait(future).unwrap().map(|cancelled| cancelled.reason().clone())
}

/// The same without a wait, for scopes that are cancelled.
fn why_now(future: &mut CancelledFuture) -> Option<Reason> {
    match poll_once(future) {
        Poll::Ready(cancelled) => cancelled.map(|cancelled| cancelled.reason().clone()),
        Poll::Pending => panic!("the future is not ready"),
    }
}

/// Polls the future once, and returns the rest of the wait.
pub(crate) fn begun(mut future: CancelledFuture) -> Box<dyn FnOnce() -> Option<Reason> + Send> {
    match poll_once(&mut future) {
        Poll::Ready(over) => Box::new(move || over.map(|cancelled| cancelled.reason().clone())),
        Poll::Pending => Box::new(move || why(future)),
    }
}

pub(crate) fn explicit(why: &'static str) -> Option<Reason> {
    Some(Reason::from(why))
}

/// Runs `body` in a task, with its handle, which its spawner has made, and with the handle of the
/// scope around it. Returns a future of the task that was made in the scope.
fn below_a_scope(body: impl FnOnce(&CancelHandle, &CancelHandle) + Send) -> CancelledFuture {
    let (give, handles) = channel::<CancelHandle>();
    scope(|s| {
        let above = s.cancel_handle();
        let task = s.spawn(move || {
            let own = handles.recv().unwrap();
            body(&own, &above);
        });
        // The spawner is running: on another worker, or before the task has started.
        give.send(task.cancel_handle()).unwrap();
        task.cancel_handle().cancelled_async()
    })
}

#[test]
fn a_cancel_of_a_task_is_told_with_its_reason_before_it_and_after_it() {
    with_each(|rt| {
        let task = rt.spawn(park);
        let handle = task.cancel_handle();
        let mut early = handle.cancelled_async();
        assert!(poll_once(&mut early).is_pending());
        assert!(format!("{early:?}").contains("false"));
        handle.cancel("enough");
        assert_eq!(why(early), explicit("enough"));
        assert_eq!(why(handle.cancelled_async()), explicit("enough"));
        assert!(!matches!(task.join(), Ok(Ok(()))));
        // And after its end.
        assert_eq!(why(handle.cancelled_async()), explicit("enough"));
    });
}

/// C42.
#[test]
fn an_end_without_a_cancel_is_told_as_such() {
    let ends: [fn(); 4] = [
        || {},
        || yield_now().unwrap(),
        || drop(scope(|s| s.spawn(|| ()).join())),
        || panic!("as an end"),
    ];
    with_each(|rt| {
        for end in ends {
            let task = rt.spawn(end);
            let handle = task.cancel_handle();
            let watched = begun(handle.cancelled_async());
            let _ = task.join();
            assert_eq!(watched(), None);
            handle.cancel("too late");
            assert_eq!(why(handle.cancelled_async()), None);
        }
    });
}

#[test]
fn tasks_of_all_kinds_end_before_their_watchers() {
    // Tasks that end at once, after a turn, and after a child.
    let bodies: [fn(); 3] =
        [|| (), || yield_now().unwrap(), || spawn(|| yield_now().unwrap()).detach()];
    in_task(|rt| {
        let kinds = 7;
        let (told, count) = (Count::new(), scaled_in_debug(700).max(kinds));
        let watch = |handle: CancelHandle| {
            rt.spawn(move || {
                assert_eq!(why(handle.cancelled_async()), None);
                told.up();
            })
        };
        let watchers: Vec<_> = (0..count)
            .map(|i| match i % kinds {
                kind @ 0..3 => {
                    let task = spawn(bodies[kind]);
                    let watcher = watch(task.cancel_handle());
                    if kind == 1 {
                        yield_now().unwrap();
                    }
                    task.join().unwrap();
                    watcher
                }
                3 => {
                    let task = spawn(|| ());
                    let watcher = watch(task.cancel_handle());
                    task.detach();
                    watcher
                }
                4 => scope(|s| watch(s.spawn(|| yield_now().unwrap()).cancel_handle())),
                5 => scope(|s| watch(s.cancel_handle())),
                _ => {
                    // The only handle is made by the task itself.
                    let (give, got) = (Event::new(), Mutex::new(None));
                    scope(|s| {
                        s.spawn(|| {
                            *got.lock().unwrap() = Some(cancel_handle());
                            give.set();
                        });
                        give.wait().unwrap();
                    });
                    watch(got.into_inner().unwrap().unwrap())
                }
            })
            .collect();
        watchers.into_iter().for_each(|watcher| watcher.join().unwrap());
        assert_eq!(told.get(), count);
    });
}

#[test]
fn a_scope_is_watched_to_its_cancel_or_its_end() {
    in_task(|_| {
        let watch = |s: &cygnet::Scope<'_, '_>| {
            let mut early = s.cancel_handle().cancelled_async();
            assert!(poll_once(&mut early).is_pending());
            early
        };
        let cancelled = scope(|s| {
            let mut early = watch(s);
            s.cancel("the scope");
            assert_eq!(why_now(&mut early), explicit("the scope"));
            s.cancel_handle().cancelled_async()
        });
        assert_eq!(why(cancelled), explicit("the scope"));
        assert_eq!(why(scope(|s| watch(s))), None);
    });
}

#[test]
fn a_dropped_handle_a_time_limit_and_the_end_of_the_runtime_are_told() {
    with_each(|rt| {
        let task = rt.spawn(park);
        let watched = task.cancel_handle().cancelled_async();
        drop(task);
        assert_eq!(why(watched), Some(Reason::HandleDropped));
        let watched = rt.block_on(|| {
            let watched = Mutex::new(None);
            let late = cygnet::timeout(Duration::from_millis(2), || {
                scope(|s| {
                    let task = s.spawn(park);
                    *watched.lock().unwrap() = Some(begun(task.cancel_handle().cancelled_async()));
                    let _ = task.join();
                })
            });
            assert!(late.is_err());
            watched.into_inner().unwrap().unwrap()
        });
        assert_eq!(watched(), Some(Reason::Deadline));
    });
    within(|| {
        let rt = runtime(2);
        let task = rt.spawn(park);
        until_parked(&rt, 1);
        let mut watched = task.cancel_handle().cancelled_async();
        assert!(poll_once(&mut watched).is_pending());
        let late = task.cancel_handle();
        drop(rt);
        assert_eq!(why(watched), Some(Reason::RuntimeShutDown));
        assert_eq!(why(late.cancelled_async()), Some(Reason::RuntimeShutDown));
        drop(task);
    });
}

/// The watched task has never waited, or has not started.
#[test]
fn a_cancel_from_above_is_told_when_it_comes() {
    in_task(|_| {
        let mut late = below_a_scope(|own, above| {
            let mut watched = own.cancelled_async();
            assert!(poll_once(&mut watched).is_pending());
            above.cancel("from above");
            assert_eq!(why_now(&mut watched), explicit("from above"));
            assert!(checkpoint().is_err());
        });
        assert_eq!(why_now(&mut late), explicit("from above"));
        // Another worker may have found the task and ended it before there is a handle.
        let never = scope(|s| {
            s.cancel("from above");
            let task = s.spawn(|| unreachable!("it is cancelled"));
            begun(task.cancel_handle().cancelled_async())
        });
        assert_eq!(never(), explicit("from above"));
    });
}

#[test]
fn a_watcher_that_comes_after_the_task_was_told_is_told() {
    in_task(|_| {
        drop(below_a_scope(|own, above| {
            above.cancel("from above");
            assert!(checkpoint().is_err(), "there is no watcher yet");
            assert!(own.is_cancelled());
            assert_eq!(why_now(&mut own.cancelled_async()), explicit("from above"));
        }));
    });
}

#[test]
fn an_observed_cancel_is_still_reported_after_the_end_of_the_task() {
    in_task(|_| {
        for waits in [false, true] {
            let handle = scope(|s| {
                let above = s.cancel_handle();
                let task = s.spawn(move || {
                    above.cancel("from above");
                    assert!(checkpoint().is_err());
                    assert!(!waits || park().is_err());
                });
                task.cancel_handle()
            });
            assert!(handle.is_cancelled());
            assert_eq!(why_now(&mut handle.cancelled_async()), explicit("from above"));
        }
    });
}

/// The task is in no list, and neither are the scopes inside it.
#[test]
fn a_cancel_from_above_that_an_inner_scope_learns_of_is_told() {
    fn ask_inside(depth: usize) -> bool {
        if depth == 0 { checkpoint().is_err() } else { scope(|_| ask_inside(depth - 1)) }
    }
    with_each(|rt| {
        for depth in [1, 2, 7, 8, 9, 20] {
            rt.block_on(|| {
                drop(below_a_scope(|own, above| {
                    let mut watched = own.cancelled_async();
                    assert!(poll_once(&mut watched).is_pending());
                    above.cancel("from above");
                    assert!(ask_inside(depth));
                    assert_eq!(why_now(&mut watched), explicit("from above"), "{depth}");
                }));
            });
        }
    });
}

/// Cancels a scope while a task in it waits, and runs `then` with that task's handle.
fn cancelled_from_above<R>(
    end: impl FnOnce() + Send,
    then: impl FnOnce(ScopedTask<'_, ()>) -> R,
) -> R {
    let begins = Event::new();
    scope(|s| {
        let task = s.spawn(|| {
            begins.set();
            let _ = park();
            end();
        });
        begins.wait().unwrap();
        s.cancel("from above");
        then(task)
    })
}

/// When the cancel comes, nothing but the spawner has a handle of the task.
#[test]
fn a_first_query_after_a_cancel_from_above_gets_the_reason() {
    in_task(|_| {
        let (kept, early) = cancelled_from_above(
            || (),
            |task| (task.cancel_handle(), begun(task.cancel_handle().cancelled_async())),
        );
        assert_eq!(early(), explicit("from above"));
        assert_eq!(why(kept.cancelled_async()), explicit("from above"));
        // The task makes the only handle itself.
        let (give, taken) = channel();
        let own = move || give.send(cancel_handle()).unwrap();
        cancelled_from_above(own, |task| drop(task));
        assert_eq!(why(taken.recv().unwrap().cancelled_async()), explicit("from above"));
    });
}

#[test]
fn an_ignored_cancel_is_told_when_the_section_ends() {
    in_task(|_| {
        let (give, taken) = channel();
        scope(|s| {
            let above = s.cancel_handle();
            s.spawn(move || {
                let handle = cancel_handle();
                ignore_cancellation(|| above.cancel("from above")).unwrap();
                assert_eq!(why_now(&mut handle.cancelled_async()), explicit("from above"));
                give.send(handle).unwrap();
            });
        });
        assert_eq!(why(taken.recv().unwrap().cancelled_async()), explicit("from above"));
        let handle = cancel_handle();
        let mut watched = handle.cancelled_async();
        ignore_cancellation(|| {
            handle.cancel("later");
            assert!(poll_once(&mut watched).is_pending());
            assert!(handle.is_cancelled());
        })
        .unwrap();
        assert_eq!(why_now(&mut watched), explicit("later"));
    });
}

#[test]
fn a_cancel_wakes_tasks_and_threads_and_is_a_branch_of_a_select() {
    with_each(|rt| {
        let target = rt.spawn(park);
        let handle = target.cancel_handle();
        let in_task = {
            let watched = handle.cancelled_async();
            rt.spawn(move || {
                let never = Event::new();
                select! {
                    _ = never.wait_async() => None,
                    cancelled = watched => cancelled,
                }
            })
        };
        thread::scope(|s| {
            let thread = s.spawn(|| why(handle.cancelled_async()));
            until_parked(rt, 2);
            handle.cancel("enough");
            assert_eq!(thread.join().unwrap(), explicit("enough"));
        });
        let cancelled = in_task.join().unwrap().unwrap().unwrap();
        assert_eq!(*cancelled.reason(), Reason::from("enough"));
        let _ = target.join();
    });
}

#[test]
fn a_dropped_future_wakes_nothing_and_keeps_no_waker() {
    with_each(|rt| {
        let (task, drops) = (rt.spawn(park), Drops::new());
        let handle = task.cancel_handle();
        let (count, guard) = (Count::new(), drops.guard());
        let waker = calling(move || {
            let _kept = &guard;
            count.up();
        });
        let begun = |_| begun_by(handle.cancelled_async(), &waker);
        let mut futures: Vec<_> = (0..3).map(begun).collect();
        drop(waker);
        drop(futures.remove(1));
        handle.cancel("enough");
        // The end of the task may call the wakers, on another thread.
        eventually("both are told", || count.get() == 2);
        eventually("the wakers are gone", || drops.left() == 0);
        drop(futures);
        let _ = task.join();
        // Never polled.
        drop(handle.cancelled_async());
    });
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "what is forgotten is a leak, on purpose")]
fn a_forgotten_future_still_calls_its_waker() {
    with_each(|rt| {
        let task = rt.spawn(park);
        let count = Count::new();
        let waker = calling(move || count.up());
        let future = begun_by(task.cancel_handle().cancelled_async(), &waker);
        std::mem::forget(future);
        task.cancel("enough");
        let _ = task.join();
        eventually("it is told", || count.get() == 1);
    });
}

#[test]
fn a_waker_may_drop_the_future_and_panic() {
    with_each(|rt| {
        let task = rt.spawn(park);
        let handle = task.cancel_handle();
        let place = Arc::new(Mutex::new(None));
        let there = Arc::clone(&place);
        let waker = calling(move || {
            drop(there.lock().unwrap().take());
            panic!("in a waker");
        });
        let future = begun_by(handle.cancelled_async(), &waker);
        *place.lock().unwrap() = Some(future);
        handle.cancel("enough");
        // The end of the task may call the wakers, on another thread.
        let gone = || place.lock().unwrap_or_else(|e| e.into_inner()).is_none();
        eventually("it is dropped", gone);
        let _ = task.join();
    });
}

#[test]
fn watchers_come_and_go_during_cancels_and_ends() {
    with_each(|rt| {
        let bodies: [fn(); 6] = [
            || {},
            || drop(park()),
            || drop(yield_now()),
            || drop(scope(|s| s.spawn(yield_now).join())),
            || while checkpoint().is_ok() {},
            || spawn(|| drop(yield_now())).detach(),
        ];
        let mut random = Random(7);
        for _ in 0..scaled_in_debug(600) {
            let kind = random.below(6);
            let task = rt.spawn(bodies[kind as usize]);
            let cancels = matches!(kind, 1 | 4) || random.below(2) == 0;
            let watchers: Vec<_> = (0..3)
                .map(|i| {
                    let mut watched = task.cancel_handle().cancelled_async();
                    rt.spawn(move || {
                        if i == 0 {
                            let _ = poll_once(&mut watched);
                            return None;
                        }
                        Some(why(watched))
                    })
                })
                .collect();
            if cancels {
                task.cancel("a part of the storm");
            }
            let _ = task.join();
            for watcher in watchers {
                match watcher.join().unwrap() {
                    None | Some(None) => {}
                    Some(reason) => {
                        assert!(cancels);
                        assert_eq!(reason, explicit("a part of the storm"));
                    }
                }
            }
        }
    });
}
