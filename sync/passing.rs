//! How long running callers may pass the waiters of a [mutex](super::raw_mutex), a [reader-writer
//! lock](super::raw_rwlock), a [semaphore](super::raw_semaphore) or a [channel](super::channel).
//! The module of the mutex explains why waiters are passed at all.

use crate::scheduler::timers::tick::Tick;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::wait::waiters::WaitNode;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::shim::panicking;
use crate::shim::time::{Duration, Instant, now};
use crate::task::words::tree::NOBODY;

/// A waiter that has waited this long is not passed again. In a model, where time does not count,
/// this never happens.
const PATIENCE: Duration = Duration::from_micros(if cfg!(loom) { u64::MAX } else { 500 });
/// Exits (unlocks, releases) that may pass the queue while called waiters are on their way. A power
/// of two, because the counter wraps.
pub(super) const PASSES: u32 = if cfg!(loom) { 2 } else { 4_096 };
/// After this many exits a newcomer queues up instead of passing: the called waiter may be waiting
/// for the newcomer's own worker.
pub(super) const HOGS: u32 = if cfg!(loom) { 2 } else { 1_024 };

/// Returns `true` if a called waiter that first came at `since` must not be passed again.
pub(super) fn is_overdue(since: Instant) -> bool {
    // MUTANT(passing.overdue): false
    now() - since >= PATIENCE
}

/// Returns `true` if a caller that could pass should queue up instead. The caller asks only after
/// called waiters have been passed many times. The answer is `true` if the caller may suspend and
/// other tasks are ready on its worker, as a called waiter may be one of them.
pub(super) fn gives_way() -> bool {
    let others = |worker: &Worker| worker.task().is_some() && worker.has_ready();
    Worker::current().is_some_and(others) && !is_forbidden() && !panicking()
}

/// The time at which the first waiter of a queue became the first.
pub(super) struct FirstSince(AtomicU64);

impl FirstSince {
    pub(super) const fn from(tick: AtomicU64) -> FirstSince {
        FirstSince(tick)
    }

    /// Notes that another waiter is the first now. Called under the queue's lock.
    pub(super) fn begin(&self) {
        self.0.store(Tick::now().number(), Ordering::Relaxed);
    }

    /// Returns `true` if the first waiter must not be passed again.
    pub(super) fn is_overdue(&self) -> bool {
        // MUTANT(passing.first_overdue): false
        Tick::now().since(Tick::numbered(self.0.load(Ordering::Relaxed))) >= PATIENCE
    }
}

/// The worker of the waiters that have been called and have not come yet: the lowest bits of its
/// number, or of [`NOBODY`] if the waiters belong to several workers or may run anywhere. Written
/// under the queue's lock. Only a hint.
pub(super) struct CalledAt(AtomicU8);

const ANYWHERE: u8 = NOBODY as u8;

impl CalledAt {
    pub(super) const fn from(home: AtomicU8) -> CalledAt {
        CalledAt(home)
    }

    /// Notes a call of `waiter`. `others` says whether earlier called waiters are still on their
    /// way.
    pub(super) fn call(&self, waiter: &WaitNode, others: bool) {
        let home = waiter.home() as u8;
        let alike = !others || self.0.load(Ordering::Relaxed) == home;
        self.0.store(if alike { home } else { ANYWHERE }, Ordering::Relaxed);
    }

    /// Returns `true` if the queued `waiter` has the same worker as all called waiters. As these
    /// have not come, their worker is computing, and a hand-over to `waiter` would lie idle.
    pub(super) fn is_where(&self, waiter: &WaitNode) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at != ANYWHERE && at == waiter.home() as u8
    }

    /// Returns `true` if a called waiter may be waiting for the caller's worker or executor.
    #[cold]
    #[inline(never)]
    pub(super) fn may_be_here(&self) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at == ANYWHERE || at == Worker::current().map_or(NOBODY, Worker::number) as u8
    }
}

/// The number of exits since a waiter was last called that called none although one was queued, and
/// the time of that call. Only a hint: if several exits coincide, some are not counted.
///
/// The count is in the lowest bits of the word. Then come two bits that say how often the patience
/// is halved, and the tick of the call, which wraps after eight seconds.
pub(super) struct Passes(AtomicU32);

/// The bits of the count. When the count reaches twice `PASSES`, it continues at `PASSES`.
const COUNT: u32 = 2 * PASSES - 1;
const ONE_HALVING: u32 = COUNT + 1;
/// The last waiter of a queue waits until all others have been called, so the queued waiters share
/// the patience. The word has the binary logarithm of their number, rounded down. It is three at
/// most, because an eighth of the patience is a tick.
const MOST_HALVINGS: u32 = 3;
const ONE_TICK: u32 = ONE_HALVING * (MOST_HALVINGS + 1);
/// One in this many exits looks at the clock.
const SELDOM: u32 = 8;

impl Passes {
    pub(super) const fn from(count: AtomicU32) -> Passes {
        Passes(count)
    }

    /// Returns the word of a call of one of `queued` waiters at the tick with this number.
    fn called_at(tick: u64, queued: usize) -> u32 {
        let halvings = queued.max(1).ilog2().min(MOST_HALVINGS);
        (tick as u32).wrapping_mul(ONE_TICK) + halvings * ONE_HALVING
    }

    /// Returns whether the call that a word records has been passed for too long at a tick.
    fn is_late(word: u32, tick: u64) -> bool {
        let ticks = Passes::called_at(tick, 0).wrapping_sub(word & !(ONE_TICK - 1)) / ONE_TICK;
        let halvings = word / ONE_HALVING % (MOST_HALVINGS + 1);
        // MUTANT(passing.late): false
        Tick::numbered(ticks.into()).since(Tick::numbered(0)) >= PATIENCE / (1 << halvings)
    }

    /// Counts one exit. Returns `true` for every 4,096th, which hands over to the first waiter of
    /// the queue. With `is_timed`, the count also rises to `HOGS` if the last call was at least
    /// half a millisecond ago, or a share of that.
    pub(super) fn count(&self, is_timed: bool) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        let (call, mut count) = (before & !COUNT, (before & COUNT) + 1);
        if count > COUNT {
            count = PASSES;
        }
        let looks = is_timed && count < HOGS && count.is_multiple_of(SELDOM);
        if !cfg!(loom) && looks && Passes::is_late(before, Tick::now().number()) {
            count = HOGS;
        }
        self.0.store(call | count, Ordering::Relaxed);
        // MUTANT(passing.hands_over): false
        count.is_multiple_of(PASSES)
    }

    /// Restarts the count: one of `queued` waiters is called, or a called waiter has come.
    pub(super) fn reset(&self, queued: usize) {
        let word = if cfg!(loom) { 0 } else { Passes::called_at(Tick::now().number(), queued) };
        self.0.store(word, Ordering::Relaxed);
    }

    /// Returns `true` if newcomers queue up while called waiters are on their way.
    #[inline(always)]
    pub(super) fn are_many(&self) -> bool {
        // MUTANT(passing.many): false
        self.0.load(Ordering::Relaxed) & COUNT >= HOGS
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Passes;

    /// Half a millisecond is seven to eight ticks, and an eighth of it is one.
    #[test]
    fn many_queued_waiters_share_the_patience() {
        for start in [0, 1 << 17, (1 << 17) - 1, u64::MAX >> 1] {
            for (queued, ticks) in [(0, 8), (1, 8), (2, 4), (3, 4), (4, 2), (8, 1), (1000, 1)] {
                let word = Passes::called_at(start, queued) + 7;
                assert!(!Passes::is_late(word, start + ticks - 1), "{queued} queued");
                assert!(Passes::is_late(word, start + ticks), "{queued} queued");
            }
        }
    }
}
