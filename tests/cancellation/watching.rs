//! Futures that are ready when something else is cancelled, or has ended without: [`CancelHandle::cancelled_async`].

use crate::common::mpsc::channel;
use crate::common::{Drops, Random, eventually, runtime, scaled_in_debug, with_each, within};
use cygnet::sync::Event;
use cygnet::{
    CancelHandle, CancelledFuture, Reason, ScopedTask, cancel_handle, checkpoint,
    ignore_cancellation, park, scope, select, spawn, wait, yield_now,
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn poll(future: &mut CancelledFuture) -> Poll<Option<cygnet::Cancelled>> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn why(future: CancelledFuture) -> Option<Reason> {
    wait(future).unwrap().map(|cancelled| cancelled.reason().clone())
}

/// Polls it once, and gives the rest of the wait.
fn begun(mut future: CancelledFuture) -> Box<dyn FnOnce() -> Option<Reason> + Send> {
    match poll(&mut future) {
        Poll::Ready(over) => Box::new(move || over.map(|cancelled| cancelled.reason().clone())),
        Poll::Pending => Box::new(move || why(future)),
    }
}

fn explicit(why: &'static str) -> Option<Reason> {
    Some(Reason::from(why))
}

#[test]
fn a_cancel_of_a_task_is_told_with_its_reason_before_it_and_after_it() {
    with_each(|rt| {
        let task = rt.spawn(park);
        let handle = task.cancel_handle();
        let mut early = handle.cancelled_async();
        assert!(poll(&mut early).is_pending());
        assert!(format!("{early:?}").contains("false"));
        handle.cancel("enough");
        assert_eq!(why(early), explicit("enough"));
        assert_eq!(why(handle.cancelled_async()), explicit("enough"));
        assert!(!matches!(task.join(), Ok(Ok(()))));
        // And after its end.
        assert_eq!(why(handle.cancelled_async()), explicit("enough"));
    });
}

#[test]
fn one_that_ends_without_is_told_as_such() {
    with_each(|rt| {
        for kind in 0..4 {
            let task = rt.spawn(move || match kind {
                0 => {}
                1 => yield_now().unwrap(),
                2 => drop(scope(|s| s.spawn(|| ()).join())),
                _ => panic!("as an end"),
            });
            let handle = task.cancel_handle();
            let watched = begun(handle.cancelled_async());
            let _ = task.join();
            assert_eq!(watched(), None);
            handle.cancel("too late");
            assert_eq!(why(handle.cancelled_async()), None);
        }
    });
}

/// Fresh, called in place, never waited, waited, detached, not joined, with children that end later.
#[test]
fn tasks_of_all_kinds_end_before_their_watchers() {
    with_each(|rt| {
        let kinds = 7;
        let (told, count) = (Arc::new(AtomicUsize::new(0)), scaled_in_debug(700).max(kinds));
        let watchers: Vec<_> = rt.block_on(|| {
            let watch = |handle: CancelHandle| {
                let told = Arc::clone(&told);
                rt.spawn(move || {
                    assert_eq!(why(handle.cancelled_async()), None);
                    told.fetch_add(1, Ordering::Relaxed);
                })
            };
            (0..count)
                .map(|i| match i % kinds {
                    0 => {
                        let task = spawn(|| ());
                        let watcher = watch(task.cancel_handle());
                        task.join().unwrap();
                        watcher
                    }
                    1 => {
                        let task = spawn(|| yield_now().unwrap());
                        let watcher = watch(task.cancel_handle());
                        yield_now().unwrap();
                        task.join().unwrap();
                        watcher
                    }
                    2 => {
                        let task = spawn(|| ());
                        let watcher = watch(task.cancel_handle());
                        task.detach();
                        watcher
                    }
                    3 => {
                        let task = spawn(|| spawn(|| yield_now().unwrap()).detach());
                        let watcher = watch(task.cancel_handle());
                        task.join().unwrap();
                        watcher
                    }
                    4 => scope(|s| {
                        let task = s.spawn(|| yield_now().unwrap());
                        watch(task.cancel_handle())
                    }),
                    5 => scope(|s| watch(s.cancel_handle())),
                    _ => {
                        let (give, got) = (Event::new(), crate::common::Mutex::new(None));
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
                .collect()
        });
        watchers.into_iter().for_each(|watcher| watcher.join().unwrap());
        assert_eq!(told.load(Ordering::Relaxed), count);
    });
}

#[test]
fn a_scope_is_watched_to_its_cancel_or_its_end() {
    with_each(|rt| {
        let (first, second) = rt.block_on(|| {
            let mut futures = Vec::new();
            scope(|s| {
                let handle = s.cancel_handle();
                let mut early = handle.cancelled_async();
                assert!(poll(&mut early).is_pending());
                s.cancel("the scope");
                assert_eq!(why_here(&mut early), explicit("the scope"));
                futures.push(handle.cancelled_async());
            });
            scope(|s| {
                let mut early = s.cancel_handle().cancelled_async();
                assert!(poll(&mut early).is_pending());
                futures.push(early);
            });
            let mut futures = futures.into_iter();
            (why(futures.next().unwrap()), why(futures.next().unwrap()))
        });
        assert_eq!((first, second), (explicit("the scope"), None));
    });
}

/// Without a wait: the scope that it may be called in is cancelled.
fn why_here(future: &mut CancelledFuture) -> Option<Reason> {
    match poll(future) {
        Poll::Ready(cancelled) => cancelled.map(|cancelled| cancelled.reason().clone()),
        Poll::Pending => panic!("it is not ready"),
    }
}

#[test]
fn a_dropped_handle_a_time_limit_and_the_end_of_the_runtime_are_told() {
    with_each(|rt| {
        let task = rt.spawn(park);
        let watched = task.cancel_handle().cancelled_async();
        drop(task);
        assert_eq!(why(watched), Some(Reason::HandleDropped));
        let watched = rt.block_on(|| {
            let watched = crate::common::Mutex::new(None);
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
        crate::until_parked(&rt, 0, 1);
        let mut watched = task.cancel_handle().cancelled_async();
        assert!(poll(&mut watched).is_pending());
        let late = task.cancel_handle();
        drop(rt);
        assert_eq!(why(watched), Some(Reason::RuntimeShutDown));
        assert_eq!(why(late.cancelled_async()), Some(Reason::RuntimeShutDown));
        drop(task);
    });
}

/// A cancel of an ancestor is told at once of a task that is watched and has never waited, and of one that has not started.
#[test]
fn a_cancel_from_above_is_told_when_it_comes() {
    with_each(|rt| {
        rt.block_on(|| {
            let (give, handles) = channel::<CancelHandle>();
            let mut late = scope(|s| {
                let above = s.cancel_handle();
                let task = s.spawn(move || {
                    // It is given by one who runs: on another worker, or before this has started.
                    let handle = handles.recv().unwrap();
                    let mut watched = handle.cancelled_async();
                    assert!(poll(&mut watched).is_pending());
                    above.cancel("from above");
                    assert_eq!(why_here(&mut watched), explicit("from above"));
                    assert!(checkpoint().is_err());
                });
                give.send(task.cancel_handle()).unwrap();
                task.cancel_handle().cancelled_async()
            });
            assert_eq!(why_here(&mut late), explicit("from above"));
            // Another worker may have found it, and ended it, before there is a handle.
            let never = scope(|s| {
                s.cancel("from above");
                let task = s.spawn(|| unreachable!("it is cancelled"));
                begun(task.cancel_handle().cancelled_async())
            });
            assert_eq!(never(), explicit("from above"));
        });
    });
}

#[test]
fn a_watcher_that_comes_after_the_task_was_told_is_told() {
    with_each(|rt| {
        rt.block_on(|| {
            let (give, handles) = channel::<CancelHandle>();
            scope(|s| {
                let above = s.cancel_handle();
                let task = s.spawn(move || {
                    let handle = handles.recv().unwrap();
                    above.cancel("from above");
                    assert!(checkpoint().is_err(), "nobody watches yet");
                    assert!(handle.is_cancelled());
                    assert_eq!(why_here(&mut handle.cancelled_async()), explicit("from above"));
                });
                give.send(task.cancel_handle()).unwrap();
            });
        });
    });
}

#[test]
fn who_was_told_of_a_cancel_from_above_is_known_to_be_cancelled_after_its_end() {
    with_each(|rt| {
        rt.block_on(|| {
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
                assert_eq!(why_here(&mut handle.cancelled_async()), explicit("from above"));
            }
        });
    });
}

/// It is in no list, and so are the scopes inside it in which it asks.
#[test]
fn a_cancel_from_above_is_told_when_it_is_learnt_of_in_an_inner_scope() {
    fn ask_inside(depth: usize) -> bool {
        if depth == 0 { checkpoint().is_err() } else { scope(|_| ask_inside(depth - 1)) }
    }
    with_each(|rt| {
        for depth in [1, 2, 7, 8, 9, 20] {
            rt.block_on(|| {
                let (give, handles) = channel::<CancelHandle>();
                scope(|s| {
                    let above = s.cancel_handle();
                    let task = s.spawn(move || {
                        let mut watched = handles.recv().unwrap().cancelled_async();
                        assert!(poll(&mut watched).is_pending());
                        above.cancel("from above");
                        assert!(ask_inside(depth));
                        assert_eq!(why_here(&mut watched), explicit("from above"), "{depth}");
                    });
                    give.send(task.cancel_handle()).unwrap();
                });
            });
        }
    });
}

/// A scope of others is cancelled by it while a task in it waits, and `then` is run with that task's handle.
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

/// Of whom nobody had a handle but its own when the cancel came: that of its spawner, or none.
#[test]
fn who_asks_for_the_first_time_after_a_cancel_from_above_is_told_the_reason() {
    with_each(|rt| {
        rt.block_on(|| {
            let (kept, early) = cancelled_from_above(
                || (),
                |task| (task.cancel_handle(), begun(task.cancel_handle().cancelled_async())),
            );
            assert_eq!(early(), explicit("from above"));
            assert_eq!(why(kept.cancelled_async()), explicit("from above"));
            // It makes the handle itself.
            let (give, taken) = channel();
            let own = move || give.send(cancel_handle()).unwrap();
            cancelled_from_above(own, |task| drop(task));
            assert_eq!(why(taken.recv().unwrap().cancelled_async()), explicit("from above"));
        });
    });
}

/// What comes from above while it is ignored, too.
#[test]
fn who_asks_after_it_was_ignored_is_told_the_reason() {
    with_each(|rt| {
        rt.block_on(|| {
            let (give, taken) = channel();
            scope(|s| {
                let above = s.cancel_handle();
                s.spawn(move || {
                    let handle = cancel_handle();
                    ignore_cancellation(|| above.cancel("from above")).unwrap();
                    assert_eq!(why_here(&mut handle.cancelled_async()), explicit("from above"));
                    give.send(handle).unwrap();
                });
            });
            assert_eq!(why(taken.recv().unwrap().cancelled_async()), explicit("from above"));
        });
    });
}

#[test]
fn while_it_is_ignored_it_is_not_told() {
    with_each(|rt| {
        rt.block_on(|| {
            let handle = cancel_handle();
            let mut watched = handle.cancelled_async();
            ignore_cancellation(|| {
                handle.cancel("later");
                assert!(poll(&mut watched).is_pending());
                assert!(handle.is_cancelled());
            })
            .unwrap();
            assert_eq!(why_here(&mut watched), explicit("later"));
        });
    });
}

#[test]
fn it_wakes_tasks_threads_and_other_executors_and_is_a_branch() {
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
        crate::common::thread::scope(|s| {
            let thread = s.spawn(|| why(handle.cancelled_async()));
            let parked = crate::common::parks(rt);
            eventually("they wait", || crate::common::parks(rt) >= parked.min(1));
            handle.cancel("enough");
            assert_eq!(thread.join().unwrap(), explicit("enough"));
        });
        let cancelled = in_task.join().unwrap().unwrap().unwrap();
        assert_eq!(*cancelled.reason(), Reason::from("enough"));
        let _ = target.join();
    });
}

/// Counts what it is told.
struct Counts(AtomicUsize, #[allow(dead_code)] Option<crate::common::drops::Guard>);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn one_that_is_dropped_wakes_nobody_and_keeps_no_waker() {
    with_each(|rt| {
        let (task, drops) = (rt.spawn(park), Drops::new());
        let handle = task.cancel_handle();
        let counts = Arc::new(Counts(AtomicUsize::new(0), Some(drops.guard())));
        let waker = Waker::from(Arc::clone(&counts));
        let mut futures: Vec<_> = (0..3).map(|_| handle.cancelled_async()).collect();
        for future in &mut futures {
            let polled = Pin::new(future).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        drop(waker);
        drop(futures.remove(1));
        handle.cancel("enough");
        // Perhaps by the end of the task, on another thread.
        eventually("both are told", || counts.0.load(Ordering::Relaxed) == 2);
        drop(counts);
        eventually("the wakers are gone", || drops.left() == 0);
        drop(futures);
        let _ = task.join();
        // Never polled.
        drop(handle.cancelled_async());
    });
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "what is forgotten is a leak, on purpose")]
fn one_that_is_forgotten_is_told_all_the_same() {
    with_each(|rt| {
        let task = rt.spawn(park);
        let mut future = task.cancel_handle().cancelled_async();
        let counts = Arc::new(Counts(AtomicUsize::new(0), None));
        let waker = Waker::from(Arc::clone(&counts));
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        std::mem::forget(future);
        task.cancel("enough");
        let _ = task.join();
        eventually("it is told", || counts.0.load(Ordering::Relaxed) == 1);
    });
}

#[test]
fn a_waker_may_drop_the_future_and_panic() {
    struct DropsIt(crate::common::Mutex<Option<CancelledFuture>>);
    impl Wake for DropsIt {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            panic!("in a waker");
        }
    }
    with_each(|rt| {
        let task = rt.spawn(park);
        let handle = task.cancel_handle();
        let place = Arc::new(DropsIt(crate::common::Mutex::new(None)));
        let waker = Waker::from(Arc::clone(&place));
        let mut future = handle.cancelled_async();
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        *place.0.lock().unwrap() = Some(future);
        handle.cancel("enough");
        // Perhaps by the end of the task, on another thread.
        let gone = || place.0.lock().unwrap_or_else(|e| e.into_inner()).is_none();
        eventually("it is dropped", gone);
        let _ = task.join();
    });
}

/// Watchers that come and go, cancels and ends, all at once.
#[test]
fn a_storm_of_watchers() {
    with_each(|rt| {
        let mut random = Random(7);
        for _ in 0..scaled_in_debug(600) {
            let kind = random.below(6);
            let task = rt.spawn(move || match kind {
                0 => {}
                1 => drop(park()),
                2 => drop(yield_now()),
                3 => drop(scope(|s| s.spawn(yield_now).join())),
                4 => while checkpoint().is_ok() {},
                _ => spawn(|| drop(yield_now())).detach(),
            });
            let cancels = matches!(kind, 1 | 4) || random.below(2) == 0;
            let watchers: Vec<_> = (0..3)
                .map(|i| {
                    let watched = task.cancel_handle().cancelled_async();
                    rt.spawn(move || {
                        let mut watched = watched;
                        if i == 0 {
                            let _ = poll(&mut watched);
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
