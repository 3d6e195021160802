//! Puts a woken task back to work: into the queue of its home worker, whichever thread wakes it.

use crate::scheduler::queue::ready_stack::{Batch, ReadyStack};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::shim::point;
use crate::task::reference::{Ready, RunRef};
use crate::task::words::tree::NOBODY;
use std::ptr;

/// Queues a task at its home worker.
pub(crate) fn resume(task: Ready) {
    let home = home_of(&task);
    match Worker::current() {
        Some(worker) if ptr::eq(worker, home) => worker.make_ready(task),
        worker => deliver(worker, home, Batch::of(task)),
    }
}

/// Same as [`resume`], for any number of tasks.
#[inline]
pub(crate) fn resume_all(mut tasks: ReadyStack) {
    while let Some(task) = tasks.pop() {
        if tasks.top().is_none() {
            // Mostly there is one.
            return resume(task);
        }
        let home = task.node.home();
        let mut batch = Batch::of(task);
        // A migratable task has no home.
        while home != NOBODY && tasks.top().is_some_and(|next| next.node.home() == home) {
            tasks.pop().into_iter().for_each(|task| batch.push_below(task));
        }
        resume_batch(batch);
    }
}

/// Same as [`resume`], for several tasks with one home.
fn resume_batch(tasks: Batch) {
    let home = home_of(tasks.lowest());
    match Worker::current() {
        Some(worker) if ptr::eq(worker, home) => {
            tasks.for_each_from_below(|task| worker.make_ready(task));
        }
        worker => deliver(worker, home, tasks),
    }
}

/// Returns the worker that has the fiber of a waiting task.
#[inline(always)]
fn home_of<'a>(task: &Ready) -> &'a Worker {
    // SAFETY: the fiber stays with its worker until the task is queued. A worker lives as long
    // as one of its tasks has not ended.
    unsafe { &*Worker::fiber_of(task).worker.get() }
}

/// Sends tasks to a home that is not the calling thread's worker.
#[inline(never)]
fn deliver(worker: Option<&Worker>, home: &Worker, tasks: Batch) {
    home.remote.sleeper.assert_reachable();
    let shared = home.shared.get();
    if let Some(worker) = worker
        && ptr::eq(worker.shared.get(), shared)
    {
        return send(worker.shared(), home, tasks);
    }
    // Once the tasks are in the inbox they may run and end, and their runtime with them. A
    // reference keeps `shared` alive for the rest of the call.
    // SAFETY: the pointer came from an `Arc`, which the home's thread holds as long as the tasks
    // are not queued.
    let shared = unsafe { Shared::kept(shared) };
    send(&shared, home, tasks);
}

fn send(shared: &Shared, home: &Worker, tasks: Batch) {
    send_to(shared, home.remote.index, tasks);
}

fn send_to(shared: &Shared, worker: usize, tasks: Batch) {
    if shared.remote(worker).inbox.push_all(tasks) {
        shared.idle.notify_worker(shared, worker);
    }
}

/// Sends a task that was just made to the worker that is to start it. The caller keeps the runtime
/// alive.
pub(crate) fn send_to_start(shared: &Shared, worker: usize, run: RunRef) {
    shared.remote(worker).sleeper.assert_reachable();
    point();
    send_to(shared, worker, Batch::of(Ready::to_start(run)));
}
