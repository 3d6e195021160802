//! Models of oneshots, run by ci/loom.sh. See `sync::models` for what a task is in a model.

use super::state::{Closing, Receiving, Shared, State};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::MutexGuard;
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::sync::TryRecvError;
use crate::sync::models::{Task, enter};

/// A faulty oneshot: a receiver that is cut after it was called takes the value.
struct TakesAlong<'a>(&'a Shared<usize>);

impl Waitable for TakesAlong<'_> {
    type State = State<usize>;

    fn what(&self) -> &'static str {
        "a model"
    }

    fn state(&self) -> MutexGuard<'_, State<usize>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<usize>) -> &mut WaitList {
        Receiving::waiters(state)
    }

    fn try_enter(
        &self,
        state: &mut State<usize>,
        node: &WaitNode,
        wakes: &mut Wakes,
    ) -> Option<u32> {
        Receiving(self.0).try_enter(state, node, wakes)
    }

    fn give_back(&self, _: &WaitNode) {
        let _ = self.0.take();
    }
}

/// Like `OneshotReceiver::recv`. Unless it `leaves` the value, it has the fault of `TakesAlong`.
fn receive(
    task: Stage<Task>,
    oneshot: Stage<Shared<usize>>,
    leaves: bool,
) -> Result<usize, TryRecvError> {
    task.introduce();
    match oneshot.take() {
        Err(TryRecvError::Empty) => {}
        tried => return tried,
    }
    let called = match leaves {
        true => enter(task, &Receiving(&*oneshot), 0),
        false => enter(task, &TakesAlong(&oneshot), 0),
    };
    if called.is_none() {
        return Err(TryRecvError::Empty);
    }
    let received = oneshot.take();
    assert_ne!(received, Err(TryRecvError::Empty), "a called receiver found nothing");
    received
}

fn end(oneshot: Stage<Shared<usize>>) {
    let (senders, receivers) = oneshot.places();
    assert!(senders.is_empty() && receivers.is_empty(), "a waiter is left in a list");
    // SAFETY: the threads have ended, so the oneshot has no other user.
    unsafe { oneshot.end() };
}

#[test]
fn loom_a_receiver_sees_what_was_done_before_the_send() {
    explore(ALL, || {
        let (oneshot, done) = (Stage::new(Shared::new()), Stage::new(Baton::new()));
        let task = Task::new();
        let receives = spawn(move || {
            let received = receive(task, oneshot, true);
            assert_eq!(done.read(), 1);
            received
        });
        done.write();
        oneshot.send(7).unwrap();
        assert_eq!(receives.join().unwrap(), Ok(7));
        Task::end(task);
        end(oneshot);
        // SAFETY: the threads have ended, so the baton has no other user.
        unsafe { done.end() };
    });
}

#[test]
fn loom_dropping_the_sender_ends_the_wait() {
    explore(ALL, || {
        let (oneshot, task) = (Stage::new(Shared::new()), Task::new());
        let receives = spawn(move || receive(task, oneshot, true));
        oneshot.drop_sender();
        assert_eq!(receives.join().unwrap(), Err(TryRecvError::Closed));
        Task::end(task);
        end(oneshot);
    });
}

/// A value is sent, and a receiver is cut at any moment: it receives the value, or leaves it there.
fn a_value_and_a_cut(leaves: bool) {
    let (oneshot, task) = (Stage::new(Shared::new()), Task::new());
    let receives = spawn(move || receive(task, oneshot, leaves));
    // While the call for the value is on its way.
    let cuts = spawn(move || task.interrupt());
    oneshot.send(7).unwrap();
    cuts.join().unwrap();
    let (first, left) = (receives.join().unwrap(), oneshot.take());
    match first {
        Ok(7) => assert_eq!(left, Err(TryRecvError::Closed)),
        _ => assert_eq!(left, Ok(7), "the value is lost"),
    }
    Task::end(task);
    end(oneshot);
}

#[test]
fn loom_a_cut_leaves_the_value() {
    explore(ALL, || a_value_and_a_cut(true));
}

#[test]
#[should_panic(expected = "the value is lost")]
fn loom_negative_a_cut_that_takes_the_value() {
    explore(ALL, || a_value_and_a_cut(false));
}

/// A send, a close, and a sender that waits for the close and may be cut.
#[test]
fn loom_a_value_sent_during_a_close_is_received_or_returned() {
    explore(3, || {
        let (oneshot, task) = (Stage::new(Shared::new()), Task::new());
        let waits = spawn(move || {
            task.introduce();
            let told = enter(task, &Closing(&*oneshot), 0).is_some();
            assert!(!told || oneshot.is_unwanted());
        });
        let cuts = spawn(move || task.interrupt());
        let sends = spawn(move || oneshot.send(7));
        oneshot.close();
        match sends.join().unwrap() {
            Ok(()) => assert_eq!(oneshot.take(), Ok(7)),
            Err(value) => {
                assert_eq!((value, oneshot.take()), (7, Err(TryRecvError::Closed)));
            }
        }
        waits.join().unwrap();
        cuts.join().unwrap();
        Task::end(task);
        end(oneshot);
    });
}

/// A caller that sees the close without the lock also sees what was done before it.
fn closed_and_asked() {
    let (oneshot, done) = (Stage::new(Shared::<usize>::new()), Stage::new(Baton::new()));
    let asks = spawn(move || {
        if oneshot.is_unwanted() {
            assert_eq!(done.read(), 1);
        }
    });
    done.write();
    oneshot.close();
    asks.join().unwrap();
    end(oneshot);
    // SAFETY: the threads have ended, so the baton has no other user.
    unsafe { done.end() };
}

#[test]
fn loom_is_closed_shows_what_was_done_before_the_close() {
    explore(ALL, closed_and_asked);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_oneshot_without_order() {
    plant("sync/oneshot/state.rs", ORDERS);
    explore(3, closed_and_asked);
}
