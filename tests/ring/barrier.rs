//! `SequenceBarrier`: published, finished and closed, with waits of each kind.

use crate::common::prelude::*;
use crate::{STRATEGIES, with_each_strategy};
use cygnet::ring::sequence::{SequenceBarrier, SequenceBarrierGroup, WaitStrategy};

#[test]
fn a_wait_returns_the_last_published_number() {
    with_each_strategy(|rt, strategy| {
        let barrier = SequenceBarrier::<u64>::new().with_strategy(strategy);
        rt.block_on(|| {
            let waits = |target: u64| {
                spawn(own(&barrier, move |barrier| barrier.wait_until_published(target)))
            };
            let tasks = [waits(0), waits(1), waits(4)];
            assert_eq!(barrier.last_published(), u64::MAX);
            assert!(barrier.publish(0));
            let [first, second, third] = tasks;
            assert_eq!(first.join().unwrap(), Ok(0));
            assert!(barrier.publish(3));
            assert_eq!(second.join().unwrap(), Ok(3));
            assert!(barrier.publish(4));
            assert_eq!(third.join().unwrap(), Ok(4));
            assert_eq!(barrier.wait_until_published(2), Ok(4));
        });
    });
}

/// Q7.
#[test]
fn a_closed_barrier_wakes_all_waiters_and_keeps_what_was_published() {
    with_each(|rt| {
        let barrier = SequenceBarrier::<u8>::new();
        barrier.publish(3);
        let tasks = [4, 9, 60]
            .map(|target| waits(rt, &barrier, move |barrier| barrier.wait_until_published(target)));
        barrier.close();
        barrier.close();
        assert_eq!(join_all(tasks), vec![Err(WaitError::Closed); 3]);
        assert!(barrier.is_closed() && barrier.is_finished());
        assert_eq!(barrier.wait_until_published(3), Ok(3));
        assert_eq!(barrier.wait_until_published(4), Err(WaitError::Closed));
        assert_eq!(poll_once(barrier.wait_async(2)), Poll::Ready(Ok(3)));
        assert_eq!(poll_once(barrier.wait_async(4)), Poll::Ready(Err(WaitError::Closed)));
    });
}

/// Q8.
#[test]
fn numbers_published_before_the_finish_stand() {
    with_each(|rt| {
        let barrier = SequenceBarrier::<u8>::new();
        let task = rt.spawn(own(&barrier, |barrier| {
            [2, 3].map(|target| barrier.wait_until_published(target))
        }));
        barrier.publish(2);
        barrier.finish();
        assert_eq!(task.join().unwrap(), [Ok(2), Err(WaitError::Closed)]);
        assert!(barrier.is_finished() && !barrier.is_closed());
    });
}

#[test]
fn a_cancelled_wait_leaves_the_barrier_and_all_others_alone() {
    for strategy in STRATEGIES {
        in_task(|_| {
            let barrier = SequenceBarrier::<u8>::new().with_strategy(strategy);
            let waits =
                |target| spawn(own(&barrier, move |barrier| barrier.wait_until_published(target)));
            // The waiter for the nearest target leaves, which the publisher looks for.
            let (nearest, other) = (waits(1), waits(2));
            if strategy == WaitStrategy::Park {
                give_way_until(|| waiting(&barrier) == 2);
            }
            nearest.cancel("enough");
            // A task that spins may not have begun.
            let cut = nearest.join();
            assert!(matches!(cut, Ok(Err(WaitError::Cancelled(_))) | Err(_)), "{cut:?}");
            barrier.publish(1);
            assert!(!barrier.is_closed());
            barrier.publish(2);
            assert_eq!(other.join().unwrap(), Ok(2));
            assert_eq!(waiting(&barrier), 0);
        });
    }
}

#[test]
fn a_wait_ends_when_its_time_is_over() {
    within_each(STRATEGIES, |strategy| {
        let barrier = SequenceBarrier::<u16>::new().with_strategy(strategy);
        assert_eq!(barrier.wait_timeout(0, MOMENT), Err(WaitError::TimedOut));
        assert_eq!(waiting(&barrier), 0);
        barrier.publish(0);
        assert_eq!(barrier.wait_timeout(0, LONG), Ok(0));
    });
}

/// Q32.
#[test]
fn a_terminal_barrier_is_closed_by_a_wait_that_is_cut_short() {
    with_each(|rt| {
        let terminal = || SequenceBarrier::<u8>::new().terminal();
        let barrier = terminal();
        let wait = |barrier: SequenceBarrier<u8>| barrier.wait_until_published(7);
        let other = waits(rt, &barrier, wait);
        assert_eq!(barrier.wait_timeout(3, MOMENT), Err(WaitError::TimedOut));
        assert_eq!(other.join().unwrap(), Err(WaitError::Closed));

        let barrier = terminal();
        let task = waits(rt, &barrier, wait);
        task.cancel("enough");
        assert!(task.join().unwrap().is_err());
        assert!(barrier.is_closed());

        let barrier = terminal();
        assert!(poll_once(barrier.wait_async(0)).is_pending());
        assert!(barrier.is_closed());
        let barrier = terminal();
        drop(barrier.wait_async(0));
        assert!(!barrier.is_closed(), "it had not begun");
    });
}

/// Q5.
#[test]
fn a_published_number_is_never_taken_back() {
    let barrier = SequenceBarrier::<u8>::starting_after(250);
    assert!(!barrier.publish(250));
    assert!(!barrier.publish(200));
    assert!(barrier.publish(3));
    // A number more than half of all numbers ahead counts as an earlier one.
    assert!(!barrier.publish(140));
    assert_eq!(barrier.last_published(), 3);
    assert_eq!(barrier.wait_until_published(200), Ok(3), "it was published long ago");
}

#[test]
fn options_of_a_barrier_are_set_before_it_is_used() {
    let barrier = SequenceBarrier::<u8>::new();
    let _other = barrier.clone();
    let said = panic_of(|| barrier.terminal());
    assert_eq!(said, "cygnet: set the options of a barrier before it is cloned or used in a group");
    let barrier = SequenceBarrier::<u8>::new();
    let _group = SequenceBarrierGroup::from(&barrier);
    panic_of(|| barrier.with_strategy(WaitStrategy::Spin));
}

#[test]
fn numbers_wrap_around_many_times_while_waiters_come_and_go() {
    in_task(|_| {
        let [barrier, back] =
            [(); 2].map(|()| SequenceBarrier::<u8>::new().with_strategy(WaitStrategy::Park));
        let rounds = scaled(2_000) as u32;
        scope(|s| {
            s.spawn(|| {
                for round in 0..rounds {
                    assert_eq!(barrier.wait_until_published(round as u8), Ok(round as u8));
                    back.publish(round as u8);
                }
            });
            for round in 0..rounds {
                let target = round as u8;
                let waits = |target| {
                    s.spawn(own(&barrier, move |barrier| barrier.wait_until_published(target)))
                };
                let cancelled = waits(target);
                if round % 2 == 0 {
                    cygnet::yield_now().unwrap();
                }
                cancelled.cancel("half of them");
                let gone = waits(target.wrapping_add(40));
                gone.cancel("too");
                barrier.publish(target);
                back.wait_until_published(target).unwrap();
                let _ = cancelled.join();
                let _ = gone.join();
            }
        });
        assert_eq!(waiting(&barrier), 0);
    });
}

#[test]
fn a_waiter_for_a_number_half_of_all_ahead_does_not_delay_others() {
    let barrier = SequenceBarrier::<u8>::new().with_strategy(WaitStrategy::Park);
    let group = SequenceBarrierGroup::from(&barrier);
    for in_group in [false, true] {
        let wait = |target| -> Pin<Box<dyn Future<Output = _>>> {
            if in_group {
                Box::pin(group.wait_async(target))
            } else {
                Box::pin(barrier.wait_async(target))
            }
        };
        let last = barrier.last_published();
        let mut half = wait(last.wrapping_add(128));
        let mut near = wait(last.wrapping_add(5));
        assert!(poll_once(half.as_mut()).is_pending() && poll_once(near.as_mut()).is_pending());
        // A waiter that leaves makes the barrier look up the nearest target again.
        assert!(poll_once(wait(last.wrapping_add(3))).is_pending());
        barrier.publish(last.wrapping_add(1));
        barrier.publish(last.wrapping_add(5));
        assert!(poll_once(near).is_ready());
        barrier.publish(last.wrapping_add(128));
        assert!(poll_once(half).is_ready());
    }
}

#[test]
fn a_wait_in_a_thread_hook_panics_with_each_strategy() {
    for strategy in STRATEGIES {
        within(|| {
            let barrier = SequenceBarrier::<u64>::new().with_strategy(strategy);
            barrier.publish(0);
            let (said, heard) = mpsc::channel();
            let hook = move || {
                assert_eq!(barrier.wait_until_published(0), Ok(0));
                let _ = said.send(panic_of(|| barrier.wait_timeout(1, Duration::from_secs(1))));
            };
            let rt = cygnet::Runtime::builder()
                .workers(1)
                .on_thread_start(move |_| hook())
                .build()
                .unwrap();
            let said = heard.recv().unwrap();
            assert!(said.contains("outside of its tasks"), "{said}");
            drop(rt);
        });
    }
}

#[test]
fn a_task_whose_waits_keep_timing_out_lets_its_worker_run_others() {
    for strategy in STRATEGIES {
        for time in [Duration::ZERO, Duration::from_micros(20)] {
            in_task(|_| {
                let barrier = SequenceBarrier::<u64>::new().with_strategy(strategy);
                let started = AtomicUsize::new(0);
                scope(|s| {
                    // Each task has started, so that no other worker takes it.
                    for number in 0..8 {
                        let (barrier, started) = (&barrier, &started);
                        s.spawn(move || {
                            started.fetch_add(1, Ordering::Relaxed);
                            give_way_until(|| {
                                let all = started.load(Ordering::Relaxed) == 8;
                                all && barrier.last_published() == u64::wrapping_sub(number, 1)
                            });
                            barrier.publish(number);
                        });
                    }
                    give_way_until(|| started.load(Ordering::Relaxed) == 8);
                    while barrier.wait_timeout(7, time).is_err() {}
                });
            });
        }
    }
}
