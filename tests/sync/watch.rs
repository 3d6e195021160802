//! `watch`: the last value, what each receiver has seen of it, and the wait for the next one.

use crate::common::prelude::*;
use cygnet::sync::{WatchReceiver, WatchSender, watch};

/// Spawns a task that waits for a change, in the queue when this returns.
fn waits(rt: &Runtime, to: &WatchSender<usize>) -> Task<Result<Arc<usize>, WaitError>> {
    let mut from = to.subscribe();
    queued(rt, to, move || from.changed())
}

#[test]
fn a_change_is_seen_once_whether_it_comes_before_or_after_the_wait() {
    with_each(|rt| {
        let (to, mut from) = watch(0);
        assert!(!from.has_changed());
        assert_eq!((from.get(), to.get()), (0, 0));
        let before = waits(rt, &to);
        to.send(1);
        assert_eq!(before.join().unwrap(), Ok(Arc::new(1)));
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
fn a_slow_receiver_sees_only_the_latest_value() {
    let (to, mut from) = watch(0);
    (1..=10).for_each(|i| to.send(i));
    assert_eq!(from.changed(), Ok(Arc::new(10)));
    assert_eq!(from.changed_timeout(Duration::ZERO), Err(WaitError::TimedOut));
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
        assert_eq!(waits.join().unwrap(), Err(WaitError::Closed));
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
fn a_snapshot_stays_as_it_is_and_blocks_no_sender() {
    in_task_with(&[1, 2], |_| {
        let (to, mut from) = watch(vec![1]);
        let kept = from.latest();
        from.with(|inside| {
            to.send(vec![2]);
            // The closure may suspend.
            let task = spawn(own(&to, |to| to.send_modify(|values| values.push(3))));
            task.join().unwrap();
            assert_eq!(*inside, [1]);
        });
        assert_eq!((&kept[..], &from.changed().unwrap()[..]), (&[1][..], &[2, 3][..]));
    });
}

#[test]
fn a_wait_for_a_value_begins_with_the_current_one() {
    with_each(|rt| {
        let (to, mut from) = watch(4);
        assert_eq!(from.wait_for(|value| *value == 4), Ok(Arc::new(4)));
        let (mut one, mut other) = (from.clone(), from.clone());
        let task = rt.spawn(move || one.wait_for(|value| *value >= 6).map(|value| (*value, one)));
        thread::scope(|s| {
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
        assert!(from.has_changed(), "a value that was turned down is not seen");
        drop(to);
        assert_eq!(from.wait_for(|value| *value > 6), Err(WaitError::Closed));
        assert_eq!(block_on(from.wait_for_async(|value| *value > 6)), Err(WaitError::Closed));
        assert_eq!(from.wait_for(|value| *value == 6), Ok(Arc::new(6)));
    });
}

/// Each look finds another value, so that the receiver never waits.
#[test]
fn a_wait_for_a_value_ends_in_time_even_if_it_never_blocks() {
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
fn a_cancelled_task_asks_no_predicate_and_has_seen_nothing() {
    with(&[1, 2], |rt| {
        let (to, mut from) = watch(0);
        assert_eq!(format!("{to:?}"), "WatchSender { value: 0, closed: false, waiting: [] }");
        to.send(1);
        let task = rt.spawn(move || {
            cancel_handle().cancel("enough");
            let refused = from.wait_for(|_| panic!("the predicate is called"));
            assert!(matches!(refused, Err(WaitError::Cancelled(_))));
            assert!(matches!(from.changed(), Err(WaitError::Cancelled(_))));
            from
        });
        let from = task.join().unwrap();
        assert_eq!((from.has_changed(), from.get()), (true, 1));
        drop(to);
        assert_eq!(format!("{from:?}"), "WatchReceiver { value: 1, closed: true, waiting: [] }");
    });
}

#[test]
fn a_modifying_closure_is_called_again_if_another_sender_was_faster() {
    let (to, from) = watch(1);
    let calls = Cell::new(0);
    thread::scope(|s| {
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
    assert_eq!(from.get(), 11, "the change of the copy is discarded");
}

#[test]
fn a_modifying_closure_that_sends_itself_is_a_panic() {
    with(&[1], |rt| {
        let (to, from) = watch(0);
        let twice = || {
            to.send_modify(|value| {
                to.send(5);
                *value = 1;
            })
        };
        panics_with("has sent to its own watch", twice);
        panics_with("has sent to its own watch", || rt.block_on(twice));
        assert_eq!(from.get(), 5);
        to.send_modify(|value| *value += 1);
        assert_eq!(from.get(), 6);
    });
}

#[test]
fn concurrent_modifications_lose_nothing() {
    in_task_with(&[1, 2, 8], |_| {
        let (to, from) = watch(0);
        let each = scaled_in_debug(1_000);
        crowd(6, |_| (0..each).for_each(|_| to.send_modify(|value| *value += 1)));
        assert_eq!(from.get(), 6 * each);
    });
}

#[test]
fn panics_of_user_code_leave_the_channel_usable() {
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
    // The old value is dropped after the new one has taken its place.
    assert!(panic_of(|| to.send(value("harmless"))).contains("in the destructor"));
    assert_eq!(from.changed().unwrap().0, "harmless");
    let unmodified = panic_of(|| to.send_modify(|_| panic!("in the change")));
    assert_eq!((unmodified.as_str(), from.has_changed()), ("in the change", false));
    drop((to, from));
    // Three values that were sent, and the copy.
    assert_eq!((drops.count(), drops.left()), (4, 0));
}

/// Destructors of values run without a lock.
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

/// A value sent by the resumer meanwhile would be mistaken for one sent by the closure.
#[test]
fn a_modifying_closure_cannot_suspend_a_bare_coroutine() {
    let (sender, receiver) = watch(0);
    let body = cygnet::coroutine::Coroutine::<(), (), ()>::new(move |yielder, ()| {
        sender.send_modify(|value| {
            yielder.suspend(());
            *value += 1;
        });
    });
    panics_with("inside a call that must return first", || body.resume(()));
    assert_eq!(receiver.get(), 0);
}
