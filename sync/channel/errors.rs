use crate::sync::WaitError;
use std::error::Error;
use std::fmt;

/// A value that was not sent, and why.
#[derive(Clone, PartialEq, Eq)]
pub struct SendError<T> {
    value: T,
    why: WaitError,
}

impl<T> SendError<T> {
    pub(crate) fn new(value: T, why: WaitError) -> SendError<T> {
        SendError { value, why }
    }

    /// Why.
    pub fn reason(&self) -> &WaitError {
        &self.why
    }

    /// The value.
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
                f.write_str("a value was not sent: the channel was full all the time")
            }
            why => write!(f, "a value was not sent: {why}"),
        }
    }
}

impl<T> Error for SendError<T> {}

/// A value that could not be sent at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The channel is full, or others wait to send; without room, nobody waits to receive.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// The value.
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

/// Nothing could be received at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// There is nothing that is not spoken for.
    Empty,
    /// There is nothing, and the channel is closed.
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
