//! The published numbers of a ring with several producers: a stamp for each slot, and the readers
//! that wait.
//!
//! Numbers are counted from the first one of the sequencer here, and do not wrap around:
//! **indexes**. The stamp of a slot holds the index that was last published there, plus one, and
//! whether that index was *skipped*, which means given up by its producer. Readers see all indexes
//! before the first unpublished one, the **frontier**.
//!
//! A slot is written again only when all readers have left it. So a stamp with a later index than
//! the expected one implies that the expected index was published too, and read.
//!
//! # No wake-up is lost
//!
//! A publisher stores its stamps, and then loads `gap`, the index that the waiting readers miss. If
//! `gap` is one of its own indexes, the publisher takes the lock and computes the frontier. A
//! waiting reader computes the frontier under the lock, stores it in `gap`, and looks again.
//! Between its two steps the publisher has a light fence and the reader a heavy one, or both have a
//! full one, as in a [barrier](super::raw_barrier). The same holds for a thread that moves `gap` on
//! for other readers. So the publisher of the missing index finds it in `gap`, or the reader finds
//! the stamp. Publishers of later indexes pay a load.
//!
//! The thread that moves `gap` also serves all waiters that the new frontier satisfies: the
//! publisher that filled the old gap may load the new one, and leave.
//!
//! # The end
//!
//! Readers are told of the end when they have everything that was claimed, and not before: a claim
//! in hand may still be published, like a permit of a closed channel. `closed` means that nothing
//! more is claimed (the word of [`claims`](super::claims) was ended before). From then on the index
//! that would be claimed next only falls. So when the frontier equals that index, no claim is in
//! hand, for good.
//!
//! The last claim ends in one of two ways. A producer that publishes or skips it fills the gap, and
//! so finds the readers. A producer that rolls it back finds by the same update that the claims
//! have ended, and looks for the readers; or the end comes after the rollback, and the thread that
//! ends the claims looks for the readers afterwards.
//! # Orderings
//!
//! A stamp is stored with release, after the item was written, and loaded with acquire. `gap`
//! carries nothing.

use super::awaited::{CLOSED, PUBLISHED};
use super::raw_barrier::Fences;
use super::strategy::WaitStrategy;
use crate::scheduler::wait::waiters::{WaitList, Wakes};
use crate::shim::Mutex;
use crate::shim::asymmetric::prepare;
use crate::shim::atomic::{AtomicBool, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::ops::Range;

/// The value of `gap` while no reader waits.
const NONE: u64 = u64::MAX;
const SKIPPED: u64 = 1;

pub(super) struct Stamps {
    /// Twice the index plus one, plus [`SKIPPED`] if the index was skipped. 0 before the first.
    stamps: Box<[AtomicU64]>,
    watched: CachePadded<Watched>,
    pub(super) reading: Mutex<Reading>,
    fences: Fences,
}

struct Watched {
    gap: AtomicU64,
    /// Later claims are refused.
    closed: AtomicBool,
    /// A reader has ended, and that has closed the sequencer.
    deserted: AtomicBool,
    /// The index after the last skipped one.
    skips: AtomicU64,
}

pub(super) struct Reading {
    /// The token of a waiter is the frontier that it waits for.
    pub(super) waiters: WaitList,
    /// All indexes before this one are published.
    frontier: u64,
}

impl Stamps {
    /// Creates the stamps of a ring. `size` is a power of two.
    pub(super) fn new(size: usize, strategy: WaitStrategy) -> Stamps {
        prepare();
        Stamps {
            fences: Fences::of(strategy),
            stamps: (0..size).map(|_| AtomicU64::new(0)).collect(),
            watched: CachePadded::new(Watched {
                gap: AtomicU64::new(NONE),
                closed: AtomicBool::new(false),
                deserted: AtomicBool::new(false),
                skips: AtomicU64::new(0),
            }),
            reading: Mutex::new(Reading { waiters: WaitList::new(), frontier: 0 }),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.stamps.len()
    }

    #[inline(always)]
    fn stamp(&self, index: u64) -> &AtomicU64 {
        &self.stamps[index as usize & (self.stamps.len() - 1)]
    }

    /// Publishes a claim of the caller's. Returns `true` if readers wait for one of its indexes:
    /// the caller must then call [`Stamps::settle`].
    #[inline(always)]
    pub(super) fn publish(&self, indexes: Range<u64>) -> bool {
        self.store(indexes, 0)
    }

    /// Publishes a claim of the caller's as skipped. Returns the same as [`Stamps::publish`].
    #[cold]
    pub(super) fn skip(&self, indexes: Range<u64>) -> bool {
        // Stored before the stamps: a reader that sees one of them sees this store.
        // MUTANT(stamps.skip): first self.store(indexes.clone(), SKIPPED);
        // MUTANT(stamps.skips): split
        self.watched.skips.fetch_max(indexes.end, Ordering::Relaxed);
        self.store(indexes, SKIPPED)
    }

    #[inline(always)]
    fn store(&self, indexes: Range<u64>, skipped: u64) -> bool {
        for index in indexes.clone() {
            // MUTANT(stamps.store): relaxed
            self.stamp(index).store((index + 1) << 1 | skipped, Ordering::Release);
        }
        // MUTANT(stamps.publish.fence): skip
        self.fences.publisher();
        indexes.contains(&self.watched.gap.load(Ordering::Relaxed))
    }

    /// Returns `true` if a published index was skipped. For a reader that has not published the
    /// index as read.
    #[inline(always)]
    pub(super) fn is_skipped(&self, index: u64) -> bool {
        self.stamp(index).load(Ordering::Relaxed) & SKIPPED != 0
    }

    /// Returns `true` if no index from `index` on that the caller has seen published was skipped.
    #[inline(always)]
    pub(super) fn has_no_skips_from(&self, index: u64) -> bool {
        self.watched.skips.load(Ordering::Relaxed) <= index
    }

    /// Returns the first unpublished index. The caller knows that all indexes before `from` are
    /// published.
    #[inline]
    pub(super) fn frontier_from(&self, from: u64) -> u64 {
        let mut index = from;
        loop {
            // MUTANT(stamps.read): relaxed
            let published = self.stamp(index).load(Ordering::Acquire) >> 1;
            if published == index + 1 {
                index += 1;
            } else if published > index {
                // The stamp is of a later lap: every index at least a lap before it was read.
                index = published - self.stamps.len() as u64;
            } else {
                return index;
            }
        }
    }

    /// Returns the answer of a wait, if it is decided. `next` is the index that would be claimed
    /// next, if later claims are refused.
    fn decide(wanted: u64, frontier: u64, next: Option<u64>) -> Option<u32> {
        if wanted <= frontier {
            Some(PUBLISHED)
        } else {
            (next == Some(frontier)).then_some(CLOSED)
        }
    }

    /// Returns the answer of a reader's wait, if it is decided. The reader knows that all indexes
    /// before `from` are published.
    pub(super) fn answer(&self, wanted: u64, from: u64, next: impl FnOnce() -> u64) -> Option<u32> {
        let closed = self.is_closed();
        // One load, where a reader that wants many would look at each of them again and again.
        if !closed && self.stamp(wanted - 1).load(Ordering::Relaxed) >> 1 < wanted {
            return None;
        }
        Stamps::decide(wanted, self.frontier_from(from), closed.then(next))
    }

    /// Under the lock: moves `gap` to the frontier, and grants the waiters that the frontier
    /// decides, as the publisher that filled the old gap may not find it any more. Returns the
    /// answer of the wait `entering`. If that is `None`, the publisher that fills `gap` will see
    /// it.
    pub(super) fn settle(
        &self,
        reading: &mut Reading,
        entering: Option<u64>,
        wakes: &mut Wakes,
        next: impl Fn() -> u64,
    ) -> Option<u32> {
        loop {
            let next = self.is_closed().then(&next);
            let frontier = self.frontier_from(reading.frontier);
            reading.frontier = frontier;
            let decide = |wanted| Stamps::decide(wanted, frontier, next);
            // MUTANT(stamps.settle.others): skip
            reading.waiters.grant_those(|node| decide(node.token.get()), wakes);
            let answer = entering.and_then(decide);
            let waits = !reading.waiters.is_empty() || entering.is_some() && answer.is_none();
            let gap = if waits { frontier } else { NONE };
            if self.watched.gap.load(Ordering::Relaxed) == gap {
                return answer;
            }
            self.watched.gap.store(gap, Ordering::Relaxed);
            if !waits {
                return answer;
            }
            // MUTANT(stamps.settle.fence): skip
            self.fences.waiter();
        }
    }

    /// Records that later claims are refused. The caller must then call [`Stamps::settle`].
    pub(super) fn close(&self) {
        // Not a mutation point: in a model, the light fence of an earlier publish is a full one.
        self.watched.closed.store(true, Ordering::Release);
    }

    /// Records that a reader has ended, before the sequencer is closed.
    pub(super) fn desert(&self) {
        self.watched.deserted.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn is_deserted(&self) -> bool {
        self.watched.deserted.load(Ordering::Relaxed)
    }

    #[inline]
    fn is_closed(&self) -> bool {
        // MUTANT(stamps.closed): relaxed
        self.watched.closed.load(Ordering::Acquire)
    }
}
