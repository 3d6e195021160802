use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Short;
use std::error::Error;
use std::fmt;

/// Why a wait has ended without what was waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// The calling task is cancelled.
    Cancelled(Cancelled),
    /// What was waited for has been closed.
    Closed,
    /// The time is over.
    TimedOut,
}

impl WaitError {
    /// For a wait that has just been cut short.
    #[cold]
    pub(crate) fn of(short: Short) -> WaitError {
        match short {
            Short::Cancelled => WaitError::Cancelled(Cancelled::here()),
            Short::TimedOut => WaitError::TimedOut,
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Cancelled(cancelled) => cancelled.fmt(f),
            WaitError::Closed => f.write_str("what was waited for has been closed"),
            WaitError::TimedOut => f.write_str("the time of the wait is over"),
        }
    }
}

impl Error for WaitError {}

impl From<Cancelled> for WaitError {
    fn from(cancelled: Cancelled) -> WaitError {
        WaitError::Cancelled(cancelled)
    }
}
