//! How long those who wait for a [mutex](super::raw_mutex), a [reader-writer
//! lock](super::raw_rwlock), a [semaphore](super::raw_semaphore) or a [channel](super::channel) can
//! be passed by those who run.
//! The essay of the mutex says why they are passed at all.

use crate::scheduler::timers::tick::Tick;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::wait::waiters::WaitNode;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::shim::panicking;
use crate::shim::time::{Duration, Instant, now};
use crate::task::words::tree::NOBODY;

/// A waiter that has waited for so long is not passed any more. In a model, where time does not
/// count, never.
const PATIENCE: Duration = Duration::from_micros(if cfg!(loom) { u64::MAX } else { 500 });
/// Exits that may pass the queue while called waiters are on their way. A power of two, because the
/// counter comes round.
pub(super) const PASSES: u32 = if cfg!(loom) { 2 } else { 4_096 };
/// After so many of these exits a newcomer queues up instead of passing: the called waiter may wait
/// for the newcomer's own worker.
pub(super) const HOGS: u32 = if cfg!(loom) { 2 } else { 1_024 };

/// Whether a called waiter that first came at that time is not to be passed again.
pub(super) fn is_overdue(since: Instant) -> bool {
    // MUTANT(passing.overdue): false
    now() - since >= PATIENCE
}

/// Whether the caller, which could pass, queues up instead if waiters have been called and passed
/// many times: others are ready on its worker, perhaps one of those.
pub(super) fn gives_way() -> bool {
    let others = |worker: &Worker| worker.task().is_some() && worker.has_ready();
    Worker::current().is_some_and(others) && !is_forbidden() && !panicking()
}

/// Since when the first waiter of a queue has been that.
pub(super) struct FirstSince(AtomicU64);

impl FirstSince {
    pub(super) const fn from(tick: AtomicU64) -> FirstSince {
        FirstSince(tick)
    }

    /// Another waiter is the first one now. Under the lock of the queue.
    pub(super) fn begin(&self) {
        self.0.store(Tick::now().number(), Ordering::Relaxed);
    }

    /// Whether it is not to be passed again.
    pub(super) fn is_overdue(&self) -> bool {
        // MUTANT(passing.first_overdue): false
        Tick::now().since(Tick::numbered(self.0.load(Ordering::Relaxed))) >= PATIENCE
    }
}

/// The worker of the waiters that have been called and have not come: the lowest bits of its number,
/// or those of [`NOBODY`] if the waiters have several workers, or may run anywhere. Written under the
/// lock of the queue. Only advice.
pub(super) struct CalledAt(AtomicU8);

const ANYWHERE: u8 = NOBODY as u8;

impl CalledAt {
    pub(super) const fn from(home: AtomicU8) -> CalledAt {
        CalledAt(home)
    }

    /// `waiter` is called, while `others` have been called and not come.
    pub(super) fn call(&self, waiter: &WaitNode, others: bool) {
        let home = waiter.home() as u8;
        let alike = !others || self.0.load(Ordering::Relaxed) == home;
        self.0.store(if alike { home } else { ANYWHERE }, Ordering::Relaxed);
    }

    /// Whether a waiter of the queue has the same worker as all called ones. These have not come, so
    /// their worker computes, and would keep idle what is handed over to the waiter.
    pub(super) fn is_where(&self, waiter: &WaitNode) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at != ANYWHERE && at == waiter.home() as u8
    }

    /// Whether one of them may wait for the caller's worker, or its executor.
    #[cold]
    #[inline(never)]
    pub(super) fn may_be_here(&self) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at == ANYWHERE || at == Worker::current().map_or(NOBODY, Worker::number) as u8
    }
}

/// How many exits since the last call have called no waiter although one waits, and the time of that
/// call. Only advice: if several tasks leave at once, some exits are not counted.
///
/// The count takes the lowest bits of the word, the tick of the call the other ones. The tick comes
/// round after half a minute.
pub(super) struct Passes(AtomicU32);

/// The bits of the count, which goes on at `PASSES` when it comes to twice as many.
const COUNT: u32 = 2 * PASSES - 1;
/// Exits for one that looks at the clock.
const SELDOM: u32 = 8;

impl Passes {
    pub(super) const fn from(count: AtomicU32) -> Passes {
        Passes(count)
    }

    /// The word of a call at this moment.
    fn called_now() -> u32 {
        (Tick::now().number() as u32).wrapping_mul(COUNT + 1)
    }

    /// How long the call of a word was before that of another word.
    fn between(earlier: u32, later: u32) -> Duration {
        let ticks = later.wrapping_sub(earlier) / (COUNT + 1);
        Tick::numbered(ticks.into()).since(Tick::numbered(0))
    }

    /// Counts one. Returns `true` if it hands over to the first waiter of the queue: it is the
    /// 4,096th. If `is_timed`, they are many as well when the last call was long ago.
    pub(super) fn count(&self, is_timed: bool) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        let (called, mut count) = (before & !COUNT, (before & COUNT) + 1);
        if count > COUNT {
            count = PASSES;
        }
        if !cfg!(loom) && is_timed && count < HOGS && count.is_multiple_of(SELDOM) {
            // MUTANT(passing.late): false
            if Passes::between(called, Passes::called_now()) >= PATIENCE {
                count = HOGS;
            }
        }
        self.0.store(called | count, Ordering::Relaxed);
        // MUTANT(passing.hands_over): false
        count.is_multiple_of(PASSES)
    }

    /// Somebody is called, or has come.
    pub(super) fn reset(&self) {
        let word = if cfg!(loom) { 0 } else { Passes::called_now() };
        self.0.store(word, Ordering::Relaxed);
    }

    /// Whether newcomers queue up as long as called waiters are on their way.
    #[inline(always)]
    pub(super) fn are_many(&self) -> bool {
        // MUTANT(passing.many): false
        self.0.load(Ordering::Relaxed) & COUNT >= HOGS
    }
}
