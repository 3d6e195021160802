//! What of a ring with many producers is claimed, and those who wait for room.
//!
//! # Who may touch what
//!
//! `word` is the index that is claimed next, and QUEUED. While QUEUED is clear anybody claims, by one compare-and-swap that has seen room. QUEUED
//! is set under the lock by who is about to wait, and cleared when nobody waits any more; meanwhile only the lock's owner
//! claims. So nobody passes those who wait, and they are served in the order of coming.
//!
//! Who waits is granted **room**, not numbers: so many places are reserved, and it claims when it runs. One that is cancelled in between gives the room
//! to the next, and no number was ever its own. That is what makes the cancellation of a claim total.
//!
//! A claim that is given up is *rolled back*, by the compare-and-swap that takes the word back, if no later one was made; at any time, by whoever
//! has it. Else it is published as skipped.
//!
//! # Room
//!
//! Those who read publish the last number that they do not need any more. Places are free up to a ring's size after the last of them. `limit` is what
//! somebody has seen of that; it only grows, and so is never too far. With those who wait, and under the lock: what is claimed and what is reserved is
//! never more than that together, and only a rollback changes it from elsewhere, to less.
//!
//! # No wake-up is lost
//!
//! The first who waits, and no other, arms a watcher in each of those who read (see [`raw_group`](super::raw_group)), which calls [`Claims::grant`] when the
//! number has come that it needs. Who rolls back finds QUEUED in the same word by the same update, and calls it too; or has done so before QUEUED was set,
//! and is seen.
//!
//! # Orderings
//!
//! What was done with a place by who has claimed it before, and gave it back, is carried by `word`; by who has read it, by what that one has published,
//! and from one producer to the next by `limit`: all are released and acquired.
//!
//! The word is also acquired before it is asked who has read how far: then that is not older than what those knew who have claimed up to there, and no
//! more than a ring's size behind. Of what is further behind a narrow number could not be told from one that is ahead, and that would be room.

use super::arithmetic::Sequence;
use super::awaited::CLOSED;
use super::barrier::SequenceBarrier;
use super::raw_barrier::Watcher;
use super::raw_group::{arm, minimum};
use crate::scheduler::waiters::{WaitList, WaitNode, Wakes};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;
use std::ops::Range;
use std::sync::{OnceLock, PoisonError, Weak};

const QUEUED: u64 = 1;
const ONE: u64 = 2;

/// How many are asked for.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub(super) least: u32,
    pub(super) most: u32,
}

impl Count {
    pub(super) fn to_token(self) -> u64 {
        u64::from(self.least) << 32 | u64::from(self.most)
    }

    pub(super) fn from_token(token: u64) -> Count {
        Count { least: (token >> 32) as u32, most: token as u32 }
    }

    /// What it gets of so much room, if that is enough.
    fn of(self, room: u64) -> Option<u32> {
        let count = u64::from(self.most).min(room) as u32;
        (count >= self.least).then_some(count)
    }
}

pub(super) struct Claims<S: Sequence> {
    word: CachePadded<AtomicU64>,
    /// The first index for which nobody has seen room yet.
    limit: CachePadded<AtomicU64>,
    size: u64,
    /// The number of the first index.
    base: S,
    /// Those who read.
    readers: OnceLock<Box<[SequenceBarrier<S>]>>,
    waiting: Mutex<Waiting>,
}

pub(super) struct Waiting {
    /// Their tokens are counts.
    pub(super) waiters: WaitList,
    /// Granted, and not claimed yet.
    reserved: u64,
    /// The first of them waits for claims, not for those who read: these have published what was never claimed, and no watcher is armed.
    pub(super) ahead: bool,
}

impl<S: Sequence> Claims<S> {
    /// From this number on.
    pub(super) fn new(base: S, size: usize) -> Claims<S> {
        Claims {
            word: CachePadded::new(AtomicU64::new(0)),
            limit: CachePadded::new(AtomicU64::new(0)),
            size: size as u64,
            base,
            readers: OnceLock::new(),
            waiting: Mutex::new(Waiting { waiters: WaitList::new(), reserved: 0, ahead: false }),
        }
    }

    /// Says who reads. Once, before anybody claims.
    pub(super) fn set_readers(&self, readers: Box<[SequenceBarrier<S>]>) {
        assert!(self.readers.set(readers).is_ok(), "it is said once");
    }

    /// None, before it is said who they are.
    pub(super) fn readers(&self) -> &[SequenceBarrier<S>] {
        self.readers.get().map_or(&[], |readers| readers)
    }

    /// The number of an index.
    #[inline(always)]
    pub(super) fn number(&self, index: u64) -> S {
        self.base.offset(index.cast_signed() as isize)
    }

    /// The index of a number that is near `near`; less than zero for one before the first.
    #[inline(always)]
    pub(super) fn index(&self, number: S, near: u64) -> i64 {
        near.cast_signed().wrapping_add(number.difference(self.number(near)) as i64)
    }

    /// The index that is claimed next.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.word.load(Ordering::Acquire) / ONE
    }

    /// The first index for which there is no room, if `next` is claimed next. No more than a ring's size from there: who reads may have published
    /// what was never claimed.
    fn look_for_limit(&self, next: u64) -> u64 {
        let read = self.index(minimum(self.readers()).next(), next);
        let limit = read.min(next.cast_signed()).saturating_add(self.size.cast_signed());
        limit.max(next.cast_signed()).cast_unsigned()
    }

    /// Claims, if there is room that nobody waits for, and nobody has been granted.
    pub(super) fn claim_at_once(&self, count: Count) -> Option<Range<u64>> {
        self.try_claim(count).or_else(|| self.claim_beside_them(count))
    }

    /// The same while nobody waits, and nobody has been granted room: without the lock.
    #[inline]
    pub(super) fn try_claim(&self, count: Count) -> Option<Range<u64>> {
        // PROOF(claims.word): relaxed
        let mut word = self.word.load(Ordering::Acquire);
        if count.most == 0 {
            return Some(word / ONE..word / ONE);
        }
        loop {
            let next = word / ONE;
            // PROOF(claims.limit): relaxed
            let mut limit = self.limit.load(Ordering::Acquire);
            if limit < next + u64::from(count.most) {
                limit = self.look_for_limit(next);
                // PROOF(claims.limit.seen): relaxed
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
            // PROOF(claims.claim): acquire, release, split
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

    /// Whether one could be claimed, and nobody waits for it.
    pub(super) fn has_room(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        if word & QUEUED == 0 {
            return self.look_for_limit(word / ONE) > word / ONE;
        }
        // Some may have been granted room, and leave some.
        let waiting = self.lock();
        let next = self.next();
        waiting.waiters.is_empty() && self.look_for_limit(next) > next + waiting.reserved
    }

    /// Under the lock: claims with room that was granted. Others may have room by that, if `ahead` says so: see [`Claims::grant`].
    pub(super) fn claim_reserved(&self, waiting: &mut Waiting, count: u32) -> Range<u64> {
        let count = u64::from(count);
        // PROOF(claims.reserved): split
        let next = self.word.fetch_add(count * ONE, Ordering::AcqRel) / ONE;
        waiting.reserved -= count;
        self.open(waiting);
        next..next + count
    }

    /// Claims, if nobody waits, but some have been granted room and have not claimed yet: what they leave. So nobody waits for somebody who does not
    /// run just now.
    pub(super) fn claim_beside_them(&self, count: Count) -> Option<Range<u64>> {
        let word = self.word.load(Ordering::Acquire);
        let next = word / ONE;
        // Who looks again and again leaves the lock alone while there is nothing to be had.
        if word & QUEUED == 0 || count.of(self.look_for_limit(next) - next).is_none() {
            return None;
        }
        let waiting = self.lock();
        // Under the lock it stays set; meanwhile it may have been cleared, and then others claim without the lock.
        // PROOF(claims.beside.look): with !waiting.waiters.is_empty()
        if !waiting.waiters.is_empty() || self.word.load(Ordering::Relaxed) & QUEUED == 0 {
            return None;
        }
        let next = self.next();
        let room = self.look_for_limit(next).saturating_sub(next + waiting.reserved);
        let count = u64::from(count.of(room)?);
        // A rollback may have been faster: to less.
        // PROOF(claims.beside): split
        let next = self.word.fetch_add(count * ONE, Ordering::AcqRel) / ONE;
        Some(next..next + count)
    }

    /// Takes a claim back, if it is the newest. Then there is room for who waits: see [`Claims::grant`].
    pub(super) fn roll_back(&self, indexes: &Range<u64>) -> RolledBack {
        let mut word = self.word.load(Ordering::Relaxed);
        while word / ONE == indexes.end {
            let before = word - (indexes.end - indexes.start) * ONE;
            // PROOF(claims.roll_back): relaxed, split
            match self.word.compare_exchange_weak(
                word,
                before,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) if word & QUEUED != 0 => return RolledBack::ForOthers,
                Ok(_) => return RolledBack::Done,
                Err(now) => word = now,
            }
        }
        RolledBack::No
    }

    /// Under the lock: room for one who enters, at once or when the watcher is called.
    pub(super) fn enter(
        &self,
        waiting: &mut Waiting,
        node: &WaitNode,
        watcher: &Weak<dyn Watcher>,
        closed: impl Fn() -> bool,
    ) -> Option<u32> {
        // PROOF(claims.enter): split
        self.word.fetch_or(QUEUED, Ordering::AcqRel);
        let answer = if closed() {
            Some(CLOSED)
        } else if waiting.waiters.is_empty() {
            self.reserve(waiting, Count::from_token(node.token.get()), watcher)
        } else {
            None
        };
        if answer.is_some() {
            self.open(waiting);
        }
        answer
    }

    /// Reserves room, or arms the watcher for it. While QUEUED is set.
    fn reserve(
        &self,
        waiting: &mut Waiting,
        count: Count,
        watcher: &Weak<dyn Watcher>,
    ) -> Option<u32> {
        let room = |taken| count.of(self.look_for_limit(self.next()).saturating_sub(taken));
        let taken = self.next() + waiting.reserved;
        // The last index that must have been read.
        let index = (taken + u64::from(count.least)).wrapping_sub(self.size + 1);
        let granted = room(taken).or_else(|| {
            arm(self.readers(), watcher, self.number(index));
            // PROOF(claims.reserve.look): with None
            room(self.next() + waiting.reserved)
        });
        waiting.ahead = granted.is_none() && !minimum(self.readers()).precedes(self.number(index));
        let granted = granted?;
        waiting.reserved += u64::from(granted);
        Some(granted)
    }

    /// Under the lock: gives the room that there is to the first who wait for it, or tells all of the end.
    pub(super) fn grant(
        &self,
        waiting: &mut Waiting,
        watcher: &Weak<dyn Watcher>,
        closed: bool,
        wakes: &mut Wakes,
    ) {
        if closed {
            waiting.waiters.grant_all(CLOSED, wakes);
        }
        while let Some(first) = waiting.waiters.first().map(|node| node.token.get())
            && let Some(granted) = self.reserve(waiting, Count::from_token(first), watcher)
            && let Some(wake) = waiting.waiters.grant_first(granted)
        {
            wakes.add(wake);
        }
        self.open(waiting);
    }

    /// Under the lock: takes room back that was granted. [`Claims::grant`] follows.
    pub(super) fn unreserve(waiting: &mut Waiting, count: u32) {
        waiting.reserved -= u64::from(count);
    }

    /// Lets all claim, if nobody waits any more.
    fn open(&self, waiting: &Waiting) {
        if waiting.waiters.is_empty() && waiting.reserved == 0 {
            // PROOF(claims.open): split
            self.word.fetch_and(!QUEUED, Ordering::AcqRel);
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a claim that was given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RolledBack {
    No,
    Done,
    /// Somebody waits for room.
    ForOthers,
}
