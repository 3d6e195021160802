//! A hook that counts its calls.

use cygnet::{CancelHook, Cancelled};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts its calls.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<(AtomicUsize, AtomicUsize)>);

impl Calls {
    /// How often the hook was told of a cancel, and how often of an end without one.
    pub(crate) fn get(&self) -> (usize, usize) {
        (self.0.0.load(Ordering::Acquire), self.0.1.load(Ordering::Acquire))
    }
}

impl CancelHook for Calls {
    fn on_cancel(self: Box<Self>, _: Cancelled) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
    }

    fn on_cleanup(self: Box<Self>) {
        self.0.1.fetch_add(1, Ordering::AcqRel);
    }
}
