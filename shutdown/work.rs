//! The scope or task of a node, and what cancels it.

use super::report::{GuardReport, Origin};
use crate::runtime::CancelHandle;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::time::Instant;
use crate::task::cause::Cause;
use std::sync::Arc;

/// The scope or task that a node was made for.
pub(super) struct Work {
    pub(super) cancel: CancelHandle,
    /// `Some` for a task. The guards of the node are reported with this origin.
    pub(super) origin: Option<Origin>,
}

/// The end of a shutdown's time, recorded in its node and in all nodes below.
pub(super) struct TimeOver {
    pub(super) cause: Arc<Cause>,
    /// The address of the node that was shut down.
    pub(super) of: usize,
    pub(super) when: Instant,
    /// The guards that existed then.
    pub(super) late: GuardReport,
    /// The number of scopes and tasks cancelled because of this, including later ones.
    pub(super) cancelled: AtomicUsize,
}

impl TimeOver {
    /// Cancels a scope or task that was added after the time was over.
    pub(super) fn cancel(&self, handle: &CancelHandle) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
        handle.pass_on(Arc::clone(&self.cause));
    }

    /// Returns the number of scopes and tasks cancelled because of this.
    // Relaxed: work is counted before it is cancelled, and its end orders the count before whatever
    // is seen of that end.
    pub(super) fn cancelled(&self) -> usize {
        self.cancelled.load(Ordering::Relaxed)
    }
}
