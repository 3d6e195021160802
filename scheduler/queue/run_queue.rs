//! A worker's run queue: its started tasks that are ready to go on, first in, first out.
//!
//! # Contents
//!
//! A record enters when its task may go on: the task has yielded (Suspended), or the waker that
//! cleared its PARKED bit has brought it home (still Parked). The record leaves when the worker
//! continues the task (Running). A fresh task that `yield_to` starts next comes here too, and so
//! does a migratable task that was taken out of a public queue. The queue holds no reference: a
//! task that has not ended has its run reference.
//!
//! # Access
//!
//! Only the worker touches its run queue, on its own thread. Other threads put the tasks that they
//! wake into the inbox, which the worker empties into this queue before each decision. So the ends
//! are plain cells, and the queue needs no lock and no fence. The link in the record is an atomic
//! only because the inbox, which other threads push to, uses the same word. A record is in only one
//! of the two at a time, and all accesses from here are relaxed. The inbox hands over what a waker
//! has written.
//!
//! # Cost
//!
//! `push`, `push_front`, `pop` and `put_first` are a few loads and stores. `remove` pops and pushes
//! each element once, which keeps the order of the others. It serves `yield_to`, which brings a
//! task forward ([`Worker::bring_forward`](crate::scheduler::worker::Worker::bring_forward)), and a
//! blocked worker that takes its own task back. An isolated worker has a queue like this for each
//! scope that keeps ready tasks waiting (wait/isolation.rs).

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

    /// Inserts a record that is in no queue before all others.
    pub(crate) fn push_front(&self, record: NonNull<Record>) {
        // SAFETY: the caller has the task in hand, so the record is alive and its link unused.
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

    /// Moves all elements of `others` before the elements of this queue.
    pub(crate) fn put_first(&self, others: &RunQueue) {
        let Some(last) = NonNull::new(others.tail.replace(ptr::null_mut())) else { return };
        // SAFETY: records in a queue are alive, and their links are ours.
        unsafe { last.as_ref() }.link.store(self.head.get(), Ordering::Relaxed);
        self.head.set(others.head.replace(ptr::null_mut()));
        if self.tail.get().is_null() {
            self.tail.set(last.as_ptr());
        }
    }

    /// Calls `f` for each record, in order.
    pub(crate) fn for_each(&self, mut f: impl FnMut(NonNull<Record>)) {
        let mut at = self.head.get();
        while let Some(record) = NonNull::new(at) {
            f(record);
            // SAFETY: records in the queue are alive, and their links are ours.
            at = unsafe { record.as_ref() }.link.load(Ordering::Relaxed);
        }
    }

    /// Removes a record from the middle, in time linear in the length of the queue. Returns `false`
    /// if the record is not here.
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
