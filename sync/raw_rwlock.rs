//! The lock of an [`RwLock`](super::RwLock): one word for readers and writer, and a queue of
//! waiters.
//!
//! # The word
//!
//! The word is the number of readers inside, WRITER if a writer is inside, the number of waiters
//! that have been *called*, and two flags:
//!
//! * QUEUED: the queue is not empty, or was not a moment ago.
//! * STRICT: the first waiter of the queue must not be passed.
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
//!
//! # Orderings
//!
//! Every entry is an acquire, every exit a release. A hand-over is carried by the grant.

use super::called::{CALL, Calling, enter_called};
use super::passing::{CalledAt, FirstSince, Passes, gives_way};
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::waiters::{WaitList, WaitMode, WaitNode, Waitable, Wakes};
use crate::scheduler::worker::Worker;
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::shim::time::Instant;
use crate::shim::{Mutex, MutexGuard, const_fn, may_spin, spin_loop};
use crate::task::words::tree::NOBODY;
use std::sync::PoisonError;

const QUEUED: usize = 1;
const STRICT: usize = 2;
const WRITER: usize = 4;
const CALLED: usize = 8;
/// The most readers that are called at a time.
const MOST_CALLED: usize = 15;
/// A called writer, which is always called alone: it counts for more than all called readers.
const CALLED_WRITER: usize = MOST_CALLED + 1;
const READER: usize = CALLED * 2 * CALLED_WRITER;
/// Set if a waiter is queued, or has been called and has not come yet.
const WAITS: usize = QUEUED | (READER - CALLED);

/// Looks before a caller queues up, each after a pause of twice as many turns as the one before.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 7 };

/// What a node's token asks for.
pub(super) const READ: u64 = 0;
pub(super) const WRITE: u64 = 1;
/// Set in a node's token, beside what it asks for: the waiter is not passed again.
const OVERDUE: u64 = 2;

/// The answer of a grant that hands the lock over.
const HANDED: u32 = 0;

/// The word comes last: the value follows it, mostly in the same cache line.
#[repr(C)]
pub(super) struct RawRwLock {
    queue: Mutex<WaitList>,
    passes: Passes,
    called_at: CalledAt,
    first_since: FirstSince,
    word: AtomicUsize,
}

fn called(word: usize) -> usize {
    word / CALLED % (2 * CALLED_WRITER)
}

fn is_empty(word: usize) -> bool {
    word < READER && word & WRITER == 0
}

/// Returns `true` if an exit that leaves this word may have waiters to serve.
fn is_to_be_served(word: usize) -> bool {
    word & QUEUED != 0 && is_empty(word) && (word & STRICT != 0 || called(word) < CALLED_WRITER)
}

/// Returns the word after an entry, if the caller can enter beside the present readers or writer.
#[inline(always)]
fn entered(word: usize, what: u64) -> Option<usize> {
    match what {
        WRITE => is_empty(word).then_some(word | WRITER),
        _ => (word & WRITER == 0).then(|| word + READER),
    }
}

/// Returns how much a called waiter adds to the number of called ones.
fn weight(what: u64) -> usize {
    if what == WRITE { CALLED_WRITER } else { 1 }
}

/// Returns the answer for the first waiter of the queue, and the word that goes with it. A reader
/// that cannot be called, because too many are on their way, is let in.
fn answer_at(word: usize, first: &WaitNode) -> Option<(u32, usize)> {
    let (what, called) = (asked(first), called(word));
    let inside = entered(word, what)?;
    match what {
        _ if first.token.get() & OVERDUE != 0 => Some((HANDED, inside)),
        WRITE if called > 0 => None,
        READ if called >= CALLED_WRITER => None,
        READ if called == MOST_CALLED => Some((HANDED, inside)),
        _ => Some((CALL, word + CALLED * weight(what))),
    }
}

fn asked(node: &WaitNode) -> u64 {
    node.token.get() & !OVERDUE
}

impl RawRwLock {
    const_fn! {
        pub(super) const fn new() -> RawRwLock {
            RawRwLock {
                queue: Mutex::new(WaitList::new()),
                passes: Passes::from(AtomicU32::new(0)),
                called_at: CalledAt::from(AtomicU8::new(NOBODY as u8)),
                first_since: FirstSince::from(AtomicU64::new(0)),
                word: AtomicUsize::new(0),
            }
        }
    }

    /// Returns `true` if called waiters have been passed so often that they may be waiting for the
    /// caller's own worker or executor.
    #[inline(always)]
    fn is_hogged_at(&self, word: usize) -> bool {
        called(word) > 0 && self.passes.are_many() && self.called_at.may_be_here()
    }

    /// Enters ahead of the waiters. Fails if a reader or writer inside excludes the caller, or if
    /// the queue is strict.
    #[inline(always)]
    pub(super) fn try_lock(&self, what: u64) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while let Some(new) = entered(word, what)
            && word & STRICT == 0
        {
            // MUTANT(rwlock.lock): relaxed, split
            match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Enters as a reader, like [`try_lock`](RawRwLock::try_lock), but by a single update. A
    /// compare-and-swap would have to be repeated if many readers come at once. For callers that
    /// wait if this fails.
    #[inline(always)]
    pub(super) fn read(&self) -> bool {
        // MUTANT(rwlock.read): relaxed, split
        let word = self.word.fetch_add(READER, Ordering::Acquire);
        let inside = word & (WRITER | STRICT) == 0 && !self.is_hogged_at(word);
        if !inside {
            self.leave_again();
        }
        inside
    }

    /// Enters as a writer. For callers that wait if this fails.
    #[inline(always)]
    pub(super) fn write(&self) -> bool {
        // Usually the lock is empty, and there are no waiters.
        self.word.load(Ordering::Relaxed) == 0 && self.try_lock(WRITE)
    }

    /// Takes back the addition of a reader that could not enter. Meanwhile others may have found
    /// this reader inside, and so left the waiters to it.
    #[cold]
    #[inline(never)]
    fn leave_again(&self) {
        // MUTANT(rwlock.leave_again): split
        let word = self.word.fetch_sub(READER, Ordering::Relaxed) - READER;
        // MUTANT(rwlock.leave_again.look): false
        if is_to_be_served(word) {
            self.serve_queue(false);
        }
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
        if passed || is_to_be_served(word) {
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

    #[cold]
    #[inline(never)]
    fn serve_queue(&self, hands_over: bool) {
        let mut wakes = Wakes::default();
        let mut queue = self.state();
        if hands_over && let Some(first) = queue.first() {
            if called(self.word.load(Ordering::Relaxed)) > 0 && self.called_at.is_where(first) {
                // Otherwise each exit would take the queue's lock until that worker comes.
                self.first_since.begin();
            } else {
                first.token.set(first.token.get() | OVERDUE);
            }
        }
        self.serve(&mut queue, &mut wakes);
        drop(queue);
        wakes.deliver();
    }

    /// Calls waiters from the front of the queue, or hands over to overdue ones. Called under the
    /// queue's lock.
    fn serve(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        loop {
            while let Some(answer) = self.answer_first(queue) {
                queue.grant_first(answer).into_iter().for_each(|wake| wakes.add(wake));
                self.first_since.begin();
            }
            let flags = match queue.first().map(|first| first.token.get() & OVERDUE) {
                None => 0,
                Some(0) => QUEUED,
                Some(_) => QUEUED | STRICT,
            };
            let (_, word) = self
                .change(|word| Some(word & !(QUEUED | STRICT) | flags))
                .expect("the closure always returns a word");
            // The last one inside may have left meanwhile, having seen the old flags.
            if queue.first().is_none_or(|first| answer_at(word, first).is_none()) {
                return;
            }
        }
    }

    /// Answers the first waiter, if that is possible now: counts a call in the word, or enters for
    /// it.
    fn answer_first(&self, queue: &WaitList) -> Option<u32> {
        let first = queue.first()?;
        let (before, _) = self.change(|word| answer_at(word, first).map(|(_, word)| word))?;
        let (answer, _) = answer_at(before, first).expect("the same word has just had an answer");
        if answer == CALL {
            self.called_at.call(first, called(before) > 0);
            self.passes.reset();
        }
        Some(answer)
    }

    /// Replaces the word by `to(word)`, and returns the old and the new one. If `to` returns
    /// `None`, the word stays as it is.
    fn change(&self, to: impl Fn(usize) -> Option<usize>) -> Option<(usize, usize)> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = to(word)?;
            // MUTANT(rwlock.change): relaxed, split
            match self.word.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((word, new)),
                Err(now) => word = now,
            }
        }
    }

    /// Answers a call. Returns `true` if the called waiter could enter.
    pub(super) fn answer_call(&self, what: u64) -> bool {
        self.come_back(what, |word| entered(word, what).unwrap_or(word))
    }

    /// Ends the call of a waiter that has come or given up, and applies `to` to the word in the
    /// same step. Returns `true` if `to` changed the word.
    fn come_back(&self, what: u64, to: impl Fn(usize) -> usize) -> bool {
        let call = CALLED * weight(what);
        let (before, word) =
            self.change(|word| Some(to(word) - call)).expect("the closure always returns a word");
        self.passes.reset();
        // MUTANT(rwlock.come_back): false
        if word & QUEUED != 0 {
            self.serve_queue(false);
        }
        word + call != before
    }

    /// Tries to enter for a few microseconds, with growing pauses: about as long as it takes to
    /// wake a sleeping thread.
    pub(super) fn spin(&self, what: u64) -> bool {
        let alone = Worker::current().is_some_and(|worker| worker.shared().workers() == 1);
        !alone
            && may_spin()
            && (0..LOOKS).any(|look| {
                (0..1 << look).for_each(|_| spin_loop());
                !self.is_hogged_at(self.word.load(Ordering::Relaxed)) && self.try_lock(what)
            })
    }

    /// Waits until the caller may enter.
    ///
    /// # Errors
    /// Same as [`enter_called`].
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn lock(&self, what: u64, until: Option<Instant>) -> Result<(), Interruption> {
        enter_called(self, what, WaitMode::Until(until)).map(|_| ())
    }

    /// Returns the number of readers inside, or `None` if a writer is inside.
    pub(super) fn readers(&self) -> Option<usize> {
        let word = self.word.load(Ordering::Relaxed);
        (word & WRITER == 0).then_some(word / READER)
    }
}

impl Calling for RawRwLock {
    fn answer(&self, waiter: &WaitNode) -> bool {
        self.answer_call(asked(waiter))
    }

    fn note_passed(&self, waiter: &WaitNode, is_overdue: bool) {
        let mark = if is_overdue { OVERDUE } else { 0 };
        waiter.token.set(waiter.token.get() | mark);
    }

    fn is_hogged(&self) -> bool {
        self.is_hogged_at(self.word.load(Ordering::Relaxed))
    }
}

impl Waitable for RawRwLock {
    type State = WaitList;

    fn what(&self) -> &'static str {
        "a reader-writer lock"
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, queue: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let (what, returns) = (asked(node), self.comes_back(node));
        if returns || queue.is_empty() {
            // If it has to wait, it becomes the first waiter.
            self.first_since.begin();
        }
        let strict = if node.token.get() & OVERDUE != 0 { STRICT } else { 0 };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let hogs = self.is_hogged_at(word) && gives_way();
            let may_pass = returns || word & STRICT == 0 && !hogs;
            let inside = if may_pass { entered(word, what) } else { None };
            let new = inside.unwrap_or(word | QUEUED | strict);
            // MUTANT(rwlock.enter): relaxed, split
            match self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return inside.map(|_| HANDED),
                Err(now) => word = now,
            }
        }
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        node.answer() == CALL
    }

    fn left(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        // A writer that has left the queue may have held up readers behind it.
        self.first_since.begin();
        // MUTANT(rwlock.left): skip
        self.serve(queue, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        if node.answer() == CALL {
            self.come_back(asked(node), |word| word);
        } else {
            // SAFETY: the lock was handed over to this node, as what it asked for.
            unsafe { self.unlock(asked(node)) };
        }
    }
}
