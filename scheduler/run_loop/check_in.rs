//! Where a task that computes checks in: at each `checkpoint`, between the chunks of a parallel loop, and at each
//! sixteenth value that it sends or receives over a channel without a wait.
//!
//! A task is not interrupted, so whatever else its worker has to do comes to its turn at these places, within a
//! bounded time each:
//!
//! * **Ready tasks** have their turn at once; in the middle of values only when the task has gone on for 20 us, since a
//!   switch for each few values would cost more than the values do.
//! * **Timers** that are set on this worker are fired when they are due. The clock is read at each check-in, or
//!   at each eighth if they come fast ([`Worker::look_at_clock`]). If that makes a task ready, it runs at once.
//! * **Fresh tasks** are mostly taken by other workers, or called by a parent that is about to join them. One
//!   that lies here for a millisecond has nobody else, and is begun. The look costs more than a check-in should,
//!   so only each eighth makes it, and none where a task is ready: between ready tasks, fresh ones have the turn
//!   that `pick` gives them.
//!
//! The second half of a join that the running task, or one that has called it on the same stack, is in the middle of is no
//! such task. It has somebody, and to begin it on a stack of its own would pin it here, where another worker could take it a
//! moment later.

use crate::scheduler::timers::Tick;
use crate::scheduler::wait::hold::is_open_half;
use crate::scheduler::worker::{Strand, Worker, task_of};
use crate::shim::time::{Duration, Instant, now};
use crate::shim::{panicking, point};
use crate::task::record::{JoinedAtHome, Record};
use std::cell::Cell;
use std::ptr;

/// Values that a task sends or receives from one check-in to the next.
const VALUES: u32 = 16;
/// For how long it does so before it gives way to others that are ready.
const SLICE: Duration = Duration::from_micros(20);
/// Check-ins from one look for fresh tasks to the next, if the last one has found none.
const SELDOM: u32 = 8;
/// For how long a fresh task is left to others.
const PATIENCE: Duration = Duration::from_millis(1);

/// A coroutine from one wait to the next: how often tasks of its worker had waited by then.
type Stint = (*const Strand, u64);

const NOBODY: Stint = (ptr::null(), 0);

/// What a worker remembers from one check-in to the next.
pub(crate) struct CheckIns {
    /// How many may still pass without a look for fresh tasks.
    left: Cell<u32>,
    /// When fresh tasks were seen first, if each look since has found some.
    fresh_since: Cell<Option<Tick>>,
    /// How many values may still pass without a check-in.
    values: Cell<u32>,
    /// Who was the last to check in so while others were ready, and since when.
    slice: Cell<Option<(Stint, Instant)>>,
}

impl CheckIns {
    pub(crate) const fn new() -> CheckIns {
        CheckIns {
            left: Cell::new(0),
            fresh_since: Cell::new(None),
            values: Cell::new(0),
            slice: Cell::new(None),
        }
    }

    /// Counts one. Returns `true` if it is to look for fresh tasks.
    #[inline(always)]
    fn count(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }

    /// Plans the next look after one that has found fresh tasks, or none. Returns `true` if one of them is to be
    /// begun.
    fn found(&self, any: bool, now: impl FnOnce() -> Tick) -> bool {
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
}

/// Counts a value that has been sent or received without a wait. At each sixteenth the task that runs here checks in, and
/// gives way if others are ready and it has gone on for 20 us.
#[inline(always)]
pub(crate) fn count_value() {
    if let Some(worker) = Worker::current() {
        let left = worker.check_ins.values.get();
        if left > 0 {
            worker.check_ins.values.set(left - 1);
        } else {
            worker.check_in_with_value();
        }
    }
}

impl Worker {
    #[cold]
    #[inline(never)]
    fn check_in_with_value(&self) {
        self.check_ins.values.set(VALUES - 1);
        let Some(task) = self.task() else { return };
        // Where nothing may suspend nothing else is to happen here either: the caller may be what a timer has called.
        if self.forbidden.get() > 0 || panicking() || !self.check_in() {
            return;
        }
        let (me, time) = ((self.current.get(), self.counters().parks.get()), now());
        let (before, since) = self.check_ins.slice.get().unwrap_or((NOBODY, time));
        if before != me {
            self.check_ins.slice.set(Some((me, time)));
            if time - since >= SLICE {
                // Each value seems to take long.
                self.check_ins.values.set(0);
            }
        } else if time - since >= SLICE {
            self.check_ins.slice.set(Some((NOBODY, time)));
            self.give_way(task);
        }
    }

    /// Checks in, in the running task. Returns `true` if another task is ready, which is to have its turn.
    #[inline]
    pub(crate) fn check_in(&self) -> bool {
        point();
        if self.remote.timers.want_looks() {
            self.look_at_clock();
        }
        if self.has_ready() {
            return true;
        }
        self.check_ins.count() && self.look_for_fresh()
    }

    /// Makes a fresh task ready that has been left to others for long enough; whether there was one.
    #[cold]
    #[inline(never)]
    fn look_for_fresh(&self) -> bool {
        self.housekeeping();
        // Where nothing may be begun: the worker is held, or has no stack.
        let barred = self.forbidden.get() > 0 || panicking() || self.exhausted.get();
        let any = !barred && self.has_fresh();
        if !self.check_ins.found(any, Tick::now) {
            return false;
        }
        let next = match self.restrictions.any() {
            true => self.next_neglected_kin(),
            false => self.next_neglected(),
        };
        let Some(record) = next else { return false };
        // SAFETY: its run reference is in our hand.
        if self.is_half_of_this_stack(unsafe { record.as_ref() }) {
            self.requeue(record);
            return false;
        }
        self.begin_next(record)
    }

    /// Whether a claimed task is the second half of a join that the running task is in the middle of, or one
    /// of those that have called it on their stack.
    fn is_half_of_this_stack(&self, claimed: &Record) -> bool {
        let mut at = self.task();
        while let Some(running) = at {
            if is_open_half(claimed, running) {
                return true;
            }
            // SAFETY: it runs, or has called the one before in place, and so has not ended.
            let task = unsafe { running.as_ref() };
            let is_called = task.at_home.get() == JoinedAtHome::Called;
            at = is_called.then(|| task_of(task.node.parent)).flatten();
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Tick {
        Tick::not_before(crate::shim::time::zero() + Duration::from_micros(microseconds))
    }

    #[test]
    fn one_of_eight_check_ins_looks_for_fresh_tasks_where_there_are_none() {
        let check_ins = CheckIns::new();
        let looks = |_: &i32| {
            let looks = check_ins.count();
            assert!(!(looks && check_ins.found(false, Tick::now)));
            looks
        };
        let looks: Vec<_> = (0..80).filter(looks).collect();
        assert_eq!(looks, (0..80).step_by(8).collect::<Vec<_>>());
    }

    #[test]
    fn each_check_in_looks_for_fresh_tasks_where_there_are_some() {
        let check_ins = CheckIns::new();
        assert!(check_ins.count() && !check_ins.found(true, || at(5_000)));
        assert!(check_ins.count() && !check_ins.found(true, || at(5_100)));
    }

    #[test]
    fn a_fresh_task_is_begun_when_it_was_left_to_others_for_a_millisecond() {
        let check_ins = CheckIns::new();
        assert!(!check_ins.found(true, || at(5_000)));
        assert!(!check_ins.found(true, || at(5_900)));
        assert!(check_ins.found(true, || at(6_100)));
        // The next one has its own time.
        assert!(!check_ins.found(true, || at(6_200)));
        assert!(check_ins.found(true, || at(7_300)));
    }

    #[test]
    fn the_time_of_fresh_tasks_begins_anew_where_a_look_has_found_none() {
        let check_ins = CheckIns::new();
        assert!(!check_ins.found(true, || at(5_000)));
        assert!(!check_ins.found(false, || unreachable!("no need for the time")));
        assert!(!check_ins.found(true, || at(6_500)));
        assert!(check_ins.found(true, || at(7_600)));
    }
}
