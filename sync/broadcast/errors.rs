use crate::runtime::Cancelled;
use crate::sync::WaitError;
use std::error::Error;
use std::fmt;

/// Why a wait for the next value of a broadcast has ended without one.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BroadcastRecvError {
    /// This many values were driven out by newer ones before they were received. The next call goes
    /// on with the oldest value that is there.
    Lagged(u64),
    /// Everything has been received, and all senders are gone.
    Closed,
    /// The calling task is cancelled.
    Cancelled(Cancelled),
    /// The time limit has passed.
    TimedOut,
}

impl BroadcastRecvError {
    /// Converts the error of a look. Returns `None` if the receiver has to wait.
    pub(super) fn of(error: BroadcastTryRecvError) -> Option<BroadcastRecvError> {
        match error {
            BroadcastTryRecvError::Empty => None,
            BroadcastTryRecvError::Closed => Some(BroadcastRecvError::Closed),
            BroadcastTryRecvError::Lagged(missed) => Some(BroadcastRecvError::Lagged(missed)),
        }
    }
}

impl fmt::Display for BroadcastRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BroadcastRecvError::Lagged(missed) => lagged(*missed, f),
            BroadcastRecvError::Closed => WaitError::Closed.fmt(f),
            BroadcastRecvError::Cancelled(cancelled) => cancelled.fmt(f),
            BroadcastRecvError::TimedOut => WaitError::TimedOut.fmt(f),
        }
    }
}

impl Error for BroadcastRecvError {}

impl From<WaitError> for BroadcastRecvError {
    fn from(error: WaitError) -> BroadcastRecvError {
        match error {
            WaitError::Cancelled(cancelled) => BroadcastRecvError::Cancelled(cancelled),
            WaitError::Closed => BroadcastRecvError::Closed,
            WaitError::TimedOut => BroadcastRecvError::TimedOut,
        }
    }
}

/// Why nothing could be received from a broadcast immediately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BroadcastTryRecvError {
    /// This many values were driven out by newer ones before they were received. The next call goes
    /// on with the oldest value that is there.
    Lagged(u64),
    /// Everything has been received.
    Empty,
    /// Everything has been received, and all senders are gone.
    Closed,
}

impl fmt::Display for BroadcastTryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BroadcastTryRecvError::Lagged(missed) => lagged(*missed, f),
            BroadcastTryRecvError::Empty => f.write_str("everything has been received"),
            BroadcastTryRecvError::Closed => {
                f.write_str("everything has been received, and the channel is closed")
            }
        }
    }
}

impl Error for BroadcastTryRecvError {}

fn lagged(missed: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the receiver was too slow, and has missed {missed} values")
}
