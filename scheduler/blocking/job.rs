//! A job: a closure that a pool thread runs while its owner waits.

use crate::task::outcome::{Payload, quietly};
use crate::task::words::join::{Finished, JoinWord, Waiter};
use crate::task::words::tree::Node;
use std::cell::UnsafeCell;

type Closure<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A closure to be run on another thread, and the word that marks its end. A job lies on the stack
/// of the task that waits for it, its owner.
///
/// The cells belong to the owner until the job is queued, then to the thread that takes the job out
/// of the queue, and again to the owner when the end is marked or the job is taken back.
pub(crate) struct Job<'a> {
    closure: UnsafeCell<Option<Closure<'a>>>,
    panic: UnsafeCell<Option<Payload>>,
    pub(crate) end: JoinWord,
    /// The node that waits for the job. It is linked, and stays open until the job has ended.
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
        // SAFETY: the job belongs to the caller, which is its owner before the job is queued, or
        // the thread that has taken it out of the queue. So no other thread looks at the cells.
        let closure = unsafe { (*self.closure.get()).take() };
        let panic = closure.and_then(quietly);
        // SAFETY: the job belongs to the caller, so no other thread looks at the cells.
        unsafe { *self.panic.get() = panic };
    }

    /// What the closure's panic carried, if it panicked. For the owner, after the end.
    pub(crate) fn into_panic(self) -> Option<Payload> {
        self.panic.into_inner()
    }
}

/// The address of a job, on its way to the thread that runs it.
pub(super) struct Sent(*const Job<'static>);

// SAFETY: the closure is Send, and the job stays in place until its end is marked, as `submit` asks
// for. Of the job's node only words are read that any thread may read.
unsafe impl Send for Sent {}

impl Sent {
    pub(super) fn new(job: &Job<'_>) -> Sent {
        Sent(std::ptr::from_ref(job).cast())
    }

    /// The job.
    ///
    /// # Safety
    /// The caller has taken the job out of the queue, and has not finished it.
    pub(super) unsafe fn open(&self) -> &Job<'static> {
        // SAFETY: the owner keeps the job, and what it borrows, in place until the caller marks the
        // end.
        unsafe { &*self.0 }
    }

    /// Marks the end. Returns the owner if it waits, to be woken.
    ///
    /// # Safety
    /// As for `open`; and the job has been run.
    pub(super) unsafe fn finish(self) -> Option<Waiter> {
        // SAFETY: the owner keeps the job until the end is marked. That happens here, and
        // afterwards the job may be gone.
        match unsafe { (*self.0).end.finish() } {
            Finished::Waiter(waiter) => Some(waiter),
            _ => None,
        }
    }
}
