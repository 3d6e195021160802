//! The errors of waits.

use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Interruption;
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
    /// This many values of a [broadcast](super::broadcast()) were driven out by newer ones before
    /// they were received. The next call goes on with the oldest value that is there. No other wait
    /// ends with this error.
    Lagged(u64),
}

impl WaitError {
    /// Returns why the calling task was cancelled, if it was. Does not suspend.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// rt.block_on(|| {
    ///     let (to, from) = cygnet::sync::bounded::<u8>(1);
    ///     cygnet::cancel_handle().cancel("enough");
    ///     let reason = from.recv().unwrap_err().cancelled().map(|c| c.reason().to_string());
    ///     assert_eq!(reason.as_deref(), Some("enough"));
    ///     # drop(to);
    /// });
    /// ```
    pub fn cancelled(&self) -> Option<&Cancelled> {
        match self {
            WaitError::Cancelled(cancelled) => Some(cancelled),
            _ => None,
        }
    }

    /// Returns the error of a wait of the caller that has just been cut short.
    #[cold]
    pub(crate) fn of(short: Interruption) -> WaitError {
        match short {
            Interruption::Cancelled => WaitError::Cancelled(Cancelled::here()),
            Interruption::TimedOut => WaitError::TimedOut,
        }
    }
}

error! {
    impl WaitError: |this, f| match this {
        WaitError::Cancelled(cancelled) => cancelled.fmt(f),
        WaitError::Closed => f.write_str("what was waited for has been closed"),
        WaitError::TimedOut => f.write_str("the wait timed out"),
        WaitError::Lagged(missed) => lagged(*missed, f),
    }, source: this.cancelled()
}

impl From<Cancelled> for WaitError {
    fn from(cancelled: Cancelled) -> WaitError {
        WaitError::Cancelled(cancelled)
    }
}

pub(super) fn lagged(missed: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the receiver was too slow, and has missed {missed} values")
}
