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

use crate::retire::chain::{restore_chain, suspend_chain};
use crate::retire::record::{Phase, Record};
use crate::retire::tree::Node;
use crate::scheduler::complete::release;
use crate::scheduler::idle::Rest;
use crate::scheduler::item::{Item, Runnable};
use crate::scheduler::run::start;
use crate::scheduler::worker::{Worker, task_of};
use std::ptr::NonNull;

/// Holds the worker until `task`, which runs on it, is no longer parked.
#[cold]
pub(crate) fn hold<'a>(worker: &Worker, task: NonNull<Record>) -> &'a Worker {
    // SAFETY: the running task.
    let me = unsafe { task.as_ref() };
    let node = worker.node.get();
    // What is called meanwhile is not in the bare coroutine that the waiting task may be in.
    let chain = suspend_chain();
    loop {
        worker.collect();
        if !me.wait.is_parked() {
            // The waker has queued us, or is about to.
            if worker.ready.remove(task) {
                me.set_phase(Phase::Running);
                break;
            }
        } else {
            offer_or_run(worker, task);
            if !me.wait.is_parked() {
                continue; // what was run was what it waited for
            }
        }
        let shared = worker.shared();
        shared.idle.rest(shared, worker.remote.index, Rest::Held, || {
            worker.has_ready_besides_queue() || !worker.remote.front.is_empty()
        });
    }
    restore_chain(chain);
    worker.node.set(node);
    Worker::current().expect("a held worker stays")
}

/// Runs fresh descendants of `task` that lie here, and lets others have the rest.
fn offer_or_run(worker: &Worker, task: NonNull<Record>) {
    let shared = worker.shared();
    let mut others = Vec::new();
    let mut started = Vec::new();
    loop {
        let fresh = worker.remote.front.pop().or_else(|| {
            while let Some(item) = worker.deque.pop() {
                match item.open() {
                    Runnable::Fresh(record) => {
                        // SAFETY: the item holds a reference.
                        if unsafe { record.as_ref() }.claim() {
                            return Some(record);
                        }
                        // SAFETY: the item's reference, given up.
                        unsafe { release(record, 1) };
                    }
                    Runnable::Started(record) => started.push(record),
                }
            }
            worker.next_local()
        });
        let Some(record) = fresh else { break };
        // SAFETY: we hold its run reference.
        let parent = unsafe { record.as_ref() }.node.parent;
        // SAFETY: as above.
        let traits = unsafe { record.as_ref() }.traits;
        let fits = !traits.needs_own_stack() && worker.strand().has_room();
        // With no other worker there is nobody to offer it to: better a reported overflow than a hang.
        if (fits || shared.workers() == 1) && descends_from(parent, task) {
            start(worker, record);
        } else {
            others.push(record);
        }
    }
    for record in others {
        // SAFETY: we hold its run reference.
        let task = unsafe { record.as_ref() };
        task.unclaim();
        if task.traits.local {
            worker.local.borrow_mut().push_back(record);
        } else {
            shared.inject(record);
        }
    }
    for record in started {
        shared.injector.push(Item::started(record));
        shared.idle.notify(shared, true);
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
