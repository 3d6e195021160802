//! `Mutex`: order, hand-over, panics, and the forms of its value.

use crate::common::prelude::*;
use cygnet::sync::{Mutex, RwLock};

type Order = Mutex<Vec<usize>>;

/// A mutex that lets running callers pass its waiters, and one that is handed over in order.
const KINDS: [fn(Vec<usize>) -> Order; 2] = [Mutex::new, Mutex::fifo];

/// Without barging, the waiters of either kind take turns in the order in which they came.
#[test]
fn waiters_lock_in_order_and_a_cancelled_one_leaves_the_queue() {
    with_each(|rt| {
        let several = [&[][..], &[0], &[2], &[4], &[0, 1, 2, 3, 4], &[1, 3]];
        for (cancelled, make) in several.into_iter().flat_map(|some| KINDS.map(|make| (some, make)))
        {
            let count = if cancelled.is_empty() { 20 } else { 5 };
            let order = Arc::new(make(Vec::new()));
            let held = order.lock().unwrap();
            let enters = |i| move |order: Arc<Order>| order.lock().map(|mut order| order.push(i));
            let tasks: Vec<_> = (0..count).map(|i| waits(rt, &order, enters(i))).collect();
            cancelled.iter().for_each(|i: &usize| tasks[*i].cancel("enough"));
            until_waiting(&order, count - cancelled.len());
            drop(held);
            for (i, task) in tasks.into_iter().enumerate() {
                let refused = task.join().unwrap().is_err();
                assert_eq!(refused, cancelled.contains(&i), "{i} of {cancelled:?}");
            }
            let left: Vec<_> = (0..count).filter(|i| !cancelled.contains(i)).collect();
            assert_eq!(*order.lock().unwrap(), left);
            assert_eq!(waiting(&order), 0);
        }
    });
}

#[test]
fn a_running_task_passes_the_waiters_of_a_mutex_but_not_of_a_fifo_mutex() {
    for (make, fair) in [(Mutex::new as fn(u32) -> _, false), (Mutex::fifo, true)] {
        in_task_with(&[1], |_| {
            let mutex = Arc::new(make(0));
            let held = mutex.lock().unwrap();
            let next = spawn(own(&mutex, |mutex| *mutex.lock().unwrap() += 1));
            give_way_until(|| waiting(&mutex) == 1);
            drop(held);
            // The waiter has been called, and has not run yet.
            assert_eq!((mutex.is_locked(), mutex.try_lock().is_none()), (fair, fair));
            assert_eq!(*mutex.lock().unwrap(), u32::from(fair));
            next.join().unwrap();
            assert_eq!(*mutex.lock().unwrap(), 1);
        });
    }
}

#[test]
fn a_caller_that_would_wait_for_itself_panics() {
    let said = |mutex: &Mutex<()>| {
        let _held = mutex.lock().unwrap();
        panic_of(|| drop(mutex.lock()))
    };
    let mutex = Mutex::new(());
    assert!(said(&mutex).contains("would wait for itself"));
    with(&[2], |rt| assert!(rt.block_on(|| said(&mutex)).contains("would wait for itself")));
    // A task may wait for what its thread has locked.
    with(&[2], |rt| {
        let _held = mutex.lock().unwrap();
        let late = rt.block_on(|| mutex.lock_timeout(MOMENT).err());
        assert_eq!(late, Some(WaitError::TimedOut));
    });
    assert_eq!(waiting(&mutex), 0);
}

#[test]
fn while_unwinding_a_caller_that_would_wait_for_itself_is_turned_away() {
    with_each(|rt| {
        let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
        rt.block_on(|| {
            let _held = (mutex.lock().unwrap(), lock.write().unwrap());
            for no_suspend in [false, true] {
                let all = || [mutex.lock().err(), lock.read().err(), lock.write().err()];
                let unwinds = || while_unwinding(all);
                let refused = if no_suspend { cygnet::no_suspend(unwinds) } else { unwinds() };
                for refused in refused {
                    assert_eq!(*refused.expect("it is locked").reason(), Reason::Unwinding);
                }
            }
        });
        assert!(!mutex.is_locked() && lock.try_write().is_some());
    });
}

#[test]
fn a_cancelled_task_may_lock_without_waiting() {
    with_each(|rt| {
        let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
        rt.block_on(|| {
            cygnet::cancel_handle().cancel("enough");
            assert!(mutex.try_lock().is_some() && lock.try_write().is_some());
        });
    });
}

#[test]
fn debug_output_names_the_holder_and_the_waiters() {
    with(&[1], |rt| {
        let mutex = Arc::new(Mutex::new("value"));
        assert_eq!(format!("{mutex:?}"), r#"Mutex { value: "value", waiting: [] }"#);
        let waits = rt.block_on(|| {
            let _held = mutex.lock().unwrap();
            let waits = spawn(own(&mutex, |mutex| drop(mutex.lock())));
            give_way_until(|| waiting(&mutex) == 1);
            let said = format!("{mutex:?}");
            let me = format!("locked_by: task {}", cygnet::current_id().unwrap());
            assert!(said.contains(&me) && said.contains("mutex.rs:"), "{said}");
            waits
        });
        waits.join().unwrap();
        let _held = mutex.lock().unwrap();
        assert!(format!("{mutex:?}").contains("locked_by: thread"));
        assert_eq!(format!("{:?}", Mutex::from(1).try_lock().unwrap()), "1");
    });
}

#[test]
fn a_forgotten_future_keeps_its_place_in_the_queue() {
    in_own_process_leaking(|| {
        // On the heap, as a forgotten pin must be: its memory is leaked with it.
        let mutex: &'static Mutex<u32> = Box::leak(Box::new(Mutex::fifo(0)));
        let held = mutex.try_lock();
        let waits = begun(mutex.lock_async());
        std::mem::forget(waits);
        drop(held);
        assert!(mutex.is_locked(), "it was granted to a future that is not polled");
        assert!(mutex.try_lock().is_none());
    });
}

#[test]
fn a_guard_may_be_held_over_waits_and_a_panic_unlocks() {
    with_each_and_many(|rt| {
        let mutex = Mutex::new(0);
        rt.block_on(|| {
            crowd(10, |_| {
                let mut value = mutex.lock().unwrap();
                let before = *value;
                yield_now().unwrap();
                *value = before + 1;
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
