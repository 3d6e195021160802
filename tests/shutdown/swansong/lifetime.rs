//! 3.5, and a part of 3.3: promises that hold whatever threads do.

use super::{is_stopped, now, of_each_kind};
use crate::common::prelude::*;
use cygnet::shutdown::ShutdownState::{Complete, ShuttingDown};
use cygnet::shutdown::Swansong;

/// S53.
#[test]
fn awaiting_the_last_handle_drops_it() {
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

/// S59.
#[test]
fn an_interrupt_polled_after_shut_down_sees_it_on_every_thread() {
    rounds(500, |_| {
        of_each_kind(|swansong| {
            let told = AtomicBool::new(false);
            thread::scope(|s| {
                let (mut waits, told) = (swansong.interrupt(pending::<()>()), &told);
                s.spawn(move || {
                    loop {
                        let before = told.load(Ordering::Acquire);
                        let ended = now(&mut waits).is_some();
                        assert!(ended || !before, "it was stopped, and has not ended");
                        if ended {
                            return;
                        }
                        thread::yield_now();
                    }
                });
                swansong.shut_down();
                told.store(true, Ordering::Release);
            });
        });
    });
}

/// Each thread works until the stop, and holds guards meanwhile. S51.
#[test]
fn a_shutdown_ends_when_guards_are_dropped_and_interrupts_polled() {
    rounds(200, |round| {
        let root = Swansong::new();
        let done = AtomicUsize::new(0);
        thread::scope(|s| {
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
                    // Every third turn only the stop wakes the future.
                    assert_eq!(block_on(work.guarded()), None);
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
            if round % 2 == 0 {
                thread::yield_now();
            }
            root.shut_down().block();
        });
        assert_eq!(done.load(Ordering::Relaxed), 3);
        assert_eq!((root.state(), root.guard_count()), (Complete, 0));
    });
}

/// A waker is foreign code that a stop has to call. While it is stuck there, guards, interrupts and
/// looks at the state go on. S47.
#[test]
fn guards_and_interrupts_go_on_while_a_stop_is_stuck_in_a_waker() {
    within(|| {
        let (reached, is_reached) = mpsc::sync_channel(1);
        let (go_on, may_go_on) = mpsc::channel();
        let root = Swansong::new();
        let child = root.child();
        let waker = calling_once(move || {
            reached.send(()).unwrap();
            may_go_on.recv().unwrap();
        });
        let _stuck = begun_by(root.interrupt(pending::<()>()), &waker);
        let (mut before, old) = (root.interrupt(pending::<()>()), child.guard());
        thread::scope(|s| {
            s.spawn(|| root.shut_down());
            is_reached.recv().unwrap();
            for swansong in [&root, &child] {
                let guards: Vec<_> = (0..10).map(|_| swansong.guard()).collect();
                assert_eq!(swansong.guard_count(), 11);
                drop(guards);
            }
            // The root has been stopped. The child may have been stopped by now or not.
            assert_eq!((now(&mut before), root.state()), (Some(None), ShuttingDown));
            assert_eq!(root.interrupt(0..3).guarded().next(), None);
            drop(old);
            assert_eq!(root.guard_count(), 0);
            go_on.send(()).unwrap();
        });
        assert_eq!((root.state(), child.state()), (Complete, Complete));
    });
}
