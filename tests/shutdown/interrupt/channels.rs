//! Channels of the library, whose receivers a stop wakes.

use super::{Called, stop};
use crate::common::{Random, eventually, panic_of, runtime, scaled_in_debug, with_each, within};
use cygnet::shutdown::Swansong;
use cygnet::sync::{Receiver, Sender, TryRecvError, WaitError, bounded, oneshot, unbounded};
use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// How many wait in a channel.
fn waiting(end: &impl Debug) -> usize {
    format!("{end:?}").matches(".rs:").count()
}

fn poll<F: Future>(future: Pin<&mut F>, called: &Called) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&called.1))
}

#[test]
fn a_task_that_receives_is_woken_by_the_stop() {
    with_each(|rt| {
        for capacity in [0, 1, usize::MAX] {
            let swansong = Swansong::new();
            let (sender, receiver) = bounded::<u8>(capacity);
            let mut theirs = swansong.interrupt(receiver.clone());
            let task = rt.spawn(move || theirs.recv());
            eventually("it waits", || waiting(&sender) == 1);
            stop(&swansong);
            assert_eq!(task.join().unwrap(), Ok(None));
            assert_eq!(waiting(&sender), 0);
        }
    });
}

#[test]
fn a_thread_that_receives_is_woken_by_the_stop() {
    within(|| {
        let swansong = Swansong::new();
        let (sender, receiver) = unbounded::<u8>();
        crate::common::thread::scope(|s| {
            let mut theirs = swansong.interrupt(&receiver);
            let thread = s.spawn(move || theirs.recv());
            eventually("it waits", || waiting(&sender) == 1);
            stop(&swansong);
            assert_eq!(thread.join().unwrap(), Ok(None));
        });
        assert_eq!(waiting(&sender), 0);
    });
}

#[test]
fn a_future_that_receives_is_woken_by_the_stop_and_by_a_value() {
    let swansong = Swansong::new();
    let (sender, receiver) = unbounded();
    let mut receiver = swansong.interrupt(receiver);
    let called = Called::new();
    {
        let mut receiving = pin!(receiver.recv_async());
        assert_eq!(poll(receiving.as_mut(), &called), Poll::Pending);
        sender.send(1).unwrap();
        assert_eq!(called.count(), 1);
        assert_eq!(poll(receiving.as_mut(), &called), Poll::Ready(Ok(Some(1))));
    }
    {
        let mut receiving = pin!(receiver.recv_async());
        assert_eq!(poll(receiving.as_mut(), &called), Poll::Pending);
        stop(&swansong);
        assert_eq!(called.count(), 2);
        assert_eq!(poll(receiving.as_mut(), &called), Poll::Ready(Ok(None)));
    }
    drop(receiver);
    assert_eq!(called.kept(), 0);
}

#[test]
fn values_come_in_order_until_the_stop_and_the_rest_stays() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (sender, receiver) = bounded(3);
        (1..=3).for_each(|i| sender.send(i).unwrap());
        rt.block_on(|| {
            let mut receiver = swansong.interrupt(&receiver);
            assert_eq!((receiver.recv(), receiver.recv()), (Ok(Some(1)), Ok(Some(2))));
            stop(&swansong);
            assert_eq!((receiver.recv(), receiver.recv()), (Ok(None), Ok(None)));
            assert_eq!(receiver.iter().next(), None);
            // Past the interrupt.
            assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [3]);
        });
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn the_end_of_a_channel_is_an_error_before_the_stop() {
    let swansong = Swansong::new();
    let (sender, receiver) = unbounded();
    let mut receiver = swansong.interrupt(receiver);
    sender.send(1).unwrap();
    drop(sender);
    assert_eq!(receiver.recv(), Ok(Some(1)));
    assert_eq!(receiver.recv(), Err(WaitError::Closed));
    assert_eq!(cygnet::wait(receiver.recv_async()), Ok(Err(WaitError::Closed)));
    assert_eq!(receiver.iter().next(), None);
    stop(&swansong);
    assert_eq!(receiver.recv(), Ok(None));
}

#[test]
fn a_task_that_is_cancelled_is_turned_away_before_all_else() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (sender, receiver) = unbounded();
        let mut theirs = swansong.interrupt(receiver.clone());
        let task = rt.spawn(move || {
            let waited = theirs.recv();
            // Also from a value that is there.
            while !theirs.is_closed() {
                crate::common::thread::yield_now();
            }
            (waited, theirs.recv(), theirs.iter().count(), theirs)
        });
        eventually("it waits", || waiting(&sender) == 1);
        task.cancel("enough");
        eventually("it has left", || waiting(&sender) == 0);
        sender.send(1).unwrap();
        sender.close();
        let (waited, after, count, _theirs) = match task.join() {
            Ok(ended) => ended,
            Err(error) => panic!("{error}"),
        };
        assert!(matches!(waited, Err(WaitError::Cancelled(_))), "{waited:?}");
        assert!(matches!(after, Err(WaitError::Cancelled(_))), "{after:?}");
        assert_eq!((count, receiver.recv()), (0, Ok(1)));

        let mut theirs = swansong.interrupt(receiver.clone());
        stop(&swansong);
        let task = rt.spawn(move || {
            let late = cygnet::cancel_handle();
            late.cancel("now");
            theirs.recv()
        });
        let late = task.join().unwrap();
        assert!(matches!(late, Err(WaitError::Cancelled(_))), "{late:?}");
    });
}

#[test]
fn a_time_limit_around_it_leaves_nothing_behind() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (sender, receiver) = unbounded::<u8>();
        rt.block_on(|| {
            let mut receiver = swansong.interrupt(&receiver);
            let limit = std::time::Duration::from_millis(1);
            let late = cygnet::timeout(limit, || receiver.recv()).unwrap_err();
            let received = late.into_inner();
            assert!(matches!(received, Err(WaitError::Cancelled(_))), "{received:?}");
            assert_eq!(waiting(&sender), 0);
            sender.send(1).unwrap();
            assert_eq!(receiver.recv(), Ok(Some(1)));
        });
    });
}

#[test]
fn a_receive_that_is_dropped_has_taken_nothing() {
    let swansong = Swansong::new();
    let (sender, receiver) = bounded(1);
    let mut receiver = swansong.interrupt(receiver);
    let called = Called::new();
    {
        let mut receiving = Box::pin(receiver.recv_async());
        assert_eq!(poll(receiving.as_mut(), &called), Poll::Pending);
        // It has been promised to this one by now.
        sender.send(1).unwrap();
    }
    assert_eq!((receiver.recv(), waiting(&sender)), (Ok(Some(1)), 0));
    drop(receiver);
    assert_eq!(called.kept(), 0);
    assert!(sender.is_closed());
}

/// The stop is looked at first, and what was promised goes back.
#[test]
fn a_value_that_was_promised_before_the_stop_is_not_lost() {
    let swansong = Swansong::new();
    let (sender, receiver) = bounded(0);
    let mut first = swansong.interrupt(receiver.clone());
    let called = Called::new();
    {
        let mut receiving = Box::pin(first.recv_async());
        assert_eq!(poll(receiving.as_mut(), &called), Poll::Pending);
        sender.try_send(1).unwrap();
        stop(&swansong);
        assert_eq!(poll(receiving.as_mut(), &called), Poll::Ready(Ok(None)));
    }
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn futures_of_other_channels_are_interrupted_as_such() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let (to_one, mut one) = oneshot::<u8>();
        let ours = swansong.clone();
        let task = rt.spawn(move || {
            let sent = cygnet::wait(ours.interrupt(sender.send_async(2))).unwrap();
            let received = cygnet::wait(ours.interrupt(one.recv_async())).unwrap();
            (sent.is_none(), received.is_none())
        });
        eventually("it waits", || waiting(&receiver) == 1);
        stop(&swansong);
        assert_eq!(task.join().unwrap(), (true, true));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
        drop(to_one);
    });
}

#[test]
fn in_a_select_the_stop_ends_a_loop() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (sender, receiver) = unbounded();
        let other = cygnet::sync::Event::new();
        let sum = rt.block_on(|| {
            let mut receiver = swansong.interrupt(&receiver);
            (1..=3).for_each(|i| sender.send(i).unwrap());
            let mut sum = 0;
            loop {
                let received = cygnet::select! {
                    received = receiver.recv_async() => received,
                    _ = other.wait_async() => unreachable!(),
                };
                match received.unwrap().unwrap() {
                    Some(value) => sum += value,
                    None => break sum,
                }
                if sum == 6 {
                    stop(&swansong);
                }
            }
        });
        assert_eq!(sum, 6);
    });
}

/// Tasks and threads receive, some of them futures that are dropped, and at some time comes the stop: what has been sent is
/// then received, or still there.
#[test]
fn nothing_is_lost_in_a_storm() {
    for workers in [1, 2, 3, 8] {
        for capacity in [0, 1, 7, usize::MAX] {
            within(|| {
                let rt = runtime(workers);
                (0..scaled_in_debug(20) as u64)
                    .for_each(|round| storm(&rt, capacity, round * 7919 + 1));
            });
        }
    }
}

fn storm(rt: &cygnet::Runtime, capacity: usize, seed: u64) {
    let swansong = Swansong::new();
    let (sender, receiver) = bounded(capacity);
    let mut random = Random(seed);
    let times = random.below(50);
    let sends = |sender: Sender<u64>| {
        let swansong = swansong.clone();
        move || {
            let mut sent = 0;
            for i in 1..=times {
                match cygnet::wait(swansong.interrupt(sender.send_async(i))).unwrap() {
                    Some(done) => done.unwrap(),
                    None => break,
                }
                sent += i;
            }
            sent
        }
    };
    let receives = |receiver: Receiver<u64>, seed: u64| {
        let mut receiver = swansong.interrupt(receiver);
        move || {
            let (mut random, mut sum) = (Random(seed), 0);
            loop {
                if random.below(4) == 0 {
                    let called = Called::new();
                    if let Poll::Ready(received) =
                        poll(pin!(receiver.recv_async()).as_mut(), &called)
                    {
                        sum += received.unwrap().unwrap_or(0);
                    }
                }
                match receiver.recv().unwrap() {
                    Some(value) => sum += value,
                    None => break sum,
                }
            }
        }
    };
    let mut tasks: Vec<_> = (0..3).map(|_| rt.spawn(sends(sender.clone()))).collect();
    let mut threads = vec![crate::common::thread::spawn(sends(sender.clone()))];
    let sending = tasks.len() + threads.len();
    for i in 0..3 {
        tasks.push(rt.spawn(receives(receiver.clone(), seed + i)));
    }
    threads.push(crate::common::thread::spawn(receives(receiver.clone(), seed + 4)));
    (0..random.below(2_000)).for_each(|_| crate::common::spin_loop());
    stop(&swansong);
    let of_threads: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let of_tasks: Vec<u64> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
    assert_eq!(sending, 4);
    let sent = of_threads[0] + of_tasks[..3].iter().sum::<u64>();
    let received = of_threads[1] + of_tasks[3..].iter().sum::<u64>();
    let left: u64 = receiver.try_iter().sum();
    assert_eq!((sent, waiting(&receiver)), (received + left, 0));
}

#[test]
fn where_nothing_may_wait_it_is_as_any_receive() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (sender, receiver) = unbounded();
        rt.block_on(|| {
            let mut receiver = swansong.interrupt(&receiver);
            sender.send(1).unwrap();
            assert_eq!(cygnet::no_suspend(|| receiver.recv()), Ok(Some(1)));
            let refused = panic_of(|| cygnet::no_suspend(|| receiver.recv()));
            assert!(refused.contains("no_suspend"), "{refused}");
            assert_eq!(waiting(&sender), 0);
            stop(&swansong);
            assert_eq!(cygnet::no_suspend(|| receiver.recv()), Ok(None));
        });
    });
}
