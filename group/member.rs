//! The members of a group, and their failures.

use super::given::{Given, Outcome};
use super::hold::Hold;
use crate::runtime::{Cancelled, JoinError, PanicPayload, TaskError, scope};
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::cancel::{cancel_node, is_cancelled};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::worker::Worker;
use crate::shim::real::Mutex;
use crate::sync::WaitError;
use crate::task::cause::{Cause, Reason};
use crate::task::outcome::{Failure, Payload, drop_quietly};
use crate::task::words::tree::{Node, Verdict};
use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::sync::{Arc, OnceLock};

/// A type that a closure in [`TaskGroup::add`](crate::TaskGroup::add) may return: nothing, a
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
pub(super) struct Shared<T, E> {
    /// Holds the group open for new members. Below a group that was closed, this is the hold of
    /// that group.
    pub(super) hold: Hold,
    first: Mutex<Option<Kept<E>>>,
    /// Made for the first member that gives its outcome to `next`.
    given: OnceLock<Given<T, E>>,
}

impl<T, E> Shared<T, E> {
    pub(super) fn new(hold: Hold) -> Shared<T, E> {
        Shared { hold, first: Mutex::new(None), given: OnceLock::new() }
    }

    /// Counts a member that will give its outcome.
    pub(super) fn expect(&self) {
        self.given.get_or_init(Given::new).expect();
    }

    pub(super) fn given(&self) -> Option<&Given<T, E>> {
        self.given.get()
    }

    /// Returns the node of the group, which does not end before its members.
    pub(super) fn node(&self) -> LiveNode<'_> {
        self.hold.outside().live_node()
    }

    /// Takes the failure out, after the end of the group. Drops the values that were not taken.
    pub(super) fn take(&self) -> Option<Kept<E>> {
        while let Some(outcome) = self.given().and_then(Given::take_now) {
            if let Outcome::Failed(failure) = *outcome {
                self.keep(failure);
            }
        }
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

/// Finds the cancellation that an error passes on: for errors of the library that `?` passes on,
/// and for boxed errors that have it as a source.
fn cancelled_in(error: &dyn Any) -> Option<&Cancelled> {
    if let Some(boxed) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        let mut at: Option<&(dyn Error + 'static)> = Some(&**boxed);
        while let Some(error) = at {
            if let Some(cancelled) = error.downcast_ref() {
                return Some(cancelled);
            }
            at = error.source();
        }
        return None;
    }
    error
        .downcast_ref()
        .or_else(|| JoinError::cancelled(error.downcast_ref()?))
        .or_else(|| JoinError::cancelled(error.downcast_ref::<Arc<JoinError>>()?))
        .or_else(|| WaitError::cancelled(error.downcast_ref()?))
}

/// A member, until it has run.
pub(super) struct Member<T, E> {
    pub(super) group: Arc<Shared<T, E>>,
    /// If the member fails and this is a place, it cancels the other members.
    pub(super) fails_fast: Option<&'static Location<'static>>,
    /// Whether the member gives its outcome to `next`.
    pub(super) gives: bool,
    pub(super) ran: bool,
    pub(super) has_given: Cell<bool>,
}

/// Says which node was cancelled, if a member fails because it hands a cancel on.
#[derive(Clone, Copy, PartialEq)]
enum Whose {
    /// That of the group, or of a node above it.
    Group,
    /// That of the member alone.
    Own,
}

impl<T, E: 'static> Member<T, E> {
    pub(super) fn run(mut self, f: impl FnOnce() -> Result<T, E>) {
        self.ran = true;
        if !self.gives {
            match catch_unwind(AssertUnwindSafe(f)) {
                Ok(Ok(_nothing)) => {}
                Ok(Err(error)) => self.fail_by(error),
                Err(payload) => self.fail_by_panic(payload),
            }
            return;
        }
        // The value is given when the member's children have ended, and an error at once: the
        // others are not to wait for the children of a member that has failed.
        let call = || scope(|_| f().map_err(|error| self.fail_by(error)).ok());
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Some(value)) => self.give(Outcome::Value(value)),
            Ok(None) => {}
            Err(payload) => self.fail_by_panic(payload),
        }
    }

    fn fail_by(&self, error: E) {
        let whose = cancelled_in(&error).and_then(|cancelled| self.whose(cancelled));
        let is_consequence = whose == Some(Whose::Group);
        self.fail(Kept { failure: TaskError::Failed(error), is_consequence }, whose);
    }
}

impl<T, E> Member<T, E> {
    /// Returns whether the member's error hands on a cancel of the group, or a cancel of the member
    /// alone. Returns `None` if it does neither.
    fn whose(&self, cancelled: &Cancelled) -> Option<Whose> {
        let passed_on = |node: &LiveNode<'_>| {
            node.verdict() == Verdict::Cancelled && *cancelled == Cancelled::new(cause_of(*node))
        };
        // If several cancels come at once, the member may have been told another reason than the
        // one that counts for the group.
        for node in self.group.node().and_above() {
            if passed_on(&node) {
                return Some(Whose::Group);
            }
            // A node that ignores cancellation was not cancelled when it began to. So no cancel
            // from above it is a cancel of the group.
            if node.word().is_ignoring() {
                break;
            }
        }
        // Not those of scopes in the member.
        let group: *const Node = self.group.node().get();
        let mut from_here = Worker::current()?.running_node().and_above();
        let own = from_here.find(|node| ptr::eq(node.parent, group))?;
        passed_on(&own).then_some(Whose::Own)
    }

    /// Tells that a closed group does not take the member. Touches no node: they may be gone.
    pub(super) fn refuse(&mut self, cause: Arc<Cause>) {
        self.ran = true;
        let failure = Kept::from(JoinError::NotStarted(Cancelled::new(cause)));
        if self.gives {
            self.give(Outcome::Failed(failure));
        } else {
            self.group.keep(failure);
        }
    }

    /// Fails by a panic or by `Cancelled::unwind`.
    fn fail_by_panic(&self, payload: Payload) {
        let error = JoinError::from(Failure::from(payload));
        let whose = error.cancelled().and_then(|cancelled| self.whose(cancelled));
        let failure = Kept { failure: TaskError::Join(error), is_consequence: whose.is_some() };
        if self.has_given.get() {
            // A child has panicked after the error was given. The group's join tells.
            self.group.keep(failure);
        } else {
            self.fail(failure, whose);
        }
    }

    /// Gives the outcome: once.
    fn give(&self, outcome: Outcome<T, E>) {
        self.has_given.set(true);
        let given = self.group.given().expect("made before the first member that gives");
        given.give(outcome);
    }

    /// Tells of a failure, unless the member only passes on a cancel of itself alone and gives its
    /// outcome.
    fn fail(&self, failure: Kept<E>, whose: Option<Whose>) {
        let is_first = match (self.gives, whose) {
            (true, Some(Whose::Own)) => {
                self.give(Outcome::Nothing);
                // Its destructor is the user's code.
                return drop_quietly(failure);
            }
            (true, _) => {
                let is_consequence = failure.is_consequence;
                self.give(Outcome::Failed(failure));
                !is_consequence
            }
            (false, _) => self.group.keep(failure),
        };
        if is_first && let Some(place) = self.fails_fast {
            let cause = Cause::new(Reason::SiblingFailed, Some(place));
            cancel_node(&self.group.node(), Some(cause));
        }
    }

    /// Returns whether the closure, which is dropped without a call, is that of a task that was
    /// cancelled alone. The worker that finds it cancelled drops it in the task's name.
    fn was_cancelled_alone(&self) -> bool {
        let node = Worker::current().and_then(Worker::innermost_node);
        node.is_some_and(|node| {
            ptr::eq(node.parent, self.group.node().get()) && node.verdict() == Verdict::Cancelled
        })
    }
}

impl<T, E> Drop for Member<T, E> {
    fn drop(&mut self) {
        if self.ran {
            return;
        }
        let node = self.group.node();
        if is_cancelled(node) {
            let error = JoinError::NotStarted(Cancelled::new(cause_of(node)));
            self.fail(error.into(), Some(Whose::Group));
        } else if self.gives && self.was_cancelled_alone() {
            self.give(Outcome::Nothing);
        } else {
            // The runtime has told its panic hook the same.
            let text = "cygnet: there was no stack for a member of a group";
            let error = JoinError::Panicked(PanicPayload::new(Box::new(text)));
            self.fail(error.into(), None);
        }
    }
}
