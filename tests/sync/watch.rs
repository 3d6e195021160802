//! `watch`: the last value, what has been seen of it, and the wait for the next one.

use crate::common::{
    Drops, give_way_until, panic_of, runtime, scaled_in_debug, with, with_each, within,
};
use crate::{LONG, block_on, until_waiting, waiting};
use cygnet::sync::{WaitError, WatchReceiver, WatchSender, watch};
use cygnet::{Reason, Runtime, Task, cancel_handle, scope, spawn, timeout};
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(1);

type Seen = (WatchReceiver<usize>, Result<Arc<usize>, WaitError>);

/// One that waits for a change, is in the queue when this returns, and gives the receiver back.
fn waits(rt: &Runtime, to: &WatchSender<usize>) -> Task<Seen> {
    let before = waiting(to);
    let mut from = to.subscribe();
    let task = rt.spawn(move || {
        let seen = from.changed();
        (from, seen)
    });
    until_waiting(to, before + 1);
    task
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_change_is_seen_once_whether_it_comes_before_or_after_the_wait() {
    with_each(|rt| {
        let (to, mut from) = watch(0);
        assert!(!from.has_changed());
        assert_eq!((from.get(), to.get()), (0, 0));
        let before = waits(rt, &to);
        to.send(1);
        assert_eq!(before.join().unwrap().1, Ok(Arc::new(1)));
        assert!(from.has_changed());
        assert_eq!((*from.latest(), from.has_changed()), (1, true), "to look is not to see");
        assert_eq!(rt.block_on(|| from.changed()), Ok(Arc::new(1)));
        assert!(!from.has_changed());
        to.send(2);
        assert_eq!((*from.see(), from.has_changed()), (2, false));
        assert_eq!(from.changed_timeout(MOMENT), Err(WaitError::TimedOut));
    });
}

#[test]
fn who_is_slow_sees_the_latest_only() {
    let (to, mut from) = watch(0);
    (1..=10).for_each(|i| to.send(i));
    assert_eq!(from.changed(), Ok(Arc::new(10)));
    assert_eq!(from.changed_timeout(Duration::ZERO), Err(WaitError::TimedOut));
}

#[test]
fn a_change_goes_to_all_who_wait() {
    with_each(|rt| {
        let (to, mut from) = watch(0);
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let mut from = from.clone();
                rt.spawn(move || *from.changed().unwrap())
            })
            .collect();
        crate::common::thread::scope(|s| {
            let (mut one, mut other) = (from.clone(), from.clone());
            let thread = s.spawn(move || *one.changed().unwrap());
            let future = s.spawn(move || *block_on(other.changed_async()).unwrap());
            until_waiting(&to, 102);
            to.send(7);
            assert_eq!((thread.join().unwrap(), future.join().unwrap()), (7, 7));
        });
        tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), 7));
        assert_eq!((waiting(&to), from.changed()), (0, Ok(Arc::new(7))));
    });
}

/// Plain threads, without any runtime.
#[test]
fn threads_alone_watch_and_wait() {
    within(|| {
        let (to, mut from) = watch(String::new());
        crate::common::thread::scope(|s| {
            let other = s.spawn(move || {
                let first = from.changed_timeout(LONG).unwrap();
                let long = from.wait_for(|text| text.len() > 3).unwrap();
                (first.len(), long.len(), from.changed())
            });
            until_waiting(&to, 1);
            to.send(String::from("abc"));
            until_waiting(&to, 1);
            to.send_modify(|text| text.push('d'));
            // It has seen that when it waits for the end.
            until_waiting(&to, 1);
            drop(to);
            assert_eq!(other.join().unwrap(), (3, 4, Err(WaitError::Closed)));
        });
    });
}

#[test]
fn after_the_last_sender_an_unseen_value_comes_first_and_then_the_end() {
    with_each(|rt| {
        let (to, mut from) = watch(0);
        let other = to.clone();
        to.send(1);
        drop(to);
        assert!(!from.is_closed());
        other.send(2);
        let waits = waits(rt, &other);
        drop(other);
        assert!(from.is_closed());
        let (_, seen) = waits.join().unwrap();
        assert_eq!(seen, Err(WaitError::Closed));
        assert_eq!(from.changed(), Ok(Arc::new(2)));
        assert_eq!(from.changed(), Err(WaitError::Closed));
        assert_eq!(block_on(from.changed_async()), Err(WaitError::Closed));
        assert_eq!(from.changed_timeout(LONG), Err(WaitError::Closed));
        assert_eq!((from.get(), *from.see()), (2, 2), "it stays");
    });
}

#[test]
fn a_value_is_kept_without_receivers_and_a_new_one_has_seen_it() {
    let (to, from) = watch(0);
    assert_eq!(to.receivers(), 1);
    drop(from);
    to.send(3);
    assert_eq!((to.receivers(), to.get()), (0, 3));
    let from = to.subscribe();
    assert_eq!((from.get(), from.has_changed(), to.receivers()), (3, false, 1));
    to.send(4);
    let other = from.clone();
    assert!(from.has_changed() && other.has_changed(), "a clone has seen the same");
}

#[test]
fn a_snapshot_stays_as_it_is_and_holds_up_nobody() {
    with(&[1, 2], |rt| {
        let (to, mut from) = watch(vec![1]);
        rt.block_on(|| {
            let kept = from.latest();
            from.with(|inside| {
                to.send(vec![2]);
                // Over a suspension.
                let task = spawn({
                    let to = to.clone();
                    move || to.send_modify(|values| values.push(3))
                });
                task.join().unwrap();
                assert_eq!(*inside, [1]);
            });
            assert_eq!((&kept[..], &from.changed().unwrap()[..]), (&[1][..], &[2, 3][..]));
        });
    });
}

#[test]
fn a_wait_for_a_value_begins_with_the_one_that_is_there() {
    with_each(|rt| {
        let (to, mut from) = watch(4);
        assert_eq!(from.wait_for(|value| *value == 4), Ok(Arc::new(4)));
        let (mut one, mut other) = (from.clone(), from.clone());
        let task = rt.spawn(move || one.wait_for(|value| *value >= 6).map(|value| (*value, one)));
        crate::common::thread::scope(|s| {
            let future = s.spawn(move || block_on(other.wait_for_async(|value| *value >= 6)));
            until_waiting(&to, 2);
            to.send(5);
            until_waiting(&to, 2);
            to.send(6);
            assert_eq!(future.join().unwrap(), Ok(Arc::new(6)));
        });
        let (value, one) = task.join().unwrap().unwrap();
        assert_eq!((value, one.has_changed()), (6, false));
        assert_eq!(from.wait_for_timeout(|_| false, MOMENT), Err(WaitError::TimedOut));
        assert!(from.has_changed(), "what was found wanting has not been seen");
        drop(to);
        assert_eq!(from.wait_for(|value| *value > 6), Err(WaitError::Closed));
        assert_eq!(block_on(from.wait_for_async(|value| *value > 6)), Err(WaitError::Closed));
        assert_eq!(from.wait_for(|value| *value == 6), Ok(Arc::new(6)));
    });
}

/// Where each look finds another value.
#[test]
fn a_wait_for_a_value_ends_in_time_also_if_it_never_has_to_wait() {
    with(&[1], |rt| {
        let (to, mut from) = watch(0);
        let never = |value: &i32| {
            to.send(value + 1);
            false
        };
        assert_eq!(from.wait_for_timeout(never, MOMENT), Err(WaitError::TimedOut));
        let late = rt.block_on(|| timeout(MOMENT, || from.wait_for(never)));
        assert!(matches!(late.unwrap_err().into_inner(), Err(WaitError::Cancelled(_))));
    });
}

#[test]
fn a_wait_that_is_cancelled_or_late_has_seen_nothing() {
    with_each(|rt| {
        let (to, mut from) = watch(0);
        for cancelled in [&[0][..], &[1], &[2], &[0, 1, 2]] {
            let tasks: Vec<_> = (0..3).map(|_| waits(rt, &to)).collect();
            cancelled.iter().for_each(|i| tasks[*i].cancel("enough"));
            until_waiting(&to, 3 - cancelled.len());
            to.send(1);
            for (i, task) in tasks.into_iter().enumerate() {
                let (mut from, seen) = task.join().unwrap();
                assert_eq!(seen.is_err(), cancelled.contains(&i));
                assert_eq!(from.has_changed(), seen.is_err());
                assert!(seen.is_ok() || from.changed() == Ok(Arc::new(1)));
            }
        }
        from.see();
        rt.block_on(|| {
            let late = timeout(MOMENT, || from.changed());
            let Err(WaitError::Cancelled(refused)) = late.unwrap_err().into_inner() else {
                panic!("nothing was sent");
            };
            assert_eq!(*refused.reason(), Reason::Deadline);
        });
        assert_eq!(waiting(&to), 0);
    });
}

#[test]
fn one_that_is_cancelled_after_it_was_called_has_seen_nothing() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (to, mut from) = watch(0);
            let task = spawn(move || {
                let seen = from.changed();
                (from, seen)
            });
            give_way_until(|| waiting(&to) == 1);
            to.send(1);
            task.cancel("after that");
            let (mut from, seen) = task.join().unwrap();
            assert!(matches!(seen, Err(WaitError::Cancelled(_))));
            assert_eq!(from.changed(), Ok(Arc::new(1)));
        });
    });
}

#[test]
fn a_cancelled_task_is_turned_away_also_from_what_is_there() {
    with(&[1, 2], |rt| {
        let (to, mut from) = watch(0);
        to.send(1);
        let task = rt.spawn(move || {
            cancel_handle().cancel("enough");
            assert!(matches!(from.changed(), Err(WaitError::Cancelled(_))));
            let asked = Cell::new(false);
            let seen = from.wait_for(|_| {
                asked.set(true);
                true
            });
            assert!(matches!(seen, Err(WaitError::Cancelled(_))) && !asked.get());
            (from.has_changed(), from.get())
        });
        assert_eq!(task.join().unwrap(), (true, 1));
    });
}

#[test]
fn a_future_that_is_dropped_in_any_state_has_seen_nothing() {
    let (to, mut from) = watch(0);
    drop(from.changed_async());
    {
        let mut waits = pin!(from.changed_async());
        assert!(poll(waits.as_mut()).is_pending());
        assert_eq!(waiting(&to), 1);
    }
    assert_eq!(waiting(&to), 0);
    {
        let mut called = pin!(from.changed_async());
        assert!(poll(called.as_mut()).is_pending());
        to.send(1);
    }
    {
        let mut waits = pin!(from.wait_for_async(|value| *value == 2));
        assert!(poll(waits.as_mut()).is_pending());
    }
    assert!(from.has_changed());
    let mut ready = Box::pin(from.changed_async());
    assert_eq!(poll(ready.as_mut()), Poll::Ready(Ok(Arc::new(1))));
    let again = panic_of(|| poll(ready.as_mut()));
    assert!(again.contains("polled after its end"), "{again}");
    drop(ready);
    assert_eq!((from.has_changed(), waiting(&to)), (false, 0));
}

/// It keeps its place, and is called in vain.
#[test]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn a_forgotten_future_takes_nothing_along() {
    let (to, mut from) = watch(0);
    for _ in 0..2 {
        let mut forgotten = Box::pin(from.changed_async());
        assert!(poll(forgotten.as_mut()).is_pending());
        std::mem::forget(forgotten);
    }
    assert_eq!(waiting(&to), 2);
    to.send(1);
    assert_eq!((waiting(&to), from.changed()), (0, Ok(Arc::new(1))));
}

#[test]
fn what_modifies_is_called_again_if_another_one_has_sent() {
    let (to, from) = watch(1);
    let calls = Cell::new(0);
    crate::common::thread::scope(|s| {
        to.send_modify(|value| {
            if calls.replace(calls.get() + 1) == 0 {
                s.spawn(|| to.send(10)).join().unwrap();
            }
            *value += 1;
        });
    });
    assert_eq!((calls.get(), from.get()), (2, 11));
    assert!(!to.send_if_modified(|value| {
        *value = 0;
        false
    }));
    assert_eq!(from.get(), 11, "what it has done to its copy is gone");
}

#[test]
fn what_modifies_and_sends_itself_is_a_panic() {
    with(&[1], |rt| {
        let (to, from) = watch(0);
        let twice = || {
            to.send_modify(|value| {
                to.send(5);
                *value = 1;
            })
        };
        let said = panic_of(twice);
        assert!(said.contains("has sent to its own watch"), "{said}");
        let said = panic_of(|| rt.block_on(twice));
        assert!(said.contains("has sent to its own watch"), "{said}");
        assert_eq!(from.get(), 5);
        to.send_modify(|value| *value += 1);
        assert_eq!(from.get(), 6);
    });
}

#[test]
fn many_that_modify_lose_nothing() {
    with(&[1, 2, 8], |rt| {
        let (to, from) = watch(0);
        let each = scaled_in_debug(1_000);
        rt.block_on(|| {
            scope(|s| {
                for _ in 0..6 {
                    s.spawn(|| (0..each).for_each(|_| to.send_modify(|value| *value += 1)));
                }
            });
        });
        assert_eq!(from.get(), 6 * each);
    });
}

#[test]
fn panics_of_users_leave_the_channel_usable() {
    struct Sore(&'static str, Drops);
    impl Clone for Sore {
        fn clone(&self) -> Sore {
            assert_ne!(self.0, "no copies");
            Sore(self.0, self.1.clone())
        }
    }
    impl Drop for Sore {
        fn drop(&mut self) {
            drop(self.1.guard());
            assert_ne!(self.0, "no end", "in the destructor");
        }
    }
    let drops = Drops::new();
    let value = |what| Sore(what, drops.clone());
    let (to, mut from) = watch(value("no copies"));
    assert!(panic_of(|| from.get()).contains("no copies"));
    assert!(panic_of(|| to.send_modify(|_| ())).contains("no copies"));
    assert!(!from.has_changed());
    to.send(value("no end"));
    assert_eq!(panic_of(|| from.wait_for(|_| panic!("in the question"))), "in the question");
    assert!(from.has_changed());
    // The value before is dropped when the new one is there.
    assert!(panic_of(|| to.send(value("harmless"))).contains("in the destructor"));
    assert_eq!(from.changed().unwrap().0, "harmless");
    let unmodified = panic_of(|| to.send_modify(|_| panic!("in the change")));
    assert_eq!((unmodified.as_str(), from.has_changed()), ("in the change", false));
    drop((to, from));
    // Three that were sent, and the copy.
    assert_eq!((drops.count(), drops.left()), (4, 0));
}

/// It uses the channel: no lock is held.
#[test]
fn a_destructor_of_a_value_may_use_the_channel() {
    struct Asks(Option<WatchReceiver<Asks>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            if let Some(from) = &self.0 {
                assert!(from.with(|value| value.0.is_none()));
            }
        }
    }
    within(|| {
        let (to, from) = watch(Asks(None));
        to.send(Asks(Some(from)));
        to.send(Asks(None));
        assert_eq!(to.receivers(), 0);
    });
}

#[test]
fn where_nothing_may_wait_what_is_there_is_seen() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (to, mut from) = watch(0);
            let refused = panic_of(|| cygnet::no_suspend(|| from.changed()));
            assert!(refused.contains("no_suspend"), "{refused}");
            to.send(1);
            assert_eq!(cygnet::no_suspend(|| from.changed()), Ok(Arc::new(1)));
        });
    });
}

#[test]
fn the_end_of_a_runtime_ends_the_waits_of_its_tasks() {
    within(|| {
        let rt = runtime(2);
        let (to, _from) = watch(0);
        let task = waits(&rt, &to);
        drop(rt);
        let (mut from, seen) = task.join().unwrap();
        assert!(matches!(seen, Err(WaitError::Cancelled(_))));
        to.send(1);
        assert_eq!(from.changed(), Ok(Arc::new(1)));
    });
}

#[test]
fn it_says_what_it_is_and_where_others_wait() {
    let (to, mut from) = watch(1);
    assert_eq!(format!("{to:?}"), "WatchSender { value: 1, closed: false, waiting: [] }");
    let mut waits = Box::pin(from.changed_async());
    assert!(poll(waits.as_mut()).is_pending());
    assert!(format!("{to:?}").contains("watch.rs:"), "{to:?}");
    drop((waits, to));
    assert_eq!(format!("{from:?}"), "WatchReceiver { value: 1, closed: true, waiting: [] }");
}

/// What is sent by the resumer meanwhile would be taken for what the closure itself has sent.
#[test]
fn a_closure_that_modifies_cannot_suspend_a_bare_coroutine() {
    let (sender, receiver) = watch(0);
    let body = cygnet::coroutine::Coroutine::<(), (), ()>::new(move |yielder, ()| {
        sender.send_modify(|value| {
            yielder.suspend(());
            *value += 1;
        });
    });
    let said = panic_of(|| body.resume(()));
    assert!(
        said.contains("Yielder::suspend was called inside a call that must return first"),
        "{said}"
    );
    assert_eq!(receiver.get(), 0);
}
