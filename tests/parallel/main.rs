//! Parallel loops, the parallel sort, and pipelines.

#[path = "../common/mod.rs"]
mod common;

mod endings;
mod loops;
mod pipeline;
mod pipeline_endings;
mod places;
mod sort;

use common::{eventually, mpsc, runtime, spin_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a body and its canceller tell each other.
#[derive(Default)]
struct Meanwhile {
    begun: AtomicBool,
    cancelled: AtomicBool,
}

impl Meanwhile {
    fn begins(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    /// Keeps the worker until the task has been cancelled.
    fn spin_until_cancelled(&self) {
        spin_until(|| self.cancelled.load(Ordering::SeqCst));
    }
}

/// Runs `body` in a task, cancels the task when the body has begun, and returns the body's result.
fn cancelled_meanwhile<T: Send + 'static>(
    workers: usize,
    body: impl FnOnce(&Meanwhile) -> T + Send + 'static,
) -> T {
    let rt = runtime(workers);
    let meanwhile = Arc::new(Meanwhile::default());
    let (sender, receiver) = mpsc::channel();
    let theirs = meanwhile.clone();
    let task = rt.spawn(move || sender.send(body(&theirs)).unwrap());
    eventually("the body has begun", || meanwhile.begun.load(Ordering::SeqCst));
    drop(task);
    meanwhile.cancelled.store(true, Ordering::SeqCst);
    receiver.recv().unwrap()
}
