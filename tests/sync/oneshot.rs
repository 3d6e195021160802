//! `oneshot`: one value, once, whichever end comes first, leaves first, or loses patience.

use crate::common::{Drops, give_way_until, panic_of, runtime, with, with_each, within};
use crate::{LONG, block_on, until_waiting, waiting};
use cygnet::sync::{OneshotReceiver, TryRecvError, WaitError, oneshot};
use cygnet::{Reason, Runtime, Task, cancel_handle, spawn, timeout};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(1);

type Received = (OneshotReceiver<usize>, Result<usize, WaitError>);

/// One that waits to receive, and gives the receiver back.
fn receives(rt: &Runtime, mut from: OneshotReceiver<usize>) -> Task<Received> {
    rt.spawn(move || {
        let got = from.recv();
        (from, got)
    })
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_value_arrives_whichever_end_comes_first() {
    with_each(|rt| {
        let (to, from) = oneshot();
        let before = receives(rt, from);
        until_waiting(&to, 1);
        to.send(1).unwrap();
        let (mut from, got) = before.join().unwrap();
        assert_eq!((got, from.recv()), (Ok(1), Err(WaitError::Closed)));

        let (to, from) = oneshot();
        to.send(2).unwrap();
        assert_eq!(receives(rt, from).join().unwrap().1, Ok(2));
    });
}

#[test]
fn tasks_threads_and_futures_are_at_both_ends() {
    with_each(|rt| {
        crate::common::thread::scope(|s| {
            let (to, mut from) = oneshot();
            let thread = s.spawn(move || from.recv());
            until_waiting(&to, 1);
            rt.spawn(move || to.send(1).unwrap()).join().unwrap();
            assert_eq!(thread.join().unwrap(), Ok(1));

            let (to, mut from) = oneshot();
            let future = s.spawn(move || block_on(from.recv_async()));
            until_waiting(&to, 1);
            rt.spawn(move || to.send(2).unwrap()).join().unwrap();
            assert_eq!(future.join().unwrap(), Ok(2));

            let (to, mut from) = oneshot();
            let task = rt.spawn(move || cygnet::wait(from.recv_async()).unwrap());
            until_waiting(&to, 1);
            to.send(3).unwrap();
            assert_eq!(task.join().unwrap(), Ok(3));
        });
    });
}

/// Plain threads, without any runtime.
#[test]
fn threads_alone_wait_for_both_ends() {
    within(|| {
        crate::common::thread::scope(|s| {
            let (to, mut from) = oneshot();
            let other = s.spawn(move || from.recv_timeout(LONG));
            until_waiting(&to, 1);
            to.send(String::from("sent")).unwrap();
            assert_eq!(other.join().unwrap(), Ok(String::from("sent")));

            let (to, from) = oneshot::<u8>();
            let other = s.spawn(move || {
                let closed = to.closed();
                (closed, to.send(1))
            });
            until_waiting(&from, 1);
            drop(from);
            assert_eq!(other.join().unwrap(), (Ok(()), Err(1)));

            let (to, mut from) = oneshot::<u8>();
            assert_eq!(from.recv_timeout(MOMENT), Err(WaitError::TimedOut));
            assert_eq!(to.closed_timeout(MOMENT), Err(WaitError::TimedOut));
            assert_eq!((waiting(&to), waiting(&from)), (0, 0));
        });
    });
}

#[test]
fn a_sender_that_goes_without_a_value_closes_it() {
    with_each(|rt| {
        let (to, from) = oneshot();
        let waits = receives(rt, from);
        until_waiting(&to, 1);
        drop(to);
        let (mut from, got) = waits.join().unwrap();
        assert_eq!(got, Err(WaitError::Closed));
        assert_eq!(from.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(block_on(from.recv_async()), Err(WaitError::Closed));

        let (to, mut from) = oneshot::<u8>();
        assert_eq!(from.try_recv(), Err(TryRecvError::Empty));
        drop(to);
        assert_eq!(from.recv_timeout(LONG), Err(WaitError::Closed));
        from.close();
        assert_eq!(from.recv(), Err(WaitError::Closed));
    });
}

#[test]
fn a_receiver_that_goes_or_closes_is_told_to_the_sender() {
    with_each(|rt| {
        for closes in [false, true] {
            let (to, mut from) = oneshot();
            let waits = rt.spawn(move || {
                let closed = to.closed();
                assert!(to.is_closed());
                (closed, to.send(7))
            });
            until_waiting(&from, 1);
            let left = if closes {
                from.close();
                Some(from)
            } else {
                drop(from);
                None
            };
            assert_eq!(waits.join().unwrap(), (Ok(()), Err(7)));
            if let Some(mut from) = left {
                assert_eq!(from.recv(), Err(WaitError::Closed));
            }
        }
        let (to, from) = oneshot::<u8>();
        let mut waits = Box::pin(to.closed_async());
        assert!(poll(waits.as_mut()).is_pending());
        crate::common::thread::scope(|s| {
            s.spawn(|| drop(from));
            block_on(waits);
        });
        assert_eq!((to.closed(), block_on(to.closed_async())), (Ok(()), ()));
    });
}

#[test]
fn after_a_close_what_was_sent_is_received() {
    let (to, mut from) = oneshot();
    to.send(1).unwrap();
    from.close();
    from.close();
    assert_eq!((from.recv(), from.try_recv()), (Ok(1), Err(TryRecvError::Closed)));
}

#[test]
fn a_wait_that_is_cancelled_or_late_leaves_the_value_to_the_next_one() {
    with_each(|rt| {
        let (to, from) = oneshot();
        let waits = receives(rt, from);
        until_waiting(&to, 1);
        waits.cancel("enough");
        let (mut from, got) = waits.join().unwrap();
        assert!(matches!(got, Err(WaitError::Cancelled(_))));
        assert_eq!(from.recv_timeout(MOMENT), Err(WaitError::TimedOut));
        assert_eq!(from.recv_timeout(Duration::ZERO), Err(WaitError::TimedOut));
        rt.block_on(|| {
            let late = timeout(MOMENT, || from.recv());
            let Err(WaitError::Cancelled(refused)) = late.unwrap_err().into_inner() else {
                panic!("nothing was sent");
            };
            assert_eq!(*refused.reason(), Reason::Deadline);
        });
        assert_eq!(waiting(&to), 0);
        to.send(5).unwrap();
        assert_eq!(from.recv(), Ok(5));
    });
}

#[test]
fn one_that_is_cancelled_after_it_was_called_leaves_the_value() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (to, mut from) = oneshot();
            let task = spawn(move || {
                let got = from.recv();
                (from, got)
            });
            give_way_until(|| waiting(&to) == 1);
            to.send(1).unwrap();
            task.cancel("after that");
            let (mut from, got) = task.join().unwrap();
            assert!(matches!(got, Err(WaitError::Cancelled(_))));
            assert_eq!(from.try_recv(), Ok(1));
        });
    });
}

#[test]
fn a_cancelled_task_is_turned_away_also_from_what_is_there() {
    with(&[1, 2], |rt| {
        let (to, mut from) = oneshot();
        let (other, gone) = oneshot::<u8>();
        to.send(1).unwrap();
        drop(gone);
        let task = rt.spawn(move || {
            cancel_handle().cancel("enough");
            assert!(matches!(from.recv(), Err(WaitError::Cancelled(_))));
            assert!(matches!(from.recv_timeout(LONG), Err(WaitError::Cancelled(_))));
            assert!(matches!(other.closed(), Err(WaitError::Cancelled(_))));
            from.try_recv()
        });
        assert_eq!(task.join().unwrap(), Ok(1));
    });
}

/// The first, the middle and the last of several, and all of them.
#[test]
fn who_waits_for_the_receiver_to_go_may_be_cancelled_in_any_order() {
    with_each(|rt| {
        for cancelled in [&[0][..], &[1], &[2], &[0, 1, 2]] {
            let (to, from) = oneshot::<u8>();
            let to = Arc::new(to);
            let tasks: Vec<_> = (1..4)
                .map(|count| {
                    let to = Arc::clone(&to);
                    let task = rt.spawn(move || to.closed());
                    until_waiting(&from, count);
                    task
                })
                .collect();
            cancelled.iter().for_each(|i| tasks[*i].cancel("enough"));
            until_waiting(&from, 3 - cancelled.len());
            drop(from);
            for (i, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.join().unwrap().is_err(), cancelled.contains(&i));
            }
        }
    });
}

#[test]
fn a_future_that_is_dropped_in_any_state_leaves_the_value() {
    let (to, mut from) = oneshot();
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
    assert_eq!(waiting(&from), 0);
    assert_eq!(block_on(from.recv_async()), Ok(1));

    let (to, from) = oneshot::<u8>();
    drop(to.closed_async());
    {
        let mut waits = pin!(to.closed_async());
        assert!(poll(waits.as_mut()).is_pending());
    }
    assert_eq!(waiting(&to), 0);
    let mut called = pin!(to.closed_async());
    assert!(poll(called.as_mut()).is_pending());
    drop(from);
    assert!(poll(called.as_mut()).is_ready());
    let again = panic_of(|| poll(called));
    assert!(again.contains("polled after its end"), "{again}");
}

/// It keeps its place, and is called in vain; the value is not its own.
#[test]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn a_forgotten_future_takes_nothing_along() {
    let (to, mut from) = oneshot();
    for _ in 0..2 {
        let mut forgotten = Box::pin(from.recv_async());
        assert!(poll(forgotten.as_mut()).is_pending());
        std::mem::forget(forgotten);
    }
    assert_eq!(waiting(&to), 2);
    to.send(1).unwrap();
    assert_eq!((waiting(&from), from.recv()), (0, Ok(1)));

    let (to, from) = oneshot();
    let mut forgotten = Box::pin(to.closed_async());
    assert!(poll(forgotten.as_mut()).is_pending());
    std::mem::forget(forgotten);
    drop(from);
    assert_eq!(to.send(2), Err(2));
}

#[test]
fn a_value_is_dropped_once_wherever_it_is() {
    let drops = Drops::new();
    let (to, from) = oneshot();
    to.send(drops.guard()).unwrap();
    drop(from);
    assert_eq!(drops.left(), 0);
    let (to, from) = oneshot();
    drop(from);
    let back = to.send(drops.guard()).unwrap_err();
    assert_eq!(drops.left(), 1);
    drop(back);
    let (to, mut from) = oneshot();
    to.send(drops.guard()).unwrap();
    let got = from.recv().unwrap();
    drop(from);
    assert_eq!(drops.left(), 1);
    drop(got);
    assert_eq!((drops.left(), drops.count()), (0, 3));
}

/// It runs when the channel is in order again, without a lock.
#[test]
fn a_destructor_of_a_value_may_panic_and_use_other_ends() {
    #[derive(Debug)]
    struct Panics(Option<cygnet::sync::OneshotSender<u8>>);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.take().unwrap().send(1).unwrap();
            panic!("in the destructor");
        }
    }
    within(|| {
        let (told, mut tells) = oneshot();
        let (to, from) = oneshot();
        to.send(Panics(Some(told))).unwrap();
        assert_eq!(panic_of(|| drop(from)), "in the destructor");
        assert_eq!(tells.try_recv(), Ok(1));
        // In the middle of another panic it does not end the process.
        let (told, mut tells) = oneshot();
        let (to, from) = oneshot();
        to.send(Panics(Some(told))).unwrap();
        let unwound = panic_of(|| {
            let _from = from;
            panic!("unwinds");
        });
        assert_eq!((unwound.as_str(), tells.try_recv()), ("unwinds", Ok(1)));
    });
}

#[test]
fn where_nothing_may_wait_what_is_there_is_received() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (to, mut from) = oneshot();
            let refused = panic_of(|| cygnet::no_suspend(|| from.recv()));
            assert!(refused.contains("no_suspend"), "{refused}");
            let refused = panic_of(|| cygnet::no_suspend(|| to.closed()));
            assert!(refused.contains("no_suspend"), "{refused}");
            assert_eq!(waiting(&to), 0);
            to.send(1).unwrap();
            assert_eq!(cygnet::no_suspend(|| from.recv()), Ok(1));
        });
    });
}

#[test]
fn the_end_of_a_runtime_ends_the_waits_of_its_tasks() {
    within(|| {
        let rt = runtime(2);
        let (to, from) = oneshot();
        let task = receives(&rt, from);
        until_waiting(&to, 1);
        drop(rt);
        let (mut from, got) = task.join().unwrap();
        assert!(matches!(got, Err(WaitError::Cancelled(_))));
        to.send(1).unwrap();
        assert_eq!(from.recv(), Ok(1));
    });
}

#[test]
fn it_says_what_it_is_and_where_others_wait() {
    let (to, mut from) = oneshot::<u8>();
    assert_eq!(
        format!("{to:?}"),
        "OneshotSender { sent: false, closed: false, receiving: [], waiting_for_close: [] }"
    );
    let mut waits = Box::pin(from.recv_async());
    assert!(poll(waits.as_mut()).is_pending());
    assert!(format!("{to:?}").contains("oneshot.rs:"), "{to:?}");
    drop(waits);
    to.send(1).unwrap();
    from.close();
    assert_eq!(
        format!("{from:?}"),
        "OneshotReceiver { sent: true, closed: true, receiving: [], waiting_for_close: [] }"
    );
}
