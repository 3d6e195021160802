//! Models of broadcasts, run by ci/loom.sh. See `sync::models` for what a task is in a model.

use super::errors::BroadcastTryRecvError;
use super::state::{Following, Place, Shared};
use crate::shim::check::{ALL, Stage, explore};
use crate::shim::thread::spawn;
use crate::sync::models::{Task, enter};
use std::sync::Arc;

/// Like `BroadcastReceiver::recv`; the caller has introduced the task. Unless it `leaves` the
/// value, it has a fault: a receiver that is cut takes the value that is there.
fn receive(
    task: Stage<Task>,
    broadcast: Stage<Shared<usize>>,
    place: &mut Place<usize>,
    leaves: bool,
) -> Result<usize, BroadcastTryRecvError> {
    match place.next(&broadcast) {
        Err(BroadcastTryRecvError::Empty) => {}
        tried => return tried,
    }
    if enter(task, &Following::new(&broadcast, place), 0).is_none() {
        if !leaves {
            let _ = place.next(&broadcast);
        }
        return Err(BroadcastTryRecvError::Empty);
    }
    let received = place.next(&broadcast);
    assert_ne!(received, Err(BroadcastTryRecvError::Empty), "a called receiver found nothing");
    received
}

fn send(broadcast: Stage<Shared<usize>>, value: usize) {
    assert!(broadcast.send(Arc::new(value)).is_ok());
}

/// Drops the last receivers. Nothing may be left then.
fn end(broadcast: Stage<Shared<usize>>, places: Vec<Place<usize>>) {
    for mut place in places {
        assert!(broadcast.drop_receiver(&mut place).is_none());
    }
    assert_eq!((broadcast.receivers(), broadcast.len()), (0, 0));
    assert!(broadcast.places().is_empty(), "a waiter is left in the list");
    // SAFETY: the threads have ended, so the broadcast has no other user.
    unsafe { broadcast.end() };
}

/// Receives until the end. Returns how many values were received, or reported as missed.
fn follow(
    task: Stage<Task>,
    broadcast: Stage<Shared<usize>>,
    mut place: Place<usize>,
) -> (usize, Place<usize>) {
    task.introduce();
    let mut next = 0;
    loop {
        match receive(task, broadcast, &mut place, true) {
            Ok(value) => {
                assert_eq!(value, next);
                next += 1;
            }
            Err(BroadcastTryRecvError::Lagged(missed)) => next += missed as usize,
            Err(_) => return (next, place),
        }
    }
}

/// Two values, room for one, and two receivers, so that the lock is released between the calls.
#[test]
fn loom_each_receiver_gets_each_value_or_is_told_of_the_lag() {
    explore(2, || {
        let (broadcast, tasks) = (Stage::new(Shared::new(1)), [Task::new(), Task::new()]);
        let places = [Place::first(), broadcast.add_receiver()];
        let [one, other] = places;
        let first = spawn(move || follow(tasks[0], broadcast, one));
        let second = spawn(move || follow(tasks[1], broadcast, other));
        send(broadcast, 0);
        send(broadcast, 1);
        broadcast.drop_sender();
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert_eq!((first.0, second.0), (2, 2));
        tasks.into_iter().for_each(Task::end);
        end(broadcast, vec![first.1, second.1]);
    });
}

/// A value is sent, a receiver is cut at any moment, and another one goes: the first one receives
/// the value, or leaves it there.
fn a_value_and_a_cut(leaves: bool) {
    let (broadcast, task) = (Stage::new(Shared::new(1)), Task::new());
    let (mut mine, mut other) = (Place::first(), broadcast.add_receiver());
    let receives = spawn(move || {
        task.introduce();
        let first = receive(task, broadcast, &mut mine, leaves);
        (first, mine)
    });
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
        Ok(7) => assert_eq!(later, Err(BroadcastTryRecvError::Empty)),
        _ => assert_eq!(later, Ok(7), "the value is lost"),
    }
    Task::end(task);
    end(broadcast, vec![mine]);
}

#[test]
fn loom_a_cut_leaves_the_broadcast_value() {
    explore(3, || a_value_and_a_cut(true));
}

#[test]
#[should_panic(expected = "the value is lost")]
fn loom_negative_a_cut_that_takes_the_broadcast_value() {
    explore(3, || a_value_and_a_cut(false));
}

/// A clone, a send that drives out a value, and a drop: the claims are right at the end.
#[test]
fn loom_claims_stay_right_over_clones_sends_and_drops() {
    explore(ALL, || {
        let broadcast = Stage::new(Shared::new(1));
        let (first, mut goes) = (Place::first(), broadcast.add_receiver());
        send(broadcast, 0);
        let clones = spawn(move || {
            let clone = broadcast.add_receiver_at(&first);
            (first, clone)
        });
        let leaves = spawn(move || assert!(broadcast.drop_receiver(&mut goes).is_none()));
        send(broadcast, 1);
        let (mut first, clone) = clones.join().unwrap();
        leaves.join().unwrap();
        assert_eq!(first.next(&broadcast), Err(BroadcastTryRecvError::Lagged(1)));
        assert_eq!(first.next(&broadcast), Ok(1));
        assert_eq!(clone.len(&broadcast), 1);
        end(broadcast, vec![first, clone]);
    });
}
