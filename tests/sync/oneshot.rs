//! `oneshot`: one value, whichever end comes first or leaves first.

use crate::common::prelude::*;
use cygnet::sync::{OneshotReceiver, TryRecvError};

/// Receives, and gives the receiver back.
fn receives(
    mut from: OneshotReceiver<usize>,
) -> impl FnOnce() -> (OneshotReceiver<usize>, Result<usize, WaitError>) {
    move || {
        let got = from.recv();
        (from, got)
    }
}

#[test]
fn the_value_arrives_whichever_end_comes_first() {
    with_each(|rt| {
        let (to, from) = oneshot();
        let before = queued(rt, &to, receives(from));
        to.send(1).unwrap();
        let (mut from, got) = before.join().unwrap();
        assert_eq!((waiting(&from), got, from.recv()), (0, Ok(1), Err(WaitError::Closed)));

        let (to, from) = oneshot();
        to.send(2).unwrap();
        assert_eq!(rt.spawn(receives(from)).join().unwrap().1, Ok(2));
    });
}

#[test]
fn a_sender_that_is_dropped_without_a_value_closes_the_channel() {
    with_each(|rt| {
        let (to, from) = oneshot();
        let waits = queued(rt, &to, receives(from));
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
fn the_sender_is_told_of_a_receiver_that_is_dropped_or_closed() {
    with_each(|rt| {
        for closes in [false, true] {
            let (to, mut from) = oneshot();
            let waits = queued(rt, &from, move || {
                let closed = to.closed();
                assert!(to.is_closed());
                (closed, to.send(7))
            });
            if closes {
                from.close();
                assert_eq!(from.recv(), Err(WaitError::Closed));
            } else {
                drop(from);
            }
            assert_eq!(waits.join().unwrap(), (Ok(()), Err(7)));
        }
        let (to, from) = oneshot::<u8>();
        let waits = begun(to.closed_async());
        thread::scope(|s| {
            s.spawn(|| drop(from));
            block_on(waits);
        });
        assert_eq!((to.closed(), block_on(to.closed_async())), (Ok(()), ()));
    });
}

#[test]
fn a_value_sent_before_a_close_is_received() {
    let (to, mut from) = oneshot();
    to.send(1).unwrap();
    from.close();
    from.close();
    assert_eq!((from.recv(), from.try_recv()), (Ok(1), Err(TryRecvError::Closed)));
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

/// The destructor runs without a lock, when the state of the channel is consistent again.
#[test]
fn a_destructor_of_a_value_may_panic_and_use_other_ends() {
    within(|| {
        let sent = || {
            let (told, tells) = oneshot();
            let (to, from) = oneshot();
            let mut told = Some(told);
            let value = OnDrop(move || {
                told.take().unwrap().send(1).unwrap();
                panic!("in the destructor");
            });
            assert!(to.send(value).is_ok());
            (from, tells)
        };
        let (from, mut tells) = sent();
        assert_eq!(panic_of(|| drop(from)), "in the destructor");
        assert_eq!(tells.try_recv(), Ok(1));
        // A second panic while another one unwinds does not end the process.
        let (from, mut tells) = sent();
        let unwound = panic_of(|| {
            let _from = from;
            panic!("unwinds");
        });
        assert_eq!((unwound.as_str(), tells.try_recv()), ("unwinds", Ok(1)));
    });
}

#[test]
fn debug_output_shows_the_state_of_the_channel() {
    let (to, mut from) = oneshot::<u8>();
    assert_eq!(format!("{to:?}"), "OneshotSender { sent: false, closed: false, waiting: [] }");
    to.send(1).unwrap();
    from.close();
    assert_eq!(format!("{from:?}"), "OneshotReceiver { sent: true, closed: true, waiting: [] }");
}
