//! `Condvar`: which waiters a notification reaches, and that the mutex is locked again.

use crate::common::prelude::*;
use cygnet::sync::{Condvar, Mutex};

type Pair = Arc<(Mutex<Vec<usize>>, Condvar)>;

/// Spawns a task that waits to be notified once, and then enters its number.
fn waits(rt: &Runtime, pair: &Pair, number: usize) -> Task<bool> {
    let body = own(pair, move |pair| {
        let mut order = pair.0.lock().unwrap();
        let notified = pair.1.wait(&mut order).is_ok();
        order.push(if notified { number } else { 100 + number });
        notified
    });
    common::queued(rt, &pair.1, body)
}

#[test]
fn a_notification_goes_to_the_task_that_has_waited_longest() {
    with_each(|rt| {
        let pair = Pair::default();
        assert!(!pair.1.notify_one());
        let tasks: Vec<_> = (0..4).map(|i| waits(rt, &pair, i)).collect();
        for (i, task) in tasks.into_iter().enumerate() {
            assert!(pair.1.notify_one());
            assert!(task.join().unwrap());
            assert_eq!(*pair.0.lock().unwrap().last().unwrap(), i);
        }
        assert_eq!(waiting(&pair.1), 0);
    });
}

#[test]
fn notify_all_reaches_all_waiters_and_no_later_one() {
    with_each(|rt| {
        let pair = Pair::default();
        let tasks: Vec<_> = (0..70).map(|i| waits(rt, &pair, i)).collect();
        pair.1.notify_all();
        let late = waits(rt, &pair, 70);
        tasks.into_iter().for_each(|task| assert!(task.join().unwrap()));
        assert_eq!(waiting(&pair.1), 1);
        pair.1.notify_all();
        assert!(late.join().unwrap());
        let mut order = pair.0.lock().unwrap();
        order.sort_unstable();
        assert_eq!(*order, (0..=70).collect::<Vec<_>>());
    });
}

#[test]
fn a_wait_that_is_cancelled_or_late_has_the_mutex_again() {
    with_each(|rt| {
        let pair = Pair::default();
        let tasks: Vec<_> = (0..3).map(|i| waits(rt, &pair, i)).collect();
        tasks[1].cancel("enough");
        until_waiting(&pair.1, 2);
        let mut held = pair.0.lock().unwrap();
        assert_eq!(pair.1.wait_timeout(&mut held, MOMENT), Err(WaitError::TimedOut));
        held.push(7);
        assert!(pair.0.is_locked());
        drop(held);
        pair.1.notify_all();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.join().unwrap(), i != 1);
        }
        let mut order = pair.0.lock().unwrap();
        order.sort_unstable();
        assert_eq!(*order, [0, 2, 7, 101]);
    });
}

#[test]
fn a_dropped_future_has_unlocked_the_mutex_and_passes_its_notification_on() {
    let pair = Pair::default();
    let wait = || {
        let mut future = Box::pin(pair.1.wait_async(block_on(pair.0.lock_async())));
        assert!(pair.0.is_locked(), "it has not been polled");
        assert!(poll_once(future.as_mut()).is_pending() && !pair.0.is_locked());
        future
    };
    let [mut notified, next] = [(); 2].map(|()| wait());
    let held = block_on(pair.0.lock_async());
    assert!(pair.1.notify_one());
    // It waits for the mutex now.
    assert!(poll_once(notified.as_mut()).is_pending());
    assert_eq!(waiting(&pair.1), 1);
    drop(notified);
    drop(held);
    let Poll::Ready(guard) = poll_once(next) else { panic!("the notification was passed on") };
    assert!(pair.0.is_locked());
    drop(guard);
    assert_eq!((waiting(&pair.1), pair.0.is_locked()), (0, false));
}

#[test]
fn while_unwinding_a_task_does_not_give_the_mutex_away() {
    in_task_with(&[1], |_| {
        let pair = &Pair::default();
        let mut guard = pair.0.lock().unwrap();
        let next = begun(pair.0.lock_async());
        while_unwinding(move || {
            let refused = pair.1.wait(&mut guard).unwrap_err();
            assert_eq!(*refused.reason(), Reason::Unwinding);
            guard.push(1);
        });
        let Poll::Ready(order) = poll_once(next) else { panic!("it is free") };
        assert_eq!(*order, [1]);
    });
}

#[test]
fn a_wait_that_is_refused_by_no_suspend_keeps_the_mutex_locked() {
    in_task_with(&[1], |_| {
        let pair = Pair::default();
        let mut held = pair.0.lock().unwrap();
        panics_with("no_suspend", || cygnet::no_suspend(|| pair.1.wait(&mut held).is_ok()));
        assert!(pair.0.is_locked());
        held.push(1);
        drop(held);
        assert!(!pair.0.is_locked());
        assert_eq!(format!("{:?}", pair.1), "Condvar { waiting: [] }");
    });
}

/// A bounded queue between tasks and threads: each item comes out once.
#[test]
fn a_queue_with_two_conditions_loses_nothing() {
    with_each(|rt| {
        struct Queue {
            items: Mutex<Vec<usize>>,
            room: Condvar,
            some: Condvar,
        }
        let queue =
            Arc::new(Queue { items: Mutex::default(), room: Condvar::new(), some: Condvar::new() });
        let each = scaled_in_debug(2_000);
        let put = |first: usize| {
            own(&queue, move |queue| {
                for i in 0..each {
                    let mut items = queue.items.lock().unwrap();
                    queue.room.wait_while(&mut items, |items| items.len() >= 4).unwrap();
                    items.push(first + i);
                    queue.some.notify_one();
                }
                0
            })
        };
        let take = || {
            own(&queue, move |queue| {
                let one = |_| {
                    let mut items = queue.items.lock().unwrap();
                    queue.some.wait_while(&mut items, |items| items.is_empty()).unwrap();
                    let item = items.remove(0);
                    queue.room.notify_one();
                    item
                };
                (0..each).map(one).sum()
            })
        };
        let tasks = [rt.spawn(put(0)), rt.spawn(take()), rt.spawn(put(each)), rt.spawn(take())];
        let thread = common::thread::spawn(put(2 * each));
        let sum = take()() + join_all(tasks).into_iter().sum::<usize>();
        thread.join().unwrap();
        assert_eq!(sum, (0..3 * each).sum());
        assert!(queue.items.lock().unwrap().is_empty());
    });
}
