//! `broadcast`: each receiver gets each value once and in order, or is told how many it has missed.

use crate::common::prelude::*;
use cygnet::sync::{BroadcastReceiver, BroadcastSender, TryRecvError, broadcast};
use std::sync::Mutex;

/// Receives until the channel is empty, or has something to say.
fn rest<T: Clone>(from: &mut BroadcastReceiver<T>) -> Vec<T> {
    std::iter::from_fn(|| from.try_recv().ok()).collect()
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
        assert_eq!((one.try_recv(), one.is_empty()), (Err(TryRecvError::Empty), true));
    });
}

#[test]
fn a_slow_receiver_is_told_once_and_goes_on_with_the_oldest_value() {
    let (to, mut slow) = broadcast(3);
    let mut quick = slow.clone();
    for i in 0..5 {
        assert_eq!(to.send(i), Ok(2));
        assert_eq!(quick.recv(), Ok(i));
    }
    assert_eq!((slow.len(), quick.len()), (3, 0));
    assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(2)));
    let mut clone = slow.clone();
    assert_eq!(rest(&mut slow), [2, 3, 4]);
    // The receiver was told before it was cloned.
    assert_eq!(rest(&mut clone), [2, 3, 4]);
    (5..9).for_each(|i| assert_eq!(to.send(i), Ok(3)));
    // This one was not.
    let mut clone = slow.clone();
    for from in [&mut slow, &mut clone, &mut quick] {
        assert_eq!(from.recv(), Err(WaitError::Lagged(1)));
        assert_eq!(rest(from), [6, 7, 8]);
    }
    to.send(9).unwrap();
    drop(to);
    assert_eq!(block_on(slow.recv_async()), Ok(9));
    assert_eq!(block_on(slow.recv_async()), Err(WaitError::Closed));
}

#[test]
fn a_room_of_none_is_one_and_a_huge_room_takes_no_memory_in_advance() {
    let (to, mut from) = broadcast(0);
    assert_eq!(to.capacity(), 1);
    to.send(1).unwrap();
    to.send(2).unwrap();
    assert_eq!(from.try_recv(), Err(TryRecvError::Lagged(1)));
    assert_eq!(from.try_recv(), Ok(2));

    let (to, mut from) = broadcast(usize::MAX);
    assert_eq!(to.capacity(), usize::MAX);
    (0..10_000).for_each(|i| assert_eq!(to.send(i), Ok(1)));
    assert_eq!(rest(&mut from), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn without_a_receiver_the_value_comes_back() {
    let (to, from) = broadcast(2);
    let text = String::from("for no receiver");
    assert_eq!(to.send(text.clone()), Ok(1));
    drop(from);
    assert_eq!((to.send(text.clone()), to.receivers()), (Err(text.clone()), 0));
    let mut from = to.subscribe();
    assert_eq!(from.try_recv(), Err(TryRecvError::Empty), "it came too late for that");
    assert_eq!((to.send(text.clone()), from.recv()), (Ok(1), Ok(text)));
}

#[test]
fn after_the_last_sender_the_remaining_values_come_and_then_the_end() {
    with_each(|rt| {
        let (to, mut from) = broadcast(4);
        let other = to.clone();
        to.send(1).unwrap();
        drop(to);
        let receives = || {
            let mut from = other.subscribe();
            queued(rt, &other, move || from.recv())
        };
        let waits = receives();
        other.send(2).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(2));
        let waits = receives();
        assert!(!from.is_closed());
        drop(other);
        assert_eq!(waits.join().unwrap(), Err(WaitError::Closed));
        assert!(from.is_closed());
        assert_eq!((from.recv(), from.recv()), (Ok(1), Ok(2)));
        assert_eq!(from.recv_timeout(LONG), Err(WaitError::Closed));
        assert_eq!(from.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(from.clone().recv(), Err(WaitError::Closed));
    });
}

#[test]
fn a_waiter_that_is_cancelled_does_not_hold_up_the_values_of_others() {
    with_each(|rt| {
        let (to, mut from) = broadcast(100);
        for value in 0..4 {
            let tasks = [(); 3].map(|()| {
                let mut from = to.subscribe();
                queued(rt, &to, move || {
                    let got = from.recv();
                    (from, got)
                })
            });
            tasks[value % 3].cancel("enough");
            common::until_waiting(&to, 2);
            assert_eq!(to.send(value), Ok(4));
            for (i, task) in tasks.into_iter().enumerate() {
                let (mut from, got) = task.join().unwrap();
                assert_eq!(got.is_err(), i == value % 3);
                assert_eq!(got.or_else(|_| from.recv()), Ok(value));
                assert_eq!(from.try_recv(), Err(TryRecvError::Empty));
            }
        }
        assert_eq!((rest(&mut from), waiting(&to)), (vec![0, 1, 2, 3], 0));
    });
}

#[test]
fn a_future_whose_value_is_driven_out_before_its_next_poll_is_told_so() {
    let (to, mut from) = broadcast(2);
    let called = begun(from.recv_async());
    (2..5).for_each(|i| assert_eq!(to.send(i), Ok(1)));
    assert_eq!(poll_once(called), Poll::Ready(Err(WaitError::Lagged(1))));
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn a_forgotten_receiver_counts_as_a_slow_one() {
    let (to, mut from) = broadcast(2);
    std::mem::forget(from.clone());
    (0..5).for_each(|i| assert_eq!(to.send(i), Ok(2)));
    assert_eq!(from.recv(), Err(WaitError::Lagged(3)));
}

#[test]
fn a_value_is_dropped_with_its_last_receiver_and_not_copied_needlessly() {
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
    // The last receiver gets the value itself.
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

/// More than one portion of claims, values that are driven out, and receivers at all positions.
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
                Err(TryRecvError::Lagged(_)) => assert_eq!(next, None),
                Err(error) => assert_eq!((error, next), (TryRecvError::Empty, Some(999))),
            }
        }
    }
    let length = from.len();
    assert_eq!((drops.left(), to.receivers()), (length, 1));
    drop(from);
    assert_eq!(drops.left(), 0);
}

/// A destructor that runs while one receiver goes sends a value, and lets another one catch up.
#[test]
fn a_value_that_is_sent_while_a_receiver_goes_keeps_its_place() {
    type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;
    struct Value(usize, Option<Hook>);
    impl Clone for Value {
        fn clone(&self) -> Value {
            Value(self.0, None)
        }
    }
    impl Drop for Value {
        fn drop(&mut self) {
            let hook = self.1.take().and_then(|hook| hook.lock().unwrap().take());
            hook.into_iter().for_each(|hook| hook());
        }
    }
    let (to, goes) = broadcast(1_000);
    let mut stays = to.subscribe();
    let hook = Hook::default();
    for n in 0..200 {
        assert!(to.send(Value(n, (n == 0).then(|| Arc::clone(&hook)))).is_ok());
    }
    (0..100).for_each(|n| assert_eq!(stays.try_recv().ok().unwrap().0, n));
    let (tell, told) = std::sync::mpsc::channel();
    let sender = to.clone();
    *hook.lock().unwrap() = Some(Box::new(move || {
        assert!(sender.send(Value(200, None)).is_ok());
        let received: Vec<_> = rest(&mut stays).iter().map(|value| value.0).collect();
        tell.send((received, stays)).unwrap();
    }));
    drop(goes);
    let (received, mut stays) = told.try_recv().unwrap();
    assert_eq!(received, (100..=200).collect::<Vec<_>>());
    assert!(to.send(Value(201, None)).is_ok());
    assert_eq!(rest(&mut stays).iter().map(|value| value.0).collect::<Vec<_>>(), [201]);
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
    // The last receiver needs no copy; the others keep their values from being driven out.
    let mut clone = from.clone();
    (2..4).for_each(|i| assert_eq!(to.send(Sore(i)), Ok(3)));
    assert_eq!(last.try_recv(), Err(TryRecvError::Lagged(2)));
    PANICS.store(false, Ordering::Relaxed);
    assert_eq!((from.recv(), block_on(clone.recv_async())), (Ok(Sore(0)), Ok(Sore(0))));
    for from in [&mut from, &mut clone] {
        assert_eq!(from.recv(), Err(WaitError::Lagged(1)));
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
    // A second panic while another one unwinds does not end the process.
    let from = to.subscribe();
    (0..3).for_each(|_| assert!(send().is_ok()));
    let unwound = panic_of(|| {
        let _from = from;
        panic!("unwinds");
    });
    assert_eq!((unwound.as_str(), count()), ("unwinds", 104));
}

/// The original loses its other owner while the copy is made, and panics as it is dropped.
#[test]
fn a_panic_of_a_destructor_does_not_lose_the_copy() {
    common::real!("thread-locals of OS threads");
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

/// Clones and destructors of values run without a lock.
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
        assert!(matches!(from.recv(), Err(WaitError::Lagged(2))));
        assert!(from.recv().is_ok());
        drop((from, other));
        assert_eq!(to.receivers(), 0);
    });
}

#[test]
fn debug_output_and_errors_show_the_state_of_the_channel() {
    let (to, from) = broadcast::<u8>(2);
    assert_eq!(format!("{to:?}"), "BroadcastSender { receivers: 1, capacity: 2, receiving: [] }");
    to.send(1).unwrap();
    drop(to);
    assert_eq!(
        format!("{from:?}"),
        "BroadcastReceiver { len: 1, capacity: 2, closed: true, receiving: [] }"
    );
    assert_eq!(
        WaitError::Lagged(3).to_string(),
        "the receiver was too slow, and has missed 3 values"
    );
}
