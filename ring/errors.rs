use std::error::Error;
use std::fmt;

/// Nothing could be read at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryNextError {
    /// There is nothing to read, and something may come.
    Empty,
    /// There is nothing to read, and nothing comes any more.
    Closed,
}

impl fmt::Display for TryNextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryNextError::Empty => "there is nothing to read",
            TryNextError::Closed => "all of the ring has been read, and it is closed",
        })
    }
}

impl Error for TryNextError {}
