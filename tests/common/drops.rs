//! A count of what has been dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the drops of the guards that it has given out.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn new() -> Drops {
        Drops::default()
    }

    /// A value whose drop is counted.
    pub(crate) fn guard(&self) -> Guard {
        Guard(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        // Relaxed: what is shown is that the end of a task orders its drops before.
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`Drops::guard`].
pub(crate) struct Guard(Drops);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}
