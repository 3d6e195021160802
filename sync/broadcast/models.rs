//! Models of broadcasts, run by ci/loom.sh. See `sync::models` for what a task is in a model.

use super::state::{Ring, RingCursor as Cursor};
use crate::shim::check::{ALL, Stage, models};
use crate::shim::thread::spawn;
use crate::sync::TryRecvError;
use crate::sync::models::slot::receive;
use crate::sync::models::{Of, Task, explore_with};
use crate::sync::slot::{Cursor as _, Slot};
use std::sync::Arc;

type Model = Of<Slot<Ring<usize>>>;

/// A broadcast with room for one value.
fn broadcast() -> Slot<Ring<usize>> {
    with_room(1)
}

fn with_room(room: usize) -> Slot<Ring<usize>> {
    Slot::new(Ring::new(room), 0)
}

fn send(broadcast: Model, value: usize) {
    assert!(broadcast.send(Arc::new(value)).is_ok());
}

/// Drops the last receivers. Nothing may be left then.
fn end(broadcast: Model, cursors: Vec<Cursor<usize>>) {
    for mut cursor in cursors {
        assert!(broadcast.drop_receiver(&mut cursor).is_none());
    }
    assert_eq!((broadcast.receivers(), broadcast.state.lock().content.len()), (0, 0));
}

/// Receives until the end. Returns how many values were received, or reported as missed.
fn follow(task: Stage<Task>, broadcast: Model, mut mine: Cursor<usize>) -> (usize, Cursor<usize>) {
    let mut next = 0;
    loop {
        match receive(task, &broadcast, &mut mine, true) {
            Ok(value) => {
                assert_eq!(value, next);
                next += 1;
            }
            Err(TryRecvError::Lagged(missed)) => next += missed as usize,
            Err(_) => return (next, mine),
        }
    }
}

/// Two values, room for one, and two receivers, so that the lock is released between the calls.
#[test]
fn loom_each_receiver_gets_each_value_or_is_told_of_the_lag() {
    explore_with(2, broadcast, |broadcast, tasks: [_; 2]| {
        let [one, other] = [Cursor::first(), broadcast.add_receiver()];
        let first = spawn(move || follow(tasks[0], broadcast, one));
        let second = spawn(move || follow(tasks[1], broadcast, other));
        send(broadcast, 0);
        send(broadcast, 1);
        broadcast.drop_sender();
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert_eq!((first.0, second.0), (2, 2));
        end(broadcast, vec![first.1, second.1]);
    });
}

/// A value is sent, a receiver is cut at any moment, and another one goes: the first one receives
/// the value, or leaves it there.
fn a_value_and_a_cut(leaves: bool) {
    explore_with(3, broadcast, move |broadcast, [task]| {
        let (mut mine, mut other) = (Cursor::first(), broadcast.add_receiver());
        let receives = spawn(move || (receive(task, &broadcast, &mut mine, leaves), mine));
        let goes = spawn(move || {
            task.interrupt();
            assert!(broadcast.drop_receiver(&mut other).is_none());
        });
        // While the cut is on its way.
        send(broadcast, 7);
        goes.join().unwrap();
        let (first, mut mine) = receives.join().unwrap();
        let later = mine.next(&broadcast);
        match first {
            Ok(7) => assert_eq!(later, Err(TryRecvError::Empty)),
            _ => assert_eq!(later, Ok(7), "the value is lost"),
        }
        end(broadcast, vec![mine]);
    });
}

models! {
    fn loom_a_cut_leaves_the_broadcast_value() = a_value_and_a_cut(true);

    fn loom_negative_a_cut_that_takes_the_broadcast_value() = a_value_and_a_cut(false),
        fails: "the value is lost";
}

/// A clone, a send that drives out a value, and a drop: the claims are right at the end.
#[test]
fn loom_claims_stay_right_over_clones_sends_and_drops() {
    explore_with(ALL, broadcast, |broadcast, []| {
        let (first, mut goes) = (Cursor::first(), broadcast.add_receiver());
        send(broadcast, 0);
        let clones = spawn(move || {
            let clone = broadcast.add_receiver_at(&first);
            (first, clone)
        });
        let leaves = spawn(move || assert!(broadcast.drop_receiver(&mut goes).is_none()));
        send(broadcast, 1);
        let (mut first, clone) = clones.join().unwrap();
        leaves.join().unwrap();
        assert_eq!(first.next(&broadcast), Err(TryRecvError::Lagged(1)));
        assert_eq!(first.next(&broadcast), Ok(1));
        assert_eq!(clone.len(&broadcast), 1);
        end(broadcast, vec![first, clone]);
    });
}

/// A receiver goes, in portions, while a value is sent: the other one receives all in their order.
#[test]
fn loom_a_value_that_is_sent_while_a_receiver_goes_keeps_its_place() {
    explore_with(
        ALL,
        || with_room(3),
        |broadcast, []| {
            let (mut stays, mut goes) = (Cursor::first(), broadcast.add_receiver());
            send(broadcast, 0);
            send(broadcast, 1);
            let leaves = spawn(move || assert!(broadcast.drop_receiver(&mut goes).is_none()));
            send(broadcast, 2);
            let received = [(); 4].map(|()| stays.next(&broadcast));
            assert_eq!(received, [Ok(0), Ok(1), Ok(2), Err(TryRecvError::Empty)]);
            leaves.join().unwrap();
            end(broadcast, vec![stays]);
        },
    );
}
