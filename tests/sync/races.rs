//! Sends of `oneshot`, `broadcast` and `watch` that race closes, cancels and time limits.
//! `contract` has the races that all primitives have in common.

use crate::common::prelude::*;
use cygnet::sync::{broadcast, watch};

/// In a task: sends, and lets others run after some of the values.
fn then_give_way(i: usize, send: impl FnOnce()) {
    send();
    if i.is_multiple_of(64) {
        cygnet::yield_now().unwrap();
    }
}

#[test]
fn a_oneshot_value_that_races_a_close_is_received_or_comes_back() {
    with(&[1, 2, 8], |rt| {
        for round in 0..scaled_in_debug(2_000) {
            let (to, mut from) = oneshot();
            let (sent, received) = scope_on(rt, |s| {
                let sends = s.spawn(|| to.send(round));
                from.close();
                (sends.join().unwrap(), from.recv())
            });
            match sent {
                Ok(()) => assert_eq!(received, Ok(round)),
                Err(value) => assert_eq!((value, received), (round, Err(WaitError::Closed))),
            }
        }
    });
}

/// Receivers with limits and cancels: none goes back, and each sees the last value or is cancelled.
#[test]
fn every_receiver_of_a_watch_ends_with_the_last_value() {
    with(&[1, 2, 8], |rt| {
        let (to, from) = watch(0);
        let last = scaled_in_debug(3_000);
        let looks = Arc::new(AtomicUsize::new(0));
        let receiver = |seed: u64| {
            own(&(from.clone(), Arc::clone(&looks)), move |(mut from, looks)| {
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
            })
        };
        let tasks = [0, 1, 2, 3, 4, 5].map(|i| rt.spawn(receiver(i)));
        let threads = [6, 7].map(|i| thread::spawn(receiver(i)));
        tasks[2].cancel("a part of the storm");
        rt.block_on(|| (1..=last).for_each(|i| then_give_way(i, || to.send(i))));
        drop(to);
        for (i, task) in tasks.into_iter().enumerate() {
            assert!(task.join().map_or(0, |seen| seen) == last || i == 2);
        }
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), last));
        assert!(looks.load(Ordering::Relaxed) >= 7);
        assert_eq!((waiting(&from), rt.metrics().timers()), (0, 0));
    });
}

#[test]
fn a_receiver_that_sees_a_change_sees_what_was_written_before_it() {
    in_task_with(&[2, 8], |_| {
        for _ in 0..scaled_in_debug(1_000) {
            let data = AtomicUsize::new(0);
            let (to, mut from) = watch(());
            let mut other = from.clone();
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
        }
    });
}

/// Receivers of all kinds, with limits and cancels, that are cloned and dropped meanwhile. Each
/// gets every value in order, or is told how many it has missed.
#[test]
fn a_broadcast_gives_each_receiver_every_value_or_the_number_missed() {
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
                            Err(WaitError::Lagged(missed)) => next += missed as usize,
                            Err(WaitError::TimedOut) => {}
                            Err(WaitError::Closed) => return next,
                            Err(_) => return 0,
                        }
                        if random.below(16) == 0 {
                            // The old receiver is dropped, and gives up what it has not received.
                            from = from.clone();
                        }
                    }
                }
            };
            let tasks = [0, 1, 2, 3, 4, 5].map(|i| rt.spawn(receiver(i)));
            let threads = [6, 7].map(|i| thread::spawn(receiver(i)));
            drop(from);
            tasks[2].cancel("a part of the storm");
            let send = |i| assert!(to.send((i, Arc::new(drops.guard()))).unwrap() >= 7);
            rt.block_on(|| (0..last).for_each(|i| then_give_way(i, || send(i))));
            drop(to);
            for (i, task) in tasks.into_iter().enumerate() {
                assert!(task.join().unwrap_or(0) == last || i == 2);
            }
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), last));
            assert_eq!((drops.left(), rt.metrics().timers()), (0, 0));
        });
    }
}
