//! The state that a worker keeps from one check-in to the next; `check_in` explains its use.

use crate::scheduler::timers::tick::Tick;
use crate::shim::time::{Duration, Instant};
use std::cell::Cell;
use std::ptr;

/// Values that a task sends or receives from one check-in to the next.
const VALUES: u32 = 16;
/// How long a task sends or receives before it gives way to ready tasks.
const SLICE: Duration = Duration::from_micros(20);
/// Check-ins from one look for fresh tasks to the next, if the last look has found none and
/// check-ins come fast: more often than each 8 us.
const SELDOM: u32 = 8;
/// Looks that find no fresh tasks, from one reading of the clock to the next.
const READINGS: u32 = 8;
/// How long a fresh task of the worker's own is left to other workers, and to its joiner.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long a fresh task that any worker could take is left to others, for each task that computes
/// on this worker.
const OTHERS_PATIENCE: Duration = Duration::from_micros(200);

/// What a look for fresh tasks has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nothing,
    /// Fresh tasks in the queue of this worker alone.
    Own,
    /// Fresh tasks that any worker could take. `beside` is the number of tasks that compute on this
    /// worker.
    Shared {
        beside: u32,
    },
}

/// A fiber between two waits. The number is the count of waits on its worker so far.
pub(super) type Stint = (*const (), u64);

const NOBODY: Stint = (ptr::null(), 0);

/// The state that a worker keeps from one check-in to the next.
#[derive(Default)]
pub(crate) struct CheckIns {
    /// Check-ins that may still pass without a look for fresh tasks.
    left: Cell<u32>,
    /// When fresh tasks were first seen, or one was last begun, if each look since has found some.
    fresh_since: Cell<Option<Tick>>,
    /// Looks that may still pass without a reading of the clock, and when it was last read.
    readings: Cell<u32>,
    read: Cell<Option<Tick>>,
    /// Check-ins come more often than each 8 us, so not all of them look.
    is_fast: Cell<bool>,
    /// Values that may still pass without a check-in.
    values: Cell<u32>,
    /// The last stint that checked in with a value while other tasks were ready, and since when.
    slice: Cell<Option<(Stint, Instant)>>,
}

impl CheckIns {
    /// Counts a check-in. Returns `true` if it should look for fresh tasks.
    #[inline(always)]
    pub(super) fn count(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }

    /// Plans the next look. Returns `true` if one of the tasks should be begun.
    pub(super) fn found(&self, found: Found, now: impl FnOnce() -> Tick) -> bool {
        let patience = match found {
            Found::Nothing => {
                self.fresh_since.set(None);
                self.plan(now);
                return false;
            }
            Found::Own => PATIENCE,
            Found::Shared { beside } => OTHERS_PATIENCE * beside,
        };
        let now = now();
        let since = self.fresh_since.get().unwrap_or(now);
        let is_due = now.since(since) >= patience;
        // The next task has a time of its own, in which the others here go on.
        self.fresh_since.set(Some(if is_due { now } else { since }));
        is_due
    }

    /// Plans the next look after one that has found nothing.
    fn plan(&self, now: impl FnOnce() -> Tick) {
        let readings = self.readings.get();
        if readings > 0 {
            self.readings.set(readings - 1);
        } else {
            self.readings.set(READINGS - 1);
            let now = now();
            // Eight check-ins within a tick are fast.
            let ticks = if self.is_fast.get() { SELDOM } else { 1 };
            let before = self.read.replace(Some(now));
            let is_fast = before.is_some_and(|before| now.ticks_since(before) <= ticks.into());
            self.is_fast.set(is_fast);
        }
        self.left.set(if self.is_fast.get() { SELDOM - 1 } else { 0 });
    }

    /// Counts a value that was sent or received. Returns `false` at each sixteenth, which should
    /// check in.
    #[inline(always)]
    pub(super) fn count_value(&self) -> bool {
        let left = self.values.get();
        if left > 0 {
            self.values.set(left - 1);
        }
        left > 0
    }

    /// Restarts the count of values.
    pub(super) fn begin_values(&self) {
        self.values.set(VALUES - 1);
    }

    /// Records that a task has checked in with a value, in stint `me`, while other tasks are ready.
    /// Returns `true` if it should give way.
    pub(super) fn is_over(&self, me: Stint, time: Instant) -> bool {
        let (before, since) = self.slice.get().unwrap_or((NOBODY, time));
        let is_long = time - since >= SLICE;
        if before != me {
            self.slice.set(Some((me, time)));
            if is_long {
                // Each value seems to take long.
                self.values.set(0);
            }
            return false;
        }
        if is_long {
            self.slice.set(Some((NOBODY, time)));
        }
        is_long
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Tick {
        Tick::not_before(crate::shim::zero() + Duration::from_micros(microseconds))
    }

    const SHARED: Found = Found::Shared { beside: 1 };

    /// Which of `n` check-ins, `pace` microseconds apart, look for fresh tasks.
    fn looks(check_ins: &CheckIns, clock: &mut u64, n: u64, pace: u64) -> Vec<u64> {
        let looks = |_: &u64| {
            *clock += pace;
            let looks = check_ins.count();
            assert!(!(looks && check_ins.found(Found::Nothing, || at(*clock))));
            looks
        };
        (0..n).filter(looks).collect()
    }

    #[test]
    fn one_of_eight_check_ins_looks_for_fresh_tasks_if_there_are_none() {
        let (check_ins, clock) = (CheckIns::default(), &mut 5_000);
        let first = looks(&check_ins, clock, 16, 1);
        assert_eq!(first, (0..9).collect::<Vec<_>>(), "it is not known at first how they come");
        let later = looks(&check_ins, clock, 800, 1);
        assert_eq!(later, (0..800).step_by(8).collect::<Vec<_>>());
    }

    #[test]
    fn each_check_in_looks_for_fresh_tasks_if_check_ins_come_seldom() {
        let (check_ins, clock) = (CheckIns::default(), &mut 5_000);
        let seldom: Vec<_> = (0..100).collect();
        assert_eq!(looks(&check_ins, clock, 100, 100), seldom);
        looks(&check_ins, clock, 16, 1);
        assert_eq!(looks(&check_ins, clock, 800, 1).len(), 100, "they come fast now");
        looks(&check_ins, clock, 72, 100);
        assert_eq!(looks(&check_ins, clock, 100, 100), seldom, "and seldom again");
    }

    #[test]
    fn each_check_in_looks_for_fresh_tasks_if_there_are_some() {
        let check_ins = CheckIns::default();
        assert!(check_ins.count() && !check_ins.found(Found::Own, || at(5_000)));
        assert!(check_ins.count() && !check_ins.found(Found::Own, || at(5_100)));
    }

    #[test]
    fn a_fresh_task_of_ones_own_is_begun_after_a_millisecond() {
        let check_ins = CheckIns::default();
        assert!(!check_ins.found(Found::Own, || at(5_000)));
        assert!(!check_ins.found(Found::Own, || at(5_900)));
        assert!(check_ins.found(Found::Own, || at(6_100)));
        // The next task has a millisecond of its own.
        assert!(!check_ins.found(Found::Own, || at(7_000)));
        assert!(check_ins.found(Found::Own, || at(7_300)));
    }

    #[test]
    fn a_task_that_any_worker_could_take_is_begun_sooner() {
        let check_ins = CheckIns::default();
        assert!(!check_ins.found(SHARED, || at(5_000)));
        assert!(!check_ins.found(SHARED, || at(5_150)));
        assert!(check_ins.found(SHARED, || at(5_300)));
        assert!(!check_ins.found(SHARED, || at(5_400)), "the task that computes goes on");
        assert!(check_ins.found(SHARED, || at(5_600)));
        let crowded = Found::Shared { beside: 5 };
        assert!(!check_ins.found(crowded, || at(6_500)), "each that computes here has its time");
        assert!(check_ins.found(crowded, || at(6_700)));
    }

    #[test]
    fn a_look_that_finds_no_fresh_task_restarts_the_time() {
        let check_ins = CheckIns::default();
        for (found, patience) in [(Found::Own, 1_000), (SHARED, 200)] {
            assert!(!check_ins.found(found, || at(5_000)));
            assert!(!check_ins.found(Found::Nothing, || at(5_100)));
            assert!(!check_ins.found(found, || at(6_500)));
            assert!(check_ins.found(found, || at(6_600 + patience)));
            assert!(!check_ins.found(Found::Nothing, || at(9_000)));
        }
    }
}
