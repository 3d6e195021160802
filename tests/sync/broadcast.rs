//! `broadcast`: each receiver gets each value once and in order, or is told how many it has missed.

use crate::common::{Drops, give_way_until, panic_of, runtime, with, with_each, within};
use crate::{LONG, block_on, until_waiting, waiting};
use cygnet::sync::{
    BroadcastReceiver, BroadcastRecvError, BroadcastSender, BroadcastTryRecvError, broadcast,
};
use cygnet::{Reason, Runtime, Task, cancel_handle, spawn, timeout};
use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(1);

type Received = (BroadcastReceiver<usize>, Result<usize, BroadcastRecvError>);

/// One that waits for the next value, is in the queue when this returns, and gives the receiver back.
fn receives(rt: &Runtime, to: &BroadcastSender<usize>) -> Task<Received> {
    let before = waiting(to);
    let mut from = to.subscribe();
    let task = rt.spawn(move || {
        let got = from.recv();
        (from, got)
    });
    until_waiting(to, before + 1);
    task
}

/// What lies there for it.
fn rest<T: Clone>(from: &mut BroadcastReceiver<T>) -> Vec<T> {
    std::iter::from_fn(|| from.try_recv().ok()).collect()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn each_receiver_gets_each_value_that_is_sent_after_it_was_made() {
    with_each(|rt| {
        let (to, mut one) = broadcast(100);
        assert_eq!(to.send(1), Ok(1));
        let mut other = to.subscribe();
        let receiving = rt.spawn(move || (0..10).map(|_| other.recv().unwrap()).collect());
        (2..12).for_each(|i| assert!(to.send(i).is_ok()));
        let received: Vec<_> = receiving.join().unwrap();
        assert_eq!(received, (2..12).collect::<Vec<_>>());
        assert_eq!(one.len(), 11);
        assert_eq!(rest(&mut one), (1..12).collect::<Vec<_>>());
        assert_eq!((one.try_recv(), one.is_empty()), (Err(BroadcastTryRecvError::Empty), true));
    });
}

#[test]
fn tasks_threads_and_futures_receive_the_same() {
    with_each(|rt| {
        crate::common::thread::scope(|s| {
            let (to, from) = broadcast(4);
            let (mut one, mut other) = (from.clone(), from.clone());
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    let mut from = from.clone();
                    rt.spawn(move || from.recv())
                })
                .collect();
            let thread = s.spawn(move || one.recv());
            let future = s.spawn(move || block_on(other.recv_async()));
            until_waiting(&to, 102);
            assert_eq!(to.send(7), Ok(103));
            assert_eq!((thread.join().unwrap(), future.join().unwrap()), (Ok(7), Ok(7)));
            tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), Ok(7)));
            assert_eq!((waiting(&to), from.len(), to.receivers()), (0, 1, 1));
        });
    });
}

/// Plain threads, without any runtime.
#[test]
fn threads_alone_send_and_receive() {
    within(|| {
        let (to, mut from) = broadcast(8);
        crate::common::thread::scope(|s| {
            let other = s.spawn(move || {
                let first = from.recv_timeout(LONG);
                (first, from.recv(), from.recv_timeout(MOMENT), from.recv())
            });
            until_waiting(&to, 1);
            to.send(String::from("one")).unwrap();
            until_waiting(&to, 1);
            to.send(String::from("two")).unwrap();
            // It is late once, or waits for the end with a limit still.
            drop(to);
            let (first, second, _, last) = other.join().unwrap();
            assert_eq!((first.unwrap().as_str(), second.unwrap().as_str()), ("one", "two"));
            assert_eq!(last, Err(BroadcastRecvError::Closed));
        });
    });
}

#[test]
fn who_is_too_slow_is_told_once_and_goes_on_with_the_oldest() {
    let (to, mut slow) = broadcast(3);
    let mut quick = slow.clone();
    for i in 0..5 {
        assert_eq!(to.send(i), Ok(2));
        assert_eq!(quick.recv(), Ok(i));
    }
    assert_eq!((slow.len(), quick.len()), (3, 0));
    assert_eq!(slow.try_recv(), Err(BroadcastTryRecvError::Lagged(2)));
    let mut clone = slow.clone();
    assert_eq!(rest(&mut slow), [2, 3, 4]);
    // Its clone has been told.
    assert_eq!(rest(&mut clone), [2, 3, 4]);
    (5..9).for_each(|i| assert_eq!(to.send(i), Ok(3)));
    // That of one that has not is told as well.
    let mut clone = slow.clone();
    for from in [&mut slow, &mut clone, &mut quick] {
        assert_eq!(from.recv(), Err(BroadcastRecvError::Lagged(1)));
        assert_eq!(rest(from), [6, 7, 8]);
    }
    to.send(9).unwrap();
    drop(to);
    assert_eq!(block_on(slow.recv_async()), Ok(9));
    assert_eq!(block_on(slow.recv_async()), Err(BroadcastRecvError::Closed));
}

#[test]
fn a_room_of_none_is_one_and_of_all_takes_no_memory_before_it_is_needed() {
    let (to, mut from) = broadcast(0);
    assert_eq!(to.capacity(), 1);
    to.send(1).unwrap();
    to.send(2).unwrap();
    assert_eq!(from.try_recv(), Err(BroadcastTryRecvError::Lagged(1)));
    assert_eq!(from.try_recv(), Ok(2));

    let (to, mut from) = broadcast(usize::MAX);
    assert_eq!(to.capacity(), usize::MAX);
    (0..10_000).for_each(|i| assert_eq!(to.send(i), Ok(1)));
    assert_eq!(rest(&mut from), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn without_a_receiver_the_value_comes_back() {
    let (to, from) = broadcast(2);
    let text = String::from("for nobody");
    assert_eq!(to.send(text.clone()), Ok(1));
    drop(from);
    assert_eq!((to.send(text.clone()), to.receivers()), (Err(text.clone()), 0));
    let mut from = to.subscribe();
    assert_eq!(from.try_recv(), Err(BroadcastTryRecvError::Empty), "it came too late for that");
    assert_eq!((to.send(text.clone()), from.recv()), (Ok(1), Ok(text)));
}

#[test]
fn after_the_last_sender_what_is_there_is_received_and_then_it_is_closed() {
    with_each(|rt| {
        let (to, mut from) = broadcast(4);
        let other = to.clone();
        to.send(1).unwrap();
        drop(to);
        let waits = receives(rt, &other);
        other.send(2).unwrap();
        assert_eq!(waits.join().unwrap().1, Ok(2));
        let waits = receives(rt, &other);
        assert!(!from.is_closed());
        drop(other);
        assert_eq!(waits.join().unwrap().1, Err(BroadcastRecvError::Closed));
        assert!(from.is_closed());
        assert_eq!((from.recv(), from.recv()), (Ok(1), Ok(2)));
        assert_eq!(from.recv_timeout(LONG), Err(BroadcastRecvError::Closed));
        assert_eq!(from.try_recv(), Err(BroadcastTryRecvError::Closed));
        assert_eq!(from.clone().recv(), Err(BroadcastRecvError::Closed));
    });
}

#[test]
fn a_wait_that_is_cancelled_or_late_leaves_the_value_to_the_next_one() {
    with_each(|rt| {
        let (to, mut from) = broadcast(100);
        for cancelled in [&[0][..], &[1], &[2], &[0, 1, 2]] {
            let tasks: Vec<_> = (0..3).map(|_| receives(rt, &to)).collect();
            cancelled.iter().for_each(|i| tasks[*i].cancel("enough"));
            until_waiting(&to, 3 - cancelled.len());
            to.send(1).unwrap();
            for (i, task) in tasks.into_iter().enumerate() {
                let (mut from, got) = task.join().unwrap();
                assert_eq!(got.is_err(), cancelled.contains(&i));
                // Who has not come as far as that finds the value there.
                assert_eq!(from.try_recv().is_ok(), got.is_err());
            }
        }
        assert_eq!(rest(&mut from), [1; 4]);
        assert_eq!(from.recv_timeout(MOMENT), Err(BroadcastRecvError::TimedOut));
        assert_eq!(from.recv_timeout(Duration::ZERO), Err(BroadcastRecvError::TimedOut));
        rt.block_on(|| {
            let late = timeout(MOMENT, || from.recv());
            let Err(BroadcastRecvError::Cancelled(refused)) = late.unwrap_err().into_inner() else {
                panic!("nothing was sent");
            };
            assert_eq!(*refused.reason(), Reason::Deadline);
        });
        assert_eq!(waiting(&to), 0);
    });
}

#[test]
fn one_that_is_cancelled_after_it_was_called_leaves_the_value() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (to, mut from) = broadcast(2);
            let task = spawn(move || {
                let got = from.recv();
                (from, got)
            });
            give_way_until(|| waiting(&to) == 1);
            to.send(1).unwrap();
            task.cancel("after that");
            let (mut from, got) = task.join().unwrap();
            assert!(matches!(got, Err(BroadcastRecvError::Cancelled(_))));
            assert_eq!(from.try_recv(), Ok(1));
        });
    });
}

#[test]
fn a_cancelled_task_is_turned_away_also_from_what_is_there() {
    with(&[1, 2], |rt| {
        let (to, mut from) = broadcast(2);
        to.send(1).unwrap();
        let task = rt.spawn(move || {
            cancel_handle().cancel("enough");
            assert!(matches!(from.recv(), Err(BroadcastRecvError::Cancelled(_))));
            assert!(matches!(from.recv_timeout(LONG), Err(BroadcastRecvError::Cancelled(_))));
            from.try_recv()
        });
        assert_eq!(task.join().unwrap(), Ok(1));
    });
}

#[test]
fn a_future_that_is_dropped_in_any_state_has_received_nothing() {
    let (to, mut from) = broadcast(2);
    drop(from.recv_async());
    {
        let mut waits = pin!(from.recv_async());
        assert!(poll(waits.as_mut()).is_pending());
        assert_eq!(waiting(&to), 1);
    }
    assert_eq!(waiting(&to), 0);
    {
        let mut called = pin!(from.recv_async());
        assert!(poll(called.as_mut()).is_pending());
        to.send(1).unwrap();
    }
    let mut ready = Box::pin(from.recv_async());
    assert_eq!(poll(ready.as_mut()), Poll::Ready(Ok(1)));
    let again = panic_of(|| poll(ready.as_mut()));
    assert!(again.contains("polled after its end"), "{again}");
    drop(ready);
    // Called, and driven out before it is polled again.
    let mut called = pin!(from.recv_async());
    assert!(poll(called.as_mut()).is_pending());
    (2..5).for_each(|i| assert_eq!(to.send(i), Ok(1)));
    assert_eq!(poll(called), Poll::Ready(Err(BroadcastRecvError::Lagged(1))));
}

/// Such futures keep their places, and are called in vain. A forgotten receiver counts as one that is slow.
#[test]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn what_is_forgotten_takes_nothing_along() {
    let (to, mut from) = broadcast(2);
    for _ in 0..2 {
        let mut forgotten = Box::pin(from.recv_async());
        assert!(poll(forgotten.as_mut()).is_pending());
        std::mem::forget(forgotten);
    }
    assert_eq!(waiting(&to), 2);
    to.send(1).unwrap();
    assert_eq!((waiting(&to), from.recv()), (0, Ok(1)));
    std::mem::forget(from.clone());
    (0..5).for_each(|i| assert_eq!(to.send(i), Ok(2)));
    assert_eq!(from.recv(), Err(BroadcastRecvError::Lagged(3)));
}

#[test]
fn a_value_is_dropped_with_its_last_receiver_and_copied_no_more_than_needed() {
    struct Counted(Drops, #[allow(dead_code)] crate::common::drops::Guard);
    impl Counted {
        fn new(drops: &Drops) -> Counted {
            Counted(drops.clone(), drops.guard())
        }
    }
    impl Clone for Counted {
        fn clone(&self) -> Counted {
            Counted::new(&self.0)
        }
    }
    let drops = Drops::new();
    let (to, mut one) = broadcast(3);
    let mut other = one.clone();
    let send = || assert!(to.send(Counted::new(&drops)).is_ok());
    send();
    drop(one.try_recv().ok().unwrap());
    assert_eq!((drops.count(), drops.left()), (1, 1));
    // The last one gets the value itself.
    drop(other.try_recv().ok().unwrap());
    assert_eq!((drops.count(), drops.left()), (2, 0));
    // A fourth value drives the first one out.
    (0..4).for_each(|_| send());
    assert_eq!((drops.count(), drops.left()), (3, 3));
    drop(one);
    assert_eq!(drops.left(), 3);
    let clone = other.clone();
    drop(other);
    assert_eq!(drops.left(), 3);
    drop(clone);
    assert_eq!((drops.left(), to.receivers()), (0, 0));
    let refused = to.send(Counted::new(&drops)).err().unwrap();
    assert_eq!(drops.left(), 1);
    drop(refused);
    assert_eq!(drops.left(), 0);
}

/// More than one portion of claims, with values that are driven out, and with receivers at all places.
#[test]
fn clones_and_drops_of_receivers_keep_the_count_of_claims() {
    let drops = Drops::new();
    let (to, mut from) = broadcast(500);
    let mut others = Vec::new();
    for i in 0..1_000usize {
        to.send((i, Arc::new(drops.guard()))).unwrap();
        if i % 100 == 7 {
            others.push(from.clone());
            (0..i % 30).for_each(|_| drop(from.try_recv()));
            others.push(from.clone());
        }
    }
    assert_eq!(drops.left(), 500);
    for (n, mut other) in others.into_iter().enumerate() {
        let mut next = None;
        for _ in 0..n * 40 {
            match other.try_recv() {
                Ok((i, _)) => assert_eq!(i, *next.insert(next.map_or(i, |before| before + 1))),
                Err(BroadcastTryRecvError::Lagged(_)) => assert_eq!(next, None),
                Err(error) => assert_eq!((error, next), (BroadcastTryRecvError::Empty, Some(999))),
            }
        }
    }
    let length = from.len();
    assert_eq!((drops.left(), to.receivers()), (length, 1));
    drop(from);
    assert_eq!(drops.left(), 0);
}

#[test]
fn a_panic_of_clone_loses_nothing() {
    static PANICS: AtomicBool = AtomicBool::new(true);
    #[derive(PartialEq, Debug)]
    struct Sore(usize);
    impl Clone for Sore {
        fn clone(&self) -> Sore {
            assert!(!PANICS.load(Ordering::Relaxed), "no copies");
            Sore(self.0)
        }
    }
    let (to, mut from) = broadcast(2);
    let mut last = from.clone();
    (0..2).for_each(|i| assert_eq!(to.send(Sore(i)), Ok(2)));
    assert_eq!(panic_of(|| from.recv()), "no copies");
    assert_eq!(panic_of(|| from.try_recv()), "no copies");
    assert_eq!(panic_of(|| block_on(from.recv_async())), "no copies");
    assert_eq!(from.len(), 2);
    // Who needs no copy gets it; and what others keep from being driven out.
    let mut clone = from.clone();
    (2..4).for_each(|i| assert_eq!(to.send(Sore(i)), Ok(3)));
    assert_eq!(last.try_recv(), Err(BroadcastTryRecvError::Lagged(2)));
    PANICS.store(false, Ordering::Relaxed);
    assert_eq!((from.recv(), block_on(clone.recv_async())), (Ok(Sore(0)), Ok(Sore(0))));
    for from in [&mut from, &mut clone] {
        assert_eq!(from.recv(), Err(BroadcastRecvError::Lagged(1)));
        assert_eq!(rest(from), [Sore(2), Sore(3)]);
    }
}

#[test]
fn a_panic_of_a_destructor_loses_nothing_else() {
    #[derive(Clone)]
    struct Sore(Arc<AtomicUsize>);
    impl Drop for Sore {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("in the destructor");
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = || dropped.load(Ordering::Relaxed);
    let (to, from) = broadcast(100);
    let send = || to.send(Sore(Arc::clone(&dropped)));
    (0..100).for_each(|_| assert!(send().is_ok()));
    let said = panic_of(|| send().is_ok());
    assert_eq!((said.as_str(), count(), from.len()), ("in the destructor", 1, 100));
    // All of them are dropped, and the first panic goes on.
    assert_eq!(panic_of(|| drop(from)), "in the destructor");
    assert_eq!((count(), to.receivers()), (101, 0));
    // In the middle of another panic it does not end the process.
    let from = to.subscribe();
    (0..3).for_each(|_| assert!(send().is_ok()));
    let unwound = panic_of(|| {
        let _from = from;
        panic!("unwinds");
    });
    assert_eq!((unwound.as_str(), count()), ("unwinds", 104));
}

/// The copy is made; what it was made from has no other owner any more.
#[test]
fn a_panic_of_a_destructor_does_not_take_the_copy_along() {
    crate::common::real!("thread-locals of OS threads");
    thread_local!(static OTHER: RefCell<Option<BroadcastReceiver<Sore>>> = const { RefCell::new(None) });
    struct Sore(&'static str);
    impl Clone for Sore {
        fn clone(&self) -> Sore {
            OTHER.with_borrow_mut(Option::take);
            Sore("copy")
        }
    }
    impl Drop for Sore {
        fn drop(&mut self) {
            assert_eq!(self.0, "copy", "in the destructor");
        }
    }
    let (to, mut from) = broadcast(2);
    OTHER.set(Some(to.subscribe()));
    assert!(to.send(Sore("original")).is_ok());
    assert_eq!(from.recv().ok().unwrap().0, "copy");
    assert_eq!((from.len(), to.receivers()), (0, 1));
}

/// They run without a lock.
#[test]
fn clone_and_drop_of_a_value_may_use_the_channel() {
    struct Asks(BroadcastSender<Asks>);
    impl Clone for Asks {
        fn clone(&self) -> Asks {
            assert_eq!(self.0.receivers(), 2);
            drop(self.0.subscribe());
            Asks(self.0.clone())
        }
    }
    impl Drop for Asks {
        fn drop(&mut self) {
            drop(self.0.subscribe());
        }
    }
    within(|| {
        let (to, mut from) = broadcast(2);
        let other = from.clone();
        (0..4).for_each(|_| assert!(to.send(Asks(to.clone())).is_ok()));
        assert!(matches!(from.recv(), Err(BroadcastRecvError::Lagged(2))));
        assert!(from.recv().is_ok());
        drop((from, other));
        assert_eq!(to.receivers(), 0);
    });
}

#[test]
fn where_nothing_may_wait_what_is_there_is_received() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (to, mut from) = broadcast(1);
            let refused = panic_of(|| cygnet::no_suspend(|| from.recv()));
            assert!(refused.contains("no_suspend"), "{refused}");
            to.send(1).unwrap();
            assert_eq!(cygnet::no_suspend(|| from.recv()), Ok(1));
        });
    });
}

#[test]
fn the_end_of_a_runtime_ends_the_waits_of_its_tasks() {
    within(|| {
        let rt = runtime(2);
        let (to, _from) = broadcast(1);
        let task = receives(&rt, &to);
        drop(rt);
        let (mut from, got) = task.join().unwrap();
        assert!(matches!(got, Err(BroadcastRecvError::Cancelled(_))));
        to.send(1).unwrap();
        assert_eq!(from.recv(), Ok(1));
    });
}

#[test]
fn both_ends_say_what_they_are_and_where_others_wait() {
    let (to, mut from) = broadcast::<u8>(2);
    assert_eq!(format!("{to:?}"), "BroadcastSender { receivers: 1, capacity: 2, receiving: [] }");
    let mut waits = Box::pin(from.recv_async());
    assert!(poll(waits.as_mut()).is_pending());
    assert!(format!("{to:?}").contains("broadcast.rs:"), "{to:?}");
    drop(waits);
    to.send(1).unwrap();
    drop(to);
    assert_eq!(
        format!("{from:?}"),
        "BroadcastReceiver { len: 1, capacity: 2, closed: true, receiving: [] }"
    );
    assert_eq!(
        BroadcastRecvError::Lagged(3).to_string(),
        "the receiver was too slow, and has missed 3 values"
    );
}
