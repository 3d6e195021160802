//! 3.3 to 3.5: the last handle of a root, the life of a guard, and what always holds.

use super::{Watched, block_on, completion_of, is_stopped, now, of_each_kind};
use crate::common::mpsc;
use crate::common::{scaled_in_debug, within};
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

#[test]
fn s3_3_dropping_the_last_handle_of_a_root_stops_it() {
    let handles: Vec<_> = std::iter::repeat_n(Swansong::new(), 4).collect();
    let mut waits = Watched::new(handles[0].interrupt(pending::<()>()));
    let mut completion = Watched::new(completion_of(&handles[0]));
    assert!(completion.poll().is_none());
    for handle in handles {
        assert_eq!(waits.poll(), None);
        assert!(!waits.is_woken());
        drop(handle);
    }
    assert!(waits.is_woken() && completion.is_woken());
    assert_eq!((waits.poll(), completion.poll()), (Some(None), Some(())));
}

#[test]
fn s3_3_guards_that_are_left_delay_the_completion_of_that_stop() {
    let root = Swansong::new();
    let (first, second) = (root.guard(), root.guard());
    let mut completion = Watched::new(root.clone().into_future());
    let mut waits = Watched::new(root.interrupt(pending::<()>()));
    assert!(waits.poll().is_none());
    drop(root);
    assert!(waits.is_woken() && completion.poll().is_none());
    drop(first);
    assert!(completion.poll().is_none());
    drop(second);
    assert!(completion.is_woken() && completion.poll().is_some());
}

#[test]
fn s3_3_awaiting_the_last_handle_gives_it_away_and_so_stops() {
    within(|| {
        block_on(async { Swansong::new().await });
        let root = Swansong::new();
        let child = root.child();
        let guard = child.guard();
        let mut completion = root.into_future();
        assert!(is_stopped(&child) && now(&mut completion).is_none());
        drop(guard);
        completion.block();
    });
}

#[test]
fn s3_3_neither_guards_nor_interrupts_nor_completions_nor_children_hold_a_root() {
    let root = Swansong::new();
    let mut waits = root.interrupt(pending::<()>()).guarded();
    let (guard, completion, child) = (root.guard(), completion_of(&root), root.child());
    drop(root);
    assert_eq!(now(&mut waits), Some(None));
    assert_eq!(child.state(), Complete);
    drop((guard, completion));
}

#[test]
fn s3_4_a_guard_outlives_every_handle_and_its_drop_still_counts() {
    let root = Swansong::new();
    let child = root.child();
    let guard = child.guard();
    drop(child);
    let clone = guard.clone();
    assert_eq!(root.guard_count(), 2);
    drop(guard);
    assert_eq!(root.guard_count(), 1);
    let mut completion = Watched::new(root.shut_down());
    assert!(completion.poll().is_none());
    drop(clone);
    assert!(completion.is_woken() && completion.poll().is_some());
    assert_eq!((root.state(), root.guard_count()), (Complete, 0));
}

#[test]
fn s3_4_a_guard_keeps_the_state_of_a_whole_line_alive() {
    let root = Swansong::new();
    let line: Vec<_> = (0..10)
        .scan(root.clone(), |last, _| {
            *last = last.child();
            Some(last.clone())
        })
        .collect();
    let guard = line[9].guard();
    let mut waits: Vec<_> =
        line.iter().map(|it| Watched::new(it.interrupt(pending::<()>()))).collect();
    drop(line);
    // None of them is gone: their interrupts go on.
    assert!(waits.iter_mut().all(|it| it.poll().is_none()));
    assert_eq!(root.guard_count(), 1);
    drop(guard);
    assert!(waits.iter_mut().all(|it| it.is_woken() && it.poll() == Some(None)));
    assert_eq!((root.state(), root.guard_count()), (Running, 0));
}

#[test]
fn s3_4_without_ancestors_a_guard_that_nobody_watches_is_just_dropped() {
    let root = Swansong::new();
    let guard = root.guard();
    drop(root);
    let clone = guard.clone();
    assert!(guard == clone);
    drop(guard);
    crate::common::thread::scope(|s| {
        s.spawn(|| drop(clone));
    });
}

#[test]
fn s3_5_stopped_stays_stopped() {
    of_each_kind(|swansong| {
        let mut waits = Watched::new(swansong.interrupt(pending::<()>()));
        assert!(waits.poll().is_none());
        drop(swansong.shut_down());
        let guard = swansong.guard();
        drop((swansong.child(), swansong.clone(), completion_of(&swansong)));
        for _ in 0..3 {
            assert_eq!(waits.poll(), Some(None));
            assert_eq!(swansong.state(), ShuttingDown);
        }
        drop(guard);
    });
}

#[test]
fn s3_5_an_interrupt_that_is_polled_after_shut_down_sees_it_on_every_thread() {
    let rounds = scaled_in_debug(500);
    within(|| {
        for _ in 0..rounds {
            of_each_kind(|swansong| {
                let told = AtomicBool::new(false);
                crate::common::thread::scope(|s| {
                    let (mut waits, told) = (swansong.interrupt(pending::<()>()), &told);
                    s.spawn(move || {
                        loop {
                            let before = told.load(Ordering::Acquire);
                            let ended = now(&mut waits).is_some();
                            assert!(ended || !before, "it was stopped, and has not ended");
                            if ended {
                                return;
                            }
                            crate::common::thread::yield_now();
                        }
                    });
                    swansong.shut_down();
                    told.store(true, Ordering::Release);
                });
            });
        }
    });
}

#[test]
fn s3_5_a_completion_awaited_after_shut_down_resolves() {
    within(|| {
        of_each_kind(|swansong| {
            let guard = swansong.guard();
            swansong.shut_down();
            let early = completion_of(&swansong);
            crate::common::thread::scope(|s| {
                s.spawn(|| early.block());
                s.spawn(|| block_on(completion_of(&swansong)));
                drop(guard);
            });
            completion_of(&swansong).block();
        });
    });
}

/// Each worker takes what comes until the stop, holds guards meanwhile, and lets go of them.
#[test]
fn s3_5_if_all_guards_are_dropped_and_all_interrupts_polled_the_shutdown_ends() {
    let rounds = scaled_in_debug(200);
    within(|| {
        for round in 0..rounds {
            let root = Swansong::new();
            let done = AtomicUsize::new(0);
            crate::common::thread::scope(|s| {
                for n in 0..3 {
                    let child = if n == 0 { root.clone() } else { root.child().child() };
                    let done = &done;
                    s.spawn(move || {
                        let mut turn = 0;
                        let work = child.interrupt(poll_fn(|cx| {
                            turn += 1;
                            let _guard = child.guard();
                            if turn % 3 > 0 {
                                cx.waker().wake_by_ref();
                            }
                            Poll::<()>::Pending
                        }));
                        // Every third turn nobody but the stop goes on with it.
                        assert_eq!(block_on(work.guarded()), None);
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
                if round % 2 == 0 {
                    crate::common::thread::yield_now();
                }
                root.shut_down().block();
            });
            assert_eq!(done.load(Ordering::Relaxed), 3);
            assert_eq!((root.state(), root.guard_count()), (Complete, 0));
        }
    });
}

/// A waker is foreign code that a stop has to call. While one is stuck there, all that is to be free of locks goes on.
#[test]
fn s3_5_guards_and_interrupts_go_on_while_a_stop_is_stuck_in_a_waker() {
    struct Stuck(mpsc::SyncSender<()>, crate::common::Mutex<mpsc::Receiver<()>>);
    impl Wake for Stuck {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
            self.1.lock().unwrap().recv().unwrap();
        }
    }
    within(|| {
        let (reached, is_reached) = mpsc::sync_channel(1);
        let (go_on, may_go_on) = mpsc::channel();
        let root = Swansong::new();
        let child = root.child();
        let mut stuck = root.interrupt(pending::<()>());
        let waker = Waker::from(Arc::new(Stuck(reached, may_go_on.into())));
        let polled = std::pin::Pin::new(&mut stuck).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        let (mut before, old) = (root.interrupt(pending::<()>()), child.guard());
        crate::common::thread::scope(|s| {
            s.spawn(|| root.shut_down());
            is_reached.recv().unwrap();
            for swansong in [&root, &child] {
                let guards: Vec<_> = (0..10).map(|_| swansong.guard()).collect();
                assert_eq!(swansong.guard_count(), 11);
                drop(guards);
            }
            // The root has been stopped; whether the child has been by now is nobody's promise.
            assert_eq!((now(&mut before), root.state()), (Some(None), ShuttingDown));
            assert_eq!(root.interrupt(0..3).guarded().next(), None);
            drop(old);
            assert_eq!(root.guard_count(), 0);
            go_on.send(()).unwrap();
        });
        assert_eq!((root.state(), child.state()), (Complete, Complete));
    });
}
