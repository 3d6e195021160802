//! How a task runs on the stack that its worker stands on, from its first instruction to its last.

use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::cancel::{inherit_unstarted, is_cancelled_at_start};
use crate::scheduler::life::complete::{Orphan, StillCounted, complete};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::spans::in_own_span;
use crate::scheduler::worker::Worker;
use crate::task::cause::Cause;
use crate::task::cold::ColdData;
use crate::task::outcome::{Failure, drop_quietly};
use crate::task::record::{JoinedAtHome, Origin, Record};
use crate::task::reference::RunRef;
use crate::task::words::tree::{Isolation, NOBODY, Node, WorkerNumber};
use crate::task::words::wait::WaitKind;
use std::hint::cold_path;
use std::sync::Arc;

/// Runs a claimed task on the present stack, to its end, and completes it.
#[inline(always)]
pub(crate) fn start(worker: &Worker, task: RunRef) -> StillCounted {
    worker.counters().dispatched.add(1);
    call(worker, task)
}

/// As [`start`], without counting the task.
#[inline(always)]
pub(crate) fn call(worker: &Worker, task: RunRef) -> StillCounted {
    run_in_place(worker, &task);
    complete(Worker::current().expect("tasks run on workers"), task)
}

/// Calls a child that the running task has claimed and has the handle of, without completing it.
/// Neither task is migratable where it matters: the child stays on this worker, and so does the
/// frame below it.
#[inline(always)]
pub(crate) fn call_child(worker: &Worker, task: &RunRef, kind: WaitKind) {
    worker.counters().in_place.add(1);
    task.at_home.set(JoinedAtHome::Called);
    let outer = enter_node(worker, task, worker.number());
    // A join that can be interrupted has made this check before the claim.
    let cancelled = task.node.word().is_marked()
        || kind == WaitKind::Structured
            && task.traits.origin != Origin::Called
            && is_cancelled_at_start(task);
    in_own_span(task.cold(), || {
        execute(task, cancelled);
        if let Some(cold) = task.cold() {
            drop_locals(cold);
        }
    });
    worker.node.set(outer);
}

/// Makes a claimed task the running one. Returns the node that ran before.
#[inline(always)]
fn enter_node(worker: &Worker, task: &Record, home: WorkerNumber) -> *const Node {
    task.begin();
    task.node.set_home(home);
    worker.node.replace(&raw const task.node)
}

/// Runs the closure of a claimed task, or drops it if the task is cancelled.
#[inline(always)]
fn execute(task: &RunRef, cancelled: bool) {
    if cancelled {
        cold_path();
        let cause = not_started(LiveNode::from(task));
        // SAFETY: claimed by the caller, which calls this once.
        unsafe { task.abandon(Failure::NotStarted(cause)) };
    } else {
        // SAFETY: claimed by the caller, which calls this once.
        unsafe { task.run() };
    }
}

/// The cause for which the claimed task with this node is not started. (By value: the reference to
/// the task may stay in a register of the caller.)
#[cold]
#[inline(never)]
fn not_started(node: LiveNode<'_>) -> Arc<Cause> {
    inherit_unstarted(node);
    cause_of(node)
}

/// Runs a claimed task on the present stack without completing it.
#[inline(always)]
fn run_in_place(worker: &Worker, task: &RunRef) {
    let home = if task.traits.migratable { NOBODY } else { worker.number() };
    let outer = enter_node(worker, task, home);
    let restricts = task.node.isolation() != Isolation::None;
    if restricts {
        worker.begin_isolated(task);
    }
    in_own_span(task.cold(), || {
        execute(task, task.traits.origin != Origin::Called && is_cancelled_at_start(task));
        task.stored.set(true);
        if let Some(cold) = task.cold() {
            drop_locals(cold);
        }
        if task.join.is_detached() {
            // While the task is still the current one, since the destructor of its result may use
            // that.
            // SAFETY: the handle is gone, so the outcome is ours.
            let orphan = unsafe { Orphan::new(task.task()) };
            orphan.drop_below(Some(LiveNode::parent_of_run(task)));
        }
    });
    let worker = Worker::current().expect("tasks run on workers");
    if restricts {
        worker.end_isolated(task);
    }
    worker.node.set(outer);
}

/// Drops a task's own bindings of task-locals while it is still the current task: the record may
/// live on, and the bindings are of a user's types.
#[cold]
pub(crate) fn drop_locals(cold: &ColdData) {
    // SAFETY: the chain belongs to the worker that runs the task, and there is no reference into
    // it: `scope` has restored the bindings that the task began with.
    let locals = unsafe { std::mem::take(&mut *cold.locals.get()) };
    drop_quietly(locals);
}
