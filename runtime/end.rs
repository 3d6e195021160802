//! The end of a runtime.

use crate::runtime::builder::Runtime;
use crate::runtime::metrics::Metrics;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::shim::time::{Duration, patience};
use crate::shim::{say, spin_until};
use crate::shutdown::stop_runtime;
use std::sync::Arc;

/// How long a drop spins for the end of a thread before it sleeps: they end one after the other, at once.
const SPIN: Duration = Duration::from_micros(50);

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.ended && self.may_end() {
            self.end(None);
        }
    }
}

impl Runtime {
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether the caller is outside of it. A task that ends its own runtime would wait for itself: that is a panic.
    pub(crate) fn may_end(&mut self) -> bool {
        let runs = |worker: &Worker| std::ptr::eq(worker.shared.get(), Arc::as_ptr(&self.shared));
        if !Worker::current().is_some_and(runs) && !self.shared.blocking.is_served_here() {
            return true;
        }
        let sentence = "cygnet: a runtime was dropped by one of its own tasks, which would wait for \
                        itself for ever; drop it outside, or keep a Handle there instead";
        self.leak();
        if crate::shim::panicking() {
            say(sentence);
        } else {
            panic!("{sentence}");
        }
        false
    }

    /// Ends it. With a time: gives up when so much has passed, and leaks what is left; false then.
    pub(crate) fn end(&mut self, patience: Option<Duration>) -> bool {
        stop_runtime(&self.shared);
        self.shared.close();
        // One that was made in between.
        stop_runtime(&self.shared);
        match patience {
            Some(time) if !self.shared.root.wait(Some(time)) => {
                self.leak();
                return false;
            }
            Some(_) => {}
            None => self.wait_for_tasks(),
        }
        self.shared.stop();
        for thread in self.threads.drain(..) {
            spin_until(SPIN, || thread.is_finished());
            // A worker's thread does not unwind: its hooks' panics are caught.
            let _ = thread.join();
        }
        self.shared.blocking.close();
        self.reporter.take();
        self.ended = true;
        true
    }

    fn wait_for_tasks(&self) {
        let mut seconds = 10;
        while !self.shared.root.wait(patience(Duration::from_secs(seconds))) {
            seconds = 60;
            say(&format!(
                "cygnet: a runtime is being dropped and waits for its tasks: {}",
                Metrics::read(&self.shared).unfinished()
            ));
        }
    }

    /// The threads go on; nothing of theirs may be freed.
    fn leak(&mut self) {
        self.threads.drain(..).for_each(drop);
        std::mem::forget(self.reporter.take());
        std::mem::forget(Arc::clone(&self.shared));
        self.ended = true;
    }
}
