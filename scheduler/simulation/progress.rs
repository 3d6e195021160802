//! The progress of a run, to be read from another OS thread.

use crate::scheduler::worker::Worker;
use crate::shim::real::Mutex;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

type Place = AtomicPtr<Location<'static>>;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Progress {
    steps: AtomicU64,
    running: AtomicUsize,
    place: Place,
    /// The place where the task that took the last step was spawned. Null if no task took it.
    task: Place,
    names: Mutex<Vec<String>>,
}

impl Progress {
    pub(super) fn begin(&self) {
        self.names.lock().clear();
    }

    pub(super) fn add(&self, name: String) {
        self.names.lock().push(name);
    }

    /// Notes a step of the running thread.
    pub(super) fn step(&self, place: &'static Location<'static>) {
        let task = Worker::current().and_then(Worker::task);
        let spawned_at = task.map_or(ptr::null(), |task| ptr::from_ref(task.spawned_at));
        self.task.store(spawned_at.cast_mut(), Ordering::Relaxed);
        self.place.store(ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
        // Not an atomic update: only this thread writes the number.
        self.steps.store(self.steps.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Notes a switch to another thread.
    pub(super) fn switch(&self, to: usize) {
        self.running.store(to, Ordering::Relaxed);
    }

    /// Returns the number of steps of all runs so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Describes the running thread and the place of the last step.
    pub(crate) fn last(&self) -> String {
        let names = self.names.lock();
        let name = names.get(self.running.load(Ordering::Relaxed)).map_or("?", String::as_str);
        // SAFETY: the pointer is null, or came from a `&'static Location`.
        let place = |place: &Place| unsafe { place.load(Ordering::Relaxed).as_ref() };
        let task =
            place(&self.task).map_or(String::new(), |at| format!(", in a task spawned at {at}"));
        let at =
            place(&self.place).map_or(String::new(), |at| format!("; the last step was at {at}"));
        format!("thread `{name}`{task}{at}")
    }
}
