use crate::runtime::Cancelled;
use crate::sync::errors::{WaitError, lagged};
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

    /// Returns why the calling task was cancelled, if that is the reason. Does not suspend.
    pub fn cancelled(&self) -> Option<&Cancelled> {
        self.why.cancelled()
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value
    }
}

debug! { impl<T> SendError<T> as this { reason: this.why, .. } }

error! {
    impl<T> SendError<T>: |this, f| match &this.why {
        WaitError::Closed => f.write_str("a value was not sent: the channel is closed"),
        WaitError::TimedOut => {
            f.write_str("a value was not sent: the channel stayed full until the timeout")
        }
        why => write!(f, "a value was not sent: {why}"),
    }, source: this.cancelled()
}

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

error! {
    impl<T> TrySendError<T>: |this, f| {
        f.write_str(match this {
            TrySendError::Full(_) => "the channel is full",
            TrySendError::Closed(_) => "the channel is closed",
        })
    }
}

/// Why nothing could be received immediately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// Nothing is there, or waiting receivers are to have the values of the channel first.
    Empty,
    /// Nothing is there, and the channel is closed.
    Closed,
    /// This many values of a [broadcast](crate::sync::broadcast()) were driven out by newer ones
    /// before they were received. The next call goes on with the oldest value that is there. No
    /// other receiver gets this error.
    Lagged(u64),
}

error! {
    impl TryRecvError: |this, f| match this {
        TryRecvError::Empty => f.write_str("the channel is empty"),
        TryRecvError::Closed => f.write_str("the channel is empty and closed"),
        TryRecvError::Lagged(missed) => lagged(*missed, f),
    }
}

/// The result of an attempt to put or take a value.
pub(super) type Tried<V> = Result<V, Refused>;

/// Why an attempt has failed.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The caller would have to wait.
    Later,
    /// A place or a value without a permit is left, but the line is strict: the waiters come first.
    Behind,
    Closed,
    /// The ring is empty, or all its values are promised; values may wait beyond it.
    Beyond,
    /// Another caller interfered: try again.
    Missed,
}
