//! The count of a [`Semaphore`](super::Semaphore): one word, and a queue of waiters.
//!
//! # The word
//!
//! The word is the number of free permits, the number of waiters that have been *called*, and three
//! flags:
//!
//! * QUEUED: the queue is not empty, or was not a moment ago.
//! * STRICT: the first waiter of the queue must not be passed.
//! * SHUT: the semaphore is closed, and gives out no permits.
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
//!   After 1,024 such releases a task of that worker queues up even if a permit is free, provided
//!   that the called waiters need all free permits and other tasks are ready there. A future
//!   returns `Pending` once. If the called waiters belong to several workers, or may run anywhere,
//!   this applies to all workers.
//!
//! # No permit lies idle
//!
//! The invariant: *while the queue is not empty, there are at least as many called waiters as free
//! permits, or the queue is strict and its first waiter asks for more permits than are free.*
//! [`is_to_be_served`] tells from a word whether the invariant may be broken.
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
//! compare-and-swap. QUEUED, STRICT and the calls are changed under the lock only; the number of
//! called waiters falls without it.
//!
//! A caller that takes one permit subtracts it first and then looks at the word. If it may not have
//! the permit, it adds it again ([`RawSemaphore::acquire_one`]). In between the word shows one
//! permit less than there is, and may be below zero. A release in that interval may therefore serve
//! no waiter. So the caller serves the queue after it has added the permit, as a release does.
//!
//! # Orderings
//!
//! Giving permits back is a release, taking them is an acquire. A hand-over is carried by the
//! grant.

use super::called::{CALL, Calling, enter_called};
use super::passing::{CalledAt, Passes, gives_way};
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::waiters::{WaitList, WaitMode, WaitNode, Waitable, Wakes};
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::shim::time::Instant;
use crate::shim::{Mutex, MutexGuard, const_fn};
use crate::task::words::tree::NOBODY;
use std::sync::PoisonError;

const QUEUED: usize = 1;
const SHUT: usize = 2;
const STRICT: usize = 4;
const CALLED: usize = 8;
/// The most waiters that are called at a time.
const MOST_CALLED: usize = 15;
const ONE: usize = CALLED * (MOST_CALLED + 1);
/// Set if a waiter is queued, or has been called and has not come yet.
const WAITS: usize = QUEUED | (CALLED * MOST_CALLED);

/// Set in a node's token, beside the number of permits: the waiter is not passed again.
const OVERDUE: u64 = 1 << 63;

/// The answer of a grant that hands the permits over.
const GRANTED: u32 = 0;
/// The answer of a grant that gives no permits, because the semaphore is closed.
pub(super) const CLOSED: u32 = 2;

pub(super) struct RawSemaphore {
    word: AtomicUsize,
    passes: Passes,
    called_at: CalledAt,
    queue: Mutex<WaitList>,
}

/// Returns the number of free permits. In the word it may be below zero for a moment, when many
/// callers come for the last permits.
fn free(word: usize) -> usize {
    (word.cast_signed() / ONE.cast_signed()).max(0).cast_unsigned()
}

fn called(word: usize) -> usize {
    word / CALLED % (MOST_CALLED + 1)
}

/// Returns `true` if there may be waiters to serve.
fn is_to_be_served(word: usize) -> bool {
    let strict = word & STRICT != 0 && free(word) > 0;
    word & QUEUED != 0 && (strict || called(word) < free(word))
}

/// Returns the word with `permits` more, or `None` if there is no room for them.
#[inline(always)]
fn add(word: usize, permits: usize) -> Option<usize> {
    let room = RawSemaphore::MOST.checked_sub(free(word))?;
    (permits <= room).then(|| word.wrapping_add(permits * ONE))
}

fn permits_of(node: &WaitNode) -> usize {
    (node.token.get() & !OVERDUE) as usize
}

/// Returns `true` if a waiter must not be passed while it is the first.
fn is_strict(node: &WaitNode) -> bool {
    // It asks for several permits, or is overdue.
    node.token.get() > 1
}

impl RawSemaphore {
    /// The greatest number of permits that fits into the word.
    pub(super) const MOST: usize = isize::MAX.cast_unsigned() / ONE / 2;

    const_fn! {
        /// Creates a semaphore with at most `MOST` permits.
        pub(super) const fn new(permits: usize) -> RawSemaphore {
            RawSemaphore {
                word: AtomicUsize::new(permits * ONE),
                passes: Passes::from(AtomicU32::new(0)),
                called_at: CalledAt::from(AtomicU8::new(NOBODY as u8)),
                queue: Mutex::new(WaitList::new()),
            }
        }
    }

    pub(super) fn free(&self) -> usize {
        free(self.word.load(Ordering::Relaxed))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & SHUT != 0
    }

    /// Returns `true` if the called waiters need all free permits, and have been passed so often
    /// that they may be waiting for the caller's own worker or executor.
    fn is_hogged_at(&self, word: usize) -> bool {
        let are_on_their_way = called(word) > 0 && free(word) <= called(word);
        are_on_their_way && self.passes.are_many() && self.called_at.may_be_here()
    }

    /// Takes `permits` permits if they are free, ahead of the waiters. Fails if the semaphore is
    /// closed or the queue is strict.
    #[inline]
    pub(super) fn try_acquire(&self, permits: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // A caller that asks for no permits passes no waiter.
            if word & SHUT != 0 || permits > 0 && word & STRICT != 0 || free(word) < permits {
                return false;
            }
            let new = word.wrapping_sub(permits * ONE);
            // MUTANT(semaphore.acquire): relaxed, split
            match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Takes one permit, like [`try_acquire`](RawSemaphore::try_acquire), but by a single update. A
    /// compare-and-swap would have to be repeated if many callers come at once. For callers that
    /// wait if this fails. Until a failed attempt has given the permit back, it looks taken to
    /// others.
    #[inline]
    pub(super) fn acquire_one(&self) -> bool {
        // MUTANT(semaphore.acquire_one): relaxed, split
        let word = self.word.fetch_sub(ONE, Ordering::Acquire);
        let got = word & (SHUT | STRICT) == 0 && free(word) > 0 && !self.is_hogged_at(word);
        if !got {
            self.take_back();
        }
        got
    }

    /// Gives back the permit of a failed attempt. Meanwhile others may have found too few permits,
    /// and so left the waiters to this caller.
    #[cold]
    #[inline(never)]
    fn take_back(&self) {
        // MUTANT(semaphore.take_back): split
        let word = self.word.fetch_add(ONE, Ordering::Relaxed).wrapping_add(ONE);
        // MUTANT(semaphore.take_back.look): false
        if is_to_be_served(word) {
            self.serve_queue(false);
        }
    }

    /// Replaces the word by `to(word)`, and returns the old and the new one. If `to` returns
    /// `None`, the word stays as it is.
    fn change(&self, to: impl Fn(usize) -> Option<usize>) -> Option<(usize, usize)> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = to(word)?;
            // MUTANT(semaphore.change): relaxed, split
            match self.word.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((word, new)),
                Err(now) => word = now,
            }
        }
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
        let added = self.change(|word| add(word, permits));
        added.is_some_and(|(_, word)| word & WAITS == 0 || self.released(word))
    }

    #[cold]
    #[inline(never)]
    fn released(&self, word: usize) -> bool {
        if free(word) > RawSemaphore::MOST {
            self.word.fetch_sub(ONE, Ordering::Relaxed);
            return false;
        }
        if is_to_be_served(word) {
            self.serve_queue(false);
            return true;
        }
        if self.passes.count(false) {
            self.serve_queue(true);
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn serve_queue(&self, hands_over: bool) {
        let mut wakes = Wakes::default();
        let mut queue = self.state();
        if hands_over
            && let Some(first) = queue.first()
            && !(called(self.word.load(Ordering::Relaxed)) > 0 && self.called_at.is_where(first))
        {
            first.token.set(first.token.get() | OVERDUE);
        }
        self.serve(&mut queue, &mut wakes);
        drop(queue);
        wakes.deliver();
    }

    /// Calls waiters from the front of the queue, or hands over to them. Called under the queue's
    /// lock.
    fn serve(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        loop {
            while let Some(answer) = self.answer_first(queue) {
                queue.grant_first(answer).into_iter().for_each(|wake| wakes.add(wake));
            }
            let flags = match queue.first() {
                None => 0,
                Some(first) if is_strict(first) => QUEUED | STRICT,
                Some(_) => QUEUED,
            };
            let (_, new) = self
                .change(|word| Some(word & !(QUEUED | STRICT) | flags))
                .expect("the closure always returns a word");
            // Permits may have come meanwhile, from releases that saw the old flags.
            let asked = queue.first().map_or(0, permits_of);
            if !is_to_be_served(new) || new & STRICT != 0 && free(new) < asked {
                return;
            }
        }
    }

    /// Answers the first waiter, if that is possible now: takes its permits, or counts a call in
    /// the word.
    fn answer_first(&self, queue: &WaitList) -> Option<u32> {
        let first = queue.first()?;
        if self.is_closed() {
            return Some(CLOSED);
        }
        let asked = permits_of(first);
        let kept = |word| if is_strict(first) { 0 } else { called(word) };
        // Permits are handed over to a waiter that is not passed. If no more waiters can be called,
        // the permits that the called ones leave over are handed over too.
        let take = |word| {
            let hands_over = is_strict(first) || called(word) == MOST_CALLED;
            let enough = free(word) >= asked + kept(word);
            (hands_over && enough).then(|| word.wrapping_sub(asked * ONE))
        };
        if self.change(take).is_some() {
            return Some(GRANTED);
        }
        let call = |word| {
            let may_be_called = !is_strict(first) && called(word) < free(word).min(MOST_CALLED);
            may_be_called.then(|| word.wrapping_add(CALLED))
        };
        let (before, _) = self.change(call)?;
        self.passes.reset();
        self.called_at.call(first, called(before) > 0);
        Some(CALL)
    }

    /// Answers a call: takes the one permit that the called waiter asks for. Returns `true` if a
    /// permit was free, and the semaphore is not closed.
    pub(super) fn answer_call(&self) -> bool {
        let takes = |word: usize| word & SHUT == 0 && free(word) > 0;
        self.come_back(|word| if takes(word) { word.wrapping_sub(ONE) } else { word })
    }

    /// Ends the call of a waiter that has come or given up, and applies `to` to the word in the
    /// same step. Returns `true` if `to` changed the word.
    fn come_back(&self, to: impl Fn(usize) -> usize) -> bool {
        let (before, new) = self
            .change(|word| Some(to(word).wrapping_sub(CALLED)))
            .expect("the closure always returns a word");
        self.passes.reset();
        // MUTANT(semaphore.come_back): false
        if is_to_be_served(new) {
            self.serve_queue(false);
        }
        new.wrapping_add(CALLED) != before
    }

    /// Waits for `permits` permits. Returns `false` if the semaphore is closed.
    ///
    /// # Errors
    /// Same as [`enter_called`].
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn acquire(
        &self,
        permits: usize,
        until: Option<Instant>,
    ) -> Result<bool, Interruption> {
        enter_called(self, permits as u64, WaitMode::Until(until)).map(|answer| answer != CLOSED)
    }

    /// Closes the semaphore: no caller gets permits from now on.
    pub(super) fn close(&self) {
        let mut wakes = Wakes::default();
        let mut queue = self.state();
        // MUTANT(semaphore.close): split
        self.word.fetch_or(SHUT, Ordering::AcqRel);
        self.serve(&mut queue, &mut wakes);
        drop(queue);
        wakes.deliver();
    }
}

impl Calling for RawSemaphore {
    fn answer(&self, _: &WaitNode) -> bool {
        self.answer_call()
    }

    fn note_passed(&self, waiter: &WaitNode, is_overdue: bool) {
        let mark = if is_overdue { OVERDUE } else { 0 };
        waiter.token.set(waiter.token.get() | mark);
    }

    fn is_hogged(&self) -> bool {
        self.is_hogged_at(self.word.load(Ordering::Relaxed))
    }
}

impl Waitable for RawSemaphore {
    type State = WaitList;

    fn what(&self) -> &'static str {
        "permits of a semaphore"
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, queue: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let (asked, returns) = (permits_of(node), self.comes_back(node));
        let becomes_first = returns || queue.is_empty();
        let flags = if becomes_first && is_strict(node) { QUEUED | STRICT } else { QUEUED };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let hogs = self.is_hogged_at(word) && gives_way();
            let may_pass = returns || word & STRICT == 0 && !hogs;
            let (new, answer) = match word {
                _ if word & SHUT != 0 => return Some(CLOSED),
                _ if asked == 0 => return Some(GRANTED),
                _ if may_pass && free(word) >= asked => {
                    (word.wrapping_sub(asked * ONE), Some(GRANTED))
                }
                _ => (word | flags, None),
            };
            // MUTANT(semaphore.enter): relaxed, split
            match self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return answer,
                Err(now) => word = now,
            }
        }
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        node.answer() == CALL
    }

    fn left(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        // Permits that were too few for the waiter that has left may be enough for the next.
        // MUTANT(semaphore.left): skip
        self.serve(queue, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        match node.answer() {
            // If permits were added meanwhile, up to the maximum, there is no room for these. They
            // are lost then, as in the drop of a `Permit`.
            GRANTED => drop(self.release(permits_of(node))),
            CALL => drop(self.come_back(|word| word)),
            _ => {}
        }
    }
}
