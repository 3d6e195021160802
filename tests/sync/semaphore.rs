//! `Semaphore`: order, many permits at once, closing, and limits.

use crate::common::prelude::*;
use cygnet::sync::Semaphore;

/// Spawns a task that waits for permits, enters their number and gives them back.
fn asks(
    rt: &Runtime,
    semaphore: &Arc<Semaphore>,
    permits: usize,
    got: &Arc<Mutex<Vec<usize>>>,
) -> Task<Result<(), WaitError>> {
    let got = Arc::clone(got);
    waits(rt, semaphore, move |semaphore| {
        semaphore.acquire_many(permits).map(|permit| got.lock().unwrap().push(permit.permits()))
    })
}

#[test]
fn no_more_callers_are_inside_than_there_are_permits() {
    in_task(|_| {
        let (semaphore, inside) = (Semaphore::new(3), AtomicUsize::new(0));
        crowd(100, |_| {
            let _permit = semaphore.acquire().unwrap();
            assert!(inside.fetch_add(1, Ordering::Relaxed) < 3);
            yield_now().unwrap();
            inside.fetch_sub(1, Ordering::Relaxed);
        });
        assert_eq!(semaphore.available_permits(), 3);
        assert_eq!(waiting(&semaphore), 0);
    });
}

#[test]
fn a_caller_that_asks_for_many_is_not_starved() {
    with_each(|rt| {
        let semaphore = Arc::new(Semaphore::new(2));
        let got = Arc::default();
        let many = asks(rt, &semaphore, 5, &got);
        let few = asks(rt, &semaphore, 1, &got);
        assert!(semaphore.try_acquire().is_none(), "the two are kept for the first waiter");
        assert_eq!(semaphore.try_acquire_many(0).map(|none| none.permits()), Some(0));
        semaphore.add_permits(2);
        assert_eq!(semaphore.available_permits(), 4);
        semaphore.add_permits(1);
        many.join().unwrap().unwrap();
        few.join().unwrap().unwrap();
        assert_eq!(*got.lock().unwrap(), [5, 1]);
        assert_eq!(semaphore.available_permits(), 5);
    });
}

#[test]
fn a_waiter_that_leaves_the_front_lets_the_next_ones_be_served() {
    with_each(|rt| {
        let semaphore = Arc::new(Semaphore::new(2));
        let got = Arc::default();
        let many = asks(rt, &semaphore, 5, &got);
        let few = asks(rt, &semaphore, 2, &got);
        let last = asks(rt, &semaphore, 2, &got);
        many.cancel("enough");
        assert!(matches!(many.join().unwrap(), Err(WaitError::Cancelled(_))));
        few.join().unwrap().unwrap();
        last.join().unwrap().unwrap();
        // The waiter leaves by its time limit, or is a future that is dropped.
        let few = {
            let _future = begun(semaphore.acquire_async(3));
            let few = asks(rt, &semaphore, 1, &got);
            let late = semaphore.acquire_timeout(9, MOMENT);
            assert_eq!(late.err(), Some(WaitError::TimedOut));
            few
        };
        few.join().unwrap().unwrap();
        assert_eq!(semaphore.available_permits(), 2);
        assert_eq!(waiting(&semaphore), 0);
    });
}

#[test]
fn a_task_that_is_cancelled_after_its_grant_gives_the_permits_back() {
    in_task_with(&[1], |_| {
        let semaphore = Arc::new(Semaphore::new(2));
        // One permit stays free until the task that was called takes it; two are handed over.
        for (permits, free) in [(1, 1), (2, 0)] {
            let held = semaphore.acquire_many(2).unwrap();
            let granted = spawn(own(&semaphore, move |semaphore| {
                semaphore.acquire_many(permits).map(|_| ())
            }));
            common::give_way_until(|| waiting(&semaphore) == 1);
            drop(held);
            assert_eq!(waiting(&semaphore), 0, "it is called or served, and has not gone on");
            assert_eq!(semaphore.available_permits(), 2 * free);
            granted.cancel("enough");
            assert!(matches!(granted.join().unwrap(), Err(WaitError::Cancelled(_))));
            assert_eq!(semaphore.available_permits(), 2);
        }
    });
}

#[test]
fn closing_turns_away_waiters_and_later_callers() {
    with_each(|rt| {
        let semaphore = Arc::new(Semaphore::new(1));
        let got = Arc::default();
        let out = semaphore.try_acquire().unwrap();
        let tasks: Vec<_> = (1..4).map(|permits| asks(rt, &semaphore, permits, &got)).collect();
        let future = begun(semaphore.acquire_async(1));
        semaphore.close();
        semaphore.close();
        assert_eq!(join_all(tasks), vec![Err(WaitError::Closed); 3]);
        assert!(matches!(poll_once(future), Poll::Ready(Err(WaitError::Closed))));
        drop(out);
        assert!(semaphore.is_closed());
        assert_eq!(semaphore.available_permits(), 1);
        assert!(semaphore.try_acquire().is_none());
        assert_eq!(semaphore.acquire().err(), Some(WaitError::Closed));
        assert_eq!(block_on(semaphore.acquire_async(0)).err(), Some(WaitError::Closed));
        assert!(got.lock().unwrap().is_empty());
    });
}

#[test]
fn limits_are_reported_and_no_count_wraps() {
    let most = Semaphore::MAX_PERMITS;
    assert!(panic_of(|| Semaphore::new(most + 1)).contains("MAX_PERMITS"));
    let semaphore = Semaphore::new(most);
    for n in [1, most, usize::MAX] {
        assert!(panic_of(|| semaphore.add_permits(n)).contains("MAX_PERMITS"), "{n}");
    }
    assert!(panic_of(|| semaphore.acquire_many(most + 1).is_ok()).contains("MAX_PERMITS"));
    assert!(panic_of(|| drop(semaphore.acquire_async(usize::MAX))).contains("MAX_PERMITS"));
    assert_eq!(semaphore.available_permits(), most);
    let all = semaphore.acquire_many(most).unwrap();
    assert!(semaphore.try_acquire().is_none());
    assert!(semaphore.acquire_many(0).is_ok());
    drop(all);
    semaphore.acquire().unwrap().forget();
    assert_eq!(semaphore.available_permits(), most - 1);
    let none = Semaphore::new(0);
    assert_eq!(none.acquire_timeout(1, Duration::ZERO).err(), Some(WaitError::TimedOut));
    assert!(none.acquire_timeout(0, LONG).is_ok());
    assert_eq!(format!("{none:?}"), "Semaphore { available: 0, closed: false, waiting: [] }");
}

#[test]
fn permits_of_a_dropped_future_that_find_no_room_are_lost() {
    let semaphore = Semaphore::new(2);
    let out = semaphore.try_acquire_many(2).unwrap();
    let future = begun(semaphore.acquire_async(2));
    drop(out);
    semaphore.add_permits(Semaphore::MAX_PERMITS);
    // As for a permit: there is no room for them.
    drop(future);
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
}

#[test]
fn a_cancel_a_timeout_and_a_close_lose_no_permit() {
    with(&[1, 2, 8], |rt| {
        for round in 0..scaled_in_debug(2_000) as u64 {
            let semaphore = Arc::new(Semaphore::new(2));
            let tasks: Vec<_> = (0..5)
                .map(|i| {
                    rt.spawn(own(&semaphore, move |semaphore| {
                        let permit = match i {
                            0 => semaphore.acquire_timeout(2, Duration::from_micros(round % 100)),
                            _ => semaphore.acquire_many(i % 3),
                        };
                        let _ = yield_now();
                        permit.is_ok()
                    }))
                })
                .collect();
            tasks[2].cancel("races");
            if round % 4 == 0 {
                semaphore.close();
            }
            tasks.into_iter().for_each(|task| drop(task.join()));
            assert_eq!(semaphore.available_permits(), 2, "in round {round}");
            assert_eq!(waiting(&semaphore), 0);
        }
    });
}
