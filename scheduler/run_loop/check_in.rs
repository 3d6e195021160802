//! Check-ins of a task that computes: at each `checkpoint`, between the chunks of a parallel loop,
//! and at each sixteenth value that it sends or receives over a channel without a wait.
//!
//! A task is not interrupted, so its worker's other duties have their turn at check-ins, each
//! within a bounded time:
//!
//! * **Ready tasks** have their turn at once. At a value, they have it only when the task has gone
//!   on for 20 us, since a switch for every few values would cost more than the values do.
//! * **Timers** that are set on this worker fire when they are due. The clock is read at each
//!   check-in, or at each eighth if check-ins come fast ([`Worker::look_at_clock`]). If that makes
//!   a task ready, it runs at once.
//! * **Fresh tasks** are mostly taken by other workers, or called by a parent that is about to join
//!   them. One that any worker could take, as it came from outside, and that lies there for 200 us,
//!   meets workers that are all busy, and is begun beside the running task: a request does not wait
//!   for the longest job. If several tasks compute here, each adds as much to the time, so they
//!   share the worker with few others. One of the worker's own is begun after a millisecond, and not
//!   while others are ready: then it has the turn that `pick` gives it. The look costs more than a
//!   check-in should, so only each eighth makes it, unless check-ins come seldom.
//!
//! The second half of a join that is open in the running task, or in a task that has called it on
//! the same stack, is no such fresh task. Its joiner will run it. Begun on a stack of its own it
//! would be pinned here, where another worker could take it a moment later.

use crate::scheduler::run_loop::check_ins::Found;
use crate::scheduler::timers::tick::Tick;
use crate::scheduler::wait::blocking_wait::is_unjoined_half;
use crate::scheduler::worker::Worker;
use crate::scheduler::{blocking, cancel};
use crate::shim::time::now;
use crate::shim::{panicking, point};
use crate::task::record::JoinedAtHome;
use crate::task::reference::RunRef;
use crate::task::words::tree::NodeKind;

/// The most ready tasks that are counted.
const MOST_JOBS: u32 = 15;

/// Counts a value that was sent or received without a wait. At each sixteenth the running task
/// checks in, and gives way if other tasks are ready and it has gone on for 20 us. Returns whether
/// the task is cancelled.
#[inline(always)]
pub(crate) fn count_value() -> bool {
    match Worker::current() {
        Some(worker) if !worker.fairness.check_ins.count_value() => worker.check_in_with_value(),
        worker => is_cancelled(worker),
    }
}

/// Whether the running task of the current worker is cancelled, or the blocking call of a thread
/// without one.
#[inline(always)]
pub(crate) fn is_cancelled(worker: Option<&Worker>) -> bool {
    let Some(worker) = worker else { return blocking::is_cancelled_here() };
    // SAFETY: the current node is null between tasks; otherwise it belongs to the running task, or
    // to a scope on its stack, and is alive.
    worker.innermost_node().is_some_and(cancel::is_cancelled)
}

impl Worker {
    #[cold]
    #[inline(never)]
    fn check_in_with_value(&self) -> bool {
        self.fairness.check_ins.begin_values();
        // Where nothing may suspend, nothing else happens either: the caller may be running inside
        // a timer's callback.
        if let Some(task) = self.task()
            && self.forbidden.get() == 0
            && !panicking()
            && self.check_in()
            && self
                .fairness
                .check_ins
                .is_over((self.fibers.running.get().cast(), self.counters().parks.get()), now())
        {
            self.give_way(task);
        }
        is_cancelled(Worker::current())
    }

    /// Checks in, in the running task. Returns `true` if another task is ready and should have its
    /// turn.
    #[inline]
    pub(crate) fn check_in(&self) -> bool {
        point();
        if self.remote.timers.want_looks() {
            self.look_at_clock();
        }
        let begins = self.fairness.check_ins.count() && self.look_for_fresh();
        begins || self.has_ready()
    }

    /// Makes a fresh task ready that has been left to other workers for long enough. Returns
    /// whether there was one.
    #[cold]
    #[inline(never)]
    fn look_for_fresh(&self) -> bool {
        self.housekeeping();
        // No task may be begun if the worker is blocked or has no stack.
        let barred = self.forbidden.get() > 0 || panicking() || self.memory.exhausted.get();
        let found = if barred { Found::Nothing } else { self.fresh_to_begin() };
        if !self.fairness.check_ins.found(found, Tick::now) {
            return false;
        }
        let next = match (self.isolations.any(), found) {
            (true, _) => self.next_neglected_member(),
            (false, Found::Shared { .. }) => self.next_shared(),
            (false, _) => self.next_neglected(),
        };
        let Some(task) = next else { return false };
        if self.is_half_of_this_stack(&task) {
            self.requeue(task);
            return false;
        }
        self.begin_next(task)
    }

    /// Says which fresh tasks might be begun beside the running task and those that are ready.
    fn fresh_to_begin(&self) -> Found {
        if !self.has_fresh() {
            return Found::Nothing;
        }
        // To an isolated worker nearly all of what lies there are outsiders.
        if self.has_shared() && !self.isolations.any() {
            return Found::Shared { beside: 1 + self.queues.ready.len_up_to(MOST_JOBS) };
        }
        // Between ready tasks, the worker's own have the turn that `pick` gives them.
        if self.has_ready() { Found::Nothing } else { Found::Own }
    }

    /// Whether a claimed task is the second half of a join that is open in the running task, or in
    /// a task below it on the same stack.
    fn is_half_of_this_stack(&self, claimed: &RunRef) -> bool {
        let mut at = self.innermost_node();
        while let Some(node) = at
            && let Some(running) = node.task()
        {
            if is_unjoined_half(claimed, running) {
                return true;
            }
            // The task runs, or has called in place the task visited before it.
            let own = node.up_to(|node| node.kind == NodeKind::Task);
            let is_called = running.at_home.get() == JoinedAtHome::Called;
            at = is_called.then(|| own.parent()).flatten();
        }
        false
    }
}
