//! The run queue of a worker: its started tasks that are ready to go on, first in first out.
//!
//! # What is in it
//!
//! A record is here from the moment that its task may go on (it has yielded: Suspended; or whoever
//! cleared its PARKED bit has brought it home: still Parked) until the worker continues it: Running.
//! A fresh task that `yield_to` starts next comes here too, and a migratable one that was taken out of a
//! public queue. The queue holds no reference: a task that has not ended has its run reference.
//!
//! # Who touches it
//!
//! The worker, on its own thread, and nobody else. Others put what they wake into the inbox, which the
//! worker empties into this queue before each decision. So the ends are plain cells, and nothing is
//! locked or fenced. The link in the record is an atomic only because the inbox uses the same word, which
//! many push to; a record is in one of the two at a time, and all accesses from here are relaxed. What a
//! waker has done is handed over by the inbox.
//!
//! # Cost
//!
//! `push`, `push_front` and `pop` are a few loads and stores. `remove` turns the whole queue round
//! once, so that the order of the others stays; it serves `yield_to`, which brings a task forward
//! ([`Worker::bring_forward`](crate::scheduler::worker::Worker::bring_forward)), and a blocked worker that
//! takes its own task back. A worker that is isolated has a queue like this for each scope that keeps
//! ready tasks waiting (scheduler/wait/isolate.rs); `put_first` costs no more than a `push`.

use crate::shim::atomic::Ordering;
use crate::task::record::Record;
use std::cell::Cell;
use std::ptr::{self, NonNull};

pub(crate) struct RunQueue {
    head: Cell<*mut Record>,
    tail: Cell<*mut Record>,
}

impl RunQueue {
    pub(crate) fn new() -> RunQueue {
        RunQueue { head: Cell::new(ptr::null_mut()), tail: Cell::new(ptr::null_mut()) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    /// Appends a record that is in no queue.
    #[inline]
    pub(crate) fn push(&self, record: NonNull<Record>) {
        // SAFETY: the caller has the task in hand, so the record is alive and its link unused.
        unsafe { record.as_ref() }.link.store(ptr::null_mut(), Ordering::Relaxed);
        match NonNull::new(self.tail.get()) {
            // SAFETY: records in the queue are alive, and their links are ours.
            Some(tail) => unsafe { tail.as_ref() }.link.store(record.as_ptr(), Ordering::Relaxed),
            None => self.head.set(record.as_ptr()),
        }
        self.tail.set(record.as_ptr());
    }

    /// Puts a record that is in no queue before all others.
    pub(crate) fn push_front(&self, record: NonNull<Record>) {
        // SAFETY: as for `push`.
        unsafe { record.as_ref() }.link.store(self.head.get(), Ordering::Relaxed);
        self.head.set(record.as_ptr());
        if self.tail.get().is_null() {
            self.tail.set(record.as_ptr());
        }
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<Record>> {
        let head = NonNull::new(self.head.get())?;
        // SAFETY: records in the queue are alive, and their links are ours.
        let next = unsafe { head.as_ref() }.link.load(Ordering::Relaxed);
        self.head.set(next);
        if next.is_null() {
            self.tail.set(ptr::null_mut());
        }
        Some(head)
    }

    /// Puts all that are in another queue, which is empty afterwards, before those that are here.
    pub(crate) fn put_first(&self, others: &RunQueue) {
        let Some(last) = NonNull::new(others.tail.replace(ptr::null_mut())) else { return };
        // SAFETY: records in a queue are alive, and their links are ours.
        unsafe { last.as_ref() }.link.store(self.head.get(), Ordering::Relaxed);
        self.head.set(others.head.replace(ptr::null_mut()));
        if self.tail.get().is_null() {
            self.tail.set(last.as_ptr());
        }
    }

    /// Calls `f` for each, in order.
    pub(crate) fn for_each(&self, mut f: impl FnMut(NonNull<Record>)) {
        let mut at = self.head.get();
        while let Some(record) = NonNull::new(at) {
            f(record);
            // SAFETY: records in the queue are alive, and their links are ours.
            at = unsafe { record.as_ref() }.link.load(Ordering::Relaxed);
        }
    }

    /// Removes a record from the middle, at a cost that grows with the queue; false if it is not
    /// here.
    pub(crate) fn remove(&self, record: NonNull<Record>) -> bool {
        let last = self.tail.get();
        let mut found = false;
        while let Some(first) = self.pop() {
            if first == record {
                found = true;
            } else {
                self.push(first);
            }
            if first.as_ptr() == last {
                break;
            }
        }
        found
    }
}
