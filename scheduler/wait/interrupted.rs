//! Why a wait was cut short.

/// The calling task is cancelled, or its thread unwinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interrupted;

/// Why a wait was cut short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interruption {
    /// The task is cancelled.
    Cancelled,
    /// The time limit of the wait has passed.
    TimedOut,
}
