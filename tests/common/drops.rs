//! A count of drops.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the drops of its guards.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<Counts>);

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

impl Drops {
    pub(crate) fn new() -> Drops {
        Drops::default()
    }

    /// Makes a value that counts its drop.
    pub(crate) fn guard(&self) -> Guard {
        self.0.made.fetch_add(1, Ordering::Relaxed);
        Guard(self.clone())
    }

    /// A closure that owns such a value while it calls `f`.
    pub(crate) fn around<R, F: FnOnce() -> R>(&self, f: F) -> impl FnOnce() -> R + use<R, F> {
        let guard = self.guard();
        move || {
            let _guard = guard;
            f()
        }
    }

    /// The body of a task that owns such a value, and parks until it is cancelled.
    pub(crate) fn parks(&self) -> impl FnOnce() + Send + use<> {
        self.around(|| assert!(cygnet::park().is_err()))
    }

    pub(crate) fn made(&self) -> usize {
        self.0.made.load(Ordering::Relaxed)
    }

    /// How many of them have not been dropped.
    pub(crate) fn left(&self) -> usize {
        self.made() - self.count()
    }

    pub(crate) fn count(&self) -> usize {
        // Relaxed: tests show that the end of a task orders its drops before.
        self.0.dropped.load(Ordering::Relaxed)
    }
}

/// See [`Drops::guard`].
pub(crate) struct Guard(Drops);

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}
