//! `Mutex`: order, hand-over, and each way of not getting it.

use crate::common::rerun::alone_and_leaking;
use crate::common::{
    Drops, give_way_until, panic_of, runtime, with, with_each, with_each_and_many, within,
};
use crate::{LONG, block_on, until_waiting, waiting};
use cygnet::sync::{Mutex, RwLock, WaitError};
use cygnet::{Reason, Runtime, Task, cancel_handle, scope, spawn, yield_now};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Order = Mutex<Vec<usize>>;

/// One that runners may take past those who wait, and one that is handed over in the order of coming.
const KINDS: [fn(Vec<usize>) -> Order; 2] = [Mutex::new, Mutex::fifo];

/// Tasks that come one after the other, each of which enters its number when it has the mutex.
fn queue_up(rt: &Runtime, order: &Arc<Order>, count: usize) -> Vec<Task<bool>> {
    (0..count)
        .map(|i| {
            let before = waiting(&**order);
            let mine = Arc::clone(order);
            let task = rt.spawn(move || match mine.lock() {
                Ok(mut order) => {
                    order.push(i);
                    true
                }
                Err(_) => false,
            });
            until_waiting(&**order, before + 1);
            task
        })
        .collect()
}

/// Those who wait take turns in the order in which they came, if nobody comes in between: with a fair one in any case.
#[test]
fn who_waits_has_it_in_the_order_of_coming() {
    with_each(|rt| {
        for make in KINDS {
            let order = Arc::new(make(Vec::new()));
            let held = order.lock().unwrap();
            let tasks = queue_up(rt, &order, 20);
            drop(held);
            tasks.into_iter().for_each(|task| assert!(task.join().unwrap()));
            assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
        }
    });
}

#[test]
fn who_is_cancelled_leaves_the_queue_and_the_others_keep_their_order() {
    with_each(|rt| {
        for (cancelled, make) in [vec![0], vec![2], vec![4], vec![0, 1, 2, 3, 4], vec![1, 3]]
            .into_iter()
            .flat_map(|cancelled| KINDS.map(|make| (cancelled.clone(), make)))
        {
            let order = Arc::new(make(Vec::new()));
            let held = order.lock().unwrap();
            let tasks = queue_up(rt, &order, 5);
            for &i in &cancelled {
                tasks[i].cancel("enough");
            }
            until_waiting(&*order, 5 - cancelled.len());
            drop(held);
            for (i, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.join().unwrap(), !cancelled.contains(&i), "{i} of {cancelled:?}");
            }
            let left: Vec<_> = (0..5).filter(|i| !cancelled.contains(i)).collect();
            assert_eq!(*order.lock().unwrap(), left);
            assert_eq!(waiting(&*order), 0);
        }
    });
}

#[test]
fn one_that_is_cancelled_after_it_was_told_passes_it_on() {
    within(|| {
        let rt = runtime(1);
        rt.block_on(|| {
            for make in KINDS {
                let order = Arc::new(make(Vec::new()));
                let held = order.lock().unwrap();
                let tasks: Vec<_> = (0..3)
                    .map(|i| {
                        let order = Arc::clone(&order);
                        spawn(move || order.lock().map(|mut order| order.push(i)).is_ok())
                    })
                    .collect();
                give_way_until(|| waiting(&*order) == 3);
                // On this worker nobody else runs before the next wait.
                drop(held);
                tasks[0].cancel("too late to leave the queue");
                let got: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
                assert_eq!(got, [false, true, true]);
                assert_eq!(order.lock().unwrap().len(), 2);
            }
        });
    });
}

#[test]
fn whoever_runs_takes_it_past_those_who_wait() {
    within(|| {
        let rt = runtime(1);
        rt.block_on(|| {
            let mutex = Arc::new(Mutex::new(0));
            let held = mutex.lock().unwrap();
            let next = {
                let mutex = Arc::clone(&mutex);
                spawn(move || *mutex.lock().unwrap() += 1)
            };
            give_way_until(|| waiting(&*mutex) == 1);
            drop(held);
            // The other one has been called, and has not run yet.
            assert!(!mutex.is_locked());
            assert_eq!(*mutex.try_lock().expect("nobody holds it"), 0);
            assert_eq!(*mutex.lock().unwrap(), 0);
            next.join().unwrap();
            assert_eq!(*mutex.lock().unwrap(), 1);
        });
    });
}

#[test]
fn nobody_comes_in_between_an_unlock_of_a_fair_one_and_the_one_it_is_for() {
    within(|| {
        let rt = runtime(1);
        rt.block_on(|| {
            let mutex = Arc::new(Mutex::fifo(0));
            let held = mutex.lock().unwrap();
            let next = {
                let mutex = Arc::clone(&mutex);
                spawn(move || *mutex.lock().unwrap() += 1)
            };
            give_way_until(|| waiting(&*mutex) == 1);
            drop(held);
            assert!(mutex.try_lock().is_none(), "it is the next one's, which has not run yet");
            assert_eq!(*mutex.lock().unwrap(), 1);
            next.join().unwrap();
        });
    });
}

#[test]
fn a_cancelled_task_is_turned_away_also_from_a_free_one() {
    with_each(|rt| {
        rt.block_on(|| {
            let mutex = Arc::new(Mutex::new(()));
            let mine = Arc::clone(&mutex);
            let task = spawn(move || {
                cancel_handle().cancel("enough");
                let refused = mine.lock().unwrap_err();
                assert_eq!(
                    mine.lock_timeout(LONG).err(),
                    Some(WaitError::Cancelled(refused.clone()))
                );
                assert!(mine.try_lock().is_some());
                cygnet::shield(LONG, || mine.lock().map(|_| ()).unwrap()).unwrap();
                refused
            });
            assert_eq!(*task.join().unwrap().reason(), Reason::Explicit("enough".into()));
            assert!(!mutex.is_locked());
        });
    });
}

#[test]
fn whoever_would_wait_for_itself_panics_and_says_so() {
    let said = |mutex: &Mutex<()>| {
        let _held = mutex.lock().unwrap();
        panic_of(|| drop(mutex.lock()))
    };
    let mutex = Mutex::new(());
    assert!(said(&mutex).contains("would wait for itself"));
    with(&[2], |rt| assert!(rt.block_on(|| said(&mutex)).contains("would wait for itself")));
    // That one has locked it says nothing of another.
    with(&[2], |rt| {
        let _held = mutex.lock().unwrap();
        let late = rt.block_on(|| mutex.lock_timeout(Duration::from_millis(1)).err());
        assert_eq!(late, Some(WaitError::TimedOut));
    });
    assert_eq!(waiting(&mutex), 0);
}

#[test]
fn time_that_is_up_ends_the_wait_of_tasks_and_threads_and_leaves_nothing() {
    let refused = |mutex: &Mutex<()>| {
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(3)] {
            assert_eq!(mutex.lock_timeout(time).err(), Some(WaitError::TimedOut));
        }
    };
    let mutex = Mutex::new(());
    with_each(|rt| {
        let held = block_on(mutex.lock_async());
        refused(&mutex);
        rt.block_on(|| refused(&mutex));
        assert_eq!(waiting(&mutex), 0);
        drop(held);
        // It may have any time that is free.
        for time in [Duration::ZERO, LONG, Duration::MAX] {
            drop(mutex.lock_timeout(time).unwrap());
            rt.block_on(|| drop(mutex.lock_timeout(time).unwrap()));
        }
    });
}

#[test]
fn a_limit_that_is_not_reached_is_not_noticed() {
    with_each(|rt| {
        let mutex = Arc::new(Mutex::new(0));
        for time in [LONG, Duration::MAX] {
            let held = block_on(mutex.lock_async());
            let task = {
                let mutex = Arc::clone(&mutex);
                rt.spawn(move || mutex.lock_timeout(time).map(|mut value| *value += 1))
            };
            let thread = crate::common::thread::spawn({
                let mutex = Arc::clone(&mutex);
                move || mutex.lock_timeout(time).map(|mut value| *value += 1)
            });
            until_waiting(&*mutex, 2);
            drop(held);
            assert_eq!(task.join().unwrap(), Ok(()));
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
        assert_eq!(rt.metrics().timers(), 0);
    });
}

#[test]
fn a_deadline_around_it_ends_the_wait_too() {
    with_each(|rt| {
        let mutex = Mutex::new(());
        let held = mutex.lock().unwrap();
        rt.block_on(|| {
            let late = cygnet::timeout(Duration::from_millis(2), || mutex.lock().map(|_| ()));
            let refused = late.unwrap_err().into_inner().unwrap_err();
            assert_eq!(*refused.reason(), Reason::Deadline);
        });
        drop(held);
        assert_eq!(waiting(&mutex), 0);
    });
}

#[test]
fn a_future_leaves_nothing_behind_wherever_it_is_dropped() {
    for make in [Mutex::new, Mutex::fifo] {
        let mutex = make(0);
        a_future_leaves_nothing_behind(&mutex);
    }
}

fn a_future_leaves_nothing_behind(mutex: &Mutex<u32>) {
    let mut cx = Context::from_waker(Waker::noop());
    drop(mutex.lock_async());
    // Ready at once, and the guard dropped.
    assert!(pin!(mutex.lock_async()).poll(&mut cx).is_ready());
    assert!(!mutex.is_locked());
    // In the queue.
    let held = mutex.try_lock();
    {
        let mut waits = pin!(mutex.lock_async());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert_eq!(waiting(mutex), 1);
    }
    assert_eq!(waiting(mutex), 0);
    // Granted, and not polled any more: it goes to the next.
    let mut second = Box::pin(mutex.lock_async());
    let mut third = Box::pin(mutex.lock_async());
    assert!(second.as_mut().poll(&mut cx).is_pending());
    assert!(third.as_mut().poll(&mut cx).is_pending());
    drop(held);
    assert!(third.as_mut().poll(&mut cx).is_pending());
    drop(second);
    let Poll::Ready(guard) = third.as_mut().poll(&mut cx) else { panic!("it was passed on") };
    let again = panic_of(|| third.as_mut().poll(&mut cx).is_ready());
    assert!(again.contains("after its end"), "{again}");
    drop(guard);
    assert!(!mutex.is_locked());
}

#[test]
fn a_forgotten_future_keeps_its_place_and_is_never_touched_when_it_is_gone() {
    crate::common::real!("a process of its own");
    alone_and_leaking(
        "mutex::a_forgotten_future_keeps_its_place_and_is_never_touched_when_it_is_gone",
        || {
            // On the heap, as a forgotten pin must be: its memory is leaked with it.
            let mutex: &'static Mutex<u32> = Box::leak(Box::new(Mutex::fifo(0)));
            let mut cx = Context::from_waker(Waker::noop());
            let held = mutex.try_lock();
            let mut waits = Box::pin(mutex.lock_async());
            assert!(waits.as_mut().poll(&mut cx).is_pending());
            std::mem::forget(waits);
            drop(held);
            assert!(mutex.is_locked(), "it was granted to what nobody polls");
            assert!(mutex.try_lock().is_none());
        },
    );
}

#[test]
fn a_guard_may_be_held_over_waits_and_a_panic_unlocks() {
    with_each_and_many(|rt| {
        let mutex = Mutex::new(0);
        rt.block_on(|| {
            scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| {
                        let mut value = mutex.lock().unwrap();
                        let before = *value;
                        yield_now().unwrap();
                        *value = before + 1;
                    });
                }
            });
            assert_eq!(*mutex.lock().unwrap(), 10);
        });
        let failed = panic_of(|| {
            rt.block_on(|| {
                let _held = mutex.lock().unwrap();
                panic!("with the mutex locked");
            })
        });
        assert_eq!(failed, "with the mutex locked");
        assert!(!mutex.is_locked());
    });
}

#[test]
fn where_nothing_may_wait_it_can_be_locked_if_it_is_free() {
    struct Locks<'a>(&'a Mutex<u32>, bool);
    impl Drop for Locks<'_> {
        fn drop(&mut self) {
            match self.0.lock() {
                Ok(mut value) if self.1 => *value += 1,
                Err(refused) if !self.1 => assert_eq!(*refused.reason(), Reason::Unwinding),
                other => panic!("{other:?}"),
            }
        }
    }
    with(&[1, 2], |rt| {
        let mutex = Mutex::new(0);
        let elsewhere = || block_on(mutex.lock_async());
        rt.block_on(|| {
            assert!(cygnet::no_suspend(|| mutex.lock().is_ok()));
            let held = elsewhere();
            let refused = panic_of(|| cygnet::no_suspend(|| drop(mutex.lock())));
            assert!(refused.contains("no_suspend"), "{refused}");
            assert_eq!(waiting(&mutex), 0);
            drop(held);
            for free in [true, false] {
                let held = (!free).then(elsewhere);
                let unwound = panic_of(|| {
                    let _locks = Locks(&mutex, free);
                    panic!("unwinds");
                });
                assert_eq!(unwound, "unwinds");
                drop(held);
            }
        });
        assert_eq!(mutex.into_inner(), 1);
    });
}

#[test]
fn while_unwinding_whoever_would_wait_for_itself_is_turned_away() {
    struct Locks<'a>(&'a Mutex<()>, &'a RwLock<()>);
    impl Drop for Locks<'_> {
        fn drop(&mut self) {
            for refused in [self.0.lock().err(), self.1.read().err(), self.1.write().err()] {
                assert_eq!(*refused.expect("it is locked").reason(), Reason::Unwinding);
            }
        }
    }
    with_each(|rt| {
        let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
        rt.block_on(|| {
            let _held = (mutex.lock().unwrap(), lock.write().unwrap());
            for no_suspend in [false, true] {
                let unwinds = || {
                    let _locks = Locks(&mutex, &lock);
                    panic!("unwinds");
                };
                let unwound = panic_of(|| match no_suspend {
                    true => cygnet::no_suspend(unwinds),
                    false => unwinds(),
                });
                assert_eq!(unwound, "unwinds");
            }
        });
        assert!(!mutex.is_locked() && lock.try_write().is_some());
    });
}

#[test]
fn tasks_of_two_runtimes_and_threads_share_it() {
    within(|| {
        let (one, other) = (runtime(2), runtime(1));
        let mutex = Arc::new(Mutex::new(0));
        let add = |mutex: &Mutex<i32>| (0..1_000).for_each(|_| *mutex.lock().unwrap() += 1);
        let tasks: Vec<_> = [&one, &other, &one, &other]
            .into_iter()
            .map(|rt| {
                let mutex = Arc::clone(&mutex);
                rt.spawn(move || add(&mutex))
            })
            .collect();
        add(&mutex);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(*mutex.lock().unwrap(), 5_000);
    });
}

#[test]
fn it_says_who_has_locked_it_and_where_others_wait() {
    with(&[1], |rt| {
        let mutex = Arc::new(Mutex::new("value"));
        assert_eq!(format!("{mutex:?}"), r#"Mutex { value: "value", waiting: [] }"#);
        let mine = Arc::clone(&mutex);
        let id = rt.block_on(|| {
            let _held = mutex.lock().unwrap();
            let waits = spawn(move || drop(mine.lock()));
            give_way_until(|| waiting(&*mutex) == 1);
            let said = format!("{mutex:?}");
            let me = format!("locked_by: task {}", cygnet::current_id().unwrap());
            assert!(said.contains(&me), "{said}");
            assert!(said.contains("mutex.rs:"), "{said}");
            waits
        });
        id.join().unwrap();
        let _held = mutex.lock().unwrap();
        assert!(format!("{mutex:?}").contains("locked_by: thread"));
        assert_eq!(format!("{:?}", Mutex::from(1).try_lock().unwrap()), "1");
    });
}

#[test]
fn the_value_is_dropped_once_and_can_be_taken_out() {
    let drops = Drops::default();
    drop(Mutex::new(drops.guard()));
    assert_eq!(drops.count(), 1);
    let mut mutex = Mutex::new(vec![1]);
    mutex.get_mut().push(2);
    assert_eq!(mutex.into_inner(), [1, 2]);
    let unsized_one: Box<Mutex<[i32]>> = Box::new(Mutex::new([1, 2, 3]));
    unsized_one.lock().unwrap()[0] = 7;
    assert_eq!(*unsized_one.lock().unwrap(), [7, 2, 3]);
}

/// Cancels that come at any moment of a wait and of a hand-over: each task has it or is refused, and at the end it
/// is free, with nobody in the queue.
#[test]
fn a_cancel_that_races_the_hand_over_ends_each_wait_in_one_way() {
    with(&[1, 2, 3, 8], |rt| {
        let got = Arc::new(AtomicUsize::new(0));
        let mutex = Arc::new(Mutex::new(0usize));
        let rounds = crate::common::scaled_in_debug(2_000);
        let mut refused = 0;
        for round in 0..rounds {
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let (mutex, got) = (Arc::clone(&mutex), Arc::clone(&got));
                    rt.spawn(move || match mutex.lock() {
                        Ok(mut value) => {
                            *value += 1;
                            got.fetch_add(1, Ordering::Relaxed);
                            true
                        }
                        Err(_) => false,
                    })
                })
                .collect();
            tasks[round % 4].cancel("races");
            for (i, task) in tasks.into_iter().enumerate() {
                match task.join() {
                    Ok(true) => {}
                    Ok(false) => refused += usize::from(i == round % 4),
                    Err(error) => assert_eq!(i, round % 4, "{error}"),
                }
            }
        }
        assert!(!mutex.is_locked());
        assert_eq!(waiting(&*mutex), 0);
        assert_eq!(*mutex.lock().unwrap(), got.load(Ordering::Relaxed));
        assert!(refused <= rounds);
    });
}
