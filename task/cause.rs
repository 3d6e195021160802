//! The reasons of a cancel.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, LazyLock};

/// The reason why a task, or its scope, is cancelled.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// An explicit cancel, with the canceller's message.
    Explicit(Cow<'static, str>),
    /// The deadline has passed.
    Deadline,
    /// A sibling has failed in a group that ends with its first failure, or a sibling has won a
    /// race.
    SiblingFailed,
    /// The [`Task`](crate::Task) was dropped.
    HandleDropped,
    /// The runtime ends.
    RuntimeShutDown,
    /// The shutdown's grace period is over.
    GraceOver,
    /// The task got no value: its [`Promise`](crate::Promise) was dropped, or the other runtime it
    /// was to run on ended.
    Abandoned,
    /// The thread is unwinding, and code must not suspend during an unwind. The task itself need
    /// not be cancelled.
    Unwinding,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Explicit(message) => f.write_str(message),
            Reason::Deadline => f.write_str("its time is up"),
            Reason::SiblingFailed => f.write_str("a sibling has failed, or has won"),
            Reason::HandleDropped => f.write_str("its handle was dropped"),
            Reason::RuntimeShutDown => f.write_str("the runtime ends"),
            Reason::GraceOver => f.write_str("it is shut down, and its time to finish is over"),
            Reason::Abandoned => f.write_str("its promise was dropped, or its runtime has ended"),
            Reason::Unwinding => f.write_str("the thread is unwinding"),
        }
    }
}

impl From<&'static str> for Reason {
    fn from(message: &'static str) -> Reason {
        Reason::Explicit(Cow::Borrowed(message))
    }
}

impl From<String> for Reason {
    fn from(message: String) -> Reason {
        Reason::Explicit(Cow::Owned(message))
    }
}

/// A reason, and the place in the program where it was given.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Cause {
    pub(crate) reason: Reason,
    pub(crate) place: Option<&'static Location<'static>>,
}

impl Cause {
    pub(crate) fn new(reason: Reason, place: Option<&'static Location<'static>>) -> Arc<Cause> {
        Arc::new(Cause { reason, place })
    }

    /// The cause for a call that is made while its thread is unwinding.
    pub(crate) fn unwinding() -> Arc<Cause> {
        static CAUSE: LazyLock<Arc<Cause>> = LazyLock::new(|| Cause::new(Reason::Unwinding, None));
        Arc::clone(&CAUSE)
    }

    /// The cause of a task for which no cause is known any more.
    pub(crate) fn unknown() -> Arc<Cause> {
        Cause::new(Reason::HandleDropped, None)
    }

    /// The cause of all tasks of a runtime that ends.
    pub(crate) fn shut_down() -> Arc<Cause> {
        static CAUSE: LazyLock<Arc<Cause>> =
            LazyLock::new(|| Cause::new(Reason::RuntimeShutDown, None));
        Arc::clone(&CAUSE)
    }
}
