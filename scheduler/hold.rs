//! A structured wait in the middle of an unwinding.
//!
//! A destructor that runs because its thread panics may open a scope or block on a task. That wait
//! must not be cut short, but no other task may run on this thread meanwhile either: it would see
//! `thread::panicking()`, poison locks, and count its own panics on top. So the worker is held: it
//! calls those descendants of the waiting task that nobody has started, hands everything else to the
//! other workers, and otherwise blocks its thread until the wait is over.
//!
//! What cannot end so (a descendant, stolen by another worker, that waits for a task whose home is the
//! held worker) hangs, and is a documented limit.

use crate::retire::record::Record;
use crate::retire::tree::Node;
use crate::scheduler::idle::Rest;
use crate::scheduler::item::Runnable;
use crate::scheduler::run::start;
use crate::scheduler::worker::{Worker, task_of};
use std::ptr::NonNull;

/// Holds the worker until `task`, which runs on it, is no longer parked.
#[cold]
pub(crate) fn hold<'a>(worker: &Worker, task: NonNull<Record>) -> &'a Worker {
    // SAFETY: the running task.
    let me = unsafe { task.as_ref() };
    let node = worker.node.get();
    loop {
        worker.collect();
        if !me.wait.is_parked() {
            // The waker has queued us, or is about to.
            if worker.ready.remove(task) {
                break;
            }
        } else {
            offer_or_run(worker, task);
        }
        let shared = worker.shared();
        shared.idle.rest(shared, worker.remote.index, Rest::Held, || {
            worker.has_ready_besides_queue() || !worker.remote.front.is_empty()
        });
    }
    worker.node.set(node);
    Worker::current().expect("a held worker stays")
}

/// Runs fresh descendants of `task` that lie here, and lets others have the rest.
fn offer_or_run(worker: &Worker, task: NonNull<Record>) {
    let shared = worker.shared();
    let mut others = Vec::new();
    loop {
        let fresh = worker.remote.front.pop().or_else(|| {
            worker.deque.pop().and_then(|item| match item.open() {
                Runnable::Fresh(record) => {
                    // SAFETY: the item holds a reference.
                    if unsafe { record.as_ref() }.claim() { Some(record) } else { None }
                }
                Runnable::Started(record) => {
                    shared.injector.push(crate::scheduler::item::Item::started(record));
                    None
                }
            })
        });
        let Some(record) = fresh else { break };
        // SAFETY: we hold its run reference.
        let parent = unsafe { record.as_ref() }.node.parent;
        if descends_from(parent, task) {
            start(worker, record);
        } else {
            others.push(record);
        }
    }
    for record in others {
        // SAFETY: we hold its run reference.
        unsafe { record.as_ref() }.unclaim();
        shared.inject(record);
    }
}

fn descends_from(mut node: *const Node, task: NonNull<Record>) -> bool {
    // SAFETY: the ancestors of an unfinished task are alive.
    while let Some(node_ref) = unsafe { node.as_ref() } {
        if task_of(node) == Some(task) {
            return true;
        }
        node = node_ref.parent;
    }
    false
}
