//! The members of a group, and their failures.

use super::hold::Hold;
use crate::runtime::combinators::TaskError;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::payload::PanicPayload;
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::cancel::{cancel_node, is_cancelled};
use crate::scheduler::life::live_node::LiveNode;
use crate::shim::real::Mutex;
use crate::task::cause::{Cause, Reason};
use crate::task::outcome::Failure;
use crate::task::words::tree::Verdict;
use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

/// A type that the closure of a member of a [`TaskGroup`](crate::TaskGroup) may return: nothing, a
/// `Result` without a value, or the type of a closure that never returns.
pub trait MemberResult<E> {
    /// Returns the failure, if there is one.
    #[doc(hidden)]
    fn into_failure(self) -> Option<E>;
}

impl<E> MemberResult<E> for () {
    fn into_failure(self) -> Option<E> {
        None
    }
}

impl<E> MemberResult<E> for Result<(), E> {
    fn into_failure(self) -> Option<E> {
        self.err()
    }
}

// Names the return type of a function type.
#[doc(hidden)]
pub trait Returns {
    type Value;
}

impl<T> Returns for fn() -> T {
    type Value = T;
}

/// `!`, which cannot be written here yet.
type Never = <fn() -> ! as Returns>::Value;

/// For a closure that loops for ever.
impl<E> MemberResult<E> for Never {
    fn into_failure(self) -> Option<E> {
        self
    }
}

/// A failure that a group keeps.
pub(super) struct Kept<E> {
    pub(super) failure: TaskError<E>,
    /// The failure says only that there was a cancel.
    pub(super) is_consequence: bool,
}

impl<E> From<JoinError> for Kept<E> {
    fn from(error: JoinError) -> Kept<E> {
        let is_consequence = matches!(error, JoinError::NotStarted(_) | JoinError::Unwound(_));
        Kept { failure: TaskError::Join(error), is_consequence }
    }
}

/// The part of a group that its members share.
pub(super) struct Shared<E> {
    /// Holds the group open for new members. Below a group that was closed, this is the hold of
    /// that group.
    pub(super) hold: Hold,
    first: Mutex<Option<Kept<E>>>,
}

impl<E> Shared<E> {
    pub(super) fn new(hold: Hold) -> Shared<E> {
        Shared { hold, first: Mutex::new(None) }
    }

    /// Returns the node of the group, which does not end before its members.
    pub(super) fn node(&self) -> LiveNode<'_> {
        self.hold.outside().live_node()
    }

    /// Takes the failure out.
    pub(super) fn take(&self) -> Option<Kept<E>> {
        self.first.lock().take()
    }

    /// Keeps the first failure, or the first that is not a mere consequence of a cancel. Returns
    /// `false` if `failure` is not the one kept.
    pub(super) fn keep(&self, failure: Kept<E>) -> bool {
        let mut first = self.first.lock();
        let keeps =
            first.as_ref().is_none_or(|first| first.is_consequence && !failure.is_consequence);
        // Destructors of the user may run, so not under the lock.
        let other = if keeps { first.replace(failure) } else { Some(failure) };
        drop(first);
        drop(other);
        keeps
    }
}

/// Finds the cancellation that an error passes on, for the error types by which `?` passes it on.
fn cancelled_in(error: &dyn Any) -> Option<&Cancelled> {
    if let Some(boxed) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return boxed.downcast_ref().or_else(|| JoinError::cancelled(boxed.downcast_ref()?));
    }
    error.downcast_ref().or_else(|| JoinError::cancelled(error.downcast_ref()?))
}

/// A member, until it has run.
pub(super) struct Member<E> {
    pub(super) group: Arc<Shared<E>>,
    /// If the member fails and this is a place, it cancels the other members.
    pub(super) fails_fast: Option<&'static Location<'static>>,
    pub(super) ran: bool,
}

impl<E> Member<E> {
    pub(super) fn run<R: MemberResult<E>>(mut self, f: impl FnOnce() -> R)
    where
        E: 'static,
    {
        let result = catch_unwind(AssertUnwindSafe(f));
        self.ran = true;
        match result {
            Ok(result) => {
                if let Some(error) = result.into_failure() {
                    let is_consequence = self.is_handed_on(&error);
                    self.fail(Kept { failure: TaskError::Failed(error), is_consequence });
                }
            }
            Err(payload) => self.fail(JoinError::from(Failure::from(payload)).into()),
        }
    }

    /// Returns whether an error only passes on a cancel of the group or of a node above it.
    fn is_handed_on(&self, error: &(dyn Any + 'static)) -> bool {
        let Some(cancelled) = cancelled_in(error) else { return false };
        // If several cancels come at once, the member may have been told another reason than the
        // one that counts for the group.
        for node in self.group.node().and_above() {
            let is_cancelled = node.verdict() == Verdict::Cancelled;
            if is_cancelled && *cancelled == Cancelled::new(cause_of(node)) {
                return true;
            }
            // A node that ignores cancellation was not cancelled when it began to. So no cancel
            // from above it is a cancel of the group.
            if node.word().is_ignoring() {
                return false;
            }
        }
        false
    }

    fn fail(&self, failure: Kept<E>) {
        if self.group.keep(failure)
            && let Some(place) = self.fails_fast
        {
            let cause = Cause::new(Reason::SiblingFailed, Some(place));
            cancel_node(&self.group.node(), Some(cause));
        }
    }
}

impl<E> Drop for Member<E> {
    fn drop(&mut self) {
        if self.ran {
            return;
        }
        let node = self.group.node();
        let error = if is_cancelled(node) {
            JoinError::NotStarted(Cancelled::new(cause_of(node)))
        } else {
            // The runtime has told its panic hook the same.
            let text = "cygnet: there was no stack for a member of a group";
            JoinError::Panicked(PanicPayload::new(Box::new(text)))
        };
        self.fail(error.into());
    }
}
