//! The outcomes that a group keeps until `next` takes them.

use super::member::Kept;
use crate::runtime::{JoinError, TaskError};
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Receiver, Sender, WaitError, unbounded};

/// What a member gives at its end.
pub(super) enum Outcome<T, E> {
    Value(T),
    Failed(Kept<E>),
    /// The member was cancelled alone, and passed that on.
    Nothing,
}

/// The outcomes of members, in the order in which they came.
pub(super) struct Given<T, E> {
    /// The outcomes are in boxes: a channel has places for several values, and copies places on the
    /// stacks of its sender and of its receiver.
    send: Sender<Box<Outcome<T, E>>>,
    pub(super) receive: Receiver<Box<Outcome<T, E>>>,
    waited: AtomicBool,
    /// Counts the members whose outcome `next` has not taken. `spawn` borrows the group to add one,
    /// and `next` borrows it exclusively to take one, so the two never run at the same time.
    left: AtomicUsize,
}

impl<T, E> Given<T, E> {
    pub(super) fn new() -> Given<T, E> {
        let (send, receive) = unbounded();
        Given { send, receive, waited: AtomicBool::new(false), left: AtomicUsize::new(0) }
    }

    /// Counts a member that will give an outcome.
    pub(super) fn expect(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn give(&self, outcome: Outcome<T, E>) {
        // Never refused: the channel has no bound, and both of its ends are here.
        let _ = self.send.try_send(Box::new(outcome));
    }

    /// Whether a member is left to give an outcome.
    pub(super) fn is_one_left(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Returns `true` the first time.
    pub(super) fn is_first_wait(&self) -> bool {
        !self.waited.swap(true, Ordering::Relaxed)
    }

    /// Counts what was received. Returns the value, if the member has given one.
    pub(super) fn count(
        &self,
        received: Result<Box<Outcome<T, E>>, WaitError>,
    ) -> Result<Option<T>, TaskError<E>> {
        let outcome = received.map_err(|why| match why {
            WaitError::Cancelled(cancelled) => TaskError::Join(JoinError::Cancelled(cancelled)),
            _ => unreachable!("the channel is not closed, and the wait has no time limit"),
        })?;
        self.left.fetch_sub(1, Ordering::Relaxed);
        match *outcome {
            Outcome::Value(value) => Ok(Some(value)),
            Outcome::Failed(kept) => Err(kept.failure),
            Outcome::Nothing => Ok(None),
        }
    }

    /// Takes an outcome that is there already.
    pub(super) fn take_now(&self) -> Option<Box<Outcome<T, E>>> {
        self.receive.try_recv().ok()
    }
}
