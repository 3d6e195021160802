//! How a task runs on the stack that its worker stands on, from its first instruction to its last.

use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::cancel::{inherit_unstarted, is_cancelled_at_start};
use crate::scheduler::life::complete::{StillCounted, complete, drop_outcome};
use crate::scheduler::worker::Worker;
use crate::task::cold::ColdData;
use crate::task::outcome::{Failure, drop_payload, quietly};
use crate::task::record::{JoinedAtHome, Origin, Record};
use crate::task::words::tree::{Isolation, NOBODY, Node, WorkerNumber};
use crate::task::words::wait::WaitKind;
use std::hint::cold_path;
use std::ptr::NonNull;

/// Runs a claimed task on the present stack, to its end, and completes it.
#[inline(always)]
pub(crate) fn start(worker: &Worker, record: NonNull<Record>) -> StillCounted {
    worker.counters().tasks.add(1);
    call(worker, record)
}

/// As [`start`], without counting the task.
#[inline(always)]
pub(crate) fn call(worker: &Worker, record: NonNull<Record>) -> StillCounted {
    run_in_place(worker, record);
    // SAFETY: the task has just ended here; its run reference is in our hand.
    unsafe { complete(Worker::current().expect("tasks run on workers"), record) }
}

/// Calls a child that the running task has claimed and has the handle of, without completing it.
/// Neither task is migratable where it matters: the child stays on this worker, and so does the
/// frame below it.
#[inline(always)]
pub(crate) fn call_child(worker: &Worker, record: NonNull<Record>, kind: WaitKind) {
    // SAFETY: the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    worker.counters().in_place.add(1);
    task.at_home.set(JoinedAtHome::Called);
    let outer = enter_node(worker, task, worker.number());
    // A join that can be interrupted has made this check before the claim.
    let cancelled = task.node.word().is_marked()
        || kind == WaitKind::Structured
            && task.traits.origin != Origin::Called
            && is_cancelled_at_start(&task.node);
    execute(record, cancelled);
    if let Some(cold) = task.cold() {
        drop_locals(cold);
    }
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
fn execute(record: NonNull<Record>, cancelled: bool) {
    if cancelled {
        cold_path();
        abandon(record);
    } else {
        // SAFETY: claimed by the caller.
        unsafe { Record::run(record) };
    }
}

#[cold]
#[inline(never)]
fn abandon(record: NonNull<Record>) {
    // SAFETY: the run reference is in the caller's hand.
    let task = unsafe { record.as_ref() };
    inherit_unstarted(task);
    let cause = cause_of(&task.node);
    // SAFETY: claimed by the caller.
    unsafe { Record::abandon(record, Failure::NotStarted(cause)) };
}

/// Runs a claimed task on the present stack without completing it.
#[inline(always)]
fn run_in_place(worker: &Worker, record: NonNull<Record>) {
    // SAFETY: the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    let home = if task.traits.migratable { NOBODY } else { worker.number() };
    let outer = enter_node(worker, task, home);
    let restricts = task.node.isolation() != Isolation::None;
    if restricts {
        worker.begin_isolated(task);
    }
    execute(record, task.traits.origin != Origin::Called && is_cancelled_at_start(&task.node));
    task.stored.set(true);
    if let Some(cold) = task.cold() {
        drop_locals(cold);
    }
    if task.join.is_detached() {
        // While the task is still the current one, since the destructor of its result may use that.
        // SAFETY: the handle is gone, so the outcome is ours.
        unsafe { drop_outcome(record) };
    }
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
    if let Some(payload) = quietly(|| drop(locals)) {
        drop_payload(payload);
    }
}
