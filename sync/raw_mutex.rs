//! The lock of a [`Mutex`](super::Mutex): one word that names the holder, and a queue of waiters.
//!
//! # The word
//!
//! The word is the holder's number, or 0 if the mutex is free, and two flags:
//!
//! * QUEUED: the queue is not empty, or was not a moment ago. A waiter sets the flag under the
//!   queue's lock, right before it enters.
//! * CALLED: an unlock has taken a waiter out of the queue and *called* it. The called waiter is
//!   about to run, and will then try to take the mutex. An unlock sets the flag under the queue's
//!   lock; the called waiter clears it when it tries, or when it gives up.
//!
//! A free mutex may have either flag. Any caller takes it by a compare-and-swap that keeps the
//! flags, ahead of the waiters. This is *barging*.
//!
//! ```text
//!               lock                  unlock, no waiter
//!   free ----------------> held -------------------------------> free
//!    ^                     |  |
//!    |  call the first     |  |  hand over: a fair mutex, or the first waiter is overdue
//!    +---------------------+  +--> held by the first waiter
//!    |  leave it to the waiter that has been called already
//!    +---------------------+
//! ```
//!
//! # Why barging
//!
//! A hand-over makes the first waiter the holder before it runs. If its worker sleeps, the mutex
//! stands still until the worker has woken up. All other tasks queue up meanwhile, and each of them
//! needs a wake-up of its own: a convoy, which never dissolves. Under barging a running task uses
//! that time. (WebKit's WTF::Lock and Go's sync.Mutex bound barging in similar ways.) Three rules
//! bound how long a waiter can be passed:
//!
//! * A called waiter that finds the mutex taken for a few microseconds (a future: at its poll)
//!   returns to the *front* of the queue. Once half a millisecond has passed since the waiter first
//!   came, it is [`OVERDUE`]: the next unlock hands the mutex over to it.
//! * While a called waiter is on its way, no other waiter is called. The called waiter may take
//!   long to come, because its worker computes. So every 4,096th unlock hands the mutex over to the
//!   first waiter in the queue, unless that one waits for the same worker.
//! * The worker of the called waiter may compute in a loop that does nothing but lock this mutex.
//!   The called waiter is in no queue then, so no hand-over reaches it. The limit is 1,024 unlocks
//!   or half a millisecond (every eighth unlock looks at the clock). If more waiters are queued
//!   behind the called one, they share this time. After that, until the called waiter has come, a
//!   task of its worker that locks the mutex queues up even if the mutex is free, provided that
//!   other tasks are ready there, and a future returns `Pending` once. As a waiter that task is in
//!   turn not passed for long; had it only yielded to the others, they could have kept the worker
//!   for ever.
//!
//! A *fair* mutex hands over at every unlock, in order of arrival.
//!
//! # Whether to look first
//!
//! A compare-and-swap that fails has taken the word's cache line from the holder, who then waits
//! for it. A look before it costs a quarter of lock and unlock, because no load may pass the locked
//! instruction before it. So a worker whose last attempt has failed is *wary*: it looks first,
//! until 255 attempts in a row have succeeded. Then it begins with the compare-and-swap again. A
//! plain thread always does.
//!
//! # No wake-up is lost
//!
//! The invariant: *while the mutex is free and the queue is not empty, a called waiter is on its
//! way.*
//!
//! * A waiter that finds no holder takes the mutex, unless it is [`BEHIND`] and the word has
//!   CALLED. Otherwise it sets QUEUED, in a word that has a holder or CALLED, and only then enters
//!   the queue. Both steps happen under the queue's lock.
//! * The holder's unlock finds QUEUED. Without CALLED it takes the queue's lock, and calls a waiter
//!   or hands over in the same step in which it gives the mutex up.
//! * A called waiter clears CALLED in one of two ways. Either it takes the mutex, or the word has a
//!   holder. In both cases there is a holder, and its unlock finds QUEUED without CALLED.
//! * A called waiter that was cancelled takes the mutex too, if it is free, and unlocks it again.
//!
//! A waiter that leaves the queue early leaves QUEUED behind. The next unlock finds an empty queue
//! and clears the flag.
//!
//! # Orderings
//!
//! Every change of the word that gives the mutex up is a release, and every change that takes it is
//! an acquire. A hand-over is carried by the grant (see `scheduler/wait/waiters`); the word is only
//! a name then. All changes are compare-and-swaps, because a called waiter clears CALLED without
//! the queue's lock.

use super::called::{CALL, Calling, enter_called};
use super::holder::Holder;
use super::passing::{CalledAt, Passes};
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::waiters::{WaitList, WaitMode, WaitNode, Waitable, Wake, Wakes};
use crate::scheduler::worker::Worker;
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::shim::{Bug, Mutex, MutexGuard, const_fn, has, may_spin, spin_loop};
use crate::task::words::tree::NOBODY;
use std::cell::Cell;

const FREE: u64 = 0;
const QUEUED: u64 = 1;
const CALLED: u64 = 2;
const BITS: u64 = QUEUED | CALLED;

/// Set in a node's token, beside the waiter's number: the next unlock hands over to this waiter.
const OVERDUE: u64 = 1;
/// Set in a node's token: the waiter does not pass a called waiter.
pub(super) const BEHIND: u64 = 2;
const MARKS: u64 = OVERDUE | BEHIND;

/// The answer of a grant that hands the mutex over.
const HANDED: u32 = 0;

/// Attempts in a row that have to succeed before a wary worker trusts again.
const WARY: u8 = 255;

/// Looks at a held mutex before a caller queues up. Each look follows a pause of twice as many
/// turns as the one before, and all eight take about as long as waking a sleeping thread.
const MOST_LOOKS: u8 = if cfg!(loom) { 0 } else { 8 };
/// The fewest looks, reached after several spins without success.
const LEAST_LOOKS: u8 = if cfg!(loom) { 0 } else { 3 };

/// The word comes last: in a mutex the value follows it, mostly in the same cache line, so that
/// both move to the next holder at once.
#[repr(C)]
pub(super) struct RawMutex {
    queue: Mutex<WaitList>,
    /// Contended unlocks since the last call. Only the holder writes it.
    passes: Passes,
    /// Looks that the next spin takes: fewer after a spin without success.
    looks: AtomicU8,
    fair: bool,
    called_at: CalledAt,
    word: AtomicU64,
}

impl RawMutex {
    const_fn! {
        pub(super) const fn new(fair: bool) -> RawMutex {
            RawMutex {
                word: AtomicU64::new(FREE),
                fair,
                called_at: CalledAt::from(AtomicU8::new(NOBODY as u8)),
                passes: Passes::from(AtomicU32::new(0)),
                looks: AtomicU8::new(MOST_LOOKS),
                queue: Mutex::new(WaitList::new()),
            }
        }
    }

    /// Takes the mutex if it is free, ahead of its waiters. Fails if the caller should let others
    /// run first.
    #[inline(always)]
    pub(super) fn try_lock(&self, holder: Holder) -> bool {
        let wary = Worker::current().map(|worker| &worker.wary);
        if wary.is_none_or(|wary| wary.get() == 0) {
            let (new, seen) = (holder.number(), Ordering::Relaxed);
            // MUTANT(mutex.lock): relaxed, split
            if self.word.compare_exchange(FREE, new, Ordering::Acquire, seen).is_ok() {
                return true;
            }
        }
        self.look_and_lock(holder, wary)
    }

    /// Does the same, but looks first: see *Whether to look first*.
    #[inline(never)]
    fn look_and_lock(&self, holder: Holder, wary: Option<&Cell<u8>>) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let may_lock = word & !BITS == FREE && !self.is_hogged_at(word);
        let (new, seen) = (word | holder.number(), Ordering::Relaxed);
        let locked = may_lock
            // MUTANT(mutex.lock.looked): relaxed, split
            && self.word.compare_exchange(word, new, Ordering::Acquire, seen).is_ok();
        if let Some(wary) = wary {
            wary.set(if locked { wary.get().saturating_sub(1) } else { WARY });
        }
        locked
    }

    /// Takes the mutex if it is free, ahead of its waiters.
    #[inline]
    pub(super) fn try_pass(&self, holder: Holder) -> bool {
        self.change(|word| (word & !BITS == FREE).then(|| word | holder.number())).is_ok()
    }

    /// Replaces the word by `to(word)` and returns the old word. If `to` returns `None`, the word
    /// stays as it is and comes back as the error.
    #[inline]
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        // MUTANT(mutex.change): relaxed, split
        self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, to)
    }

    /// Unlocks the mutex, and calls a waiter or hands over if there is one.
    ///
    /// # Safety
    /// `holder` holds the mutex.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self, holder: Holder) {
        let (word, seen) = (holder.number(), Ordering::Relaxed);
        // MUTANT(mutex.unlock): relaxed, split
        if self.word.compare_exchange(word, FREE, Ordering::Release, seen).is_err() {
            self.unlock_queued();
        }
    }

    /// Slow path of `unlock`: the word has a flag.
    #[cold]
    #[inline(never)]
    fn unlock_queued(&self) {
        let hands_over = self.passes.count(self.word.load(Ordering::Relaxed) & CALLED != 0);
        let nobody_to_tell = |word| word & QUEUED == 0 || word & CALLED != 0 && !hands_over;
        if self.change(|word| nobody_to_tell(word).then_some(word & BITS)).is_ok() {
            return;
        }
        let mut queue = self.state();
        let wake = self.let_go(&mut queue, hands_over);
        drop(queue);
        if let Some(wake) = wake {
            wake.deliver();
        }
    }

    /// Frees the mutex and calls the first waiter, or hands over to it. Called by the holder, under
    /// the queue's lock. Meanwhile only a called waiter may change the word: it clears CALLED.
    fn let_go(&self, queue: &mut WaitList, hands_over: bool) -> Option<Wake> {
        let Some(waiter) = queue.first() else {
            self.set(|word| Some(word & CALLED));
            return None;
        };
        let (first, idles) = (waiter.token.get(), hands_over && self.called_at.is_where(waiter));
        if self.fair || first & OVERDUE != 0 || hands_over && !idles {
            let wake = queue.grant_first(HANDED);
            let queued = if queue.is_empty() { 0 } else { QUEUED };
            let next =
                if has(Bug::DoubleGrant) && queue.is_empty() { FREE } else { first & !MARKS };
            self.set(|word| Some(next | queued | word & CALLED));
            return wake;
        }
        if idles && self.set(|word| (word & CALLED != 0).then_some(word & BITS)) {
            return None;
        }
        // No called waiter is on its way: only a holder calls, and this holder has just seen a word
        // without CALLED.
        self.passes.reset(queue.len());
        queue.first().into_iter().for_each(|waiter| self.called_at.call(waiter, false));
        let wake = queue.grant_first(CALL);
        let queued = if queue.is_empty() { 0 } else { QUEUED };
        self.set(|_| Some(queued | CALLED));
        wake
    }

    fn set(&self, to: impl Fn(u64) -> Option<u64>) -> bool {
        self.change(to).is_ok()
    }

    /// Answers a call on behalf of `holder` if the mutex is free: takes it, and clears CALLED.
    fn come(&self, holder: Holder) -> bool {
        self.change(|word| (word & !BITS == FREE).then(|| word & QUEUED | holder.number())).is_ok()
    }

    /// Answers a call on behalf of `holder`: takes the mutex if it is free, and clears CALLED in
    /// any case. Returns `true` if the mutex was free.
    pub(super) fn answer_call(&self, holder: Holder) -> bool {
        let answered = self.change(|word| {
            let free = word & !BITS == FREE;
            Some(if free { word & QUEUED | holder.number() } else { word & !CALLED })
        });
        answered.is_ok_and(|before| before & !BITS == FREE)
    }

    /// Locks the mutex. Waits in the queue if the mutex is held, or if the caller comes `behind` a
    /// called waiter.
    ///
    /// # Errors
    /// Same as [`enter_called`].
    #[track_caller]
    pub(super) fn lock(
        &self,
        holder: Holder,
        mode: WaitMode,
        behind: bool,
    ) -> Result<(), Interruption> {
        let mark = if behind { BEHIND } else { 0 };
        enter_called(self, holder.number() | mark, mode).map(|_| ())
    }

    #[inline(always)]
    fn is_hogged_at(&self, word: u64) -> bool {
        word & CALLED != 0 && self.passes.are_many() && self.called_at.may_be_here()
    }

    /// Watches a held mutex for a few microseconds, and takes it if it becomes free. Returns `true`
    /// if it was taken.
    pub(super) fn spin(&self, holder: Holder) -> bool {
        self.watch(|| self.try_pass(holder))
    }

    /// Calls `take` again and again, with growing pauses, until it returns `true` or a few
    /// microseconds have passed.
    fn watch(&self, take: impl Fn() -> bool) -> bool {
        // On a single worker the holder runs only when this task waits.
        let alone = Worker::current().is_some_and(|worker| worker.shared().workers() == 1);
        if self.fair || alone {
            return false;
        }
        if take() {
            return true;
        }
        if !may_spin() {
            return false;
        }
        let looks = self.looks.load(Ordering::Relaxed);
        let found = (0..looks).any(|look| {
            (0..1 << look).for_each(|_| spin_loop());
            take()
        });
        // Only advice, so a lost update does no harm.
        let learned = if found { MOST_LOOKS } else { looks.saturating_sub(1).max(LEAST_LOOKS) };
        if learned != looks {
            self.looks.store(learned, Ordering::Relaxed);
        }
        found
    }

    /// Returns the present holder.
    pub(super) fn holder(&self) -> Option<Holder> {
        let word = self.word.load(Ordering::Relaxed) & !BITS;
        (word != FREE).then(|| Holder::from_number(word))
    }

    /// Returns the waiters, and the locations where they wait.
    pub(super) fn waiting(&self) -> Vec<(Holder, String)> {
        let one = |node: &WaitNode| (holder_of(node), node.location.to_string());
        self.state().iter().map(one).collect()
    }
}

impl Calling for RawMutex {
    const OVERDUE: u64 = OVERDUE;

    fn answer(&self, waiter: &WaitNode) -> bool {
        self.answer_call(holder_of(waiter))
    }

    fn note_passed(&self, waiter: &WaitNode, is_overdue: bool) {
        let mark = if is_overdue { OVERDUE } else { 0 };
        waiter.token.set(waiter.token.get() & !BEHIND | mark);
    }

    #[inline(always)]
    fn is_hogged(&self) -> bool {
        self.is_hogged_at(self.word.load(Ordering::Relaxed))
    }

    /// A called waiter watches the mutex as a newcomer does, because it will mostly be free soon.
    /// CALLED stays set meanwhile, so no other waiter is called.
    fn watch_for(&self, waiter: &WaitNode) -> bool {
        let holder = holder_of(waiter);
        self.watch(|| self.come(holder))
    }
}

fn holder_of(waiter: &WaitNode) -> Holder {
    Holder::from_number(waiter.token.get() & !MARKS)
}

impl Waitable for RawMutex {
    type State = WaitList;
    const WHAT: &'static str = "a mutex";

    fn owner(&self) -> Option<String> {
        self.holder().map(|holder| format!("{holder:?}"))
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.queue.lock()
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, _: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let (holder, behind) = (node.token.get() & !MARKS, node.token.get() & BEHIND != 0);
        let may_take = |word| word & !BITS == FREE && !(behind && word & CALLED != 0);
        let before =
            self.change(|word| Some(if may_take(word) { word | holder } else { word | QUEUED }));
        before.is_ok_and(may_take).then_some(HANDED)
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        node.answer() == CALL
    }

    fn give_back(&self, node: &WaitNode) {
        if has(Bug::LeakedLock) {
            return;
        }
        let holder = holder_of(node);
        if node.answer() == HANDED || self.answer_call(holder) {
            // SAFETY: the mutex was handed over to this node, or `answer_call` has just taken it.
            unsafe { self.unlock(holder) };
        }
    }
}
