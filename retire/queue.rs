//! The retire queue: how the memory of records returns to the worker where they ended.
//!
//! # What enters, and when it is drained
//!
//! A record that ends on a worker while references to it are left enters the **custody** of that
//! worker's queue, a plain count. The last reference frees the record: on the custodian's own
//! thread straight into its pool, on every other thread by a lock-free push onto this queue. The
//! worker drains the queue into its pool regularly while it runs tasks, and before it sleeps.
//!
//! No user code runs here: captures and outcome are gone before a record is retired. Stacks never
//! enter the queue: a finished fiber puts its stack into the pool of the worker that it runs on
//! (see STACKS.md).
//!
//! # Bound
//!
//! The backlog is at most [`BOUND`] records. Beyond it a pusher gives the memory to the allocator
//! itself and only counts.
//!
//! # Lifetime
//!
//! A handle may be dropped long after its runtime, so the queue is a heap object of its own that
//! outlives its worker. To close the queue, the owner replaces the list by the sentinel CLOSED and
//! adds the number of records that are still out to `leftover`. Each later return subtracts one.
//! The party that takes `leftover` to zero, possibly the owner itself, frees the queue. Before the
//! addition, returns can make the number negative but never zero, so exactly one party sees zero.

use crate::retire::record_pool::{self, Chunk, RecordPool, Shape};
use crate::shim::Cell;
use crate::shim::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// The largest number of records that wait to be drained.
#[cfg(not(loom))]
pub(crate) const BOUND: usize = 4096;
#[cfg(loom)]
pub(crate) const BOUND: usize = 2;
/// `overflowed` has at least this value once the owner has closed the queue and taken the count.
const OVERFLOW_CLOSED: usize = 1 << 62;

/// A dead record in the list: the link, and the shape by which its memory is freed.
struct Dead {
    next: *mut Dead,
    shape: &'static Shape,
}

/// The least size of a record in bytes: a dead record holds a list node.
pub(crate) const LEAST_BYTES: usize = size_of::<Dead>();

/// Returns the sentinel that replaces the list of a closed queue. It is never dereferenced.
fn closed() -> *mut Dead {
    ptr::without_provenance_mut(usize::MAX & !7)
}

/// The part that only the owner writes.
#[derive(Default)]
struct Owner {
    /// Records in custody: entered, and neither freed by the owner nor drained. Records that
    /// overflowed still count here until `close` subtracts them.
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

/// The retire queue of one worker; see the module's documentation.
pub(crate) struct RetireQueue {
    list: AtomicPtr<Dead>,
    backlog: AtomicUsize,
    /// Records that other threads gave to the allocator instead of pushing them. At least
    /// `OVERFLOW_CLOSED` after the owner has closed.
    overflowed: AtomicUsize,
    /// Records that are still out after the close, less the ones that have returned; wraps before
    /// that.
    leftover: AtomicUsize,
    owner: Owner,
}

// SAFETY: only a `Custodian`, and the unsafe `close`, use `owner.out`: the owning worker's thread.
// All other fields are atomic.
unsafe impl Sync for RetireQueue {}
// SAFETY: nothing in the queue is tied to a thread, and any thread may free dead records.
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

    /// Frees a record in custody, from any thread. The owner uses [`Custodian::returned_at_home`]
    /// instead.
    ///
    /// # Safety
    /// `this` is the custodian of a record that has ended, and this is the record's only return.
    /// `chunk` is its memory, of at least [`LEAST_BYTES`] and with the alignment of a pointer.
    pub(crate) unsafe fn retire(this: NonNull<RetireQueue>, chunk: Chunk) {
        // SAFETY: the queue lives until every record in its custody has been counted back. This
        // record is counted back by the push, by an overflow count that the owner still takes, or
        // by `count_back`. Each of these is the last use of the queue here.
        let queue = unsafe { this.as_ref() };
        if queue.backlog.fetch_add(1, Ordering::Relaxed) >= BOUND {
            queue.backlog.fetch_sub(1, Ordering::Relaxed);
            record_pool::free(chunk);
            // MUTANT(retire.overflow): relaxed, split
            if queue.overflowed.fetch_add(1, Ordering::AcqRel) < OVERFLOW_CLOSED {
                return; // the owner subtracts this record in `close`
            }
            // SAFETY: the record was in this queue's custody. The owner took the overflow count
            // before this record was added to it, so the record is not counted back yet.
            unsafe { Self::count_back(this) };
            return;
        }
        let node = chunk.memory.cast::<Dead>();
        let mut head = queue.list.load(Ordering::Acquire);
        loop {
            // MUTANT(retire.closed): false
            if head == closed() {
                record_pool::free(chunk);
                // SAFETY: the record was in this queue's custody. It is not in the list that the
                // owner took, so it is not counted back yet.
                unsafe { Self::count_back(this) };
                return;
            }
            // SAFETY: nothing uses the memory, and by contract it is large enough for a node.
            unsafe { node.write(Dead { next: head, shape: chunk.shape }) };
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

    /// Counts one record back into a closed queue, and frees the queue if it was the last one.
    ///
    /// # Safety
    /// The record was in the custody of `this`, the owner has closed the queue or is closing it,
    /// and the record has not been counted back.
    unsafe fn count_back(this: NonNull<RetireQueue>) {
        // SAFETY: the queue lives until every record in its custody has been counted back, and this
        // one is only counted by the subtraction.
        // MUTANT(retire.count_back): acquire, release, split
        let before = unsafe { this.as_ref() }.leftover.fetch_sub(1, Ordering::AcqRel);
        if before == 1 {
            // SAFETY: the count is zero, so every record has come back and the owner has closed: no
            // other party uses the queue, which came from `Box::leak`.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// Returns whether the list is empty. A hint: other threads may push at any time.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.load(Ordering::Relaxed).is_null()
    }

    /// Closes the queue. It is freed when the last record in custody has come back, which may be
    /// now.
    ///
    /// # Safety
    /// The caller is the owner, calls this once, and does not use the pointer afterwards.
    pub(crate) unsafe fn close(this: NonNull<RetireQueue>, pool: &RecordPool) {
        // SAFETY: no return can free the queue before the addition to `leftover` below, which is
        // the last use of this reference.
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
            // SAFETY: the count is zero, so every record has come back, and by contract the owner
            // does not use the queue any more. It came from `Box::leak`.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// Returns the counters as they are now.
    pub(crate) fn counters(&self) -> RetireCounters {
        RetireCounters {
            backlog: self.backlog.load(Ordering::Relaxed),
            drained: self.owner.drained.load(Ordering::Relaxed),
            overflowed: self.overflowed.load(Ordering::Relaxed) % OVERFLOW_CLOSED,
        }
    }
}

/// A queue for the thread of the worker that owns it.
#[derive(Clone, Copy)]
pub(crate) struct Custodian<'a> {
    queue: &'a RetireQueue,
    not_send: PhantomData<*mut ()>,
}

impl<'a> Custodian<'a> {
    /// # Safety
    /// The caller is the owning worker's thread, which has not closed the queue and does not do so
    /// during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn of(queue: NonNull<RetireQueue>) -> Custodian<'a> {
        // SAFETY: the queue is not freed before it is closed.
        Custodian { queue: unsafe { queue.as_ref() }, not_send: PhantomData }
    }

    /// Takes a record into custody.
    #[inline]
    pub(crate) fn take_custody(self) {
        self.queue.owner.out.set(self.queue.owner.out.get() + 1);
    }

    /// Notes that the owner itself has freed a record in custody.
    #[inline]
    pub(crate) fn returned_at_home(self) {
        self.queue.owner.out.set(self.queue.owner.out.get() - 1);
    }

    /// Moves the records of the list into the pool.
    pub(crate) fn drain(self, pool: &RecordPool) {
        let queue = self.queue;
        // MUTANT(retire.drain): relaxed, split
        let list = queue.list.swap(ptr::null_mut(), Ordering::AcqRel);
        let count = put_all(list, pool);
        queue.backlog.fetch_sub(count, Ordering::Relaxed);
        queue.owner.out.set(queue.owner.out.get() - count);
        // The owner is the only writer; other threads read the number for the metrics.
        let drained = queue.owner.drained.load(Ordering::Relaxed) + count as u64;
        queue.owner.drained.store(drained, Ordering::Relaxed);
    }
}

impl Deref for Custodian<'_> {
    type Target = RetireQueue;

    fn deref(&self) -> &RetireQueue {
        self.queue
    }
}

/// Puts a list of dead records into the pool, and returns their number.
fn put_all(mut list: *mut Dead, pool: &RecordPool) -> usize {
    let mut count = 0;
    while let Some(node) = NonNull::new(list) {
        // SAFETY: the caller has taken the list by a swap and owns it. The pusher of each node has
        // written it before it published the node.
        let Dead { next, shape } = unsafe { node.read() };
        // SAFETY: the node is the memory of an ended record of this shape, and has just been read
        // for the last time.
        pool.put(unsafe { Chunk::new(node.cast(), shape) });
        list = next;
        count += 1;
    }
    count
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::retire::record_pool::allocate;
    use std::alloc::Layout;

    /// Takes a record into custody, and returns its memory, as if the record had ended.
    ///
    /// # Safety
    /// The caller is the owner of the queue.
    unsafe fn record(queue: NonNull<RetireQueue>) -> Chunk {
        // SAFETY: the caller is the owner, and the queue is not closed yet.
        unsafe { Custodian::of(queue) }.take_custody();
        const LAYOUT: Layout = Layout::new::<[u64; 15]>();
        // SAFETY: the memory was allocated just now for this layout.
        unsafe { Chunk::new(allocate(LAYOUT), const { &Shape::of(LAYOUT) }) }
    }

    #[test]
    fn a_drain_moves_retired_records_into_the_pool() {
        let (queue, pool) = (RetireQueue::new(), RecordPool::default());
        // SAFETY: this thread plays the owner. Each of the three records enters custody once and
        // returns once, with the layout that it was allocated for.
        unsafe {
            for _ in 0..3 {
                RetireQueue::retire(queue, record(queue));
            }
            let owned = Custodian::of(queue);
            assert_eq!(owned.counters().backlog, 3);
            owned.drain(&pool);
            let counters = RetireCounters { backlog: 0, drained: 3, overflowed: 0 };
            assert_eq!(owned.counters(), counters);
            RetireQueue::close(queue, &pool);
        }
    }

    #[test]
    fn the_backlog_is_bounded_and_overflowing_records_are_counted() {
        let (queue, pool) = (RetireQueue::new(), RecordPool::default());
        // SAFETY: this thread plays the owner. Each record enters custody once and returns once,
        // with the layout that it was allocated for.
        unsafe {
            for _ in 0..BOUND + 5 {
                RetireQueue::retire(queue, record(queue));
            }
            let counters = queue.as_ref().counters();
            assert_eq!((counters.backlog, counters.overflowed), (BOUND, 5));
            RetireQueue::close(queue, &pool);
        }
    }

    #[test]
    fn a_record_may_come_back_after_the_owner_has_closed() {
        let (queue, pool) = (RetireQueue::new(), RecordPool::default());
        // SAFETY: this thread plays the owner. Each record enters custody once and returns once.
        // The last return frees the queue, which is not used afterwards.
        unsafe {
            let late = record(queue);
            RetireQueue::retire(queue, record(queue));
            RetireQueue::close(queue, &pool);
            RetireQueue::retire(queue, late);
        }
    }
}
