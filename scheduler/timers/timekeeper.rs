//! The worker that sees to the timers of busy workers. The page of the parent module says why no
//! timer is forgotten.

use super::tick::Tick;
use super::timer::Timers;
use crate::scheduler::steal::idle::{Idle, Sleepers};
use crate::scheduler::worker_set::WorkerSet;
use crate::shim::atomic::{AtomicU64, Ordering, fence};

/// Which worker sees to the timers of the workers that are awake, and which workers have timers.
pub(crate) struct Timekeeper {
    /// Until when the timekeeper rests at most: a tick, with the worker's index in the lower bits.
    /// All ones if no worker is the timekeeper.
    duty: AtomicU64,
    /// The workers whose wheel may not be empty. See the page of the parent module.
    timed: WorkerSet,
}

const NOBODY: u64 = u64::MAX;
const INDEX_BITS: u32 = 12;
const _: () = assert!(crate::scheduler::MAX_WORKERS <= 1 << INDEX_BITS);

fn word(until: Tick, index: usize) -> u64 {
    // Leaves room for some 29,000 years.
    until.0.min(NOBODY >> (INDEX_BITS + 1)) << INDEX_BITS | index as u64
}

impl Timekeeper {
    pub(crate) fn new(workers: usize) -> Timekeeper {
        Timekeeper { duty: AtomicU64::new(NOBODY), timed: WorkerSet::new(workers) }
    }

    /// Notes that `worker` has timers. Called after each was made known, as the thread that has set
    /// the first one may be slow, and before the fence of [`ensure`](Timekeeper::ensure).
    pub(super) fn note_timers_of(&self, worker: usize) {
        self.timed.insert(worker);
    }

    /// Notes that `worker` has no timers. Called on its thread.
    pub(super) fn note_no_timers_of(&self, worker: usize, timers: &Timers) {
        if self.timed.contains(worker) {
            timers.if_none(|| _ = self.timed.remove(worker));
        }
    }

    /// The workers that may have timers.
    pub(super) fn timed(&self) -> impl Iterator<Item = usize> {
        self.timed.iter()
    }

    /// Makes sure that a worker looks at the timers of a worker that is awake when one is `due`,
    /// if any worker sleeps. Called after the timer or the worker's being awake was made known.
    pub(super) fn ensure(&self, idle: &Idle, sleepers: &impl Sleepers, due: Tick) {
        // MUTANT(timekeeper.ensure.fence): skip
        fence(Ordering::SeqCst);
        if self.until() > due && idle.anyone_asleep() {
            idle.wake_one(sleepers, false);
        }
    }

    /// As `ensure`, for a timer set from outside on worker `index`, which may rest.
    pub(super) fn ensure_from_outside(
        &self,
        idle: &Idle,
        sleepers: &impl Sleepers,
        index: usize,
        timers: &Timers,
        due: Tick,
    ) {
        // Starts with a fence.
        let roused = idle.notify_worker(sleepers, index);
        // A worker that rests plans anew after it was roused; any other may be busy.
        // MUTANT(timers.outside.busy): false
        if !(roused && timers.rests.load(Ordering::Relaxed)) {
            self.ensure(idle, sleepers, due);
        }
    }

    /// Until when the timekeeper rests.
    pub(super) fn until(&self) -> Tick {
        Tick(self.duty.load(Ordering::Relaxed) >> INDEX_BITS)
    }

    /// Makes worker `index` the timekeeper until `due`, unless another one rests no longer than
    /// that. Returns whether worker `index` is the timekeeper.
    pub(super) fn begin(&self, index: usize, due: Tick) -> bool {
        let mine = word(due, index);
        let claim = |word: u64| (word > mine || is_of(word, index)).then_some(mine);
        self.duty.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok()
    }

    /// Whether something is due on a worker that is awake before the caller, which has lain down,
    /// gets up, and no timekeeper gets up for it. Called after a fence.
    pub(super) fn misses(&self, elsewhere: Tick, up_at: Tick) -> bool {
        // MUTANT(timers.rest.elsewhere): false
        elsewhere < up_at && elsewhere < self.until()
    }

    /// Ends the duty of worker `index`, which then looks for timers that were set meanwhile in
    /// reliance on it.
    pub(super) fn hand_over(&self, index: usize) {
        self.end(index);
        // MUTANT(timekeeper.hand_over.fence): skip
        fence(Ordering::SeqCst);
    }

    pub(super) fn end(&self, index: usize) {
        let leave = |word: u64| is_of(word, index).then_some(NOBODY);
        let _ = self.duty.fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave);
    }
}

fn is_of(word: u64, index: usize) -> bool {
    word != NOBODY && word & ((1 << INDEX_BITS) - 1) == index as u64
}
