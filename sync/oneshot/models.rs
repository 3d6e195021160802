//! Models of oneshots, run by ci/loom.sh. See `sync::models` for what a task is in a model.

use super::Only;
use crate::shim::check::{ALL, ORDERS, models};
use crate::shim::thread::spawn;
use crate::sync::TryRecvError;
use crate::sync::models::slot::{a_value_and_a_cut, changed_and_asked, receive};
use crate::sync::models::{enter, explore_with};
use crate::sync::slot::Slot;

fn oneshot() -> Slot<Option<usize>> {
    Slot::new(None, 0)
}

#[test]
fn loom_a_receiver_sees_what_was_done_before_the_send() {
    explore_with(ALL, oneshot, |oneshot, [task]| {
        let receives = spawn(move || {
            let received = receive(task, &oneshot, &mut Only, true);
            assert_eq!(oneshot.value.read(), 1);
            received
        });
        oneshot.value.write();
        oneshot.finish(Some(7)).unwrap();
        assert_eq!(receives.join().unwrap(), Ok(7));
    });
}

#[test]
fn loom_dropping_the_sender_ends_the_wait() {
    explore_with(ALL, oneshot, |oneshot, [task]| {
        let receives = spawn(move || receive(task, &oneshot, &mut Only, true));
        oneshot.finish(None).unwrap();
        assert_eq!(receives.join().unwrap(), Err(TryRecvError::Closed));
    });
}

fn a_value_is_sent_and_a_receiver_is_cut(leaves: bool) {
    a_value_and_a_cut(oneshot, |_| Only, |oneshot| oneshot.finish(Some(7)).unwrap(), leaves);
}

models! {
    fn loom_a_cut_leaves_the_value() = a_value_is_sent_and_a_receiver_is_cut(true);

    fn loom_negative_a_cut_that_takes_the_value() = a_value_is_sent_and_a_receiver_is_cut(false),
        fails: "the value is lost";
}

/// A send, a close, and a sender that waits for the close and may be cut.
#[test]
fn loom_a_value_sent_during_a_close_is_received_or_returned() {
    explore_with(3, oneshot, |oneshot, [task]| {
        let waits = spawn(move || {
            task.introduce();
            let told = enter(task, &oneshot.ending(), 0).is_some();
            assert!(!told || oneshot.has_ended());
        });
        let cuts = spawn(move || task.interrupt());
        let sends = spawn(move || oneshot.finish(Some(7)));
        let _ = oneshot.finish(None);
        match sends.join().unwrap() {
            Ok(()) => assert_eq!(oneshot.take(), Ok(7)),
            Err(value) => {
                assert_eq!((value, oneshot.take()), (Some(7), Err(TryRecvError::Closed)));
            }
        }
        waits.join().unwrap();
        cuts.join().unwrap();
    });
}

fn closed_and_asked(preemptions: usize) {
    changed_and_asked(preemptions, oneshot, |oneshot| oneshot.finish(None).unwrap());
}

models! {
    fn loom_is_closed_shows_what_was_done_before_the_close() = closed_and_asked(ALL);

    fn loom_negative_a_oneshot_without_order() = closed_and_asked(3),
        without ORDERS in "sync/slot.rs", fails: "Causality violation";
}
