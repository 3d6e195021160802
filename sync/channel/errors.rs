use crate::sync::WaitError;
use std::error::Error;
use std::fmt;

/// A value that was not sent, and the reason.
#[derive(Clone, PartialEq, Eq)]
pub struct SendError<T> {
    value: T,
    why: WaitError,
}

impl<T> SendError<T> {
    pub(crate) fn new(value: T, why: WaitError) -> SendError<T> {
        SendError { value, why }
    }

    /// Returns why the value was not sent.
    pub fn reason(&self) -> &WaitError {
        &self.why
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("reason", &self.why).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            WaitError::Closed => f.write_str("a value was not sent: the channel is closed"),
            WaitError::TimedOut => {
                f.write_str("a value was not sent: the channel stayed full until the timeout")
            }
            why => write!(f, "a value was not sent: {why}"),
        }
    }
}

impl<T> Error for SendError<T> {}

/// A value that could not be sent immediately.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The channel is full, or other senders are waiting. A channel without room counts as full
    /// unless a receiver is waiting.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(value) | TrySendError::Closed(value) => value,
        }
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "the channel is full",
            TrySendError::Closed(_) => "the channel is closed",
        })
    }
}

impl<T> Error for TrySendError<T> {}

/// Why nothing could be received immediately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// The channel is empty, or waiting receivers are to have its values first.
    Empty,
    /// The channel is empty and closed.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "the channel is empty",
            TryRecvError::Closed => "the channel is empty and closed",
        })
    }
}

impl Error for TryRecvError {}
