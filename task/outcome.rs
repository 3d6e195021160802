//! What becomes of a task's closure: a value, or why there is none.

use crate::retire::stack::StackExhausted;
use crate::shim::panicking;
use crate::task::cause::Cause;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// What a panic carried.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// Why a task has no value.
pub(crate) enum Failure {
    Panicked(Payload),
    /// Cancelled before the closure was called.
    NotStarted(Arc<Cause>),
    /// It has left its closure by an unwinding that is no panic.
    Unwound(Arc<Cause>),
    /// Every stack is held by a task that waits for another one, and there is none for this.
    NoStack(StackExhausted),
    /// Whoever was to give the value has gone without.
    Abandoned,
}

/// The payload of an unwinding that ends a cancelled task without a panic.
pub(crate) struct Unwound(pub(crate) Arc<Cause>);

impl From<Payload> for Failure {
    #[cold]
    #[inline(never)]
    fn from(payload: Payload) -> Failure {
        match payload.downcast::<Unwound>() {
            Ok(unwound) => Failure::Unwound(unwound.0),
            Err(payload) => Failure::Panicked(payload),
        }
    }
}

pub(crate) type Outcome<T> = Result<T, Failure>;

/// What is said of a task that found no stack.
pub(crate) fn no_stack(reason: &StackExhausted) -> String {
    format!(
        "cygnet: a task could not be started, as every stack is held by a task that waits for \
         another one: {reason}"
    )
}

/// Runs `f`, keeping its panic.
pub(crate) fn quietly(f: impl FnOnce()) -> Option<Payload> {
    catch_unwind(AssertUnwindSafe(f)).err()
}

/// Drops all of them, whatever panics; the first panic, if any.
pub(crate) fn drop_all<V>(values: impl IntoIterator<Item = V>) -> Option<Payload> {
    let mut first = None;
    for payload in values.into_iter().filter_map(|value| quietly(|| drop(value))) {
        match first {
            None => first = Some(payload),
            Some(_) => drop_payload(payload),
        }
    }
    first
}

/// Goes on with a panic in a destructor, unless that runs because of another one: a second panic would end the process.
pub(crate) fn resume_in_destructor(payload: Payload) {
    if panicking() {
        return drop_payload(payload);
    }
    resume_unwind(payload);
}

/// Drops the payload of a panic, whose own destructor may panic, with a payload whose ...; the
/// second one is leaked.
pub(crate) fn drop_payload(payload: Payload) {
    if let Some(second) = quietly(|| drop(payload)) {
        std::mem::forget(second);
    }
}

/// Drops an outcome that nobody takes; gives back what must not be lost unseen: the payload of a panic, also of
/// one in its destructor.
pub(crate) fn dispose_of<T>(outcome: Outcome<T>) -> Option<Payload> {
    match outcome {
        Err(Failure::Panicked(payload)) => Some(payload),
        Err(Failure::NoStack(reason)) => Some(Box::new(no_stack(&reason))),
        other => quietly(|| drop(other)),
    }
}
