//! The state that a worker keeps from one check-in to the next; `check_in` explains its use.

use crate::scheduler::timers::tick::Tick;
use crate::shim::time::{Duration, Instant};
use std::cell::Cell;
use std::ptr;

/// Values that a task sends or receives from one check-in to the next.
const VALUES: u32 = 16;
/// How long a task sends or receives before it gives way to ready tasks.
const SLICE: Duration = Duration::from_micros(20);
/// Check-ins from one look for fresh tasks to the next, if the last look has found none.
const SELDOM: u32 = 8;
/// How long a fresh task is left to other workers.
const PATIENCE: Duration = Duration::from_millis(1);

/// A fiber between two waits. The number is the count of waits on its worker so far.
pub(super) type Stint = (*const (), u64);

const NOBODY: Stint = (ptr::null(), 0);

/// The state that a worker keeps from one check-in to the next.
#[derive(Default)]
pub(crate) struct CheckIns {
    /// Check-ins that may still pass without a look for fresh tasks.
    left: Cell<u32>,
    /// When fresh tasks were first seen, if each look since has found some.
    fresh_since: Cell<Option<Tick>>,
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

    /// Plans the next look after a look that has found fresh tasks (`any`) or none. Returns `true`
    /// if one of the tasks should be begun.
    pub(super) fn found(&self, any: bool, now: impl FnOnce() -> Tick) -> bool {
        if !any {
            self.fresh_since.set(None);
            self.left.set(SELDOM - 1);
            return false;
        }
        let now = now();
        let since = self.fresh_since.get().unwrap_or(now);
        let is_due = now.since(since) >= PATIENCE;
        self.fresh_since.set((!is_due).then_some(since));
        is_due
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

    #[test]
    fn one_of_eight_check_ins_looks_for_fresh_tasks_if_there_are_none() {
        let check_ins = CheckIns::default();
        let looks = |_: &i32| {
            let looks = check_ins.count();
            assert!(!(looks && check_ins.found(false, Tick::now)));
            looks
        };
        let looks: Vec<_> = (0..80).filter(looks).collect();
        assert_eq!(looks, (0..80).step_by(8).collect::<Vec<_>>());
    }

    #[test]
    fn each_check_in_looks_for_fresh_tasks_if_there_are_some() {
        let check_ins = CheckIns::default();
        assert!(check_ins.count() && !check_ins.found(true, || at(5_000)));
        assert!(check_ins.count() && !check_ins.found(true, || at(5_100)));
    }

    #[test]
    fn a_fresh_task_is_begun_after_a_millisecond() {
        let check_ins = CheckIns::default();
        assert!(!check_ins.found(true, || at(5_000)));
        assert!(!check_ins.found(true, || at(5_900)));
        assert!(check_ins.found(true, || at(6_100)));
        // The next task has a millisecond of its own.
        assert!(!check_ins.found(true, || at(6_200)));
        assert!(check_ins.found(true, || at(7_300)));
    }

    #[test]
    fn a_look_that_finds_no_fresh_task_restarts_the_millisecond() {
        let check_ins = CheckIns::default();
        assert!(!check_ins.found(true, || at(5_000)));
        assert!(!check_ins.found(false, || unreachable!("no need for the time")));
        assert!(!check_ins.found(true, || at(6_500)));
        assert!(check_ins.found(true, || at(7_600)));
    }
}
