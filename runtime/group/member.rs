//! What runs in a group, and what comes of it.

use crate::retire::cause::{Cause, Reason};
use crate::retire::outcome::Failure;
use crate::retire::tree::Node;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::several::TaskError;
use crate::scheduler::cancel::{cancel_node, cause_of, is_cancelled};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// What the closure of a member of a [`TaskGroup`](crate::TaskGroup) may return: nothing, or a `Result` without a
/// value; or it never does.
pub trait MemberResult<E> {
    /// The failure, if it is one.
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

// What a closure returns.
#[doc(hidden)]
pub trait Returns {
    type Value;
}

impl<T> Returns for fn() -> T {
    type Value = T;
}

/// `!`, which cannot be written here yet.
type Never = <fn() -> ! as Returns>::Value;

/// Of a closure that loops for ever.
impl<E> MemberResult<E> for Never {
    fn into_failure(self) -> Option<E> {
        self
    }
}

/// What the members share.
pub(super) struct Failures<E> {
    first: Mutex<Option<TaskError<E>>>,
}

impl<E> Failures<E> {
    pub(super) fn new() -> Failures<E> {
        Failures { first: Mutex::new(None) }
    }

    /// The one that was kept.
    pub(super) fn take(&self) -> Option<TaskError<E>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps the first, or the first that is not the mere consequence of a cancel. False if it is not this one.
    pub(super) fn keep(&self, failure: TaskError<E>) -> bool {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let keeps =
            first.as_ref().is_none_or(|first| is_consequence(first) && !is_consequence(&failure));
        // A user's destructors may run: not under the lock.
        let other = if keeps { first.replace(failure) } else { Some(failure) };
        drop(first);
        drop(other);
        keeps
    }
}

/// Whether it says no more than that there was a cancel.
pub(super) fn is_consequence<E>(failure: &TaskError<E>) -> bool {
    matches!(failure, TaskError::Join(JoinError::NotStarted(_) | JoinError::Unwound(_)))
}

/// A member, until it has run.
pub(super) struct Member<E> {
    failures: Arc<Failures<E>>,
    /// The group's, which does not end before its members.
    node: *const Node,
    fails_fast: Option<&'static Location<'static>>,
    ran: bool,
}

// SAFETY: nodes are shared by design; the failures are Send.
unsafe impl<E: Send> Send for Member<E> {}

impl<E> Member<E> {
    /// One that cancels the others if it fails, if a place is given.
    ///
    /// # Safety
    /// The node is that of its group, and does not end before it is dropped.
    pub(super) unsafe fn new(
        failures: Arc<Failures<E>>,
        node: *const Node,
        fails_fast: Option<&'static Location<'static>>,
    ) -> Member<E> {
        Member { failures, node, fails_fast, ran: false }
    }

    fn run<R: MemberResult<E>>(mut self, f: impl FnOnce() -> R) {
        let result = catch_unwind(AssertUnwindSafe(f));
        self.ran = true;
        match result {
            Ok(result) => {
                if let Some(error) = result.into_failure() {
                    self.fail(TaskError::Failed(error));
                }
            }
            Err(payload) => self.fail(TaskError::Join(Failure::from(payload).into())),
        }
    }

    fn fail(&self, failure: TaskError<E>) {
        if self.failures.keep(failure)
            && let Some(place) = self.fails_fast
        {
            let cause = Cause::new(Reason::SiblingFailed, Some(place));
            // SAFETY: the caller is a member.
            unsafe { cancel_node(&*self.node, Some(cause)) };
        }
    }
}

impl<E> Drop for Member<E> {
    fn drop(&mut self) {
        if self.ran {
            return;
        }
        // SAFETY: its captures are dropped before a member ends.
        let node = unsafe { &*self.node };
        self.fail(TaskError::Join(if is_cancelled(node) {
            JoinError::NotStarted(Cancelled::new(cause_of(node)))
        } else {
            // As the runtime has told its hook for panics.
            JoinError::Panicked(Box::new("cygnet: there was no stack for a member of a group"))
        }));
    }
}

/// The closure of a member, in the order in which they are dropped.
pub(super) struct Parts<F, E> {
    pub(super) f: F,
    pub(super) member: Member<E>,
}

impl<F: FnOnce() -> R, R: MemberResult<E>, E> Parts<F, E> {
    pub(super) fn run(self) {
        let Parts { f, member } = self;
        member.run(f);
    }
}
