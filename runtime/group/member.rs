//! The members of a group, and their failures.

use crate::runtime::combinators::TaskError;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::payload::PanicPayload;
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::cancel::{cancel_node, is_cancelled};
use crate::task::cause::{Cause, Reason};
use crate::task::outcome::Failure;
use crate::task::words::tree::{Node, Verdict};
use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

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

/// The state that the members share.
pub(super) struct Failures<E> {
    first: Mutex<Option<Kept<E>>>,
}

impl<E> Failures<E> {
    pub(super) fn new() -> Failures<E> {
        Failures { first: Mutex::new(None) }
    }

    /// Takes the failure out.
    pub(super) fn take(&self) -> Option<Kept<E>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps the first failure, or the first that is not a mere consequence of a cancel. Returns
    /// `false` if `failure` is not the one kept.
    pub(super) fn keep(&self, failure: Kept<E>) -> bool {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn of_join(error: &JoinError) -> Option<&Cancelled> {
        match error {
            JoinError::Cancelled(cancelled)
            | JoinError::NotStarted(cancelled)
            | JoinError::Unwound(cancelled) => Some(cancelled),
            _ => None,
        }
    }
    if let Some(boxed) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return boxed.downcast_ref().or_else(|| of_join(boxed.downcast_ref()?));
    }
    error.downcast_ref().or_else(|| of_join(error.downcast_ref()?))
}

/// A member, until it has run.
pub(super) struct Member<E> {
    failures: Arc<Failures<E>>,
    /// The group's node, which does not end before its members.
    node: *const Node,
    fails_fast: Option<&'static Location<'static>>,
    ran: bool,
}

// SAFETY: nodes are shared by design. The failures are behind a lock, and the errors in them are
// `Send`.
unsafe impl<E: Send> Send for Member<E> {}

impl<E> Member<E> {
    /// Makes a member. If it fails and `fails_fast` is a place, it cancels the other members.
    ///
    /// # Safety
    /// `node` is the node of the member's group, and does not end before the member is dropped.
    pub(super) unsafe fn new(
        failures: Arc<Failures<E>>,
        node: *const Node,
        fails_fast: Option<&'static Location<'static>>,
    ) -> Member<E> {
        Member { failures, node, fails_fast, ran: false }
    }

    fn run<R: MemberResult<E>>(mut self, f: impl FnOnce() -> R)
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
        let mut at = self.node;
        // SAFETY: the group's node does not end before this member, and the nodes above it not
        // before the group.
        while let Some(node) = unsafe { at.as_ref() } {
            let is_cancelled = node.verdict() == Verdict::Cancelled;
            if is_cancelled && *cancelled == Cancelled::new(cause_of(node)) {
                return true;
            }
            // A node that ignores cancellation was not cancelled when it began to. So no cancel
            // from above it is a cancel of the group.
            if node.word().is_ignoring() {
                return false;
            }
            at = node.parent;
        }
        false
    }

    fn fail(&self, failure: Kept<E>) {
        if self.failures.keep(failure)
            && let Some(place) = self.fails_fast
        {
            let cause = Cause::new(Reason::SiblingFailed, Some(place));
            // SAFETY: the caller is a member, and the node does not end before its members.
            unsafe { cancel_node(&*self.node, Some(cause)) };
        }
    }
}

impl<E> Drop for Member<E> {
    fn drop(&mut self) {
        if self.ran {
            return;
        }
        // SAFETY: the node does not end before its members, and a member is dropped with its
        // captures, before its task ends.
        let node = unsafe { &*self.node };
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

/// The closure of a member, and the member. The fields are dropped in this order.
pub(super) struct Parts<F, E> {
    pub(super) f: F,
    pub(super) member: Member<E>,
}

impl<F: FnOnce() -> R, R: MemberResult<E>, E: 'static> Parts<F, E> {
    pub(super) fn run(self) {
        let Parts { f, member } = self;
        member.run(f);
    }
}
