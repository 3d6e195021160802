//! Channels: order, room, closing, and that no value is lost or received twice.

use crate::common::prelude::*;
use cygnet::sync::{Sender, TryRecvError, TrySendError};

#[test]
fn values_come_in_the_order_of_sending_and_senders_wait_for_room() {
    with_each(|rt| {
        for capacity in [0, 1, 2, 7, usize::MAX] {
            let (to, from) = bounded(capacity);
            let sending = rt.spawn(move || {
                for i in 0..200 {
                    assert!(to.len() <= capacity.max(1));
                    to.send(i).unwrap();
                }
            });
            let received: Vec<i32> = rt.block_on(|| from.iter().collect());
            assert_eq!(received, (0..200).collect::<Vec<_>>(), "room for {capacity}");
            sending.join().unwrap();
            assert_eq!(from.recv(), Err(WaitError::Closed));
        }
    });
}

#[test]
fn the_longest_waiter_sends_or_receives_first() {
    with_each(|rt| {
        let (to, from) = bounded(1);
        to.send(0).unwrap();
        let senders: Vec<_> = (1..6).map(|i| waits(rt, &to, move |to| to.send(i))).collect();
        assert_eq!(to.try_send(9), Err(TrySendError::Full(9)));
        assert_eq!((0..6).map(|_| from.recv().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        senders.into_iter().for_each(|task| task.join().unwrap().unwrap());
        let receivers: Vec<_> = (0..5).map(|_| waits(rt, &from, |from| from.recv())).collect();
        (0..5).for_each(|i| to.send(i).unwrap());
        for (i, task) in receivers.into_iter().enumerate() {
            assert_eq!(task.join().unwrap(), Ok(i));
        }
    });
}

#[test]
fn a_caller_that_is_cancelled_or_late_has_neither_sent_nor_received() {
    with_each(|rt| {
        let (to, from) = bounded(1);
        for cancelled in [0, 1, 2] {
            let receivers = [(); 3].map(|()| waits(rt, &from, |from| from.recv()));
            receivers[cancelled].cancel("enough");
            until_waiting(&from, 2);
            assert_eq!(from.recv_timeout(MOMENT), Err(WaitError::TimedOut));
            (0..2).for_each(|i| to.send(i).unwrap());
            let mut got = receivers.map(|task| task.join().unwrap()).to_vec();
            assert!(matches!(got.remove(cancelled), Err(WaitError::Cancelled(_))));
            assert_eq!(got, [Ok(0), Ok(1)]);

            to.send(7).unwrap();
            let senders = [0, 1, 2].map(|i| waits(rt, &to, move |to| to.send(i)));
            senders[cancelled].cancel("enough");
            until_waiting(&to, 2);
            let late = to.send_timeout(9, MOMENT).unwrap_err();
            assert_eq!((late.reason(), late.clone().into_inner()), (&WaitError::TimedOut, 9));
            let left: Vec<_> = [7, 0, 1, 2].into_iter().filter(|i| *i != cancelled).collect();
            assert_eq!([(); 3].map(|()| from.recv().unwrap()), left[..]);
            for (i, task) in senders.into_iter().enumerate() {
                let refused = task.join().unwrap().err().map(|refused| refused.into_inner());
                assert_eq!(refused, (i == cancelled).then_some(i));
            }
        }
        assert_eq!((waiting(&to), to.len()), (0, 0));
    });
}

/// Neither end has a second handle, so that a granted value or place is reserved for the one
/// waiter. C24.
#[test]
fn a_grant_of_a_cancelled_waiter_goes_back_to_the_channel() {
    in_task_with(&[1], |_| {
        let (to, from) = bounded(1);
        let (to, from) = (Arc::new(to), Arc::new(from));
        let receiver = spawn(own(&from, |from| from.recv()));
        give_way_until(|| waiting(&from) == 1);
        to.send(1).unwrap();
        assert_eq!(from.try_recv(), Err(TryRecvError::Empty), "the value is reserved");
        receiver.cancel("after it was granted");
        assert!(matches!(receiver.join().unwrap(), Err(WaitError::Cancelled(_))));
        let sender = spawn(own(&to, |to| to.send(2)));
        give_way_until(|| waiting(&to) == 1);
        assert_eq!(from.try_recv(), Ok(1));
        assert_eq!(to.try_send(3), Err(TrySendError::Full(3)), "the place is reserved");
        sender.cancel("after it was granted");
        assert_eq!(sender.join().unwrap().unwrap_err().into_inner(), 2);
        assert_eq!((to.try_send(3), from.try_recv()), (Ok(()), Ok(3)));

        // Nobody looks at the waiters, so this one sits, and is given the value itself.
        let begun = Flag::new();
        let receiver = spawn_local(own(&from, move |from| (begun.set(), from.recv()).1));
        give_way_until(|| begun.get());
        to.send(4).unwrap();
        receiver.cancel("after it was given the value");
        assert_eq!(receiver.join().unwrap(), Ok(4));
    });
}

#[test]
fn a_place_that_a_receiver_makes_for_a_future_is_taken_by_no_other_sender() {
    in_task_with(&[1], |_| {
        let ((to, from), granted) = (bounded(0), Flag::new());
        let waker = calling(move || granted.set());
        let mut sends = begun_by(to.send_async(1), &waker);
        let receiver = spawn(move || from.recv());
        granted.wait();
        assert_eq!(to.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(poll_by(sends.as_mut(), &waker), Poll::Ready(Ok(())));
        assert_eq!(receiver.join().unwrap(), Ok(1));
    });
}

#[test]
fn a_value_that_a_receiver_has_left_comes_before_that_of_a_waiting_sender() {
    with(&[1, 2], |rt| {
        let (to, from) = bounded(0);
        let receives = begun(from.recv_async());
        to.try_send(1).unwrap();
        let sender = waits(rt, &to, |to| to.send(2));
        drop(receives);
        assert_eq!([from.recv(), from.try_recv().map_err(|_| WaitError::Closed)], [Ok(1), Ok(2)]);
        sender.join().unwrap().unwrap();
    });
}

#[test]
fn a_cancelled_task_is_turned_away_and_its_value_comes_back() {
    with(&[1, 2], |rt| {
        for (to, from) in [bounded(4), unbounded()] {
            to.send(1).unwrap();
            let (mine, theirs) = (to.clone(), from.clone());
            let task = rt.spawn(move || {
                cancel_handle().cancel("enough");
                let refused = mine.send(2).unwrap_err();
                assert!(matches!(refused.reason(), WaitError::Cancelled(_)));
                assert!(matches!(theirs.recv(), Err(WaitError::Cancelled(_))));
                assert_eq!(theirs.iter().count(), 0);
                refused.into_inner()
            });
            assert_eq!(task.join().unwrap(), 2);
            assert_eq!((from.recv(), to.len()), (Ok(1), 0));
        }
    });
}

#[test]
fn values_sent_before_a_close_are_received_before_the_end() {
    with_each(|rt| {
        let (to, from) = bounded(2);
        (1..3).for_each(|i| to.send(i).unwrap());
        let late = waits(rt, &to, |to| to.send(3));
        from.close();
        to.close();
        let refused = late.join().unwrap().unwrap_err();
        assert_eq!((refused.reason(), refused.clone().into_inner()), (&WaitError::Closed, 3));
        assert_eq!(to.try_send(4), Err(TrySendError::Closed(4)));
        assert!(to.is_closed() && from.is_closed());
        assert_eq!(from.iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(from.try_recv(), Err(TryRecvError::Closed));

        // The last sender is dropped; clones count.
        let (to, from) = unbounded();
        let other = to.clone();
        let waiter = waits(rt, &from, |from| from.recv());
        drop(to);
        assert!(!from.is_closed());
        other.send(5).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(5));
        let waiter = waits(rt, &from, |from| from.recv());
        drop(other);
        assert_eq!(waiter.join().unwrap(), Err(WaitError::Closed));
    });
}

#[test]
fn the_last_receiver_drops_all_values_and_senders_get_theirs_back() {
    with_each(|rt| {
        let drops = Drops::new();
        let (to, from) = bounded(3);
        (0..3).for_each(|_| to.send(drops.guard()).unwrap());
        let guard = drops.guard();
        let waiter = waits(rt, &to, move |to| to.send(guard));
        let other = from.clone();
        drop(from);
        assert_eq!(drops.count(), 0);
        drop(other);
        assert_eq!(drops.count(), 3);
        let refused = waiter.join().unwrap().unwrap_err();
        assert_eq!((refused.reason(), drops.left()), (&WaitError::Closed, 1));
        drop(refused);
        assert!(matches!(to.try_send(drops.guard()), Err(TrySendError::Closed(_))));
        assert_eq!(drops.left(), 0);
    });
}

/// Destructors of values run without a lock.
#[test]
fn a_destructor_may_use_the_channel_of_its_value() {
    struct Asks(Option<Sender<Asks>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            if let Some(to) = self.0.take() {
                assert!(to.try_send(Asks(None)).is_err());
                assert!(to.is_closed());
            }
        }
    }
    within(|| {
        let (to, from) = unbounded();
        (0..3).for_each(|_| to.send(Asks(Some(to.clone()))).unwrap());
        drop(from);
        assert!(to.is_empty());
    });
}

#[test]
fn a_panic_of_a_destructor_loses_nothing_else() {
    for capacity in [3, usize::MAX] {
        let dropped = Count::new();
        let sore = || {
            OnDrop(move || {
                dropped.up();
                panic!("in the destructor");
            })
        };
        let filled = || {
            let (to, from) = bounded(capacity);
            (0..3).for_each(|_| assert!(to.send(sore()).is_ok()));
            (to, from)
        };
        // All of them are dropped, and the first panic goes on.
        let (to, from) = filled();
        assert_eq!(panic_of(|| drop(from)), "in the destructor");
        assert_eq!((dropped.get(), to.len(), to.is_closed()), (3, 0, true));
        // A second panic while another one unwinds does not end the process.
        let (_to, from) = filled();
        let unwound = panic_of(|| {
            let _from = from;
            panic!("unwinds");
        });
        assert_eq!((unwound.as_str(), dropped.get()), ("unwinds", 6));
    }
}

#[test]
fn without_room_a_sender_and_a_receiver_meet() {
    with_each(|rt| {
        let (to, from) = bounded(0);
        assert_eq!(to.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(from.try_recv(), Err(TryRecvError::Empty));
        // A waiting receiver is met at once.
        let waiter = waits(rt, &from, |from| from.recv());
        to.try_send(2).unwrap();
        assert_eq!(to.try_send(3), Err(TrySendError::Full(3)));
        assert_eq!(waiter.join().unwrap(), Ok(2));
        // A waiting sender is met by the next receiver.
        let waiter = waits(rt, &to, |to| to.send(4));
        assert_eq!(from.recv(), Ok(4));
        waiter.join().unwrap().unwrap();
        // A cancelled receiver meets no sender.
        let waiter = waits(rt, &from, |from| from.recv());
        waiter.cancel("enough");
        assert!(waiter.join().unwrap().is_err());
        assert_eq!(to.try_send(5), Err(TrySendError::Full(5)));
        let late = to.send_timeout(6, MOMENT).unwrap_err();
        assert_eq!(late.into_inner(), 6);
        assert_eq!(from.recv_timeout(MOMENT), Err(WaitError::TimedOut));
        assert_eq!((waiting(&to), to.len(), to.capacity()), (0, 0, Some(0)));
    });
}

#[test]
fn futures_send_and_receive_and_leave_nothing_when_they_are_dropped() {
    let (to, from) = bounded(1);
    drop(to.send_async(0));
    block_on(to.send_async(1)).unwrap();
    {
        let _full = begun(to.send_async(2));
        assert_eq!(waiting(&to), 1);
    }
    assert_eq!(waiting(&to), 0);
    let (granted, next) = (begun(to.send_async(3)), begun(to.send_async(4)));
    assert_eq!(block_on(from.recv_async()), Ok(1));
    drop(granted);
    assert_eq!(poll_once(next), Poll::Ready(Ok(())));
    assert_eq!(from.recv(), Ok(4));
    let (granted, next) = (begun(from.recv_async()), begun(from.recv_async()));
    to.send(5).unwrap();
    drop(granted);
    assert_eq!(poll_once(next), Poll::Ready(Ok(5)));
    let mut closed = begun(from.recv_async());
    to.close();
    assert_eq!(poll_once(closed.as_mut()), Poll::Ready(Err(WaitError::Closed)));
}

#[test]
fn threads_block_and_debug_output_shows_the_state() {
    let (to, from) = bounded::<String>(1);
    thread::scope(|s| {
        let receives = s.spawn(|| from.iter().collect::<Vec<_>>());
        for word in ["one", "two", "three"] {
            to.send(word.to_owned()).unwrap();
        }
        to.close();
        assert_eq!(receives.join().unwrap(), ["one", "two", "three"]);
    });
    assert_eq!(
        format!("{to:?}"),
        "Sender { len: 0, capacity: Some(1), closed: true, sending: [], receiving: [] }"
    );
    assert_eq!(from.recv_timeout(LONG), Err(WaitError::Closed));
    assert_eq!(from.try_iter().count(), 0);
    assert_eq!(unbounded::<u8>().1.capacity(), None);
}

/// A caller that enters the queue without having to wait hinders no other one.
#[test]
fn a_caller_that_enters_the_queue_does_not_hinder_a_try() {
    within(|| {
        let each = scaled(1_000);
        let (to, from) = bounded(2 * each);
        let both = Barrier::new(2);
        for _ in 0..scaled(100) {
            thread::scope(|s| {
                let other = s.spawn(|| {
                    both.wait();
                    (0..each).for_each(|i| block_on(to.send_async(i)).unwrap());
                    both.wait();
                    (0..each).for_each(|_| assert!(block_on(from.recv_async()).is_ok()));
                });
                both.wait();
                let full = (0..each).filter(|&i| to.try_send(i).is_err()).count();
                (0..full).for_each(|i| to.send(i).unwrap());
                both.wait();
                let empty = (0..each).filter(|_| from.try_recv().is_err()).count();
                (0..empty).for_each(|_| assert!(from.recv().is_ok()));
                other.join().unwrap();
                assert_eq!((full, empty), (0, 0), "of {each}");
            });
        }
    });
}

/// Eight senders of `each` values and six receivers, as tasks, threads and futures, with random
/// limits; two are cancelled. Each value that was sent is received once. A value has `BYTES` bytes
/// besides its number.
fn storm<const BYTES: usize>(workers: usize, capacity: usize, each: usize) {
    let rt = Runtime::builder().workers(workers).stack_size(1 << 18).build().unwrap();
    let (to, from) = bounded::<(usize, [u8; BYTES])>(capacity);
    let sums @ [sum_sent, sent, sum_received, received] = [(); 4].map(|()| Count::new());
    let sender = |seed: usize| {
        own(&to, move |to| {
            let mut random = Random(seed as u64 * 7919 + 1);
            for i in 0..each {
                let number = seed * each + i + 1;
                let value = (number, [0; BYTES]);
                let result = match random.below(3) {
                    0 => to.send_timeout(value, Duration::from_micros(random.below(90))),
                    1 if cygnet::current_id().is_none() => block_on(to.send_async(value)),
                    _ => to.send(value),
                };
                match result {
                    Ok(()) => (sum_sent.add(number), sent.up()).1,
                    Err(refused) => assert_eq!(refused.into_inner().0, number),
                }
                assert!(capacity == 0 || to.len() <= capacity, "more than {capacity} values");
            }
        })
    };
    let receiver = |seed: usize| {
        own(&from, move |from| {
            let mut random = Random(seed as u64 * 104_729 + 1);
            loop {
                let got = match random.below(3) {
                    0 => from.recv_timeout(Duration::from_micros(random.below(90))),
                    1 if cygnet::current_id().is_none() => block_on(from.recv_async()),
                    _ => from.recv(),
                };
                match got {
                    Ok((number, _)) => (sum_received.add(number), received.up()).1,
                    Err(WaitError::TimedOut) => {}
                    Err(_) => return,
                }
            }
        })
    };
    // A test's executor must not block the thread of a worker: futures are driven by threads.
    let blocking = [0, 1].map(|i| thread::spawn(sender(i)));
    let tasks: Vec<_> = (2..8).map(|i| rt.spawn(sender(i))).collect();
    let receiving: Vec<_> = (0..4).map(|i| rt.spawn(receiver(i))).collect();
    let threads = [4, 5].map(|i| thread::spawn(receiver(i)));
    tasks[1].cancel("a part of the storm");
    receiving[2].cancel("a part of the storm");
    blocking.into_iter().for_each(|thread| thread.join().unwrap());
    tasks.into_iter().for_each(|task| drop(task.join()));
    to.close();
    receiving.into_iter().for_each(|task| drop(task.join()));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let sums = sums.map(Count::get);
    assert_eq!(sums[..2], sums[2..], "room for {capacity}, {workers} workers");
    assert_eq!((waiting(&to), to.len()), (0, 0));
}

#[test]
fn a_storm_loses_nothing_and_duplicates_nothing() {
    for workers in [1, 2, 3, 8, 64] {
        for capacity in [0, 1, 3, 64, usize::MAX] {
            within(|| storm::<0>(workers, capacity, scaled_in_debug(400)));
        }
        // Too large to be allocated at once, and full now and then.
        within(|| storm::<2_000>(workers, 600, scaled_in_debug(400)));
    }
}

#[test]
fn a_storm_of_a_million_values_loses_nothing() {
    for capacity in [64, 1024] {
        within(|| storm::<0>(2, capacity, scaled_in_debug(1_000_000) / 16));
    }
}

/// Room for more than is allocated at once. A waiting sender is served as soon as one value is
/// received, and nobody takes its place.
#[test]
fn a_sender_that_waits_beyond_the_ring_gets_the_next_place() {
    let capacity = 70_000;
    let (to, from) = bounded(capacity);
    (0..capacity).for_each(|i| to.try_send(i).unwrap());
    assert_eq!(to.try_send(0), Err(TrySendError::Full(0)));
    let mut cx = Context::from_waker(Waker::noop());
    let mut waits = pin!(to.send_async(capacity));
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    assert_eq!(from.recv(), Ok(0));
    assert_eq!(to.try_send(0), Err(TrySendError::Full(0)), "the place belongs to the waiter");
    assert_eq!(to.len(), capacity - 1);
    assert!(waits.as_mut().poll(&mut cx).is_ready());
    assert_eq!(to.len(), capacity);
    to.close();
    assert!(to.is_closed() && from.is_closed());
    assert_eq!(from.iter().collect::<Vec<_>>(), (1..=capacity).collect::<Vec<_>>());
}

/// A future that was called and is polled late hides no value from others.
#[test]
fn a_slow_receiver_hides_nothing_beyond_the_ring() {
    for large in [false, true] {
        let (to, from) = unbounded::<(usize, Vec<u8>)>();
        let (wide, narrow) = unbounded::<[usize; 500]>();
        let mut cx = Context::from_waker(Waker::noop());
        let (mut one, mut other) = (pin!(from.recv_async()), pin!(narrow.recv_async()));
        assert!(one.as_mut().poll(&mut cx).is_pending());
        assert!(other.as_mut().poll(&mut cx).is_pending());
        for i in 0..200 {
            match large {
                true => wide.send([i; 500]).unwrap(),
                false => to.send((i, Vec::new())).unwrap(),
            }
        }
        for i in 0..200 {
            match large {
                true => assert_eq!(narrow.try_recv().map(|all| all[0]), Ok(i)),
                false => assert_eq!(from.try_recv().map(|(i, _)| i), Ok(i)),
            }
        }
        assert!(one.as_mut().poll(&mut cx).is_pending());
        assert!(other.as_mut().poll(&mut cx).is_pending());
    }
}
