//! The outcome of a task: a value, or the reason why there is none.

use crate::retire::stack::StackExhausted;
use crate::shim::panicking;
use crate::task::cause::Cause;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// The text of a panic, or a placeholder in brackets if the payload is not text.
pub(crate) fn panic_text(payload: &Payload) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(a payload that is not text)")
}

/// The reason why a task has no value.
pub(crate) enum Failure {
    Panicked(Payload),
    /// Cancelled before the closure was called.
    NotStarted(Arc<Cause>),
    /// A cancel ended the closure by an unwind that is not a panic.
    Unwound(Arc<Cause>),
    /// The kernel refused memory for a stack.
    NoStack(StackExhausted),
    /// The party that should settle the external task was dropped without doing so.
    Abandoned,
}

/// The payload of an unwind that ends a cancelled task without a panic.
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

/// The message about a task that found no stack.
pub(crate) fn no_stack(reason: &StackExhausted) -> String {
    format!("cygnet: a task could not be started, as it had no stack: {reason}")
}

/// Runs `f`, and returns the payload if it panics.
pub(crate) fn quietly(f: impl FnOnce()) -> Option<Payload> {
    catch_unwind(AssertUnwindSafe(f)).err()
}

/// Drops all values, even if destructors panic. Returns the payload of the first panic.
pub(crate) fn drop_all<V>(values: impl IntoIterator<Item = V>) -> Option<Payload> {
    first_of(values.into_iter().filter_map(|value| quietly(|| drop(value))))
}

/// Returns the first of several panics and drops the others.
pub(crate) fn first_of(mut panics: impl Iterator<Item = Payload>) -> Option<Payload> {
    let first = panics.next();
    panics.for_each(drop_payload);
    first
}

/// Resumes a panic in a destructor. If the destructor runs because of another panic, drops the
/// payload instead, because a second panic would abort the process.
pub(crate) fn resume_in_destructor(payload: Payload) {
    if panicking() {
        return drop_payload(payload);
    }
    resume_unwind(payload);
}

/// Drops the payload of a panic. If its destructor panics too, that second payload is leaked,
/// because its destructor could panic again.
pub(crate) fn drop_payload(payload: Payload) {
    if let Some(second) = quietly(|| drop(payload)) {
        std::mem::forget(second);
    }
}

/// Drops a value. The payload of a panic of its destructor is dropped, too.
pub(crate) fn drop_quietly<V>(value: V) {
    quietly(|| drop(value)).into_iter().for_each(drop_payload);
}

/// Drops an outcome that no handle takes. Returns the payload to report: of a panic of the task or
/// of the outcome's destructor, or a message about a missing stack.
pub(crate) fn dispose_of<T>(outcome: Outcome<T>) -> Option<Payload> {
    match outcome {
        Err(Failure::Panicked(payload)) => Some(payload),
        Err(Failure::NoStack(reason)) => Some(Box::new(no_stack(&reason))),
        other => quietly(|| drop(other)),
    }
}
