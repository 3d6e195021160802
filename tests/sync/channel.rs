//! Channels: order, room, closing, and that no value is lost or seen twice.

use crate::common::Barrier;
use crate::common::{
    Drops, Random, give_way_until, panic_of, runtime, scaled, scaled_in_debug, with, with_each,
    with_each_and_many, within,
};
use crate::{LONG, block_on, until_waiting, waiting};
use cygnet::sync::{
    Receiver, SendError, Sender, TryRecvError, TrySendError, WaitError, bounded, unbounded,
};
use cygnet::{Runtime, Task, cancel_handle, scope, spawn, yield_now};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// One that waits to send, and is in the queue when this returns.
fn sends(rt: &Runtime, to: &Sender<usize>, value: usize) -> Task<Result<(), SendError<usize>>> {
    let before = waiting(to);
    let mine = to.clone();
    let task = rt.spawn(move || mine.send(value));
    until_waiting(to, before + 1);
    task
}

/// One that waits to receive.
fn receives(rt: &Runtime, from: &Receiver<usize>) -> Task<Result<usize, WaitError>> {
    let before = waiting(from);
    let mine = from.clone();
    let task = rt.spawn(move || mine.recv());
    until_waiting(from, before + 1);
    task
}

#[test]
fn values_come_in_the_order_in_which_they_were_sent_and_senders_wait_for_room() {
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
fn who_has_waited_longest_sends_and_receives_first() {
    with_each(|rt| {
        let (to, from) = bounded(1);
        to.send(0).unwrap();
        let senders: Vec<_> = (1..6).map(|i| sends(rt, &to, i)).collect();
        assert_eq!(to.try_send(9), Err(TrySendError::Full(9)));
        assert_eq!((0..6).map(|_| from.recv().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        senders.into_iter().for_each(|task| task.join().unwrap().unwrap());
        let receivers: Vec<_> = (0..5).map(|_| receives(rt, &from)).collect();
        (0..5).for_each(|i| to.send(i).unwrap());
        for (i, task) in receivers.into_iter().enumerate() {
            assert_eq!(task.join().unwrap(), Ok(i));
        }
    });
}

#[test]
fn who_is_cancelled_or_late_has_neither_sent_nor_received() {
    with_each(|rt| {
        let (to, from) = bounded(1);
        for cancelled in [0, 1, 2] {
            let receivers: Vec<_> = (0..3).map(|_| receives(rt, &from)).collect();
            receivers[cancelled].cancel("enough");
            until_waiting(&from, 2);
            assert_eq!(from.recv_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
            for i in 0..2 {
                to.send(i).unwrap();
            }
            let got: Vec<_> = receivers.into_iter().map(|task| task.join().unwrap()).collect();
            let values: Vec<_> = got.iter().filter_map(|got| got.clone().ok()).collect();
            assert_eq!(values, [0, 1]);
            assert!(matches!(got[cancelled], Err(WaitError::Cancelled(_))));
        }
        to.send(7).unwrap();
        for cancelled in [0, 1, 2] {
            let senders: Vec<_> = (0..3).map(|i| sends(rt, &to, i)).collect();
            senders[cancelled].cancel("enough");
            until_waiting(&to, 2);
            let late = to.send_timeout(9, Duration::from_millis(1)).unwrap_err();
            assert_eq!((late.reason(), late.clone().into_inner()), (&WaitError::TimedOut, 9));
            assert_eq!(from.recv(), Ok(7));
            let left: Vec<_> = (0..3).filter(|i| *i != cancelled).collect();
            assert_eq!([from.recv().unwrap(), from.recv().unwrap()], left[..]);
            for (i, task) in senders.into_iter().enumerate() {
                let sent = task.join().unwrap();
                assert_eq!(sent.is_err(), i == cancelled);
                if let Err(refused) = sent {
                    assert_eq!(refused.into_inner(), i);
                }
            }
            to.send(7).unwrap();
        }
        assert_eq!((waiting(&to), to.len()), (0, 1));
    });
}

/// One receiver, or one sender, waits at an end that nobody else has used: what it waits for is spoken for, and is given
/// back if it is cancelled before it runs.
#[test]
fn what_one_is_granted_that_is_cancelled_then_is_there_for_others() {
    within(|| {
        let rt = runtime(1);
        rt.block_on(|| {
            let (to, from) = bounded(1);
            let (to, from) = (Arc::new(to), Arc::new(from));
            let receiver = {
                let from = Arc::clone(&from);
                spawn(move || from.recv())
            };
            give_way_until(|| waiting(&*from) == 1);
            to.send(1).unwrap();
            assert_eq!(from.try_recv(), Err(TryRecvError::Empty), "it is spoken for");
            receiver.cancel("after it was granted");
            assert!(matches!(receiver.join().unwrap(), Err(WaitError::Cancelled(_))));
            let sender = {
                let to = Arc::clone(&to);
                spawn(move || to.send(2))
            };
            give_way_until(|| waiting(&*to) == 1);
            assert_eq!(from.try_recv(), Ok(1));
            assert_eq!(to.try_send(3), Err(TrySendError::Full(3)), "the place is spoken for");
            sender.cancel("after it was granted");
            assert_eq!(sender.join().unwrap().unwrap_err().into_inner(), 2);
            assert_eq!(to.try_send(3), Ok(()));
            assert_eq!(from.try_recv(), Ok(3));
        });
    });
}

/// Two wait, and the first of them is cancelled after it was called: the next one is called.
#[test]
fn a_call_of_one_that_is_cancelled_goes_to_the_next() {
    within(|| {
        let rt = runtime(1);
        rt.block_on(|| {
            let (to, from) = bounded(1);
            let receivers = [from.clone(), from.clone()].map(|from| spawn(move || from.recv()));
            give_way_until(|| waiting(&from) == 2);
            to.send(1).unwrap();
            assert_eq!(waiting(&from), 1, "the first one is called, and no other");
            receivers[0].cancel("after it was called");
            let [first, second] = receivers.map(|task| task.join().unwrap());
            assert!(matches!(first, Err(WaitError::Cancelled(_))));
            assert_eq!(second, Ok(1));

            to.send(2).unwrap();
            let senders = [3, 4].map(|value| {
                let to = to.clone();
                spawn(move || to.send(value))
            });
            give_way_until(|| waiting(&to) == 2);
            assert_eq!(from.recv(), Ok(2));
            assert_eq!(waiting(&to), 1, "the first one is called, and no other");
            senders[0].cancel("after it was called");
            let [first, second] = senders.map(|task| task.join().unwrap());
            assert_eq!(first.unwrap_err().into_inner(), 3);
            second.unwrap();
            assert_eq!(from.recv(), Ok(4));
        });
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
fn what_was_sent_before_the_end_is_received_and_then_it_is_closed() {
    with_each(|rt| {
        let (to, from) = bounded(2);
        to.send(1).unwrap();
        to.send(2).unwrap();
        let late = sends(rt, &to, 3);
        from.close();
        to.close();
        let refused = late.join().unwrap().unwrap_err();
        assert_eq!((refused.reason(), refused.clone().into_inner()), (&WaitError::Closed, 3));
        assert_eq!(to.try_send(4), Err(TrySendError::Closed(4)));
        assert!(to.is_closed() && from.is_closed());
        assert_eq!(from.iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(from.try_recv(), Err(TryRecvError::Closed));

        // The last sender goes; its clones count.
        let (to, from) = unbounded();
        let other = to.clone();
        let waits = receives(rt, &from);
        drop(to);
        assert!(!from.is_closed());
        other.send(5).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(5));
        let waits = receives(rt, &from);
        drop(other);
        assert_eq!(waits.join().unwrap(), Err(WaitError::Closed));
    });
}

#[test]
fn with_the_last_receiver_what_lies_there_is_dropped_and_senders_get_theirs_back() {
    with_each(|rt| {
        let drops = Drops::new();
        let (to, from) = bounded(3);
        (0..3).for_each(|_| to.send(drops.guard()).unwrap());
        let (mine, guard) = (to.clone(), drops.guard());
        let waits = rt.spawn(move || mine.send(guard));
        until_waiting(&to, 1);
        let other = from.clone();
        drop(from);
        assert_eq!(drops.count(), 0);
        drop(other);
        assert_eq!(drops.count(), 3);
        let refused = waits.join().unwrap().unwrap_err();
        assert_eq!((refused.reason(), drops.left()), (&WaitError::Closed, 1));
        drop(refused);
        assert!(matches!(to.try_send(drops.guard()), Err(TrySendError::Closed(_))));
        assert_eq!(drops.left(), 0);
    });
}

/// Who drops values may use the channel itself: no lock is held.
#[test]
fn a_destructor_may_use_the_channel_that_it_lies_in() {
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
        for _ in 0..3 {
            to.send(Asks(Some(to.clone()))).unwrap();
        }
        drop(from);
        assert!(to.is_empty());
    });
}

#[test]
fn a_panic_of_a_destructor_loses_nothing_else() {
    struct Sore<'a>(&'a AtomicUsize);
    impl Drop for Sore<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("in the destructor");
        }
    }
    for capacity in [3, usize::MAX] {
        let dropped = AtomicUsize::new(0);
        let filled = || {
            let (to, from) = bounded(capacity);
            (0..3).for_each(|_| assert!(to.send(Sore(&dropped)).is_ok()));
            (to, from)
        };
        // All of them are dropped, and the first panic goes on.
        let (to, from) = filled();
        assert_eq!(panic_of(|| drop(from)), "in the destructor");
        assert_eq!((dropped.load(Ordering::Relaxed), to.len(), to.is_closed()), (3, 0, true));
        // In the middle of another panic it does not end the process.
        let (_to, from) = filled();
        let unwound = panic_of(|| {
            let _from = from;
            panic!("unwinds");
        });
        assert_eq!((unwound.as_str(), dropped.load(Ordering::Relaxed)), ("unwinds", 6));
    }
}

#[test]
fn without_room_they_meet() {
    with_each(|rt| {
        let (to, from) = bounded(0);
        assert_eq!(to.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(from.try_recv(), Err(TryRecvError::Empty));
        // Who waits to receive is met at once.
        let waits = receives(rt, &from);
        to.try_send(2).unwrap();
        assert_eq!(to.try_send(3), Err(TrySendError::Full(3)));
        assert_eq!(waits.join().unwrap(), Ok(2));
        // Who waits to send, by the next who receives.
        let waits = sends(rt, &to, 4);
        assert_eq!(from.recv(), Ok(4));
        waits.join().unwrap().unwrap();
        // Nobody is there any more.
        let waits = receives(rt, &from);
        waits.cancel("enough");
        assert!(waits.join().unwrap().is_err());
        assert_eq!(to.try_send(5), Err(TrySendError::Full(5)));
        let late = to.send_timeout(6, Duration::from_millis(1)).unwrap_err();
        assert_eq!(late.into_inner(), 6);
        assert_eq!(from.recv_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
        assert_eq!((waiting(&to), to.len(), to.capacity()), (0, 0, Some(0)));
    });
}

#[test]
fn a_meeting_stands_also_if_the_receiver_is_cancelled_then() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (to, from) = bounded(0);
            let mine = from.clone();
            let task = spawn(move || mine.recv());
            while waiting(&from) == 0 {
                yield_now().unwrap();
            }
            to.try_send(1).unwrap();
            task.cancel("after that");
            assert_eq!(task.join().unwrap(), Ok(1));
        });
    });
}

#[test]
fn futures_send_and_receive_and_leave_nothing_when_they_are_dropped() {
    let mut cx = Context::from_waker(Waker::noop());
    let (to, from) = bounded(1);
    drop(to.send_async(0));
    block_on(to.send_async(1)).unwrap();
    {
        let mut full = pin!(to.send_async(2));
        assert!(full.as_mut().poll(&mut cx).is_pending());
        assert_eq!(waiting(&to), 1);
    }
    assert_eq!(waiting(&to), 0);
    let mut granted = Box::pin(to.send_async(3));
    let mut next = Box::pin(to.send_async(4));
    assert!(granted.as_mut().poll(&mut cx).is_pending());
    assert!(next.as_mut().poll(&mut cx).is_pending());
    assert_eq!(block_on(from.recv_async()), Ok(1));
    drop(granted);
    assert_eq!(next.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    assert_eq!(from.recv(), Ok(4));
    let mut granted = Box::pin(from.recv_async());
    let mut next = Box::pin(from.recv_async());
    assert!(granted.as_mut().poll(&mut cx).is_pending());
    assert!(next.as_mut().poll(&mut cx).is_pending());
    to.send(5).unwrap();
    drop(granted);
    assert_eq!(next.as_mut().poll(&mut cx), Poll::Ready(Ok(5)));
    let mut closed = Box::pin(from.recv_async());
    assert!(closed.as_mut().poll(&mut cx).is_pending());
    to.close();
    assert_eq!(closed.as_mut().poll(&mut cx), Poll::Ready(Err(WaitError::Closed)));
}

#[test]
fn threads_block_and_both_ends_say_what_they_are() {
    let (to, from) = bounded::<String>(1);
    crate::common::thread::scope(|s| {
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

/// Who asks for more at the same moment, and need not wait for it, is in nobody's way.
#[test]
fn what_is_there_for_all_is_had_by_who_tries_while_others_enter() {
    within(|| {
        let each = scaled(1_000);
        let (to, from) = bounded(2 * each);
        let both = Barrier::new(2);
        for _ in 0..scaled(100) {
            crate::common::thread::scope(|s| {
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

/// Senders and receivers of all kinds, with limits and cancels: what was sent, and nothing else, is received once.
/// Eight that send `each` so many values, and six that receive, as tasks, threads and futures, with random limits for a
/// half of the waits; some are cancelled. What was sent was received, once.
fn storm(workers: usize, capacity: usize, each: usize) {
    let rt = runtime(workers);
    let (to, from) = bounded::<usize>(capacity);
    let sums = Arc::new([const { AtomicUsize::new(0) }; 4]);
    let sender = |seed: usize| {
        let (to, sums) = (to.clone(), Arc::clone(&sums));
        move || {
            let mut random = Random(seed as u64 * 7919 + 1);
            for i in 0..each {
                let value = seed * each + i + 1;
                let sent = match random.below(3) {
                    0 => to.send_timeout(value, Duration::from_micros(random.below(90))),
                    1 => block_on(to.send_async(value)),
                    _ => to.send(value),
                };
                match sent {
                    Ok(()) => {
                        sums[0].fetch_add(value, Ordering::Relaxed);
                        sums[1].fetch_add(1, Ordering::Relaxed);
                    }
                    Err(refused) => assert_eq!(refused.into_inner(), value),
                }
            }
        }
    };
    let receiver = |seed: usize| {
        let (from, sums) = (from.clone(), Arc::clone(&sums));
        move || {
            let mut random = Random(seed as u64 * 104_729 + 1);
            loop {
                let got = match random.below(3) {
                    0 => from.recv_timeout(Duration::from_micros(random.below(90))),
                    1 if cygnet::current_id().is_none() => block_on(from.recv_async()),
                    _ => from.recv(),
                };
                match got {
                    Ok(value) => {
                        sums[2].fetch_add(value, Ordering::Relaxed);
                        sums[3].fetch_add(1, Ordering::Relaxed);
                    }
                    Err(WaitError::TimedOut) => {}
                    Err(_) => return,
                }
            }
        }
    };
    // A thread of a worker must not be blocked by the executor of a test.
    let blocking: Vec<_> = (0..2).map(|i| crate::common::thread::spawn(sender(i))).collect();
    let tasks: Vec<_> = (2..8)
        .map(|i| {
            let (to, sums) = (to.clone(), Arc::clone(&sums));
            rt.spawn(move || {
                for k in 0..each {
                    let value = i * each + k + 1;
                    if to.send(value).is_ok() {
                        sums[0].fetch_add(value, Ordering::Relaxed);
                        sums[1].fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    let receiving: Vec<_> = (0..4).map(|i| rt.spawn(receiver(i))).collect();
    let threads: Vec<_> = (4..6).map(|i| crate::common::thread::spawn(receiver(i))).collect();
    tasks[1].cancel("a part of the storm");
    receiving[2].cancel("a part of the storm");
    blocking.into_iter().for_each(|thread| thread.join().unwrap());
    tasks.into_iter().for_each(|task| drop(task.join()));
    to.close();
    receiving.into_iter().for_each(|task| drop(task.join()));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let sums: Vec<_> = sums.iter().map(|sum| sum.load(Ordering::Relaxed)).collect();
    assert_eq!(sums[..2], sums[2..], "room for {capacity}, {workers} workers");
    assert_eq!((waiting(&to), to.len()), (0, 0));
}

#[test]
fn a_storm_loses_nothing_and_doubles_nothing() {
    for workers in [1, 2, 3, 8, 64] {
        for capacity in [0, 1, 3, 64, usize::MAX] {
            within(|| storm(workers, capacity, scaled_in_debug(400)));
        }
    }
}

#[test]
fn a_storm_of_a_million_values_loses_nothing() {
    for capacity in [64, 1024] {
        within(|| storm(2, capacity, scaled_in_debug(1_000_000) / 16));
    }
}

#[test]
fn many_tasks_of_one_scope_share_a_channel() {
    with_each_and_many(|rt| {
        let (to, from) = bounded(4);
        let sum: usize = rt.block_on(|| {
            scope(|s| {
                for i in 0..50 {
                    let to = to.clone();
                    s.spawn(move || (0..20).for_each(|k| to.send(i * 20 + k).unwrap()));
                }
                drop(to);
                let tasks: Vec<_> =
                    (0..5).map(|_| s.spawn(|| from.iter().sum::<usize>())).collect();
                tasks.into_iter().map(|task| task.join().unwrap()).sum()
            })
        });
        assert_eq!(sum, (0..1_000).sum());
    });
}
