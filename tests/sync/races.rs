//! Sends of `oneshot`, `broadcast` and `watch` that race cancels, time limits, and the end of either side.

use crate::common::{Drops, Random, runtime, scaled_in_debug, with, within};
use crate::{block_on, waiting};
use cygnet::scope;
use cygnet::sync::{BroadcastRecvError, WaitError, broadcast, oneshot, watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A send, a cancel and time that is up at the same moment: the value is received once, then or later.
#[test]
fn what_a_oneshot_sends_is_received_once_whatever_it_races() {
    with(&[1, 2, 8], |rt| {
        for round in 0..scaled_in_debug(3_000) {
            let (to, mut from) = oneshot();
            let task = rt.spawn(move || {
                let got = match round % 3 {
                    0 => from.recv_timeout(Duration::from_micros(round as u64 % 100)),
                    _ => from.recv(),
                };
                (from, got)
            });
            let sends = rt.spawn(move || to.send(round));
            if round % 3 == 1 {
                task.cancel("races");
            }
            let sent = sends.join().unwrap();
            match task.join() {
                Ok((mut from, Err(early))) => {
                    assert!(!matches!(early, WaitError::Closed));
                    assert_eq!(from.recv(), Ok(round));
                    assert_eq!(sent, Ok(()));
                }
                Ok((_, Ok(value))) => assert_eq!((value, sent), (round, Ok(()))),
                // It had not begun, and the receiver has gone with it; a value that was sent before went as well.
                Err(_) => assert_eq!(round % 3, 1),
            }
        }
        assert_eq!(rt.metrics().timers(), 0);
    });
}

/// A send and a close at the same moment: the value is at one end.
#[test]
fn what_a_oneshot_sends_is_received_or_comes_back_from_a_close() {
    with(&[1, 2, 8], |rt| {
        for round in 0..scaled_in_debug(2_000) {
            let (to, mut from) = oneshot();
            let (sent, received) = rt.block_on(|| {
                scope(|s| {
                    let sends = s.spawn(|| to.send(round));
                    from.close();
                    (sends.join().unwrap(), from.recv())
                })
            });
            match sent {
                Ok(()) => assert_eq!(received, Ok(round)),
                Err(value) => assert_eq!((value, received), (round, Err(WaitError::Closed))),
            }
        }
    });
}

/// A sender among receivers with limits and cancels: none goes back, and each sees the last value or the end.
#[test]
fn a_watch_ends_with_the_last_value_for_everybody() {
    for workers in [1, 2, 8] {
        within(|| {
            let rt = runtime(workers);
            let (to, from) = watch(0);
            let last = scaled_in_debug(3_000);
            let looks = Arc::new(AtomicUsize::new(0));
            let receiver = |seed: u64| {
                let (mut from, looks) = (from.clone(), Arc::clone(&looks));
                move || {
                    let (mut random, mut before) = (Random(seed * 7919 + 1), 0);
                    loop {
                        let seen = match random.below(4) {
                            0 => from.changed_timeout(Duration::from_micros(random.below(90))),
                            1 if cygnet::current_id().is_none() => block_on(from.changed_async()),
                            2 => from.wait_for(|value| *value > before),
                            _ => from.changed(),
                        };
                        match seen {
                            Ok(value) => {
                                assert!(*value > before, "{value} after {before}");
                                before = *value;
                                looks.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(WaitError::TimedOut) => {}
                            Err(WaitError::Closed) => return before,
                            Err(_) => return 0,
                        }
                    }
                }
            };
            let tasks: Vec<_> = (0..6).map(|i| rt.spawn(receiver(i))).collect();
            let threads: Vec<_> =
                (6..8).map(|i| crate::common::thread::spawn(receiver(i))).collect();
            tasks[2].cancel("a part of the storm");
            let sends = rt.spawn(move || {
                for i in 1..=last {
                    to.send(i);
                    if i % 64 == 0 {
                        cygnet::yield_now().unwrap();
                    }
                }
            });
            sends.join().unwrap();
            for (i, task) in tasks.into_iter().enumerate() {
                assert!(task.join().map_or(0, |seen| seen) == last || i == 2);
            }
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), last));
            assert!(looks.load(Ordering::Relaxed) >= 7);
            assert_eq!((waiting(&from), rt.metrics().timers()), (0, 0));
        });
    }
}

/// A send, a cancel and time that is up at the same moment: the value is seen once, then or later.
#[test]
fn what_a_watch_sends_is_seen_once_whatever_it_races() {
    with(&[1, 2, 8], |rt| {
        for round in 0..scaled_in_debug(2_000) {
            let (to, mut from) = watch(0);
            let task = rt.spawn(move || {
                let seen = match round % 3 {
                    0 => from.changed_timeout(Duration::from_micros(round as u64 % 100)),
                    _ => from.changed(),
                };
                (from, seen)
            });
            let sends = rt.spawn(move || to.send(1));
            if round % 3 == 1 {
                task.cancel("races");
            }
            sends.join().unwrap();
            match task.join() {
                Ok((mut from, seen)) => {
                    let left = seen.is_err();
                    assert!(seen.is_err() || seen == Ok(Arc::new(1)));
                    assert_eq!((from.has_changed(), from.changed().is_ok()), (left, left));
                    assert_eq!(from.changed(), Err(WaitError::Closed));
                }
                Err(_) => assert_eq!(round % 3, 1, "it had not begun"),
            }
        }
    });
}

/// What was done before a send is seen by those who find the change, also by a look alone.
#[test]
fn what_was_done_before_a_watch_sends_is_seen_after_it() {
    with(&[2, 8], |rt| {
        for _ in 0..scaled_in_debug(1_000) {
            let data = AtomicUsize::new(0);
            let (to, mut from) = watch(());
            let mut other = from.clone();
            rt.block_on(|| {
                scope(|s| {
                    s.spawn(|| {
                        from.changed().unwrap();
                        assert_eq!(data.load(Ordering::Relaxed), 1);
                    });
                    s.spawn(|| {
                        if other.has_changed() {
                            assert_eq!(data.load(Ordering::Relaxed), 1);
                        }
                        other.see();
                    });
                    s.spawn(|| {
                        data.store(1, Ordering::Relaxed);
                        to.send(());
                    });
                });
            });
        }
    });
}

/// Receivers of all kinds, with limits and cancels, that are cloned and dropped meanwhile: each gets what is sent in order, once,
/// but for as many as it is told of; and nothing is left.
#[test]
fn a_broadcast_gives_each_receiver_everything_or_tells_what_is_missing() {
    for (workers, capacity) in [(1, 1), (2, 3), (8, 64), (2, usize::MAX)] {
        within(|| {
            let rt = runtime(workers);
            let drops = Drops::new();
            let (to, from) = broadcast(capacity);
            let last = scaled_in_debug(2_000);
            let receiver = |seed: u64| {
                let mut from = from.clone();
                move || {
                    let (mut random, mut next) = (Random(seed * 7919 + 1), 0);
                    loop {
                        let got = match random.below(4) {
                            0 => from.recv_timeout(Duration::from_micros(random.below(90))),
                            1 if cygnet::current_id().is_none() => block_on(from.recv_async()),
                            _ => from.recv(),
                        };
                        match got {
                            Ok((value, _)) => {
                                assert_eq!(value, next, "room for {capacity}");
                                next += 1;
                            }
                            Err(BroadcastRecvError::Lagged(missed)) => next += missed as usize,
                            Err(BroadcastRecvError::TimedOut) => {}
                            Err(BroadcastRecvError::Closed) => return next,
                            Err(_) => return 0,
                        }
                        if random.below(16) == 0 {
                            // The one before goes, and gives up what it has not received.
                            from = from.clone();
                        }
                    }
                }
            };
            let tasks: Vec<_> = (0..6).map(|i| rt.spawn(receiver(i))).collect();
            let threads: Vec<_> =
                (6..8).map(|i| crate::common::thread::spawn(receiver(i))).collect();
            drop(from);
            tasks[2].cancel("a part of the storm");
            let guard = drops.clone();
            let sends = rt.spawn(move || {
                for i in 0..last {
                    assert!(to.send((i, Arc::new(guard.guard()))).unwrap() >= 7);
                    if i % 64 == 0 {
                        cygnet::yield_now().unwrap();
                    }
                }
            });
            sends.join().unwrap();
            for (i, task) in tasks.into_iter().enumerate() {
                assert!(task.join().unwrap_or(0) == last || i == 2);
            }
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), last));
            assert_eq!((drops.left(), rt.metrics().timers()), (0, 0));
        });
    }
}

/// A send, a cancel and time that is up at the same moment: the value is received once, then or later.
#[test]
fn what_a_broadcast_sends_is_received_once_whatever_it_races() {
    with(&[1, 2, 8], |rt| {
        for round in 0..scaled_in_debug(2_000) {
            let (to, mut from) = broadcast(1);
            let mut other = from.clone();
            let task = rt.spawn(move || {
                let got = match round % 3 {
                    0 => from.recv_timeout(Duration::from_micros(round as u64 % 100)),
                    _ => from.recv(),
                };
                (from, got)
            });
            let sends = rt.spawn(move || to.send(round).is_ok());
            if round % 3 == 1 {
                task.cancel("races");
            }
            assert!(sends.join().unwrap());
            match task.join() {
                Ok((mut from, got)) => {
                    let later = from.recv();
                    let closed = Err(BroadcastRecvError::Closed);
                    match got {
                        Ok(value) => assert_eq!((value, later), (round, closed)),
                        Err(_) => assert_eq!((later, from.recv()), (Ok(round), closed)),
                    }
                }
                Err(_) => assert_eq!(round % 3, 1, "it had not begun"),
            }
            assert_eq!(other.recv(), Ok(round));
        }
    });
}
