//! What of a ring with many producers is published: a stamp for each place, and those who wait for it.
//!
//! Numbers are counted from the first one of the sequencer here, and do not wrap around: **indexes**. The stamp of a place says which index was the
//! last to be published there, plus one; and whether it was *skipped*, that is, given up by who had claimed it. Published are, for who reads, all indexes
//! before the first one that is missing: the **frontier**.
//!
//! A place is written again only when all who read have left it. So a stamp that is later than the index that one looks for says that this one
//! was published too, and read.
//!
//! # No wake-up is lost
//!
//! Who publishes stores its stamps, then loads `gap`: the index that is missing for those who wait. If that is one of its own it takes the lock, and looks
//! how far the frontier is now. Who waits looks for the frontier under the lock, stores it in `gap`, and looks again. Between the two steps the one
//! has a light fence, and the other a heavy one, or both a full one, as in a [barrier](super::raw_barrier); the same goes for who has moved the gap on for those who wait still. So whoever fills the gap finds it, or is
//! found there. All others, who publish what lies behind it, pay a load. Who moves the gap serves all that are behind it: who has filled the old one may find
//! the new one, and go away.
//!
//! # The end
//!
//! Readers are told of the end when they have all that was claimed, and not before: what a producer has in hand it may still publish, as a permit
//! of a channel that is closed. `closed` says that nothing more is claimed (the word of [`claims`](super::claims) was closed before that), and then the index that would be claimed next only
//! falls. So when the frontier equals that index nothing is in hand, for good. The last claim ends in one of two ways. A producer that
//! publishes or skips it fills the gap, and so finds the readers. A producer that rolls it back finds by the same update that the claims have
//! ended, and looks for the readers; or the end comes after the rollback, and whoever ends the claims looks for the readers afterwards.
//!
//! # Orderings
//!
//! A stamp is stored with release, after the item was written, and loaded with acquire. `gap` carries nothing.

use super::awaited::{CLOSED, PUBLISHED};
use super::raw_barrier::Fences;
use super::strategy::WaitStrategy;
use crate::scheduler::wait::waiters::{WaitList, Wakes};
use crate::shim::asymmetric::prepare;
use crate::shim::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::shim::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;
use std::ops::Range;
use std::sync::PoisonError;

/// Nobody waits.
const NONE: u64 = u64::MAX;
const SKIPPED: u64 = 1;

pub(super) struct Stamps {
    /// Twice the index plus one, and whether it was skipped. 0 before the first.
    stamps: Box<[AtomicU64]>,
    watched: CachePadded<Watched>,
    reading: Mutex<Reading>,
    fences: Fences,
}

struct Watched {
    gap: AtomicU64,
    /// Nothing is claimed any more.
    closed: AtomicBool,
    /// A reader has gone, and that was what closed it.
    deserted: AtomicBool,
    /// The index after the last one that was skipped.
    skips: AtomicU64,
}

pub(super) struct Reading {
    /// Their tokens are the frontiers that they wait for.
    pub(super) waiters: WaitList,
    /// All before it are published.
    frontier: u64,
}

impl Stamps {
    /// For a power of two.
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

    /// Publishes what has been claimed, for who has claimed it. Returns `true` if readers wait for it: see [`Stamps::settle`].
    #[inline(always)]
    pub(super) fn publish(&self, indexes: Range<u64>) -> bool {
        self.store(indexes, 0)
    }

    /// The same of what was given up.
    #[cold]
    pub(super) fn skip(&self, indexes: Range<u64>) -> bool {
        // Before the stamps, which carry it to whoever sees them.
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

    /// Whether what is published under this index was given up. For who reads it, before it says that it has.
    #[inline(always)]
    pub(super) fn is_skipped(&self, index: u64) -> bool {
        self.stamp(index).load(Ordering::Relaxed) & SKIPPED != 0
    }

    /// Whether none of those from there on that the caller has seen to be published was skipped.
    #[inline(always)]
    pub(super) fn has_no_skips_from(&self, index: u64) -> bool {
        self.watched.skips.load(Ordering::Relaxed) <= index
    }

    /// How many are published from there on, and before the first that is missing: its index. All before `from` have been.
    #[inline]
    pub(super) fn frontier_from(&self, from: u64) -> u64 {
        let mut index = from;
        loop {
            // MUTANT(stamps.read): relaxed
            let published = self.stamp(index).load(Ordering::Acquire) >> 1;
            if published == index + 1 {
                index += 1;
            } else if published > index {
                // Of a later lap: all that are a lap before it were read.
                index = published - self.stamps.len() as u64;
            } else {
                return index;
            }
        }
    }

    /// What a wait comes to, if it is decided. `next` is the index that would be claimed next, if nothing is claimed any more.
    fn decide(wanted: u64, frontier: u64, next: Option<u64>) -> Option<u32> {
        if wanted <= frontier {
            Some(PUBLISHED)
        } else {
            (next == Some(frontier)).then_some(CLOSED)
        }
    }

    /// The same for a reader that knows that all before `from` are published.
    pub(super) fn answer(&self, wanted: u64, from: u64, next: impl FnOnce() -> u64) -> Option<u32> {
        let next = self.is_closed().then(next);
        Stamps::decide(wanted, self.frontier_from(from), next)
    }

    /// Under the lock: moves the gap to where it is, and grants whoever has come to be served by that: the one who fills the old gap may not
    /// find it any more. With the wait of one who enters, what that comes to; if nothing, the gap is where who fills it will see it.
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

    /// Says that nothing more is claimed. [`Stamps::settle`] follows.
    pub(super) fn close(&self) {
        // No mark: in a model the light fence of a publish before it is a full one.
        self.watched.closed.store(true, Ordering::Release);
    }

    /// Says that a reader has gone, before it is closed.
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

    pub(super) fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
