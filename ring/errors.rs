use std::error::Error;
use std::fmt;

/// Why a reader got no batch without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryNextError {
    /// There is nothing to read now, but more may come.
    Empty,
    /// There is nothing to read, and nothing more will come.
    Closed,
}

impl fmt::Display for TryNextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryNextError::Empty => "there is nothing to read",
            TryNextError::Closed => "the ring is closed, and all of it has been read",
        })
    }
}

impl Error for TryNextError {}
