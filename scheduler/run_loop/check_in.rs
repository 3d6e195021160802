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

use crate::scheduler::life::scope_frame::task_of;
use crate::scheduler::timers::tick::Tick;
use crate::scheduler::wait::blocking_wait::is_open_half;
use crate::scheduler::worker::Worker;
use crate::shim::time::now;
use crate::shim::{panicking, point};
use crate::task::record::{JoinedAtHome, Record};

/// Counts a value that has been sent or received without a wait. At each sixteenth the task that runs here checks in, and
/// gives way if others are ready and it has gone on for 20 us.
#[inline(always)]
pub(crate) fn count_value() {
    if let Some(worker) = Worker::current()
        && !worker.fairness.check_ins.count_value()
    {
        worker.check_in_with_value();
    }
}

impl Worker {
    #[cold]
    #[inline(never)]
    fn check_in_with_value(&self) {
        self.fairness.check_ins.begin_values();
        let Some(task) = self.task() else { return };
        // Where nothing may suspend nothing else is to happen here either: the caller may be what a timer has called.
        if self.forbidden.get() > 0 || panicking() || !self.check_in() {
            return;
        }
        let stint = (self.fibers.running.get().cast(), self.counters().parks.get());
        if self.fairness.check_ins.is_over(stint, now()) {
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
        self.fairness.check_ins.count() && self.look_for_fresh()
    }

    /// Makes a fresh task ready that has been left to others for long enough; whether there was one.
    #[cold]
    #[inline(never)]
    fn look_for_fresh(&self) -> bool {
        self.housekeeping();
        // Where nothing may be begun: the worker is blocked, or has no stack.
        let barred = self.forbidden.get() > 0 || panicking() || self.memory.exhausted.get();
        let any = !barred && self.has_fresh();
        if !self.fairness.check_ins.found(any, Tick::now) {
            return false;
        }
        let next = match self.isolations.any() {
            true => self.next_neglected_member(),
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
