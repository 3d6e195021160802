//! One word that counts, and a queue of waiters: what a [semaphore](super::raw_semaphore) and a
//! [reader-writer lock](super::raw_rwlock) have in common.
//!
//! The word is a count (free permits, or readers inside), the number of waiters that have been
//! *called*, and three flags:
//!
//! * QUEUED: the queue is not empty, or was not a moment ago.
//! * STRICT: the first waiter of the queue must not be passed.
//! * OWN: a flag of the primitive.
//!
//! A [`Kind`] says which words let a caller take what it asks for, and what the first waiter of the
//! queue can be answered. Its module explains how long a waiter can be passed, and why no waiter is
//! forgotten.
//!
//! QUEUED, STRICT and the calls are changed under the queue's lock only; the number of called
//! waiters falls without it. Giving something back is a release, taking it is an acquire. A
//! hand-over is carried by the grant.

use super::called::{CALL, Calling, enter_called};
use super::passing::{CalledAt, FirstSince, Passes, gives_way};
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::waiters::{WaitList, WaitMode, WaitNode, Waitable, Wakes, with_wakes};
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::shim::time::Instant;
use crate::shim::{Mutex, MutexGuard, const_fn};
use crate::task::words::tree::NOBODY;
use std::marker::PhantomData;

pub(super) const QUEUED: usize = 1;
pub(super) const STRICT: usize = 2;
pub(super) const OWN: usize = 4;
pub(super) const CALLED: usize = 8;
/// The most waiters that are called at a time.
pub(super) const MOST_CALLED: usize = 15;
/// One in the count. The number of called waiters has room for twice the most and one.
pub(super) const ONE: usize = CALLED * 2 * (MOST_CALLED + 1);
/// Set if a waiter is queued, or has been called and has not come yet.
pub(super) const WAITS: usize = QUEUED | (ONE - CALLED);

/// Set in a node's token, beside what it asks for: the waiter is not passed again.
pub(super) const OVERDUE: u64 = 1 << 63;

/// The answer of a grant that hands over what was asked for.
pub(super) const HANDED: u32 = 0;

pub(super) fn called(word: usize) -> usize {
    word / CALLED % (ONE / CALLED)
}

pub(super) fn asked(node: &WaitNode) -> u64 {
    node.token.get() & !OVERDUE
}

/// What tells the primitives apart.
pub(super) trait Kind: Sized {
    const WHAT: &'static str;
    /// What the entry of one caller adds to the word.
    const ENTRY: usize;
    /// Callers that never leave all at once can keep the first waiter from being called.
    const OVERLAPS: bool;

    /// Returns the word after a caller has taken what it asks for, if it can. The waiters do not
    /// count.
    fn taken(word: usize, asked: u64) -> Option<usize>;

    /// Returns the answer for the first waiter of the queue, and the word that goes with it.
    fn answer_at(word: usize, first: &WaitNode) -> Option<(u32, usize)>;

    /// Returns the answer of a primitive that gives nothing any more.
    fn refused(_word: usize) -> Option<u32> {
        None
    }

    /// Returns how much a called waiter adds to the number of called ones.
    fn weight(_asked: u64) -> usize {
        1
    }

    /// Returns `true` if a waiter must not be passed while it is the first.
    fn is_strict(node: &WaitNode) -> bool;

    /// Returns `true` if an exit that leaves this word may have waiters to serve.
    fn is_to_be_served(word: usize) -> bool;

    /// Returns `true` if the end of a call that leaves this word may have waiters to serve.
    fn is_to_be_served_after_call(word: usize) -> bool {
        Self::is_to_be_served(word)
    }

    /// Returns `true` if the called waiters need all that is free.
    fn is_short(_word: usize) -> bool {
        true
    }

    /// Gives back what was handed over.
    fn give_back(from: &Counted<Self>, asked: u64);
}

/// The word comes last: the value of a lock follows it, mostly in the same cache line.
#[repr(C)]
pub(super) struct Counted<K> {
    pub(super) queue: Mutex<WaitList>,
    pub(super) passes: Passes,
    called_at: CalledAt,
    pub(super) first_since: FirstSince,
    kind: PhantomData<K>,
    pub(super) word: AtomicUsize,
}

impl<K> Counted<K> {
    const_fn! {
        pub(super) const fn with_word(word: usize) -> Counted<K> {
            Counted {
                queue: Mutex::new(WaitList::new()),
                passes: Passes::from(AtomicU32::new(0)),
                called_at: CalledAt::from(AtomicU8::new(NOBODY as u8)),
                first_since: FirstSince::from(AtomicU64::new(0)),
                kind: PhantomData,
                word: AtomicUsize::new(word),
            }
        }
    }
}

impl<K: Kind> Counted<K> {
    /// Returns `true` if called waiters have been passed so often that they may be waiting for the
    /// caller's own worker or executor.
    #[inline(always)]
    pub(super) fn is_hogged_at(&self, word: usize) -> bool {
        called(word) > 0
            && K::is_short(word)
            && self.passes.are_many()
            && self.called_at.may_be_here()
    }

    /// Takes what is asked for, ahead of the waiters. Fails if that is impossible now, or if the
    /// queue is strict.
    #[inline(always)]
    pub(super) fn try_take(&self, asked: u64) -> bool {
        // A caller that asks for nothing passes no waiter.
        let may = |word: usize| asked == 0 || word & STRICT == 0;
        let take = |word| K::taken(word, asked).filter(|_| may(word));
        // MUTANT(counted.take): relaxed, split
        self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_ok()
    }

    /// Takes one permit, or enters as a reader, like [`try_take`](Counted::try_take), but by a
    /// single update. A compare-and-swap would have to be repeated if many callers come at once.
    /// For callers that wait if this fails. Until a failed attempt has taken its update back,
    /// others see it as a success.
    #[inline(always)]
    pub(super) fn take_one(&self) -> bool {
        // MUTANT(counted.take_one): relaxed, split
        let word = self.word.fetch_add(K::ENTRY, Ordering::Acquire);
        let got = K::taken(word, 1).is_some() && word & STRICT == 0 && !self.is_hogged_at(word);
        if !got {
            self.take_back();
        }
        got
    }

    /// Takes back the update of a failed attempt. Meanwhile others may have left the waiters to
    /// this caller.
    #[cold]
    #[inline(never)]
    fn take_back(&self) {
        // MUTANT(counted.take_back): split
        let before = self.word.fetch_sub(K::ENTRY, Ordering::Relaxed);
        // MUTANT(counted.take_back.look): false
        if K::is_to_be_served(before.wrapping_sub(K::ENTRY)) {
            self.serve_queue(false);
        }
    }

    /// Replaces the word by `to(word)`, and returns the old and the new one. If `to` returns
    /// `None`, the word stays as it is.
    pub(super) fn change(&self, to: impl Fn(usize) -> Option<usize>) -> Option<(usize, usize)> {
        let mut new = None;
        let keep = |word| {
            new = to(word);
            new
        };
        // MUTANT(counted.change): relaxed, split
        let old = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, keep).ok()?;
        Some((old, new?))
    }

    /// Serves the queue. If it `hands_over`, the first waiter becomes overdue, unless it has the
    /// same worker as the called ones.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_queue(&self, hands_over: bool) {
        with_wakes(&self.queue, |queue, wakes| {
            if hands_over && let Some(first) = queue.first() {
                if called(self.word.load(Ordering::Relaxed)) > 0 && self.called_at.is_where(first) {
                    // Otherwise each exit would take the queue's lock until that worker comes.
                    self.note_first();
                } else {
                    first.token.set(first.token.get() | OVERDUE);
                }
            }
            self.serve(queue, wakes);
        });
    }

    /// Notes that another waiter is the first now.
    fn note_first(&self) {
        if K::OVERLAPS {
            self.first_since.begin();
        }
    }

    /// Answers waiters from the front of the queue. Called under the queue's lock.
    pub(super) fn serve(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        loop {
            while let Some(answer) = self.answer_first(queue) {
                queue.grant_first(answer).into_iter().for_each(|wake| wakes.add(wake));
                self.note_first();
            }
            let flags = match queue.first() {
                None => 0,
                Some(first) if K::is_strict(first) => QUEUED | STRICT,
                Some(_) => QUEUED,
            };
            let (_, word) = self
                .change(|word| Some(word & !(QUEUED | STRICT) | flags))
                .expect("the closure always returns a word");
            // An exit may have seen the old flags meanwhile.
            if queue.first().is_none_or(|first| K::answer_at(word, first).is_none()) {
                return;
            }
        }
    }

    /// Answers the first waiter, if that is possible now: counts a call in the word, or takes what
    /// the waiter asks for.
    fn answer_first(&self, queue: &WaitList) -> Option<u32> {
        let first = queue.first()?;
        let (before, _) = self.change(|word| K::answer_at(word, first).map(|(_, word)| word))?;
        let (answer, _) =
            K::answer_at(before, first).expect("the same word has just had an answer");
        if answer == CALL {
            self.called_at.call(first, called(before) > 0);
            self.passes.reset(queue.len());
        }
        Some(answer)
    }

    /// Answers a call. Returns `true` if the called waiter got what it asks for.
    pub(super) fn answer_call(&self, asked: u64) -> bool {
        self.come_back(asked, |word| K::taken(word, asked).unwrap_or(word))
    }

    /// Ends the call of a waiter that has come or given up, and applies `to` to the word in the
    /// same step. Returns `true` if `to` changed the word.
    fn come_back(&self, asked: u64, to: impl Fn(usize) -> usize) -> bool {
        let call = CALLED * K::weight(asked);
        let (before, word) = self
            .change(|word| Some(to(word).wrapping_sub(call)))
            .expect("the closure always returns a word");
        self.passes.reset(0);
        // MUTANT(counted.come_back): false
        if K::is_to_be_served_after_call(word) {
            self.serve_queue(false);
        }
        word.wrapping_add(call) != before
    }

    /// Waits until the caller has what it asks for. Returns the answer.
    ///
    /// # Errors
    /// Same as [`enter_called`].
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn wait(&self, asked: u64, until: Option<Instant>) -> Result<u32, Interruption> {
        enter_called(self, asked, WaitMode::Until(until))
    }
}

impl<K: Kind> Calling for Counted<K> {
    const OVERDUE: u64 = OVERDUE;

    fn answer(&self, waiter: &WaitNode) -> bool {
        self.answer_call(asked(waiter))
    }

    fn is_hogged(&self) -> bool {
        self.is_hogged_at(self.word.load(Ordering::Relaxed))
    }
}

impl<K: Kind> Waitable for Counted<K> {
    type State = WaitList;
    const WHAT: &'static str = K::WHAT;

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.queue.lock()
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, queue: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let (asked, returns) = (asked(node), self.comes_back(node));
        let becomes_first = returns || queue.is_empty();
        if becomes_first {
            self.note_first();
        }
        let strict = if becomes_first && K::is_strict(node) { STRICT } else { 0 };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if let Some(refused) = K::refused(word) {
                return Some(refused);
            }
            let hogs = self.is_hogged_at(word) && gives_way();
            let may_pass = returns || asked == 0 || word & STRICT == 0 && !hogs;
            let taken = if may_pass { K::taken(word, asked) } else { None };
            let new = taken.unwrap_or(word | QUEUED | strict);
            // MUTANT(counted.enter): relaxed, split
            match self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return taken.map(|_| HANDED),
                Err(now) => word = now,
            }
        }
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        node.answer() == CALL
    }

    /// A waiter that has left the queue may have held up others behind it.
    fn left(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        self.note_first();
        // MUTANT(counted.left): skip
        self.serve(queue, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        match node.answer() {
            HANDED => K::give_back(self, asked(node)),
            CALL => drop(self.come_back(asked(node), |word| word)),
            _ => {}
        }
    }
}
