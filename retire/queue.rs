//! The retire queue: where the memory of records comes home.
//!
//! # What enters, who drains
//!
//! A record that finishes on a worker with references left enters the **custody** of that worker's
//! queue (a plain count). Whoever drops the last reference later frees it: the custodian's own
//! thread straight into its pool, every other thread by pushing it here, lock-free. The worker
//! drains the queue into its pool each so many tasks and before it idles. No user code ever runs
//! here: captures and outcomes are gone before a record is retired. Stacks do not pass through: a
//! finished coroutine's stack goes into the pool of the worker that ran it, which is always the
//! thread that stands on it (see STACKS.md).
//!
//! # Bound
//!
//! The backlog is at most [`BOUND`] records; beyond it a pusher gives the memory to the allocator
//! itself and only counts.
//!
//! # Why it outlives its worker, and for how long
//!
//! A handle may be dropped long after its runtime. The queue is a heap object of its own; on
//! closing, the owner replaces the list by the mark CLOSED and adds the number of records that are
//! still out to `leftover`; each later return subtracts one, and the one that takes it to zero
//! (possibly the owner itself) frees the queue. Before the addition the number may be negative,
//! but never zero after a return, so exactly one party sees zero last.

use crate::retire::record_pool::{self, RecordPool};
use crate::shim::Cell;
use crate::shim::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::alloc::Layout;
use std::ptr::{self, NonNull};

/// Records that may wait to be drained.
#[cfg(not(loom))]
pub(crate) const BOUND: usize = 4096;
#[cfg(loom)]
pub(crate) const BOUND: usize = 2;
/// Value of `overflowed` from which on it says that the owner has taken its number and closed.
const OVERFLOW_CLOSED: usize = 1 << 62;

/// A dead record in the list: its memory, with what is needed to free it.
struct Dead {
    next: *mut Dead,
    layout: Layout,
}

/// How many bytes a record needs at least, so that it can lie in the list when it is dead.
pub(crate) const LEAST_BYTES: usize = size_of::<Dead>();

fn closed() -> *mut Dead {
    ptr::without_provenance_mut(usize::MAX & !7)
}

/// The part that the owner alone uses.
#[derive(Default)]
struct Owner {
    /// Records that left with references and have not come back, less those that others freed.
    out: Cell<usize>,
    drained: AtomicU64,
}

/// Counters of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetireCounters {
    /// Records in the queue now.
    pub(crate) backlog: usize,
    /// Records drained so far.
    pub(crate) drained: u64,
    /// Records that found the queue full and went to the allocator.
    pub(crate) overflowed: usize,
}

/// See the module's documentation.
pub(crate) struct RetireQueue {
    list: AtomicPtr<Dead>,
    backlog: AtomicUsize,
    /// Returned by others without passing through the list.
    overflowed: AtomicUsize,
    leftover: AtomicUsize,
    owner: Owner,
}

// SAFETY: `owner` is used by the owning worker's thread alone (the methods that touch it are unsafe
// and say so); the rest is atomic.
unsafe impl Sync for RetireQueue {}
// SAFETY: as above.
unsafe impl Send for RetireQueue {}

impl RetireQueue {
    pub(crate) fn new() -> NonNull<RetireQueue> {
        let queue = Box::new(RetireQueue {
            list: AtomicPtr::new(ptr::null_mut()),
            backlog: AtomicUsize::new(0),
            overflowed: AtomicUsize::new(0),
            leftover: AtomicUsize::new(0),
            owner: Owner::default(),
        });
        NonNull::from(Box::leak(queue))
    }

    /// Takes a record into custody.
    ///
    /// # Safety
    /// For the owner.
    #[inline]
    pub(crate) unsafe fn take_custody(&self) {
        self.owner.out.set(self.owner.out.get() + 1);
    }

    /// A record in custody was freed by the owner itself.
    ///
    /// # Safety
    /// For the owner.
    #[inline]
    pub(crate) unsafe fn returned_at_home(&self) {
        self.owner.out.set(self.owner.out.get() - 1);
    }

    /// Frees a record in custody from another thread.
    ///
    /// # Safety
    /// `this` is the record's custodian; `memory` is a record's, ended, with this layout, which has at
    /// least [`LEAST_BYTES`].
    pub(crate) unsafe fn retire(this: NonNull<RetireQueue>, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the queue lives until every record in its custody has come back, and ours has
        // not before the push or the subtraction below, after which it is not touched.
        let queue = unsafe { this.as_ref() };
        if queue.backlog.fetch_add(1, Ordering::Relaxed) >= BOUND {
            queue.backlog.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: passed on.
            unsafe { record_pool::free(memory, layout) };
            // MUTANT(retire.overflow): relaxed, split
            if queue.overflowed.fetch_add(1, Ordering::AcqRel) < OVERFLOW_CLOSED {
                return; // the owner subtracts it when it closes
            }
            // SAFETY: this record has not been counted back yet.
            unsafe { Self::settle(this) };
            return;
        }
        let node = memory.cast::<Dead>();
        let mut head = queue.list.load(Ordering::Acquire);
        loop {
            // MUTANT(retire.closed): false
            if head == closed() {
                // SAFETY: passed on.
                unsafe { record_pool::free(memory, layout) };
                // SAFETY: this record has not been counted back yet.
                unsafe { Self::settle(this) };
                return;
            }
            // SAFETY: the memory is ours and large enough.
            unsafe { node.write(Dead { next: head, layout }) };
            // MUTANT(retire.push): relaxed, split
            match queue.list.compare_exchange_weak(
                head,
                node.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Counts one record back into a closed queue; the last one frees it.
    unsafe fn settle(this: NonNull<RetireQueue>) {
        // SAFETY: as in `retire`.
        // MUTANT(retire.settle): acquire, release, split
        let before = unsafe { this.as_ref() }.leftover.fetch_sub(1, Ordering::AcqRel);
        if before == 1 {
            // SAFETY: every record has come back and the owner has closed: nobody is left.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.load(Ordering::Relaxed).is_null()
    }

    /// Moves what came home into the pool.
    ///
    /// # Safety
    /// For the owner.
    pub(crate) unsafe fn drain(&self, pool: &RecordPool) {
        // MUTANT(retire.drain): relaxed, split
        let list = self.list.swap(ptr::null_mut(), Ordering::AcqRel);
        let count = put_all(list, pool);
        self.backlog.fetch_sub(count, Ordering::Relaxed);
        self.owner.out.set(self.owner.out.get() - count);
        // One writer; others read it for the metrics.
        let drained = self.owner.drained.load(Ordering::Relaxed) + count as u64;
        self.owner.drained.store(drained, Ordering::Relaxed);
    }

    /// Closes the queue.
    ///
    /// # Safety
    /// For the owner, once; the pointer is not used by it any more.
    pub(crate) unsafe fn close(this: NonNull<RetireQueue>, pool: &RecordPool) {
        // SAFETY: alive: the owner has not given it up before the addition below.
        let queue = unsafe { this.as_ref() };
        // MUTANT(retire.close.list): relaxed, split
        let list = queue.list.swap(closed(), Ordering::AcqRel);
        let count = put_all(list, pool);
        // MUTANT(retire.close.overflow): relaxed, split
        let overflowed = queue.overflowed.swap(OVERFLOW_CLOSED, Ordering::AcqRel);
        let out = queue.owner.out.get().wrapping_sub(count).wrapping_sub(overflowed);
        // MUTANT(retire.close.leftover): acquire, release, split
        let before = queue.leftover.fetch_add(out, Ordering::AcqRel);
        if before.wrapping_add(out) == 0 {
            // SAFETY: every record has come back: nobody is left.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// A look at the counters.
    pub(crate) fn counters(&self) -> RetireCounters {
        RetireCounters {
            backlog: self.backlog.load(Ordering::Relaxed),
            drained: self.owner.drained.load(Ordering::Relaxed),
            overflowed: self.overflowed.load(Ordering::Relaxed) % OVERFLOW_CLOSED,
        }
    }
}

/// Puts a list of dead records into the pool; returns their number.
fn put_all(mut list: *mut Dead, pool: &RecordPool) -> usize {
    let mut count = 0;
    while let Some(node) = NonNull::new(list) {
        // SAFETY: the list is ours, taken by a swap; each node was written by its pusher.
        let Dead { next, layout } = unsafe { node.read() };
        // SAFETY: the memory of an ended record, with its layout.
        unsafe { pool.put(node.cast(), layout) };
        list = next;
        count += 1;
    }
    count
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::retire::record_pool::allocate;

    fn layout() -> Layout {
        Layout::from_size_align(120, 8).unwrap()
    }

    #[test]
    fn what_others_free_comes_home_when_the_owner_drains() {
        let (queue, pool) = (RetireQueue::new(), RecordPool::default());
        // SAFETY: this thread plays the owner; three records leave and come back.
        unsafe {
            for _ in 0..3 {
                queue.as_ref().take_custody();
                RetireQueue::retire(queue, allocate(layout()), layout());
            }
            assert_eq!(queue.as_ref().counters().backlog, 3);
            queue.as_ref().drain(&pool);
            assert_eq!(
                queue.as_ref().counters(),
                RetireCounters { backlog: 0, drained: 3, overflowed: 0 }
            );
            RetireQueue::close(queue, &pool);
        }
    }

    #[test]
    fn the_backlog_is_bounded_and_the_rest_is_counted() {
        let (queue, pool) = (RetireQueue::new(), RecordPool::default());
        // SAFETY: this thread plays the owner.
        unsafe {
            for _ in 0..BOUND + 5 {
                queue.as_ref().take_custody();
                RetireQueue::retire(queue, allocate(layout()), layout());
            }
            let counters = queue.as_ref().counters();
            assert_eq!((counters.backlog, counters.overflowed), (BOUND, 5));
            RetireQueue::close(queue, &pool);
        }
    }

    #[test]
    fn a_record_may_come_back_after_the_owner_has_closed() {
        let (queue, pool) = (RetireQueue::new(), RecordPool::default());
        // SAFETY: this thread plays the owner; the last return frees the queue.
        unsafe {
            queue.as_ref().take_custody();
            queue.as_ref().take_custody();
            RetireQueue::retire(queue, allocate(layout()), layout());
            RetireQueue::close(queue, &pool);
            RetireQueue::retire(queue, allocate(layout()), layout());
        }
    }
}
