//! Parallel loops, the parallel sort, and pipelines.

#[path = "../common/mod.rs"]
mod common;

mod endings;
mod loops;
mod pipeline;
mod pipeline_endings;
mod places;
mod sort;
mod summaries;

use common::prelude::*;

/// Counts the calls that are under way.
#[derive(Default)]
struct Active(AtomicUsize);

impl Active {
    fn during<R>(&self, call: impl FnOnce() -> R) -> R {
        self.0.fetch_add(1, Ordering::SeqCst);
        let result = call();
        self.0.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Signals between a body and its canceller.
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

/// With each of these numbers of workers: runs `body` in a task, cancels the task when the body has
/// begun, and calls `check` with the result of the body.
fn cancelled_meanwhile<T: Send + 'static>(
    workers: &[usize],
    body: fn(&Meanwhile) -> T,
    check: impl Fn(T) + Sync,
) {
    with(workers, |rt| {
        let meanwhile = Arc::new(Meanwhile::default());
        let (sender, receiver) = channel();
        let task = rt.spawn(own(&meanwhile, move |theirs| sender.send(body(&theirs)).unwrap()));
        eventually("the body has begun", || meanwhile.begun.load(Ordering::SeqCst));
        drop(task);
        meanwhile.cancelled.store(true, Ordering::SeqCst);
        check(receiver.recv().unwrap());
    });
}
