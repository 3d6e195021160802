//! The claimed numbers of a ring with several producers, and the producers that wait for room.
//!
//! # Who may touch what
//!
//! `word` holds the index that is claimed next, and the flags QUEUED and ENDED. QUEUED is set while
//! producers are in the list of waiters. A producer that finds QUEUED clear and has seen room
//! claims by one compare-and-swap. A producer that finds QUEUED set waits behind the others. QUEUED
//! is set and cleared under the lock, and while it is set only the owner of the lock claims. So
//! there is no barging past the waiters.
//!
//! A claim that is given up is *rolled back* if no later claim was made: a compare-and-swap takes
//! the word back. The owner of the claim may do that at any time, without the lock. A claim that is
//! not the newest is published as skipped.
//!
//! ENDED is set under the lock, once. It refuses every later claim by the word itself: the
//! compare-and-swap of a producer that has not seen ENDED fails. So from then on the index only
//! falls, by rollbacks, and a claim is in hand exactly while the readers lack an index before it.
//! [`stamps`](super::stamps) relies on that to tell readers of the end.
//!
//! # The number comes with the grant
//!
//! A waiting producer asks for a count of numbers and owns none. When there is room for the first
//! waiter, the owner of the lock claims in the name of that waiter: it advances the word, and
//! stores the first index in the waiter's node. So numbers are handed out in the order in which the
//! producers came, whatever the order in which they run afterwards.
//!
//! The alternative is to grant room, and to let each producer take its number when it runs. Two
//! producers that are woken together then swap their numbers whenever the second one runs first,
//! and the ring keeps no order among waiting producers. Room without a number has one advantage: a
//! producer that was granted room and does not run yet delays no reader. A producer that was handed
//! a number delays the readers until it has run, as the owner of any claim does. Every scheme that
//! keeps the order has this price, for the later numbers cannot be read first.
//!
//! Cancellation stays total. A producer that leaves the list before the grant never owned a number,
//! for none was taken in advance. A producer that is found cancelled after the grant, or a future
//! that is dropped then, owns a claim, and gives it up like any other claim: by a rollback, or by
//! publishing it as skipped. Either way the numbers of other producers stay as they are, no reader
//! waits for a number that will never be published, and the slot is free again when the readers
//! have stepped over it. A future that is forgotten after the grant is a forgotten claim.
//!
//! # Room
//!
//! Each reader publishes the last number that it no longer needs. Slots are free up to a ring's
//! size past the slowest reader. That bound only grows, and `limit` is the bound as some producer
//! has seen it, so `limit` is never too high. Under the lock, while QUEUED is set, another thread
//! can change the index only by a rollback, which lowers it.
//!
//! # No wake-up is lost
//!
//! The first waiter, and no other, arms a watcher in each reader (see
//! [`raw_group`](super::raw_group)). The watcher calls [`Claims::grant`] when the number has come
//! that the first waiter needs. A producer that rolls back finds QUEUED in the same word by the
//! same update, and calls `grant` too; or it has rolled back before QUEUED was set, and the waiter
//! sees that.
//!
//! # Orderings
//!
//! `word` carries the accesses to a slot by a producer that claimed the slot and gave it back.
//! The published number of a reader carries that reader's accesses, and `limit` passes them on from
//! one producer to the next. All three are released and acquired.
//!
//! The word is also acquired before the progress of the readers is loaded. The loaded progress is
//! then no older than the progress that earlier claims up to this word relied on, and so at most a
//! ring's size behind the word. With narrow numbers, progress further behind could not be told from
//! progress ahead, and would count as room.

use super::arithmetic::Sequence;
use super::awaited::CLOSED;
use super::barrier::SequenceBarrier;
use super::count::Count;
use super::raw_barrier::Watcher;
use super::raw_group::{arm, minimum};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Wakes};
use crate::shim::Mutex;
use crate::shim::atomic::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::ops::Range;
use std::sync::{OnceLock, Weak};

const QUEUED: u64 = 1;
const ENDED: u64 = 2;
const ONE: u64 = 4;

/// The [`Count`] that a producer asks for, capped at the size of the ring.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) least: u32,
    pub(super) most: u32,
}

impl Request {
    #[inline(always)]
    pub(super) fn capped(count: Count, size: usize) -> Request {
        let most = count.most().min(size);
        Request { least: count.least().min(most) as u32, most: most as u32 }
    }

    pub(super) fn to_token(self) -> u64 {
        u64::from(self.least) << 32 | u64::from(self.most)
    }

    pub(super) fn from_token(token: u64) -> Request {
        Request { least: (token >> 32) as u32, most: token as u32 }
    }

    /// Returns the count to claim out of `room`, or `None` if that is fewer than `least`.
    fn of(self, room: u64) -> Option<u32> {
        let count = u64::from(self.most).min(room) as u32;
        (count >= self.least).then_some(count)
    }
}

pub(super) struct Claims<S: Sequence> {
    word: CachePadded<AtomicU64>,
    /// The first index for which no room has been seen yet.
    limit: CachePadded<AtomicU64>,
    size: u64,
    /// The number of the first index.
    base: S,
    /// The readers that make room.
    readers: OnceLock<Box<[SequenceBarrier<S>]>>,
    /// The token of a waiter is its count. A grant replaces the token by the first claimed index,
    /// and its answer is the count claimed.
    pub(super) waiters: Mutex<WaitList>,
}

impl<S: Sequence> Claims<S> {
    /// Creates claims that start at the number `base`.
    pub(super) fn new(base: S, size: usize) -> Claims<S> {
        Claims {
            word: CachePadded::new(AtomicU64::new(0)),
            limit: CachePadded::new(AtomicU64::new(0)),
            size: size as u64,
            base,
            readers: OnceLock::new(),
            waiters: Mutex::new(WaitList::new()),
        }
    }

    /// Sets the readers. Called once, before the first claim.
    pub(super) fn set_readers(&self, readers: Box<[SequenceBarrier<S>]>) {
        assert!(self.readers.set(readers).is_ok(), "the readers are set once");
    }

    /// The readers that make room; empty before they are set.
    pub(super) fn readers(&self) -> &[SequenceBarrier<S>] {
        self.readers.get().map_or(&[], |readers| readers)
    }

    /// The number of an index.
    #[inline(always)]
    pub(super) fn number(&self, index: u64) -> S {
        self.base.offset(index.cast_signed() as isize)
    }

    /// The index of a number that is near `near`. Negative for a number before the first.
    #[inline(always)]
    pub(super) fn index(&self, number: S, near: u64) -> i64 {
        near.cast_signed().wrapping_add(number.difference(self.number(near)) as i64)
    }

    /// The index that is claimed next.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.word.load(Ordering::Acquire) / ONE
    }

    /// Returns the first index for which there is no room if `next` is claimed next. That is at
    /// most `next` plus a ring's size, even if readers have published numbers that were never
    /// claimed.
    fn look_for_limit(&self, next: u64) -> u64 {
        let read = self.index(minimum(self.readers()).next(), next);
        let limit = read.min(next.cast_signed()).saturating_add(self.size.cast_signed());
        limit.max(next.cast_signed()).cast_unsigned()
    }

    /// Claims if there is room and no producer waits for it.
    pub(super) fn claim_at_once(&self, count: Request) -> Option<Range<u64>> {
        self.try_claim(count).or_else(|| self.claim_under_the_lock(count))
    }

    /// Does the same as [`claim_at_once`](Self::claim_at_once), without the lock. Also fails while
    /// another producer enters the list, even if that producer then finds room and leaves some.
    #[inline]
    pub(super) fn try_claim(&self, count: Request) -> Option<Range<u64>> {
        // MUTANT(claims.word): relaxed
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & ENDED != 0 {
                return None;
            }
            let next = word / ONE;
            if count.most == 0 {
                return Some(next..next);
            }
            // MUTANT(claims.limit): relaxed
            let mut limit = self.limit.load(Ordering::Acquire);
            if limit < next + u64::from(count.most) {
                limit = self.look_for_limit(next);
                // MUTANT(claims.limit.seen): relaxed
                self.limit.store(limit, Ordering::Release);
            }
            let count = match count.of(limit.saturating_sub(next)) {
                Some(count) if word & QUEUED == 0 => u64::from(count),
                _ => {
                    let now = self.word.load(Ordering::Acquire);
                    if now == word {
                        return None;
                    }
                    word = now;
                    continue;
                }
            };
            // MUTANT(claims.claim): acquire, release, split
            match self.word.compare_exchange_weak(
                word,
                word + count * ONE,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(next..next + count),
                Err(now) => word = now,
            }
        }
    }

    /// Returns `true` if a number could be claimed, and no producer waits for one.
    pub(super) fn has_room(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        let next = word / ONE;
        let queued = || word & QUEUED != 0 && !self.waiters.lock().is_empty();
        word & ENDED == 0 && self.look_for_limit(next) > next && !queued()
    }

    /// Claims after a producer that is just entering the list.
    #[cold]
    fn claim_under_the_lock(&self, count: Request) -> Option<Range<u64>> {
        let word = self.word.load(Ordering::Acquire);
        let next = word / ONE;
        // A producer that polls leaves the lock alone while there is no room.
        if word & QUEUED == 0 || count.of(self.look_for_limit(next) - next).is_none() {
            return None;
        }
        // Under the lock, QUEUED means that producers wait, and not that one is just entering.
        let _waiters = self.waiters.lock();
        self.try_claim(count)
    }

    /// Takes a claim back if it is the newest. That makes room for waiting producers (see
    /// [`Claims::grant`]), or may complete what readers will ever get.
    pub(super) fn roll_back(&self, indexes: &Range<u64>) -> RolledBack {
        let count = (indexes.end - indexes.start) * ONE;
        let back = |word| (word / ONE == indexes.end).then(|| word - count);
        // MUTANT(claims.roll_back): relaxed, split
        match self.word.fetch_update(Ordering::Release, Ordering::Relaxed, back) {
            Ok(word) if word & (QUEUED | ENDED) != 0 => RolledBack::ForOthers,
            Ok(_) => RolledBack::Done,
            Err(_) => RolledBack::No,
        }
    }

    /// Under the lock: claims for an entering producer now, or arms the watcher.
    pub(super) fn enter(
        &self,
        waiters: &WaitList,
        node: &WaitNode,
        watcher: &Weak<dyn Watcher>,
    ) -> Option<u32> {
        // MUTANT(claims.enter): split
        let word = self.word.fetch_or(QUEUED, Ordering::AcqRel);
        let answer = if word & ENDED != 0 {
            Some(CLOSED)
        } else if waiters.is_empty() {
            self.claim_for(node, watcher)
        } else {
            None
        };
        if answer.is_some() {
            self.clear_queued(waiters);
        }
        answer
    }

    /// Under the lock, while QUEUED is set: claims in the name of the first waiter, or arms the
    /// watcher. Returns the count claimed.
    fn claim_for(&self, node: &WaitNode, watcher: &Weak<dyn Watcher>) -> Option<u32> {
        let count = Request::from_token(node.token.get());
        let room = |next| count.of(self.look_for_limit(next).saturating_sub(next));
        let next = self.next();
        let granted = room(next).or_else(|| {
            // The last index that must have been read.
            let index = (next + u64::from(count.least)).wrapping_sub(self.size + 1);
            arm(self.readers(), watcher, self.number(index));
            // MUTANT(claims.claim_for.look): with None
            room(self.next())
        })?;
        // A rollback may have come first: the claim starts where the word is now.
        // MUTANT(claims.claim_for): split
        let start = self.word.fetch_add(u64::from(granted) * ONE, Ordering::AcqRel) / ONE;
        node.token.set(start);
        Some(granted)
    }

    /// The indexes that were claimed for a waiter, from the token and the answer in its node.
    pub(super) fn handed_over(token: u64, answer: u32) -> Range<u64> {
        token..token + u64::from(answer)
    }

    /// Under the lock: hands numbers to the first waiter as long as there is room, or tells all
    /// waiters of the end.
    pub(super) fn grant(
        &self,
        waiters: &mut WaitList,
        watcher: &Weak<dyn Watcher>,
        wakes: &mut Wakes,
    ) {
        if self.is_ended() {
            waiters.grant_all(CLOSED, wakes);
        }
        while let Some(granted) = waiters.first().and_then(|node| self.claim_for(node, watcher))
            && let Some(wake) = waiters.grant_first(granted)
        {
            wakes.add(wake);
        }
        self.clear_queued(waiters);
    }

    /// Refuses later claims, and tells the waiting producers.
    pub(super) fn end(&self, wakes: &mut Wakes) {
        let mut waiters = self.waiters.lock();
        // MUTANT(claims.end): split
        self.word.fetch_or(ENDED, Ordering::AcqRel);
        waiters.grant_all(CLOSED, wakes);
        self.clear_queued(&waiters);
    }

    /// Returns `true` if later claims are refused.
    #[inline(always)]
    pub(super) fn is_ended(&self) -> bool {
        self.word.load(Ordering::Acquire) & ENDED != 0
    }

    /// Under the lock: lets all producers claim if none waits any more.
    fn clear_queued(&self, waiters: &WaitList) {
        if waiters.is_empty() {
            // MUTANT(claims.unqueued): split
            self.word.fetch_and(!QUEUED, Ordering::AcqRel);
        }
    }
}

/// The result of an attempt to roll a claim back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RolledBack {
    No,
    Done,
    /// Rolled back: producers may wait for the room, or readers for the end.
    ForOthers,
}
