//! `RwLock`: which callers are let in together, in which order, and how a caller is turned away.

use crate::common::prelude::*;
use cygnet::sync::{RwLock, RwLockWriteGuard};
use std::sync::atomic::AtomicIsize;

/// A lock, and the number of each caller that has entered, and whether it wrote.
type Entered = (RwLock<usize>, Mutex<Vec<(usize, bool)>>);

/// Spawns a task that enters when it can, and says so. It is in the queue when this returns.
fn comes(rt: &Runtime, to: &Arc<Entered>, number: usize, writes: bool) -> Task<bool> {
    let body = own(to, move |to| {
        let say = || to.1.lock().unwrap().push((number, writes));
        match writes {
            true => to.0.write().map(|mut value| (*value += 1, say()).1).is_ok(),
            false => to.0.read().map(|_| say()).is_ok(),
        }
    });
    queued(rt, &to.0, body)
}

#[test]
fn many_read_and_one_writes() {
    in_task(|_| {
        let (lock, inside) = (RwLock::new(0), AtomicIsize::new(0));
        crowd(100, |i| {
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
        assert_eq!(lock.into_inner(), 25);
    });
}

#[test]
fn waiters_enter_in_order_and_adjacent_readers_enter_together() {
    with_each(|rt| {
        let entered = Arc::<Entered>::default();
        let (lock, seen) = &*entered;
        let held = lock.write().unwrap();
        let kinds = [false, false, true, false, true, true, false];
        let kinds = kinds.into_iter().enumerate();
        let tasks = kinds.clone().map(|(i, writes)| comes(rt, &entered, i, writes));
        let tasks: Vec<_> = tasks.collect();
        drop(held);
        tasks.into_iter().for_each(|task| assert!(task.join().unwrap()));
        let mut seen = seen.lock().unwrap().clone();
        // The first two are inside at the same time.
        seen[..2].sort_unstable();
        assert_eq!(seen, kinds.collect::<Vec<_>>());
        assert_eq!(*lock.read().unwrap(), 3);
    });
}

#[test]
fn readers_pass_a_waiting_writer_briefly_and_never_wait_for_one_that_left() {
    with_each(|rt| {
        let entered = Arc::<Entered>::default();
        let lock = &entered.0;
        let reads = lock.read().unwrap();
        let writer = comes(rt, &entered, 0, true);
        // None if the writer has waited for long already: each look at the queue is a pass, too.
        let passes = (0..10_000).take_while(|_| lock.try_read().is_some()).count();
        assert!(passes < 10_000, "the writer is passed for ever");
        let reader = comes(rt, &entered, 1, false);
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
fn a_downgraded_writer_lets_readers_in_and_no_writer() {
    with_each(|rt| {
        let entered = Arc::<Entered>::default();
        let lock = &entered.0;
        let mut writes = lock.write().unwrap();
        *writes = 10;
        let reader = comes(rt, &entered, 0, false);
        let writer = comes(rt, &entered, 1, true);
        let reads = RwLockWriteGuard::downgrade(writes);
        assert!(reader.join().unwrap());
        assert_eq!(*reads, 10);
        assert_eq!(waiting(lock), 1);
        drop(reads);
        assert!(writer.join().unwrap());
        assert_eq!(*lock.read().unwrap(), 11);
    });
}

#[test]
fn a_writer_that_is_refused_by_a_panic_leaves_nothing_behind() {
    in_task(|_| {
        let lock = RwLock::new(());
        let reads = block_on(lock.read_async());
        panics_with("no_suspend", || cygnet::no_suspend(|| drop(lock.write())));
        assert!(lock.try_read().is_some(), "as if it had never been called");
        drop(reads);
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn a_writer_that_would_wait_for_itself_panics() {
    let lock = RwLock::new(1);
    let writes = lock.write().unwrap();
    assert!(panic_of(|| lock.read().is_ok()).contains("would wait for itself"));
    assert!(panic_of(|| lock.write().is_ok()).contains("would wait for itself"));
    drop(writes);
    // A caller that has written before may wait.
    let other = block_on(lock.write_async());
    assert_eq!(lock.read_timeout(MOMENT).err(), Some(WaitError::TimedOut));
    drop(other);
    assert_eq!(format!("{lock:?}"), "RwLock { value: 1, waiting: [] }");
    let _writes = lock.write().unwrap();
    assert!(format!("{lock:?}").contains("writer: thread"), "{lock:?}");
}

/// Tasks, threads and futures, with cancels and limits.
#[test]
fn a_storm_of_all_kinds_leaves_the_lock_free_and_the_sums_right() {
    with(&[1, 2, 8], |rt| {
        let (lock, written) = (Arc::new(RwLock::new(0usize)), Count::new());
        let times = scaled_in_debug(2_000);
        let visit = |seed: usize| {
            own(&lock, move |lock| {
                let write = |value: &mut usize| {
                    *value += 1;
                    written.up();
                };
                for i in 0..times {
                    let limit = Duration::from_micros(((seed + i) % 50) as u64);
                    match (seed + i) % 5 {
                        0 => drop(lock.write().map(|mut value| write(&mut value))),
                        1 => drop(lock.write_timeout(limit).map(|mut value| write(&mut value))),
                        2 => drop(lock.read_timeout(limit)),
                        _ => drop(lock.read()),
                    }
                }
            })
        };
        let tasks: Vec<_> = (0..16).map(|i| rt.spawn(visit(i))).collect();
        let threads: Vec<_> = (0..2).map(|i| thread::spawn(visit(50 + i))).collect();
        let future = thread::spawn(own(&lock, move |lock| {
            for _ in 0..times {
                block_on(async {
                    *lock.write_async().await += 1;
                    written.up();
                    let _both = (lock.read_async().await, lock.try_read());
                });
            }
        }));
        for (i, task) in tasks.into_iter().enumerate() {
            if i % 5 == 0 {
                task.cancel("a part of the storm");
            }
            let _ = task.join();
        }
        threads.into_iter().chain([future]).for_each(|thread| thread.join().unwrap());
        assert_eq!(waiting(&lock), 0);
        assert_eq!(*lock.try_write().unwrap(), written.get());
    });
}
