//! The end of a runtime, as its workers see it.

use crate::scheduler::cancel::cancel_all;
use crate::scheduler::life::root::Admitted;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;

impl Shared {
    /// Counts a task that any thread spawns as a child of the root. Returns `None` if the runtime
    /// has ended or is ending: then it takes tasks from its own tasks at most.
    pub(crate) fn admit(&self) -> Option<Admitted<'_>> {
        self.root.admit(|| self.runs_caller())
    }

    /// Whether one of the runtime's own tasks, or a blocking call of one, makes this call.
    pub(crate) fn runs_caller(&self) -> bool {
        let task = self.worker_here().and_then(Worker::task);
        task.is_some() || self.blocking.runs_job_here()
    }

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
