//! `Condvar`: whom a notification reaches, and that the mutex is locked again.

use crate::common::{panic_of, scaled_in_debug, with, with_each};
use crate::{block_on, until_waiting, waiting};
use cygnet::sync::{Condvar, Mutex, WaitError};
use cygnet::{Runtime, Task, spawn, yield_now};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Pair = Arc<(Mutex<Vec<usize>>, Condvar)>;

/// One that waits to be notified once, and then enters its number.
fn waits(rt: &Runtime, pair: &Pair, number: usize) -> Task<bool> {
    let before = waiting(&pair.1);
    let mine = Arc::clone(pair);
    let task = rt.spawn(move || {
        let mut order = mine.0.lock().unwrap();
        let notified = mine.1.wait(&mut order).is_ok();
        order.push(if notified { number } else { 100 + number });
        notified
    });
    until_waiting(&pair.1, before + 1);
    task
}

#[test]
fn a_notification_goes_to_the_one_that_has_waited_longest() {
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
fn all_who_wait_are_notified_and_nobody_who_comes_later() {
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
fn a_cancelled_or_late_wait_has_the_mutex_again_and_leaves_the_queue() {
    with_each(|rt| {
        let pair = Pair::default();
        let tasks: Vec<_> = (0..3).map(|i| waits(rt, &pair, i)).collect();
        tasks[1].cancel("enough");
        until_waiting(&pair.1, 2);
        let mut held = pair.0.lock().unwrap();
        let late = pair.1.wait_timeout(&mut held, Duration::from_millis(1));
        assert_eq!(late, Err(WaitError::TimedOut));
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
fn one_that_is_cancelled_after_it_was_notified_passes_that_on() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let pair = Pair::default();
            let tasks: Vec<_> = (0..2)
                .map(|_| {
                    let mine = Arc::clone(&pair);
                    spawn(move || mine.1.wait(&mut mine.0.lock().unwrap()).is_ok())
                })
                .collect();
            while waiting(&pair.1) < 2 {
                yield_now().unwrap();
            }
            assert!(pair.1.notify_one());
            tasks[0].cancel("after that");
            let got: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
            assert_eq!(got, [false, true]);
        });
    });
}

#[test]
fn a_future_waits_too_and_leaves_nothing_when_it_is_dropped() {
    let pair = Pair::default();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let guard = block_on(pair.0.lock_async());
        let mut dropped = pin!(pair.1.wait_async(guard));
        assert!(pair.0.is_locked());
        assert!(dropped.as_mut().poll(&mut cx).is_pending());
        assert!(!pair.0.is_locked());
        assert_eq!(waiting(&pair.1), 1);
    }
    assert_eq!(waiting(&pair.1), 0);
    let guard = block_on(pair.0.lock_async());
    let mut notified = pin!(pair.1.wait_async(guard));
    assert!(notified.as_mut().poll(&mut cx).is_pending());
    pair.1.notify_one();
    let Poll::Ready(guard) = notified.as_mut().poll(&mut cx) else { panic!("it was notified") };
    assert!(pair.0.is_locked());
    drop(guard);
}

#[test]
fn a_future_that_is_dropped_before_it_has_the_mutex_passes_the_notification_on() {
    let pair = Pair::default();
    let mut cx = Context::from_waker(Waker::noop());
    let mut futures = Vec::new();
    for _ in 0..2 {
        let mut future = Box::pin(pair.1.wait_async(block_on(pair.0.lock_async())));
        assert!(future.as_mut().poll(&mut cx).is_pending());
        futures.push(future);
    }
    let held = block_on(pair.0.lock_async());
    assert!(pair.1.notify_one());
    // It is notified, and waits for the mutex.
    assert!(futures[0].as_mut().poll(&mut cx).is_pending());
    assert_eq!(waiting(&pair.1), 1);
    drop(futures.remove(0));
    drop(held);
    assert!(futures[0].as_mut().poll(&mut cx).is_ready());
    assert_eq!(waiting(&pair.1), 0);
}

#[test]
fn while_unwinding_a_task_does_not_give_the_mutex_away() {
    struct Waits<'a>(&'a Pair, Option<cygnet::sync::MutexGuard<'a, Vec<usize>>>);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            let guard = self.1.as_mut().expect("given");
            let refused = self.0.1.wait(guard).unwrap_err();
            assert_eq!(*refused.reason(), cygnet::Reason::Unwinding);
            guard.push(1);
        }
    }
    with(&[1], |rt| {
        let pair = Pair::default();
        let mut next = Box::pin(pair.0.lock_async());
        let mut poll = || next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        rt.block_on(|| {
            let unwound = panic_of(|| {
                let _waits = Waits(&pair, pair.0.lock().ok());
                assert!(poll().is_pending());
                panic!("unwinds");
            });
            assert_eq!(unwound, "unwinds");
        });
        let Poll::Ready(order) = poll() else { panic!("it is free") };
        assert_eq!(*order, [1]);
    });
}

#[test]
fn where_nothing_may_wait_the_mutex_stays_locked() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let pair = Pair::default();
            let mut held = pair.0.lock().unwrap();
            let refused = panic_of(|| cygnet::no_suspend(|| pair.1.wait(&mut held).is_ok()));
            assert!(refused.contains("no_suspend"), "{refused}");
            assert!(pair.0.is_locked());
            held.push(1);
            drop(held);
            assert!(!pair.0.is_locked());
            assert_eq!(format!("{:?}", pair.1), "Condvar { waiting: [] }");
        });
    });
}

/// A bounded queue between tasks and threads: what goes in comes out, once.
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
            let queue = Arc::clone(&queue);
            move || {
                for i in 0..each {
                    let mut items = queue.items.lock().unwrap();
                    queue.room.wait_while(&mut items, |items| items.len() >= 4).unwrap();
                    items.push(first + i);
                    queue.some.notify_one();
                }
                0
            }
        };
        let take = || {
            let queue = Arc::clone(&queue);
            move || {
                (0..each)
                    .map(|_| {
                        let mut items = queue.items.lock().unwrap();
                        queue.some.wait_while(&mut items, |items| items.is_empty()).unwrap();
                        let item = items.remove(0);
                        queue.room.notify_one();
                        item
                    })
                    .sum()
            }
        };
        let tasks = [rt.spawn(put(0)), rt.spawn(take()), rt.spawn(put(each)), rt.spawn(take())];
        let thread = crate::common::thread::spawn(put(2 * each));
        let sum = take()() + tasks.into_iter().map(|task| task.join().unwrap()).sum::<usize>();
        thread.join().unwrap();
        assert_eq!(sum, (0..3 * each).sum());
        assert!(queue.items.lock().unwrap().is_empty());
    });
}
