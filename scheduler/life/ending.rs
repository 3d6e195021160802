//! The end of a runtime, as its workers see it.

use crate::scheduler::cancel::cancel_all;
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;

impl Shared {
    /// Begins the end: admits no new tasks from outside, and cancels all tasks.
    pub(crate) fn close(&self) {
        self.root.close();
        cancel_all(&self.root);
    }

    /// Tells the workers to stop. For when no task is left.
    pub(crate) fn stop(&self) {
        self.unresponsive.clear();
        self.stopping.store(true, Ordering::SeqCst);
        for index in 0..self.workers() {
            self.idle.notify_worker(self, index);
        }
        self.close_timers();
    }
}
