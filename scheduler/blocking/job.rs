//! A job: a closure that a pool thread runs while its owner waits.

use crate::shim::real::Mutex;
use crate::task::outcome::{Payload, quietly};
use crate::task::words::join::{Finished, JoinWord, Waiter};
use crate::task::words::tree::Node;
use std::ptr::NonNull;

type Closure<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A closure to be run on another thread, and the word that records its end. A job lies on the
/// stack of the task that waits for it, its owner.
///
/// What the locks guard is the owner's until the job is queued, then that of the thread that takes
/// the job out of the queue, and again the owner's when the end is recorded or the job is taken
/// back. So no thread ever waits for the locks.
pub(crate) struct Job<'a> {
    closure: Mutex<Option<Closure<'a>>>,
    panic: Mutex<Option<Payload>>,
    pub(crate) end: JoinWord,
    /// The node that waits for the job. It is linked, and stays open until the job has ended.
    pub(super) node: *const Node,
}

impl<'a> Job<'a> {
    pub(crate) fn new(node: *const Node, f: impl FnOnce() + Send + 'a) -> Job<'a> {
        Job {
            closure: Mutex::new(Some(Box::new(f))),
            panic: Mutex::new(None),
            end: JoinWord::new(false),
            node,
        }
    }

    /// Runs the closure and keeps its panic.
    pub(super) fn run(&self) {
        let closure = self.closure.lock().take();
        let panic = closure.and_then(quietly);
        *self.panic.lock() = panic;
    }

    /// What the closure's panic carried, if it panicked. For the owner, after the end.
    pub(crate) fn into_panic(self) -> Option<Payload> {
        self.panic.into_inner()
    }
}

/// The address of a job, on its way to the thread that runs it. The thread that has taken it out of
/// the queue is the only one to use it.
pub(super) struct Sent(NonNull<Job<'static>>);

// SAFETY: the closure is Send, and the job stays in place until its end is recorded, as `submit`
// asks for. Of the job's node only words are read that any thread may read.
unsafe impl Send for Sent {}

impl Sent {
    /// # Safety
    /// The job, and what it borrows, stays in place until its end is recorded, or until this is
    /// dropped.
    pub(super) unsafe fn new(job: &Job<'_>) -> Sent {
        Sent(NonNull::from(job).cast())
    }

    pub(super) fn job(&self) -> &Job<'static> {
        // SAFETY: the owner keeps the job, and what it borrows, in place until the end is recorded,
        // and `finish` takes this.
        unsafe { self.0.as_ref() }
    }

    /// Records the end of a job that has been run. Returns the owner if it waits, to be woken.
    pub(super) fn finish(self) -> Option<Waiter> {
        // The job may be gone when the end is recorded.
        match self.job().end.finish() {
            Finished::Waiter(waiter) => Some(waiter),
            _ => None,
        }
    }
}
