//! Models of oneshots, run by ci/loom.sh. See `sync::models` for what a task is in a model.

use super::oneshot;
use super::shared::{EndOf, Shared};
use crate::shim::check::{ALL, ORDERS, Stage, beside, explore_to_the_end, models};
use crate::shim::thread::spawn;
use crate::sync::TryRecvError;
use crate::sync::models::{Modelled, Of, Subject, Task, enter, explore_with, queued};

type Model = Of<Shared<usize>>;

impl Modelled for Shared<usize> {
    type End = ();

    fn assert_end(shared: &Subject<Self>, (): ()) {
        assert!(shared.locations().is_empty(), "a waiter is left in the list");
    }
}

/// Like `OneshotReceiver::recv`. Unless it `leaves` the value, it has a fault: a receiver that is
/// cut takes the value that is there.
fn receive(task: Stage<Task>, oneshot: Model, leaves: bool) -> Result<usize, TryRecvError> {
    task.introduce();
    if !oneshot.has_ended() && enter(task, &EndOf::for_receiver(&oneshot), 0).is_none() {
        if !leaves {
            let _ = oneshot.take();
        }
        return Err(TryRecvError::Empty);
    }
    let received = oneshot.take();
    assert_ne!(received, Err(TryRecvError::Empty), "a called receiver found nothing");
    received
}

#[test]
fn loom_a_receiver_sees_what_was_done_before_the_send() {
    explore_with(ALL, Shared::new, |oneshot: Model, [task]| {
        let receives = spawn(move || {
            let received = receive(task, oneshot, true);
            assert_eq!(oneshot.value.read(), 1);
            received
        });
        oneshot.value.write();
        oneshot.send(7).unwrap();
        assert_eq!(receives.join().unwrap(), Ok(7));
    });
}

#[test]
fn loom_dropping_the_sender_ends_the_wait() {
    explore_with(ALL, Shared::new, |oneshot: Model, [task]| {
        let receives = spawn(move || receive(task, oneshot, true));
        oneshot.close();
        assert_eq!(receives.join().unwrap(), Err(TryRecvError::Closed));
    });
}

/// A value is sent, and a receiver is cut at any moment: it receives the value, or leaves it there.
fn a_value_is_sent_and_a_receiver_is_cut(leaves: bool) {
    explore_with(ALL, Shared::new, move |oneshot: Model, [task]| {
        let receives = spawn(move || receive(task, oneshot, leaves));
        // While the call for the value is on its way.
        beside(move || task.interrupt(), || oneshot.send(7).unwrap());
        let first = receives.join().unwrap();
        assert_eq!(first.or_else(|_| oneshot.take()), Ok(7), "the value is lost");
    });
}

models! {
    fn loom_a_cut_leaves_the_value() = a_value_is_sent_and_a_receiver_is_cut(true);

    fn loom_negative_a_cut_that_takes_the_value() = a_value_is_sent_and_a_receiver_is_cut(false),
        fails: "the value is lost";
}

/// A send, a close, and a sender that waits for the close and may be cut.
#[test]
fn loom_a_value_sent_during_a_close_is_received_or_returned() {
    explore_with(3, Shared::new, |oneshot: Model, [task]| {
        let waits = spawn(move || {
            task.introduce();
            let told = enter(task, &EndOf::for_sender(&oneshot), 0).is_some();
            assert!(!told || oneshot.has_ended());
        });
        let cuts = spawn(move || task.interrupt());
        let sends = spawn(move || oneshot.send(7));
        oneshot.close();
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

/// The receiver sits while a sender waits in the list, and one of them gives up.
#[test]
fn loom_an_end_reaches_the_seat_and_the_list() {
    for cut in [0, 1] {
        explore_with(2, Shared::new, move |oneshot: Model, tasks: [_; 2]| {
            let [receiver, sender] = tasks;
            let receives = spawn(move || receive(receiver, oneshot, true));
            let waits = spawn(move || {
                sender.introduce();
                enter(sender, &EndOf::for_sender(&oneshot), 0).is_some()
            });
            tasks[cut].interrupt();
            assert!(oneshot.locations().len() <= 2);
            oneshot.close();
            let (received, told) = (receives.join().unwrap(), waits.join().unwrap());
            assert!(cut == 0 || received == Err(TryRecvError::Closed));
            assert!(cut == 1 || told);
        });
    }
}

/// Both ends go at the same time, with or without a value. One of them frees the memory, and the
/// value is with the receiver, or dropped. A waiter in the list does not matter.
#[test]
fn loom_the_last_end_frees_the_memory() {
    for (sends, is_listed) in [(false, false), (true, false), (true, true)] {
        explore_to_the_end(ALL, move || {
            let (sender, mut receiver) = oneshot();
            if is_listed {
                drop(queued(EndOf::for_receiver(receiver.shared()), 0));
            }
            let goes = move || match sends {
                true => drop(sender.send(Box::new(7))),
                false => drop(sender),
            };
            beside(goes, move || {
                if let Ok(value) = receiver.try_recv() {
                    assert_eq!(*value, 7);
                }
            });
        });
    }
}

fn closed_and_asked(preemptions: usize) {
    explore_with(preemptions, Shared::new, |oneshot: Model, []| {
        let asks = spawn(move || {
            if oneshot.has_ended() {
                assert_eq!(oneshot.value.read(), 1);
            }
        });
        oneshot.value.write();
        oneshot.close();
        asks.join().unwrap();
    });
}

models! {
    fn loom_is_closed_shows_what_was_done_before_the_close() = closed_and_asked(ALL);

    fn loom_negative_a_oneshot_without_order() = closed_and_asked(3),
        without ORDERS in "sync/oneshot/shared.rs", fails: "Causality violation";
}
