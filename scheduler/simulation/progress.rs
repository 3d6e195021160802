//! How far a run has come, for who looks on from another OS thread.

use crate::scheduler::worker::Worker;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

type Place = AtomicPtr<Location<'static>>;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Progress {
    steps: AtomicU64,
    running: AtomicUsize,
    place: Place,
    /// Where the task was spawned that has taken the last step; null for a thread.
    task: Place,
    names: Mutex<Vec<String>>,
}

impl Progress {
    pub(super) fn begin(&self) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn add(&self, name: String) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }

    /// A step of the thread that runs.
    pub(super) fn step(&self, place: &'static Location<'static>) {
        let task = Worker::current().and_then(Worker::task);
        // SAFETY: the running task.
        let spawned_at =
            task.map_or(ptr::null(), |task| ptr::from_ref(unsafe { task.as_ref() }.spawned_at));
        self.task.store(spawned_at.cast_mut(), Ordering::Relaxed);
        self.place.store(ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
        // One thread writes.
        self.steps.store(self.steps.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Another thread goes on.
    pub(super) fn switch(&self, to: usize) {
        self.running.store(to, Ordering::Relaxed);
    }

    /// Steps of all runs so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Who has taken the last step, or has been let go on after it, and where it was.
    pub(crate) fn last(&self) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(self.running.load(Ordering::Relaxed)).map_or("?", String::as_str);
        // SAFETY: null, or a place of the program's.
        let place = |place: &Place| unsafe { place.load(Ordering::Relaxed).as_ref() };
        let task =
            place(&self.task).map_or(String::new(), |at| format!(", in a task spawned at {at}"));
        let at =
            place(&self.place).map_or(String::new(), |at| format!("; the last step was at {at}"));
        format!("thread `{name}`{task}{at}")
    }
}
