//! A worker's inbox: its tasks that other threads have woken, and fresh tasks that it is to start.
//!
//! The inbox is a lock-free stack. Any thread pushes; the owner takes the whole stack at once and
//! reverses it, so it is first in, first out. A record is in the inbox only from the moment its
//! PARKED bit is cleared, or the task is made, until its worker takes it. So the record is alive
//! and its link is free. The owner empties the stack with one swap, so no element can come back
//! under a pusher's compare (no ABA).
//!
//! # Waking the worker
//!
//! The pusher that found the inbox empty wakes the worker: it pushes, *fences*, and looks whether
//! the worker sleeps. The worker announces its sleep, *fences*, and looks into the inbox
//! (steal/idle.rs). A pusher that found an element relies on the pusher of the first one, which has
//! yet to look or has woken the worker.
//!
//! # Invitations
//!
//! An *invitation* is an entry that is not a task: it asks the worker to look at the tasks that
//! other workers offer in public (balance/crowd.rs). It is left only in an empty inbox, so it lies
//! below all later entries. Its sender must wake the worker as for a task. If the inbox holds an
//! entry already, the worker comes anyway, and is invited the next time.
//!
//! # Orderings
//!
//! A push is Release and the emptying is Acquire. They hand over the record and what its waker has
//! written.

use crate::scheduler::queue::ready_stack::{Batch, ReadyStack};
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::task::record::Record;
use crate::task::reference::Ready;
use std::ptr::{self, NonNull};

/// The invitation: an address that no record has.
const INVITATION: *mut Record = ptr::without_provenance_mut(1);

pub(crate) struct Inbox {
    head: AtomicPtr<Record>,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { head: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Pushes a record. Returns `true` if the inbox was empty: the caller must then wake the worker
    /// if it sleeps.
    #[cfg(all(test, loom))]
    pub(crate) fn push(&self, task: Ready) -> bool {
        self.push_all(Batch::of(task))
    }

    /// Pushes tasks. Returns `true` if the inbox was empty: the caller must then wake the worker if
    /// it sleeps.
    pub(crate) fn push_all(&self, tasks: Batch) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            tasks.lowest().link.store(head, Ordering::Relaxed);
            // MUTANT(inbox.push): relaxed, split
            match self.head.compare_exchange_weak(
                head,
                tasks.top(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return head.is_null(),
                Err(now) => head = now,
            }
        }
    }

    /// Leaves an invitation if the inbox is empty. Returns `true` if it did: the caller must then
    /// wake the worker if it sleeps.
    pub(crate) fn invite(&self) -> bool {
        self.is_empty() && {
            let relaxed = Ordering::Relaxed;
            // MUTANT(inbox.invite): split
            self.head.compare_exchange(ptr::null_mut(), INVITATION, relaxed, relaxed).is_ok()
        }
    }

    /// Takes all records, the oldest first. Returns `true` if there was an invitation. Owner only.
    pub(crate) fn take_all(&self, mut to: impl FnMut(Ready)) -> bool {
        if self.is_empty() {
            return false;
        }
        // MUTANT(inbox.take): relaxed, split
        let mut list = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut turned = ReadyStack::default();
        let mut invited = false;
        while let Some(record) = NonNull::new(list) {
            if list == INVITATION {
                invited = true;
                break;
            }
            // SAFETY: the reference that was given up when the record was pushed; ours since the
            // swap.
            let task = unsafe { Ready::new(record) };
            list = task.link.load(Ordering::Relaxed);
            turned.push(task);
        }
        while let Some(task) = turned.pop() {
            to(task);
        }
        invited
    }
}
