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
use crate::task::reference::{Ready, TaskRef};
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
    pub(crate) fn push(&self, task: Ready) {
        task.link.store(ptr::null_mut(), Ordering::Relaxed);
        let record = task.into_pointer().as_ptr();
        match at(self.tail.get()) {
            Some(tail) => tail.link.store(record, Ordering::Relaxed),
            None => self.head.set(record),
        }
        self.tail.set(record);
    }

    /// Inserts a record that is in no queue before all others.
    pub(crate) fn push_front(&self, task: Ready) {
        task.link.store(self.head.get(), Ordering::Relaxed);
        let record = task.into_pointer().as_ptr();
        self.head.set(record);
        if self.tail.get().is_null() {
            self.tail.set(record);
        }
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<Ready> {
        let head = at(self.head.get())?;
        let next = head.link.load(Ordering::Relaxed);
        self.head.set(next);
        if next.is_null() {
            self.tail.set(ptr::null_mut());
        }
        // SAFETY: the reference that was given up when the record was pushed.
        Some(unsafe { Ready::new(head.pointer()) })
    }

    /// Moves all elements of `others` before the elements of this queue.
    pub(crate) fn put_first(&self, others: &RunQueue) {
        let Some(last) = at(others.tail.replace(ptr::null_mut())) else { return };
        last.link.store(self.head.get(), Ordering::Relaxed);
        self.head.set(others.head.replace(ptr::null_mut()));
        if self.tail.get().is_null() {
            self.tail.set(last.pointer().as_ptr());
        }
    }

    /// Calls `f` for each record, in order.
    pub(crate) fn for_each(&self, mut f: impl FnMut(TaskRef<'_>)) {
        let mut next = self.head.get();
        while let Some(task) = at(next) {
            f(task);
            next = task.link.load(Ordering::Relaxed);
        }
    }

    /// Returns the number of records, or `most` if there are more.
    pub(crate) fn len_up_to(&self, most: u32) -> u32 {
        let (mut next, mut len) = (self.head.get(), 0);
        while let Some(task) = at(next)
            && len < most
        {
            len += 1;
            next = task.link.load(Ordering::Relaxed);
        }
        len
    }

    /// Removes a record from the middle, in time linear in the length of the queue. Returns
    /// `None` if the record is not here.
    pub(crate) fn remove(&self, task: TaskRef<'_>) -> Option<Ready> {
        let last = self.tail.get();
        let mut found = None;
        while let Some(first) = self.pop() {
            let was_last = first.task().is(last);
            if first.task() == task {
                found = Some(first);
            } else {
                self.push(first);
            }
            if was_last {
                break;
            }
        }
        found
    }
}

/// A record in a queue, if the pointer is not null.
#[inline(always)]
fn at<'a>(record: *mut Record) -> Option<TaskRef<'a>> {
    // SAFETY: a task in a queue has not ended, so its record is alive.
    Some(unsafe { TaskRef::new(NonNull::new(record)?) })
}
