//! Why a wait was cut short.

/// The calling task is cancelled, or its thread unwinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut;

/// Why a wait was cut short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Short {
    /// The task is cancelled.
    Cancelled,
    /// The time of the wait is over.
    TimedOut,
}
