//! A closure that a pool thread runs, and its end.

use crate::retire::join::{Finished, JoinWord};
use crate::retire::outcome::{Payload, quietly};
use crate::retire::tree::Node;
use crate::scheduler::complete::wake;
use std::cell::UnsafeCell;

type Closure<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A closure to be run on another thread, and its end. It lies on the stack of the task that waits for it.
///
/// Its parts belong to the owner until the job is queued, to the thread that has taken it out of the queue until the end
/// is done, and to the owner again.
pub(crate) struct Job<'a> {
    closure: UnsafeCell<Option<Closure<'a>>>,
    panic: UnsafeCell<Option<Payload>>,
    pub(crate) end: JoinWord,
    /// What waits for it: linked, and open until then.
    pub(super) node: *const Node,
}

impl<'a> Job<'a> {
    pub(crate) fn new(node: *const Node, f: impl FnOnce() + Send + 'a) -> Job<'a> {
        Job {
            closure: UnsafeCell::new(Some(Box::new(f))),
            panic: UnsafeCell::new(None),
            end: JoinWord::new(false),
            node,
        }
    }

    /// Runs the closure and keeps its panic.
    pub(super) fn run(&self) {
        // SAFETY: the caller is who the job belongs to.
        let closure = unsafe { (*self.closure.get()).take() };
        let panic = closure.and_then(quietly);
        // SAFETY: as above.
        unsafe { *self.panic.get() = panic };
    }

    pub(crate) fn into_panic(self) -> Option<Payload> {
        self.panic.into_inner()
    }
}

/// A job's address, on its way to the thread that runs it.
pub(super) struct Sent(*const Job<'static>);

// SAFETY: the closure is Send, and the job stays where it is until it is done. Of its node only words are read that
// anybody may read.
unsafe impl Send for Sent {}

impl Sent {
    pub(super) fn new(job: &Job<'_>) -> Sent {
        Sent(std::ptr::from_ref(job).cast())
    }

    /// The job.
    ///
    /// # Safety
    /// The caller has taken it out of the queue, and has not finished it.
    pub(super) unsafe fn open(&self) -> &Job<'static> {
        // SAFETY: its owner keeps it, and what it borrows, until the end.
        unsafe { &*self.0 }
    }

    /// Marks the end and wakes the owner.
    ///
    /// # Safety
    /// As for `open`; and the job has been run.
    pub(super) unsafe fn finish(self) {
        // SAFETY: as in `open`. The owner may leave, and the job be gone, as soon as the word is done.
        let finished = unsafe { (*self.0).end.finish() };
        if let Finished::Waiter(waiter) = finished {
            wake(waiter);
        }
    }
}
