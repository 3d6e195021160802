//! A structured wait in the middle of an unwinding, or inside [`no_suspend`](super::no_suspend).
//!
//! A destructor that runs because its thread panics may open a scope or block on a task. That wait
//! must not be cut short, but no other task may run on this thread meanwhile either: it would see
//! `thread::panicking()`, poison locks, and count its own panics on top. So the worker is held: it
//! calls those descendants of the waiting task that nobody has started, hands everything else to the
//! other workers, and otherwise blocks its thread until the wait is over.
//!
//! Likewise where the end of a scope is waited for inside a section of `no_suspend`. What is called there
//! is in that section: its own waits are refused by a panic.
//!
//! What cannot end so (a descendant, stolen by another worker, that waits for a task whose home is the
//! held worker) hangs, and is a documented limit. So does what a hold below another one gives away, if
//! all other workers are held too.
//!
//! With one worker there is nobody to offer anything to, and where others starve (see `shortage`) they
//! cannot start what they were given: then the held worker looks for descendants of its task in the
//! injector too.

use crate::retire::chain::{restore_chain, suspend_chain};
use crate::retire::record::{Phase, Record};
use crate::retire::tree::Node;
use crate::scheduler::call::start;
use crate::scheduler::complete::release;
use crate::scheduler::idle::Rest;
use crate::scheduler::item::{Item, Runnable};
use crate::scheduler::worker::{Worker, task_of};
use crate::shim::atomic::Ordering;
use crate::shim::time::Duration;
use crossbeam_deque::Steal;
use std::ptr::NonNull;

/// How long a held worker rests while others starve.
const FAMINE: Duration = Duration::from_millis(1);

/// Holds the worker until `task`, which runs on it, is no longer parked.
#[cold]
pub(crate) fn hold<'a>(worker: &Worker, task: NonNull<Record>) -> &'a Worker {
    // SAFETY: the running task.
    let me = unsafe { task.as_ref() };
    let node = worker.node.get();
    // What is called meanwhile is not in the bare coroutine that the waiting task may be in.
    let chain = suspend_chain();
    let shared = worker.shared();
    loop {
        let starving = shared.pressure.load(Ordering::Relaxed);
        worker.collect();
        if !me.wait.is_parked() {
            // The waker has queued us, or is about to.
            if worker.ready.remove(task) {
                me.set_phase(Phase::Running);
                break;
            }
        } else {
            offer_or_run(worker, task, starving);
            if !me.wait.is_parked() {
                continue; // what was run was what it waited for
            }
        }
        let rest = if starving { Rest::HeldFor(FAMINE) } else { Rest::Held };
        shared.idle.rest(shared, worker.remote.index, rest, || {
            worker.has_ready_besides_queue()
                || !worker.remote.front.is_empty()
                || !starving && shared.pressure.load(Ordering::Relaxed)
        });
    }
    restore_chain(chain);
    worker.node.set(node);
    Worker::current().expect("a held worker stays")
}

/// Runs fresh descendants of `task` that lie here, and lets others have the rest. `starving`: others
/// cannot start what they have.
fn offer_or_run(worker: &Worker, task: NonNull<Record>, starving: bool) {
    let shared = worker.shared();
    let mut given = GivenAway::default();
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
                    Runnable::Started(record) => given.started.push(record),
                }
            }
            worker.next_local()
        });
        let further = || {
            let look = starving || shared.workers() == 1;
            look.then(|| next_injected(worker, &mut given.started)).flatten()
        };
        let Some(record) = fresh.or_else(further) else { break };
        // SAFETY: we hold its run reference.
        let parent = unsafe { record.as_ref() }.node.parent;
        // SAFETY: as above.
        let traits = unsafe { record.as_ref() }.traits;
        let fits = !traits.needs_own_stack() && worker.strand().has_room();
        // With no other worker there is nobody to offer it to: better a reported overflow than a hang.
        if (fits || shared.workers() == 1) && descends_from(parent, task) {
            // It may take long, or wait for one of those.
            given.queue(worker);
            start(worker, record);
        } else {
            given.fresh.push(record);
        }
    }
    given.queue(worker);
}

/// What a held worker has come upon and does not run: in no queue, until it is put into one.
#[derive(Default)]
struct GivenAway {
    /// Claimed.
    fresh: Vec<NonNull<Record>>,
    started: Vec<NonNull<Record>>,
}

impl GivenAway {
    fn queue(&mut self, worker: &Worker) {
        let shared = worker.shared();
        for record in self.fresh.drain(..) {
            // SAFETY: we hold its run reference.
            let task = unsafe { record.as_ref() };
            task.unclaim();
            if task.traits.local {
                worker.local.borrow_mut().push_back(record);
            } else {
                shared.offer(Item::fresh(record));
            }
        }
        for record in self.started.drain(..) {
            shared.offer(Item::started(record));
        }
    }
}

/// A fresh task of the injector, claimed.
fn next_injected(worker: &Worker, started: &mut Vec<NonNull<Record>>) -> Option<NonNull<Record>> {
    loop {
        match worker.shared().injector.steal() {
            Steal::Success(item) => match item.open() {
                Runnable::Fresh(record) => {
                    // SAFETY: the item holds a reference.
                    if unsafe { record.as_ref() }.claim() {
                        return Some(record);
                    }
                    // SAFETY: the item's reference, given up.
                    unsafe { release(record, 1) };
                }
                Runnable::Started(record) => started.push(record),
            },
            Steal::Retry => std::hint::spin_loop(),
            Steal::Empty => return None,
        }
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
