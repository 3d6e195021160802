//! `Event`: set, reset, closed, in any order with waits.

use crate::common::{
    eventually, give_way_until, runtime, scaled_in_debug, with, with_each, within,
};
use crate::{LONG, block_on, until_waiting, waiting};
use cygnet::sync::{Event, WaitError};
use cygnet::{Reason, cancel_handle, scope, spawn, timeout};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[test]
fn a_wait_ends_when_it_is_set_whichever_comes_first() {
    with_each(|rt| {
        let event = Arc::new(Event::new());
        let waits = |event: &Arc<Event>| {
            let event = Arc::clone(event);
            rt.spawn(move || event.wait())
        };
        let before = waits(&event);
        until_waiting(&*event, 1);
        assert!(!event.is_set());
        event.set();
        event.set();
        assert!(event.is_set());
        assert_eq!(before.join().unwrap(), Ok(()));
        assert_eq!(waits(&event).join().unwrap(), Ok(()));
        assert_eq!(event.wait(), Ok(()));
        assert_eq!(block_on(event.wait_async()), Ok(()));
        assert!(event.reset());
        assert!(!event.reset());
        let after = waits(&event);
        until_waiting(&*event, 1);
        event.set();
        assert_eq!(after.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_set_goes_to_all_who_wait_also_if_it_is_reset_at_once() {
    with_each(|rt| {
        let event = Arc::new(Event::new());
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let event = Arc::clone(&event);
                rt.spawn(move || event.wait())
            })
            .collect();
        crate::common::thread::scope(|s| {
            let thread = s.spawn(|| event.wait());
            let future = s.spawn(|| block_on(event.wait_async()));
            until_waiting(&*event, 102);
            event.set();
            event.reset();
            assert_eq!(thread.join().unwrap(), Ok(()));
            assert_eq!(future.join().unwrap(), Ok(()));
        });
        tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), Ok(())));
        assert_eq!(waiting(&*event), 0);
        assert!(!event.is_set());
    });
}

#[test]
fn closing_ends_all_waits_and_what_was_set_stays_so() {
    with_each(|rt| {
        let event = Arc::new(Event::new());
        let task = {
            let event = Arc::clone(&event);
            rt.spawn(move || event.wait())
        };
        until_waiting(&*event, 1);
        event.close();
        event.close();
        assert_eq!(task.join().unwrap(), Err(WaitError::Closed));
        assert!(event.is_closed() && !event.is_set());
        event.set();
        assert!(!event.is_set() && !event.reset());
        assert_eq!(event.wait_timeout(LONG), Err(WaitError::Closed));
        assert_eq!(block_on(event.wait_async()), Err(WaitError::Closed));

        let set = Event::new();
        set.set();
        set.close();
        assert!(set.is_closed() && set.is_set() && !set.reset());
        assert_eq!(set.wait(), Ok(()));
    });
}

#[test]
fn a_wait_that_ends_early_leaves_the_event_usable() {
    with_each(|rt| {
        let event = Arc::new(Event::new());
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let event = Arc::clone(&event);
                rt.spawn(move || event.wait())
            })
            .collect();
        until_waiting(&*event, 4);
        for (left, i) in [(3, 1), (2, 0), (1, 3)] {
            tasks[i].cancel("enough");
            until_waiting(&*event, left);
        }
        assert_eq!(event.wait_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
        rt.block_on(|| {
            assert_eq!(event.wait_timeout(Duration::ZERO), Err(WaitError::TimedOut));
            assert_eq!(event.wait_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
            let late = timeout(Duration::from_millis(1), || event.wait());
            let Err(WaitError::Cancelled(refused)) = late.unwrap_err().into_inner() else {
                panic!("nobody has set it");
            };
            assert_eq!(*refused.reason(), Reason::Deadline);
        });
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(event.wait_async()).poll(&mut cx).is_pending());
        assert_eq!(waiting(&*event), 1);
        event.set();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.join().unwrap().is_ok(), i == 2);
        }
        assert_eq!(waiting(&*event), 0);
    });
}

#[test]
fn a_cancelled_task_is_turned_away_also_from_one_that_is_set() {
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            let event = Arc::new(Event::new());
            event.set();
            let mine = Arc::clone(&event);
            let task = spawn(move || {
                cancel_handle().cancel("enough");
                mine.wait()
            });
            assert!(matches!(task.join().unwrap(), Err(WaitError::Cancelled(_))));
        });
    });
}

#[test]
fn a_future_is_woken_by_the_waker_of_its_last_poll() {
    let event = Event::new();
    let mut cx = Context::from_waker(Waker::noop());
    let mut waits = Box::pin(event.wait_async());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    crate::common::thread::scope(|s| {
        let waits = s.spawn(|| block_on(waits));
        // It has been polled there when the waker is another one, which nobody can see from here.
        event.set();
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
    event.reset();
    let mut set = Box::pin(event.wait_async());
    assert!(set.as_mut().poll(&mut cx).is_pending());
    event.set();
    event.reset();
    assert_eq!(set.as_mut().poll(&mut cx), Poll::Ready(Ok(())), "its set is not lost by the reset");
}

#[test]
fn what_was_done_before_a_set_is_seen_after_the_wait() {
    with(&[2, 8], |rt| {
        for _ in 0..scaled_in_debug(2_000) {
            let (event, data) = (Event::new(), AtomicUsize::new(0));
            rt.block_on(|| {
                scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| {
                            event.wait().unwrap();
                            assert_eq!(data.load(Ordering::Relaxed), 1);
                        });
                    }
                    s.spawn(|| {
                        data.store(1, Ordering::Relaxed);
                        event.set();
                    });
                });
            });
        }
    });
}

/// A set, a cancel and time that is up at the same moment: each wait ends in one way, and nobody is forgotten.
#[test]
fn a_set_that_races_a_cancel_and_a_timeout_ends_each_wait_once() {
    with(&[1, 2, 8], |rt| {
        for round in 0..scaled_in_debug(2_000) as u64 {
            let event = Arc::new(Event::new());
            let tasks: Vec<_> = (0..3)
                .map(|i| {
                    let event = Arc::clone(&event);
                    rt.spawn(move || match i {
                        0 => event.wait_timeout(Duration::from_micros(round % 200)),
                        _ => event.wait(),
                    })
                })
                .collect();
            tasks[1].cancel("races");
            event.set();
            for (i, task) in tasks.into_iter().enumerate() {
                match task.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(WaitError::TimedOut)) => assert_eq!(i, 0),
                    Ok(Err(WaitError::Cancelled(_))) | Err(_) => assert_eq!(i, 1),
                    Ok(Err(other)) => panic!("{other:?}"),
                }
            }
            assert_eq!(waiting(&*event), 0);
        }
        assert_eq!(rt.metrics().timers(), 0);
    });
}

#[test]
fn the_end_of_a_runtime_ends_the_waits_of_its_tasks_alone() {
    within(|| {
        let event = Arc::new(Event::new());
        let rt = runtime(2);
        let mine = Arc::clone(&event);
        let task = rt.spawn(move || mine.wait());
        crate::common::thread::scope(|s| {
            let thread = s.spawn(|| event.wait());
            until_waiting(&*event, 2);
            drop(rt);
            assert!(matches!(task.join().unwrap(), Err(WaitError::Cancelled(_))));
            eventually("it has left", || waiting(&*event) == 1);
            event.set();
            assert_eq!(thread.join().unwrap(), Ok(()));
        });
    });
}

#[test]
fn it_says_what_it_is_and_where_others_wait() {
    let event = Event::new();
    assert_eq!(format!("{event:?}"), "Event { set: false, closed: false, waiting: [] }");
    with(&[1], |rt| {
        rt.block_on(|| {
            let event = Arc::new(Event::default());
            let mine = Arc::clone(&event);
            let task = spawn(move || mine.wait());
            give_way_until(|| waiting(&*event) == 1);
            assert!(format!("{event:?}").contains("event.rs:"), "{event:?}");
            event.set();
            task.join().unwrap().unwrap();
        });
    });
}
