//! The count of a [`Semaphore`](super::Semaphore): one word, and a queue of waiters.
//!
//! # The word
//!
//! The word (see [`counted`](super::counted)) is the number of free permits, the number of waiters
//! that have been *called*, QUEUED, STRICT, and SHUT: the semaphore is closed, and gives out no
//! permits.
//!
//! A release calls a waiter: it takes the waiter out of the queue and adds one to the called ones,
//! but the permit stays free. The called waiter is about to run, and then tries to take the permit.
//! Meanwhile any caller may take it, ahead of the waiters. This is the *barging* of
//! [`raw_mutex`](super::raw_mutex), for the same reason: a permit that is handed over to a task
//! whose worker sleeps is idle until that worker has woken up.
//!
//! # How long a waiter can be passed
//!
//! * A called waiter that finds no permit returns to the *front* of the queue. Once half a
//!   millisecond has passed since it first came, it is *overdue*, which makes the queue STRICT:
//!   permits are then kept for that waiter, and handed over to it.
//! * A waiter that asks for several permits is never called. While it is the first, the queue is
//!   STRICT. Otherwise callers that ask for one permit would take each permit that comes free.
//! * Called waiters may take long to come, because their workers compute. So every 4,096th release
//!   that calls no waiter makes the first waiter of the queue overdue, unless that one has the same
//!   worker as the called ones.
//! * The worker of a called waiter may compute in a loop that takes permits and gives them back.
//!   After 1,024 such releases or half a millisecond, which the queued waiters share, a task of
//!   that worker queues up even if a permit is free, provided that the called waiters need all free
//!   permits and other tasks are ready there. A future returns `Pending` once. If the called
//!   waiters belong to several workers, or may run anywhere, this applies to all workers.
//!
//! # No permit lies idle
//!
//! The invariant: *while the queue is not empty, there are at least as many called waiters as free
//! permits, or the queue is strict and its first waiter asks for more permits than are free.*
//! [`Kind::is_to_be_served`] tells from a word whether the invariant may be broken.
//!
//! Three steps may break it: permits are given back; a called waiter comes, or is cancelled on its
//! way; a waiter leaves the queue. After each, the word that results is examined, and the queue is
//! served under its lock if necessary.
//!
//! A waiter enters the queue under the lock, in the step that finds too few permits, a strict
//! queue, or called waiters that should come first. At most [`MOST_CALLED`] waiters are called at a
//! time; permits beyond those are handed over.
//!
//! Permits are taken and given back without the lock, so every other change of the word is a
//! compare-and-swap.
//!
//! A caller that takes one permit subtracts it first and then looks at the word. If it may not have
//! the permit, it adds it again ([`Counted::take_one`]). In between the word shows one
//! permit less than there is, and may be below zero. A release in that interval may therefore serve
//! no waiter. So the caller serves the queue after it has added the permit, as a release does.

use super::called::CALL;
use super::counted::{
    CALLED, Counted, HANDED, Kind, MOST_CALLED, ONE, OWN as SHUT, QUEUED, STRICT, WAITS, asked,
    called,
};
use crate::scheduler::wait::waiters::{WaitNode, with_wakes};
use crate::shim::atomic::Ordering;
use crate::shim::const_fn;

/// The answer of a grant that gives no permits, because the semaphore is closed.
pub(super) const CLOSED: u32 = 2;

pub(super) struct Permits;
pub(super) type RawSemaphore = Counted<Permits>;

/// Returns the number of free permits. In the word it may be below zero for a moment, when many
/// callers come for the last permits.
fn free(word: usize) -> usize {
    (word.cast_signed() / ONE.cast_signed()).max(0).cast_unsigned()
}

impl Kind for Permits {
    const WHAT: &'static str = "permits of a semaphore";
    const ENTRY: usize = ONE.wrapping_neg();
    const OVERLAPS: bool = false;

    #[inline(always)]
    fn taken(word: usize, permits: u64) -> Option<usize> {
        let permits = permits as usize;
        (word & SHUT == 0 && free(word) >= permits).then(|| word.wrapping_sub(permits * ONE))
    }

    /// Permits are handed over to a waiter that is not passed. If no more waiters can be called,
    /// the permits that the called ones leave over are handed over too.
    fn answer_at(word: usize, first: &WaitNode) -> Option<(u32, usize)> {
        if word & SHUT != 0 {
            return Some((CLOSED, word));
        }
        let (strict, called) = (Self::is_strict(first), called(word));
        let kept = if strict { 0 } else { called };
        if strict || called == MOST_CALLED {
            let enough = free(word) >= asked(first) as usize + kept;
            return if enough { Some((HANDED, Self::taken(word, asked(first))?)) } else { None };
        }
        (called < free(word)).then(|| (CALL, word.wrapping_add(CALLED)))
    }

    fn refused(word: usize) -> Option<u32> {
        (word & SHUT != 0).then_some(CLOSED)
    }

    /// A waiter is not passed if it asks for several permits, or is overdue.
    fn is_strict(node: &WaitNode) -> bool {
        node.token.get() > 1
    }

    fn is_to_be_served(word: usize) -> bool {
        let strict = word & STRICT != 0 && free(word) > 0;
        word & QUEUED != 0 && (strict || called(word) < free(word))
    }

    #[inline(always)]
    fn is_short(word: usize) -> bool {
        free(word) <= called(word)
    }

    fn give_back(from: &RawSemaphore, permits: u64) {
        // If permits were added meanwhile, up to the maximum, there is no room for these. They are
        // lost then, as in the drop of a `Permit`.
        from.release(permits as usize);
    }
}

impl RawSemaphore {
    /// The greatest number of permits that fits into the word.
    pub(super) const MOST: usize = isize::MAX.cast_unsigned() / ONE / 2;

    const_fn! {
        /// Creates a semaphore with at most `MOST` permits.
        pub(super) const fn new(permits: usize) -> RawSemaphore {
            Counted::with_word(permits * ONE)
        }
    }

    pub(super) fn free(&self) -> usize {
        free(self.word.load(Ordering::Relaxed))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & SHUT != 0
    }

    /// Adds permits, and serves the waiters. Returns `false`, and adds none, if there would be more
    /// than `MOST`.
    #[inline]
    pub(super) fn release(&self, permits: usize) -> bool {
        if permits != 1 {
            return self.release_many(permits);
        }
        // MUTANT(semaphore.release): relaxed, split
        let word = self.word.fetch_add(ONE, Ordering::Release).wrapping_add(ONE);
        if word & WAITS != 0 || free(word) > RawSemaphore::MOST {
            return self.released(word);
        }
        true
    }

    fn release_many(&self, permits: usize) -> bool {
        let added = self.change(|word| {
            let room = RawSemaphore::MOST.checked_sub(free(word))?;
            (permits <= room).then(|| word.wrapping_add(permits * ONE))
        });
        added.is_some_and(|(_, word)| word & WAITS == 0 || self.released(word))
    }

    #[cold]
    #[inline(never)]
    fn released(&self, word: usize) -> bool {
        if free(word) > RawSemaphore::MOST {
            self.word.fetch_sub(ONE, Ordering::Relaxed);
            return false;
        }
        let is_to_be_served = Permits::is_to_be_served(word);
        if is_to_be_served || self.passes.count(called(word) > 0) {
            self.serve_queue(!is_to_be_served);
        }
        true
    }

    /// Closes the semaphore: no caller gets permits from now on.
    pub(super) fn close(&self) {
        with_wakes(&self.queue, |queue, wakes| {
            // MUTANT(semaphore.close): split
            self.word.fetch_or(SHUT, Ordering::AcqRel);
            self.serve(queue, wakes);
        });
    }
}
