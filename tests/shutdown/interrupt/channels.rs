//! Channels of cygnet, whose receivers a stop wakes.

use super::stop;
use crate::Called;
use crate::common::prelude::*;
use cygnet::shutdown::Swansong;
use cygnet::sync::{Receiver, Sender, TryRecvError};

#[test]
fn tasks_and_threads_that_receive_are_woken_by_the_stop() {
    with_each(|rt| {
        for capacity in [0, 1, usize::MAX] {
            let swansong = Swansong::new();
            let (sender, receiver) = bounded::<u8>(capacity);
            let (mut of_task, mut of_thread) =
                (swansong.interrupt(receiver.clone()), swansong.interrupt(receiver));
            let task = rt.spawn(move || of_task.recv());
            let thread = thread::spawn(move || of_thread.recv());
            eventually("both wait", || waiting(&sender) == 2);
            stop(&swansong);
            assert_eq!((task.join().unwrap(), thread.join().unwrap()), (Ok(None), Ok(None)));
            assert_eq!(waiting(&sender), 0);
        }
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
        assert_eq!(called.poll(receiving.as_mut()), Poll::Pending);
        sender.send(1).unwrap();
        assert_eq!(called.count(), 1);
        assert_eq!(called.poll(receiving.as_mut()), Poll::Ready(Ok(Some(1))));
    }
    {
        let mut receiving = pin!(receiver.recv_async());
        assert_eq!(called.poll(receiving.as_mut()), Poll::Pending);
        stop(&swansong);
        assert_eq!(called.count(), 2);
        assert_eq!(called.poll(receiving.as_mut()), Poll::Ready(Ok(None)));
    }
    drop(receiver);
    assert_eq!(called.kept(), 0);
}

/// S65.
#[test]
fn values_come_in_order_until_the_stop_and_the_rest_stays() {
    in_task(|_| {
        let swansong = Swansong::new();
        let (sender, receiver) = bounded(3);
        (1..=3).for_each(|i| sender.send(i).unwrap());
        let mut receiver = swansong.interrupt(&receiver);
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(Some(1)), Ok(Some(2))));
        stop(&swansong);
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(None), Ok(None)));
        assert_eq!(receiver.iter().next(), None);
        // Past the interrupt.
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [3]);
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
fn a_cancelled_task_receives_neither_a_value_nor_the_stop() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (sender, receiver) = unbounded();
        let mut theirs = swansong.interrupt(receiver.clone());
        let task = rt.spawn(move || {
            let waited = theirs.recv();
            // A value that is there does not help.
            spin_until(|| theirs.is_closed());
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
fn a_receive_cut_short_by_a_time_limit_leaves_nothing_behind() {
    in_task(|_| {
        let swansong = Swansong::new();
        let (sender, receiver) = unbounded::<u8>();
        let mut receiver = swansong.interrupt(&receiver);
        let limit = std::time::Duration::from_millis(1);
        let late = cygnet::timeout(limit, || receiver.recv()).unwrap_err();
        let received = late.into_inner();
        assert!(matches!(received, Err(WaitError::Cancelled(_))), "{received:?}");
        assert_eq!(waiting(&sender), 0);
        sender.send(1).unwrap();
        assert_eq!(receiver.recv(), Ok(Some(1)));
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
        assert_eq!(called.poll(receiving.as_mut()), Poll::Pending);
        // The value is promised to this receive.
        sender.send(1).unwrap();
    }
    assert_eq!((receiver.recv(), waiting(&sender)), (Ok(Some(1)), 0));
    drop(receiver);
    assert_eq!(called.kept(), 0);
    assert!(sender.is_closed());
}

/// The receive looks at the stop first, and gives the promised value back.
#[test]
fn a_value_that_was_promised_before_the_stop_is_not_lost() {
    let swansong = Swansong::new();
    let (sender, receiver) = bounded(0);
    let mut first = swansong.interrupt(receiver.clone());
    let called = Called::new();
    {
        let mut receiving = Box::pin(first.recv_async());
        assert_eq!(called.poll(receiving.as_mut()), Poll::Pending);
        sender.try_send(1).unwrap();
        stop(&swansong);
        assert_eq!(called.poll(receiving.as_mut()), Poll::Ready(Ok(None)));
    }
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn futures_of_sends_and_of_oneshots_are_interrupted() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let (to_one, mut one) = oneshot::<u8>();
        let task = rt.spawn(own(&swansong, move |ours| {
            let sent = cygnet::wait(ours.interrupt(sender.send_async(2))).unwrap();
            let received = cygnet::wait(ours.interrupt(one.recv_async())).unwrap();
            (sent.is_none(), received.is_none())
        }));
        eventually("it waits", || waiting(&receiver) == 1);
        stop(&swansong);
        assert_eq!(task.join().unwrap(), (true, true));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
        drop(to_one);
    });
}

#[test]
fn the_stop_ends_a_loop_of_selects() {
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

/// Tasks and threads send and receive, and drop some futures. After the stop each value that was
/// sent has been received, or is still in the channel.
#[test]
fn no_value_is_lost_when_the_stop_comes_at_any_moment() {
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
        own(&swansong, move |swansong| {
            let mut sent = 0;
            for i in 1..=times {
                match cygnet::wait(swansong.interrupt(sender.send_async(i))).unwrap() {
                    Some(done) => done.unwrap(),
                    None => break,
                }
                sent += i;
            }
            sent
        })
    };
    let receives = |receiver: Receiver<u64>, seed: u64| {
        let mut receiver = swansong.interrupt(receiver);
        move || {
            let (mut random, mut sum) = (Random(seed), 0);
            loop {
                if random.below(4) == 0 {
                    let called = Called::new();
                    if let Poll::Ready(received) = called.poll(pin!(receiver.recv_async())) {
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
    let mut threads = vec![thread::spawn(sends(sender.clone()))];
    let sending = tasks.len() + threads.len();
    (0..3).for_each(|i| tasks.push(rt.spawn(receives(receiver.clone(), seed + i))));
    threads.push(thread::spawn(receives(receiver.clone(), seed + 4)));
    (0..random.below(2_000)).for_each(|_| spin_loop());
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
fn an_interrupted_receive_inside_no_suspend_is_like_any_receive() {
    in_task(|_| {
        let swansong = Swansong::new();
        let (sender, receiver) = unbounded();
        let mut receiver = swansong.interrupt(&receiver);
        sender.send(1).unwrap();
        assert_eq!(cygnet::no_suspend(|| receiver.recv()), Ok(Some(1)));
        panics_with("no_suspend", || cygnet::no_suspend(|| receiver.recv()));
        assert_eq!(waiting(&sender), 0);
        stop(&swansong);
        assert_eq!(cygnet::no_suspend(|| receiver.recv()), Ok(None));
    });
}
