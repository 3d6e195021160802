//! The lock of an [`RwLock`](super::RwLock): one word for readers and writer, and a queue of
//! waiters.
//!
//! # The word
//!
//! The word (see [`counted`](super::counted)) is the number of readers inside, WRITER if a writer
//! is inside, the number of waiters that have been *called*, QUEUED and STRICT.
//!
//! Running callers enter ahead of the waiters, as with [`raw_mutex`](super::raw_mutex), and for the
//! same reason. A reader enters by one addition, and takes it back if a writer is inside or the
//! queue is strict. Until then all others count it as a reader inside. So it serves the queue when
//! it leaves, as any reader does.
//!
//! An exit that leaves the lock empty, with a waiter in the queue and none called, calls from the
//! front of the queue: one writer, or all readers that stand there together. A called waiter tries
//! to enter when it runs. If it cannot, it returns to the front of the queue.
//!
//! # How long a waiter can be passed
//!
//! * A called waiter that cannot enter, and first came at least half a millisecond ago, is
//!   *overdue*: the queue becomes strict, and the lock is handed over to that waiter.
//! * Overlapping readers can keep the lock from ever being empty, so that the writer in the queue
//!   is never called. An exit that leaves others inside therefore makes the first waiter overdue
//!   once it has been the first for half a millisecond. Every 4,096th exit with a queued or called
//!   waiter does so too. Neither does if the first waiter has the same worker as the called ones,
//!   because that worker is computing.
//! * The worker of a called waiter may compute in a loop that does nothing but enter and leave.
//!   After 1,024 such exits a task of that worker queues up even if it could enter, provided that
//!   other tasks are ready there. A future returns `Pending` once. If the called waiters belong to
//!   several workers, or may run anywhere, this applies to all workers.
//!
//! # No waiter is forgotten
//!
//! The invariant: *while the queue is not empty, a reader or writer is inside, or a called waiter
//! is on its way.*
//!
//! * A waiter enters the queue under the queue's lock, in the step that finds one of three things:
//!   readers or a writer that exclude it, a strict queue, or called waiters that should come first.
//! * The last reader or writer to leave finds QUEUED, and serves the queue under its lock, unless a
//!   writer has been called. If the queue is strict, every exit that leaves the lock empty serves
//!   it.
//! * The queue is also served by a called waiter that has come or is cancelled on its way, by a
//!   waiter that leaves the queue, and by a writer that becomes a reader.
//!
//! Called readers may take long to come. While some are on their way, the readers behind them are
//! called as well, and once [`MOST_CALLED`] are called, further readers are let in at once.

use super::called::CALL;
use super::counted::{
    CALLED, Counted, HANDED, Kind, MOST_CALLED, ONE as READER, OVERDUE, OWN as WRITER, QUEUED,
    STRICT, WAITS, asked, called,
};
use crate::scheduler::wait::waiters::WaitNode;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::{const_fn, may_spin, spin_loop};

/// A called writer, which is always called alone: it counts for more than all called readers.
const CALLED_WRITER: usize = MOST_CALLED + 1;

/// Looks before a caller queues up, each after a pause of twice as many turns as the one before.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 7 };

/// What a node's token asks for.
pub(super) const READ: u64 = 1;
pub(super) const WRITE: u64 = 2;

pub(super) struct ReadsAndWrites;
pub(super) type RawRwLock = Counted<ReadsAndWrites>;

fn is_empty(word: usize) -> bool {
    word < READER && word & WRITER == 0
}

impl Kind for ReadsAndWrites {
    const WHAT: &'static str = "a reader-writer lock";
    const ENTRY: usize = READER;
    const OVERLAPS: bool = true;

    #[inline(always)]
    fn taken(word: usize, what: u64) -> Option<usize> {
        match what {
            WRITE => is_empty(word).then_some(word | WRITER),
            _ => (word & WRITER == 0).then(|| word + READER),
        }
    }

    fn weight(what: u64) -> usize {
        if what == WRITE { CALLED_WRITER } else { 1 }
    }

    /// A reader that cannot be called, because too many are on their way, is let in.
    fn answer_at(word: usize, first: &WaitNode) -> Option<(u32, usize)> {
        let (what, called) = (asked(first), called(word));
        let inside = Self::taken(word, what)?;
        match what {
            _ if Self::is_strict(first) => Some((HANDED, inside)),
            WRITE if called > 0 => None,
            READ if called >= CALLED_WRITER => None,
            READ if called == MOST_CALLED => Some((HANDED, inside)),
            _ => Some((CALL, word + CALLED * Self::weight(what))),
        }
    }

    fn is_strict(node: &WaitNode) -> bool {
        node.token.get() & OVERDUE != 0
    }

    fn is_to_be_served(word: usize) -> bool {
        word & QUEUED != 0 && is_empty(word) && (word & STRICT != 0 || called(word) < CALLED_WRITER)
    }

    fn is_to_be_served_after_call(word: usize) -> bool {
        word & QUEUED != 0
    }

    fn give_back(from: &RawRwLock, what: u64) {
        // SAFETY: the lock was handed over to a node, as what it asked for.
        unsafe { from.unlock(what) };
    }
}

impl RawRwLock {
    const_fn! {
        pub(super) const fn new() -> RawRwLock {
            Counted::with_word(0)
        }
    }

    /// Enters as a writer. For callers that wait if this fails.
    #[inline(always)]
    pub(super) fn write(&self) -> bool {
        // Usually the lock is empty, and there are no waiters.
        self.word.load(Ordering::Relaxed) == 0 && self.try_take(WRITE)
    }

    /// Leaves the lock.
    ///
    /// # Safety
    /// The caller is inside, as a reader or a writer as `what` says.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self, what: u64) {
        let mine = if what == WRITE { WRITER } else { READER };
        // MUTANT(rwlock.unlock): relaxed, split
        let word = self.word.fetch_sub(mine, Ordering::Release) - mine;
        if word & WAITS != 0 {
            self.left_with_waiters(word);
        }
    }

    #[cold]
    #[inline(never)]
    fn left_with_waiters(&self, word: usize) {
        // Without an overlap the first waiter is called, however long it has been the first.
        let overlap = word & QUEUED != 0 && !is_empty(word);
        let passed = self.passes.count(false) || overlap && self.first_since.is_overdue();
        if passed || ReadsAndWrites::is_to_be_served(word) {
            self.serve_queue(passed);
        }
    }

    /// Turns a writer into a reader, and serves readers at the front of the queue.
    ///
    /// # Safety
    /// The caller is inside as a writer.
    pub(super) unsafe fn downgrade(&self) {
        // MUTANT(rwlock.downgrade): relaxed, split
        let before = self.word.fetch_add(READER - WRITER, Ordering::Release);
        if before & QUEUED != 0 {
            self.serve_queue(false);
        }
    }

    /// Tries to enter for a few microseconds, with growing pauses: about as long as it takes to
    /// wake a sleeping thread.
    pub(super) fn spin(&self, what: u64) -> bool {
        let alone = Worker::current().is_some_and(|worker| worker.shared().workers() == 1);
        !alone
            && may_spin()
            && (0..LOOKS).any(|look| {
                (0..1 << look).for_each(|_| spin_loop());
                !self.is_hogged_at(self.word.load(Ordering::Relaxed)) && self.try_take(what)
            })
    }

    /// Returns the number of readers inside, or `None` if a writer is inside.
    pub(super) fn readers(&self) -> Option<usize> {
        let word = self.word.load(Ordering::Relaxed);
        (word & WRITER == 0).then_some(word / READER)
    }
}
