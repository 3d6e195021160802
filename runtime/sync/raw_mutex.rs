//! The lock of a [`Mutex`](super::Mutex): a word that says who holds it, and those who wait.
//!
//! # The word
//!
//! The number of the holder, or none, and two bits:
//!
//! * QUEUED: somebody is in the queue, or was. Set under the lock of the queue by who is about to enter it.
//! * CALLED: somebody was in the queue, has been taken out of it and *called*: it is about to run, and to try for the mutex. Set under the lock of the
//!   queue by who calls; cleared by the one that was called, when it has tried, or was cancelled.
//!
//! Nobody holds the word without a number, whatever its bits: who comes takes it by a compare-and-swap, past those who wait.
//!
//! ```text
//!            lock                        unlock, nobody waits
//! nobody ------------> holder ------------------------------------> nobody
//!                        |  unlock: calls the first | CALLED    /|\
//!                        |------------------------------------->-+   the one that was called, or any other one, takes it
//!                        |  unlock while one that was called is on its way: leaves it to that one, or any other
//!                        |
//!                        +--> the first of the queue holds it   (hand-over: fair mutexes; others now and then)
//! ```
//!
//! # Why not always the first
//!
//! A hand-over makes the one that waited the holder before it runs. If its worker sleeps or computes, the mutex stands still meanwhile, all others come to
//! wait behind it, and each of them has to be woken: a convoy, which never dissolves. So an unlock only *calls* the first, and whoever runs may go first.
//! What bounds how long one can be passed:
//!
//! * One that was called and finds the mutex taken goes back to the *front* of the queue. If half a millisecond has gone by since it first
//!   came, it is [`OVERDUE`] there: the next unlock hands over to it.
//! * While one that was called is on its way, nobody else is called. If that one does not come (its worker computes), the
//!   [`PASSES`]th unlock hands over to the first of the queue.
//!
//! A *fair* mutex hands over at each unlock, in the order of coming.
//!
//! # No wake-up is lost
//!
//! *If the queue is not empty, and nobody holds the mutex, one that was called is on its way.* Who enters sets QUEUED, under the lock of the queue, at a word with a holder;
//! else it takes the mutex. An unlock that finds QUEUED without CALLED takes that lock, and calls or hands over before it lets go. CALLED goes out by the one that was
//! called: with the mutex in its hands, or at a word with a holder, whose unlock then finds QUEUED without CALLED; or it was cancelled and
//! nobody holds the mutex: then it calls the next itself.
//!
//! * The last one that leaves the queue without a grant leaves QUEUED behind: the next unlock finds nobody, and clears it.
//! * Orderings: whoever lets go releases, and whoever takes acquires. A hand-over is carried by the grant (see
//!   `scheduler/waiters`); the word is only a name then. All changes are compare-and-swaps, so that each is of a word that is known.

use super::holder::Holder;
use crate::scheduler::wait::Short;
use crate::scheduler::waiters::{
    Entering, Manner, WaitList, WaitNode, Waitable, Wake, Wakes, enter_node,
};
use crate::scheduler::worker::Worker;
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::shim::time::{Duration, Instant, now};
use crate::shim::{Bug, Mutex, MutexGuard, const_fn, has, spin_loop};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::PoisonError;
use std::task::{Context, Poll};

const FREE: u64 = 0;
const QUEUED: u64 = 1;
const CALLED: u64 = 2;
const BITS: u64 = QUEUED | CALLED;

/// In the token of a node, beside the number of who waits: the next unlock hands over to it.
const OVERDUE: u64 = 1;

/// What a node has been granted: the mutex, ...
const HANDED: u32 = 0;
/// ... or a call.
pub(super) const CALL: u32 = 1;

/// Whoever has waited for so long is passed no more.
const PATIENCE: Duration = Duration::from_micros(500);
/// So many unlocks pass those who wait while one that was called is on its way.
const PASSES: u32 = if cfg!(loom) { 2 } else { 4_096 };
/// Looks at a mutex before one enters the queue, each after a pause twice as long as the one before: at most, and at least, when
/// earlier ones were in vain. The last pause of the longest spin takes about as long as it takes to wake a thread that sleeps.
const MOST_LOOKS: u8 = if cfg!(loom) { 0 } else { 8 };
const LEAST_LOOKS: u8 = if cfg!(loom) { 0 } else { 3 };

pub(super) struct RawMutex {
    word: AtomicU64,
    fair: bool,
    /// Unlocks since the last call or hand-over. Written by the holder.
    passes: AtomicU32,
    /// How many looks are worth it, as far as is known.
    looks: AtomicU8,
    queue: Mutex<WaitList>,
}

impl RawMutex {
    const_fn! {
        pub(super) const fn new(fair: bool) -> RawMutex {
            RawMutex {
                word: AtomicU64::new(FREE),
                fair,
                passes: AtomicU32::new(0),
                looks: AtomicU8::new(MOST_LOOKS),
                queue: Mutex::new(WaitList::new()),
            }
        }
    }

    /// Takes it if nobody holds it.
    #[inline(always)]
    pub(super) fn try_lock(&self, holder: Holder) -> bool {
        // PROOF(mutex.lock): relaxed, split
        self.word
            .compare_exchange(FREE, holder.number(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The same past those who wait.
    #[inline]
    pub(super) fn try_pass(&self, holder: Holder) -> bool {
        self.change(|word| (word & !BITS == FREE).then(|| word | holder.number())).is_ok()
    }

    /// Changes the word as long as that is to be, and returns the one before; or the one that is not to be changed.
    #[inline]
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let Some(new) = to(word) else { return Err(word) };
            // PROOF(mutex.change): relaxed, split
            match self.word.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(word),
                Err(now) => word = now,
            }
        }
    }

    /// Lets go of it.
    ///
    /// # Safety
    /// The holder holds it.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self, holder: Holder) {
        let word = holder.number();
        // PROOF(mutex.unlock): relaxed, split
        if self.word.compare_exchange(word, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.unlock_queued();
        }
    }

    /// Somebody waits, or was called and is on its way.
    #[cold]
    #[inline(never)]
    fn unlock_queued(&self) {
        let passes = self.passes.load(Ordering::Relaxed);
        // PROOF(mutex.passes): true
        if passes < PASSES {
            self.passes.store(passes + 1, Ordering::Relaxed);
            let nobody_to_call = |word| word & CALLED != 0 || word & QUEUED == 0;
            if self.change(|word| nobody_to_call(word).then_some(word & BITS)).is_ok() {
                return;
            }
        }
        let mut queue = self.state();
        let wake = self.let_go(&mut queue);
        drop(queue);
        wake.into_iter().for_each(Wake::deliver);
    }

    /// Nobody holds it from now on, or the first of the queue does. Under the lock of the queue, for the holder: only one that was called
    /// changes the word meanwhile, and takes CALLED away.
    fn let_go(&self, queue: &mut WaitList) -> Option<Wake> {
        let passes = self.passes.load(Ordering::Relaxed);
        self.passes.store(0, Ordering::Relaxed);
        let Some(first) = queue.first().map(|first| first.token.get()) else {
            self.set(|word| Some(word & CALLED));
            return None;
        };
        if self.fair || first & OVERDUE != 0 || passes >= PASSES {
            let wake = queue.grant_first(HANDED);
            let queued = if queue.is_empty() { 0 } else { QUEUED };
            let next =
                if has(Bug::DoubleGrant) && queue.is_empty() { FREE } else { first & !OVERDUE };
            self.set(|word| Some(next | queued | word & CALLED));
            return wake;
        }
        if self.set(|word| (word & CALLED != 0).then_some(QUEUED | CALLED)) {
            return None;
        }
        let wake = queue.grant_first(CALL);
        let queued = if queue.is_empty() { 0 } else { QUEUED };
        self.set(|_| Some(queued | CALLED));
        wake
    }

    fn set(&self, to: impl Fn(u64) -> Option<u64>) -> bool {
        self.change(to).is_ok()
    }

    /// One that was called tries for it; whether it has it now. It is on its way no more, in any case.
    pub(super) fn answer_call(&self, holder: Holder) -> bool {
        let answered = self.change(|word| {
            let free = word & !BITS == FREE;
            Some(if free { word & QUEUED | holder.number() } else { word & !CALLED })
        });
        answered.is_ok_and(|before| before & !BITS == FREE)
    }

    /// Locks it, and waits for that.
    ///
    /// # Errors
    /// As `enter`.
    #[track_caller]
    pub(super) fn lock(&self, holder: Holder, manner: Manner) -> Result<(), Short> {
        let node = pin!(WaitNode::new(holder.number(), Location::caller()));
        let since = now();
        loop {
            if enter_node(self, node.as_ref(), manner, None)? == HANDED || self.answer_call(holder)
            {
                return Ok(());
            }
            self.is_passed(&node, since);
        }
    }

    /// One that was called has found the mutex taken.
    fn is_passed(&self, node: &WaitNode, since: Instant) {
        // PROOF(mutex.overdue): false
        if now() - since >= PATIENCE {
            node.token.set(node.token.get() | OVERDUE);
        }
    }

    /// Looks at it for a moment, in case that it is unlocked; whether the holder has it now.
    pub(super) fn spin(&self, holder: Holder) -> bool {
        // The tasks of a single worker give way to each other: none needs another processor.
        let alone = Worker::current().is_some_and(|worker| worker.shared().workers() == 1);
        if self.fair || alone {
            return false;
        }
        let looks = self.looks.load(Ordering::Relaxed);
        let found = (0..looks).any(|look| {
            (0..1 << look).for_each(|_| spin_loop());
            self.try_pass(holder)
        });
        // Advice: of two at once one may not count.
        let learned = if found {
            MOST_LOOKS
        } else {
            looks.saturating_sub(1).max(LEAST_LOOKS)
        };
        if learned != looks {
            self.looks.store(learned, Ordering::Relaxed);
        }
        found
    }

    /// Who holds it.
    pub(super) fn holder(&self) -> Option<Holder> {
        let word = self.word.load(Ordering::Relaxed) & !BITS;
        (word != FREE).then(|| Holder::from_number(word))
    }

    /// Who waits, and where.
    pub(super) fn waiting(&self) -> Vec<(Holder, String)> {
        let one = |node: &WaitNode| {
            (Holder::from_number(node.token.get() & !OVERDUE), node.place.to_string())
        };
        self.state().iter().map(one).collect()
    }
}

impl Waitable for RawMutex {
    type State = WaitList;

    fn what(&self) -> &'static str {
        "a mutex"
    }

    fn owner(&self) -> Option<String> {
        self.holder().map(|holder| format!("{holder:?}"))
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, _: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let before = self.change(|word| {
            let free = word & !BITS == FREE;
            Some(if free { word | node.token.get() & !OVERDUE } else { word | QUEUED })
        });
        before.is_ok_and(|word| word & !BITS == FREE).then_some(HANDED)
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        node.answer() == CALL
    }

    fn give_back(&self, node: &WaitNode) {
        if has(Bug::LeakedLock) {
            return;
        }
        let holder = Holder::from_number(node.token.get() & !OVERDUE);
        if node.answer() == HANDED || self.answer_call(holder) {
            // SAFETY: it was handed over to the node, or is held by it since this moment.
            unsafe { self.unlock(holder) };
        }
    }
}

/// Locking it as a future.
pub(super) struct Locking<'a> {
    mutex: &'a RawMutex,
    entering: Entering<&'a RawMutex>,
    /// When it was polled first.
    since: Option<Instant>,
}

impl<'a> Locking<'a> {
    pub(super) fn new(mutex: &'a RawMutex, place: &'static Location<'static>) -> Locking<'a> {
        let entering = Entering::new(mutex, Holder::FUTURE.number(), place);
        Locking { mutex, entering, since: None }
    }
}

impl Future for Locking<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: what is pinned in it is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: pinned with the whole.
        let mut entering = unsafe { Pin::new_unchecked(&mut this.entering) };
        let since = *this.since.get_or_insert_with(now);
        loop {
            match entering.as_mut().poll(cx) {
                Poll::Ready(CALL) if !this.mutex.answer_call(Holder::FUTURE) => {
                    this.mutex.is_passed(entering.node(), since);
                    entering.as_mut().renew();
                }
                polled => return polled.map(|_| ()),
            }
        }
    }
}
