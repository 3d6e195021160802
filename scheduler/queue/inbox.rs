//! The inbox of a worker: tasks of its own that others have woken.
//!
//! A lock-free stack that many push to and the owner empties at once, turned round so that it is
//! first in first out. A record is in here only between the moment somebody cleared its PARKED bit
//! and the moment its home takes it, so its link is free and it is alive. The owner takes all with one
//! swap, so no element can come back under a pusher's compare (no ABA).
//!
//! Waking the worker is the pusher's business, and only of the one that found the inbox empty: it
//! pushes, *fences*, and looks whether the worker sleeps; the worker announces its sleep, *fences*,
//! and looks into the inbox (see idle.rs). A pusher that found something there leaves it to the one
//! before, who has not looked yet or has woken the worker.
//!
//! **An invitation** lies in an inbox without being a task: the worker is asked to look at what others offer in
//! public (crowd.rs). It is left only where the inbox is empty, so it lies below whatever comes later, and who
//! leaves it has the duty of waking as if it were a task. Where something lies already the worker comes anyway, and is invited
//! the next time.
//!
//! Orderings: a push is Release and the emptying Acquire; they hand over the record and what
//! its waker did.

use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::task::record::Record;
use std::ptr::{self, NonNull};

/// What stands in the place of the oldest task: an address that no record has.
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

    /// Puts a record in; true if the inbox was empty and the caller must see to the worker's waking.
    #[cfg(all(test, loom))]
    pub(crate) fn push(&self, record: NonNull<Record>) -> bool {
        self.push_all(record, record)
    }

    /// Puts records in that are linked to each other, each to the one that comes before it; true if the inbox was
    /// empty and the caller must see to the worker's waking.
    pub(crate) fn push_all(&self, last: NonNull<Record>, first: NonNull<Record>) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller has cleared PARKED: the task is in its hand.
            unsafe { first.as_ref() }.link.store(head, Ordering::Relaxed);
            // MUTANT(inbox.push): relaxed, split
            match self.head.compare_exchange_weak(
                head,
                last.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return head.is_null(),
                Err(now) => head = now,
            }
        }
    }

    /// Leaves an invitation in an empty inbox; true if it did, and the caller must see to the worker's waking.
    pub(crate) fn invite(&self) -> bool {
        self.is_empty() && {
            let relaxed = Ordering::Relaxed;
            // MUTANT(inbox.invite): split
            self.head.compare_exchange(ptr::null_mut(), INVITATION, relaxed, relaxed).is_ok()
        }
    }

    /// Takes all, the oldest first. For the owner. Returns `true` if there was an invitation.
    pub(crate) fn take_all(&self, mut to: impl FnMut(NonNull<Record>)) -> bool {
        if self.is_empty() {
            return false;
        }
        // MUTANT(inbox.take): relaxed, split
        let mut list = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut turned: *mut Record = ptr::null_mut();
        let mut invited = false;
        while let Some(record) = NonNull::new(list) {
            if list == INVITATION {
                invited = true;
                break;
            }
            // SAFETY: records in the list are alive and ours since the swap.
            let link = unsafe { &record.as_ref().link };
            list = link.load(Ordering::Relaxed);
            link.store(turned, Ordering::Relaxed);
            turned = record.as_ptr();
        }
        while let Some(record) = NonNull::new(turned) {
            // SAFETY: as above.
            turned = unsafe { record.as_ref() }.link.load(Ordering::Relaxed);
            to(record);
        }
        invited
    }
}
