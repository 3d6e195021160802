//! The errors of waits.

use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Interruption;
use std::error::Error;
use std::fmt;

/// Why a wait ended without its result.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// The calling task is cancelled.
    Cancelled(Cancelled),
    /// What the caller waited for has been closed.
    Closed,
    /// The time limit of the wait has passed.
    TimedOut,
}

impl WaitError {
    /// Returns the error of a wait of the caller that has just been cut short.
    #[cold]
    pub(crate) fn of(short: Interruption) -> WaitError {
        match short {
            Interruption::Cancelled => WaitError::Cancelled(Cancelled::here()),
            Interruption::TimedOut => WaitError::TimedOut,
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Cancelled(cancelled) => cancelled.fmt(f),
            WaitError::Closed => f.write_str("what was waited for has been closed"),
            WaitError::TimedOut => f.write_str("the wait timed out"),
        }
    }
}

impl Error for WaitError {}

impl From<Cancelled> for WaitError {
    fn from(cancelled: Cancelled) -> WaitError {
        WaitError::Cancelled(cancelled)
    }
}
