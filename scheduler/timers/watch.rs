//! Who sees to the timers of workers that are busy. The module above says why nobody is forgotten.

use super::tick::Tick;
use super::timer::Timers;
use crate::scheduler::steal::idle::{Idle, Sleepers};
use crate::shim::atomic::{AtomicU64, Ordering, fence};

/// Which worker watches the timers of those that are awake, and until when it rests at the most: a tick, with the
/// worker's index in the lower bits; [`NOBODY`] if there is none.
pub(crate) struct Watch(AtomicU64);

const NOBODY: u64 = u64::MAX;
const INDEX_BITS: u32 = 12;
const _: () = assert!(crate::scheduler::MAX_WORKERS <= 1 << INDEX_BITS);

fn word(until: Tick, index: usize) -> u64 {
    // Some 29,000 years fit.
    until.0.min(NOBODY >> (INDEX_BITS + 1)) << INDEX_BITS | index as u64
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch(AtomicU64::new(NOBODY))
    }

    /// Sees to it that somebody looks at the timers of a worker that is awake when one is `due`, if anybody
    /// sleeps. After that was made known.
    pub(super) fn ensure(&self, idle: &Idle, sleepers: &impl Sleepers, due: Tick) {
        // MUTANT(watch.ensure.fence): skip
        fence(Ordering::SeqCst);
        if self.until() > due && idle.anyone_asleep() {
            idle.wake_one(sleepers, false);
        }
    }

    /// The same where the timer was set from outside on worker `index`, which may rest.
    pub(super) fn ensure_from_outside(
        &self,
        idle: &Idle,
        sleepers: &impl Sleepers,
        index: usize,
        timers: &Timers,
        due: Tick,
    ) {
        // A fence comes first.
        let roused = idle.notify_worker(sleepers, index);
        // Who rests plans anew; else it may be busy.
        // MUTANT(timers.outside.busy): false
        if !(roused && timers.rests.load(Ordering::Relaxed)) {
            self.ensure(idle, sleepers, due);
        }
    }

    /// Until when somebody watches.
    pub(super) fn until(&self) -> Tick {
        Tick(self.0.load(Ordering::Relaxed) >> INDEX_BITS)
    }

    /// Makes worker `index` the one that watches, until `due`, unless another one rests no longer than that;
    /// whether it does.
    pub(super) fn begin(&self, index: usize, due: Tick) -> bool {
        let mine = word(due, index);
        let claim = |word: u64| (word > mine || is_of(word, index)).then_some(mine);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok()
    }

    /// Whether something is due on a worker that is awake before who has lain down gets up, and nobody else sees to it. After a fence.
    pub(super) fn misses(&self, elsewhere: Tick, up_at: Tick) -> bool {
        // MUTANT(timers.rest.elsewhere): false
        elsewhere < up_at && elsewhere < self.until()
    }

    /// Worker `index` watches no longer. It looks then for what was set meanwhile by one who relied on it.
    pub(super) fn hand_over(&self, index: usize) {
        self.end(index);
        // MUTANT(watch.hand_over.fence): skip
        fence(Ordering::SeqCst);
    }

    pub(super) fn end(&self, index: usize) {
        let leave = |word: u64| is_of(word, index).then_some(NOBODY);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave);
    }
}

fn is_of(word: u64, index: usize) -> bool {
    word != NOBODY && word & ((1 << INDEX_BITS) - 1) == index as u64
}
