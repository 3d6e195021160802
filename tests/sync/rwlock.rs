//! `RwLock`: who is let in with whom, in which order, and each way of not getting in.

use crate::common::Mutex;
use crate::common::{panic_of, runtime, scaled_in_debug, with_each, within};
use crate::{LONG, block_on, until_waiting, waiting};
use cygnet::sync::{RwLock, WaitError};
use cygnet::{Runtime, Task, cancel_handle, scope, spawn, yield_now};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

type Seen = Arc<Mutex<Vec<(usize, bool)>>>;

/// One that enters when it can, and says so; it is in the queue when this returns.
fn comes(
    rt: &Runtime,
    lock: &Arc<RwLock<usize>>,
    number: usize,
    writes: bool,
    seen: &Seen,
) -> Task<bool> {
    let before = waiting(&**lock);
    let (mine, seen) = (Arc::clone(lock), Arc::clone(seen));
    let task = rt.spawn(move || {
        let say = || seen.lock().unwrap().push((number, writes));
        if writes {
            mine.write().map(|mut value| (*value += 1, say())).is_ok()
        } else {
            mine.read().map(|_| say()).is_ok()
        }
    });
    until_waiting(&**lock, before + 1);
    task
}

#[test]
fn many_read_and_one_writes() {
    with_each(|rt| {
        let (lock, inside) = (RwLock::new(0), AtomicIsize::new(0));
        rt.block_on(|| {
            scope(|s| {
                for i in 0..100 {
                    let (lock, inside) = (&lock, &inside);
                    s.spawn(move || {
                        if i % 4 == 0 {
                            let mut value = lock.write().unwrap();
                            assert_eq!(inside.fetch_sub(1, Ordering::Relaxed), 0);
                            yield_now().unwrap();
                            *value += 1;
                            inside.fetch_add(1, Ordering::Relaxed);
                        } else {
                            let _value = lock.read().unwrap();
                            assert!(inside.fetch_add(1, Ordering::Relaxed) >= 0);
                            yield_now().unwrap();
                            inside.fetch_sub(1, Ordering::Relaxed);
                        }
                    });
                }
            });
        });
        assert_eq!(lock.into_inner(), 25);
    });
}

#[test]
fn they_enter_in_the_order_of_coming_and_readers_that_stand_together_do_so_together() {
    with_each(|rt| {
        let lock = Arc::new(RwLock::new(0));
        let seen = Seen::default();
        let held = lock.write().unwrap();
        let kinds = [false, false, true, false, true, true, false];
        let tasks: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(i, &writes)| comes(rt, &lock, i, writes, &seen))
            .collect();
        drop(held);
        tasks.into_iter().for_each(|task| assert!(task.join().unwrap()));
        let mut seen = seen.lock().unwrap().clone();
        // Those two are in it at the same time.
        seen[..2].sort_unstable();
        let expected: Vec<_> = kinds.into_iter().enumerate().collect();
        assert_eq!(seen, expected);
        assert_eq!(*lock.read().unwrap(), 3);
    });
}

#[test]
fn readers_pass_a_writer_that_waits_for_a_while_and_never_wait_behind_one_that_has_left() {
    with_each(|rt| {
        let lock = Arc::new(RwLock::new(0));
        let seen = Seen::default();
        let reads = lock.read().unwrap();
        let writer = comes(rt, &lock, 0, true, &seen);
        // None, if it has waited for long already: each look at those who wait is a pass, too.
        let passes = (0..10_000).take_while(|_| lock.try_read().is_some()).count();
        assert!(passes < 10_000, "the writer is passed for ever");
        let reader = comes(rt, &lock, 1, false, &seen);
        writer.cancel("enough");
        assert!(!writer.join().unwrap());
        // With a reader still inside.
        assert!(reader.join().unwrap());
        assert!(lock.try_read().is_some() && lock.try_write().is_none());
        drop(reads);
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn a_writer_that_goes_on_to_read_lets_readers_in_and_no_writer_between() {
    with_each(|rt| {
        let lock = Arc::new(RwLock::new(0));
        let seen = Seen::default();
        let mut writes = lock.write().unwrap();
        *writes = 10;
        let reader = comes(rt, &lock, 0, false, &seen);
        let writer = comes(rt, &lock, 1, true, &seen);
        let reads = cygnet::sync::RwLockWriteGuard::downgrade(writes);
        assert!(reader.join().unwrap());
        assert_eq!(*reads, 10);
        assert_eq!(waiting(&*lock), 1);
        drop(reads);
        assert!(writer.join().unwrap());
        assert_eq!(*lock.read().unwrap(), 11);
    });
}

#[test]
fn cancelled_late_and_dropped_waits_leave_nothing() {
    with_each(|rt| {
        let lock = Arc::new(RwLock::new(0));
        let held = block_on(lock.write_async());
        let refused = |lock: &RwLock<usize>| {
            let short = Duration::from_millis(1);
            assert_eq!(lock.read_timeout(short).err(), Some(WaitError::TimedOut));
            assert_eq!(lock.write_timeout(short).err(), Some(WaitError::TimedOut));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(pin!(lock.read_async()).poll(&mut cx).is_pending());
            assert!(pin!(lock.write_async()).poll(&mut cx).is_pending());
        };
        refused(&lock);
        rt.block_on(|| refused(&lock));
        let seen = Seen::default();
        let tasks = [comes(rt, &lock, 0, true, &seen), comes(rt, &lock, 1, false, &seen)];
        tasks.iter().for_each(|task| task.cancel("enough"));
        tasks.into_iter().for_each(|task| assert!(!task.join().unwrap()));
        assert_eq!(waiting(&*lock), 0);
        drop(held);
        rt.block_on(|| {
            let mine = Arc::clone(&lock);
            let task = spawn(move || {
                cancel_handle().cancel("enough");
                mine.read().is_err() && mine.write().is_err() && mine.try_write().is_some()
            });
            assert!(task.join().unwrap());
        });
        assert!(lock.write_timeout(LONG).is_ok());
    });
}

#[test]
fn who_is_refused_by_a_panic_leaves_nothing_behind() {
    with_each(|rt| {
        let lock = RwLock::new(());
        let reads = block_on(lock.read_async());
        rt.block_on(|| {
            let refused = panic_of(|| cygnet::no_suspend(|| drop(lock.write())));
            assert!(refused.contains("no_suspend"), "{refused}");
            assert!(lock.try_read().is_some(), "as if it had never been called");
        });
        drop(reads);
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn a_writer_that_would_wait_for_itself_panics_and_says_so() {
    let lock = RwLock::new(1);
    let writes = lock.write().unwrap();
    assert!(panic_of(|| lock.read().is_ok()).contains("would wait for itself"));
    assert!(panic_of(|| lock.write().is_ok()).contains("would wait for itself"));
    drop(writes);
    // One that has written before does not.
    let other = block_on(lock.write_async());
    assert_eq!(lock.read_timeout(Duration::from_millis(1)).err(), Some(WaitError::TimedOut));
    drop(other);
    assert_eq!(format!("{lock:?}"), "RwLock { value: 1, waiting: [] }");
    let _writes = lock.write().unwrap();
    assert!(format!("{lock:?}").contains("writer: thread"), "{lock:?}");
}

/// Tasks, threads and futures, with cancels and limits: the counts agree, and at the end it is free.
#[test]
fn a_storm_of_all_kinds_leaves_it_free_and_the_sums_right() {
    for workers in [1, 2, 8] {
        within(|| {
            let rt = runtime(workers);
            let (lock, written) = (Arc::new(RwLock::new(0usize)), Arc::new(AtomicUsize::new(0)));
            let times = scaled_in_debug(2_000);
            let visit = |seed: usize| {
                let (lock, written) = (Arc::clone(&lock), Arc::clone(&written));
                move || {
                    for i in 0..times {
                        let limit = Duration::from_micros(((seed + i) % 50) as u64);
                        match (seed + i) % 5 {
                            0 => {
                                if let Ok(mut value) = lock.write() {
                                    *value += 1;
                                    written.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                            1 => {
                                if let Ok(mut value) = lock.write_timeout(limit) {
                                    *value += 1;
                                    written.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                            2 => drop(lock.read_timeout(limit)),
                            _ => drop(lock.read()),
                        }
                    }
                }
            };
            let tasks: Vec<_> = (0..16).map(|i| rt.spawn(visit(i))).collect();
            let threads: Vec<_> =
                (0..2).map(|i| crate::common::thread::spawn(visit(50 + i))).collect();
            let future = {
                let (lock, written) = (Arc::clone(&lock), Arc::clone(&written));
                crate::common::thread::spawn(move || {
                    for _ in 0..times {
                        block_on(async {
                            *lock.write_async().await += 1;
                            written.fetch_add(1, Ordering::Relaxed);
                            let _both = (lock.read_async().await, lock.try_read());
                        });
                    }
                })
            };
            for (i, task) in tasks.into_iter().enumerate() {
                if i % 5 == 0 {
                    task.cancel("a part of the storm");
                }
                let _ = task.join();
            }
            threads.into_iter().chain([future]).for_each(|thread| thread.join().unwrap());
            assert_eq!(waiting(&*lock), 0);
            assert_eq!(*lock.try_write().unwrap(), written.load(Ordering::Relaxed));
        });
    }
}
