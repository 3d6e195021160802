//! Detects a deadlock by stack exhaustion: runs with every worker stopped, finds hosts for guests,
//! or picks the task that must fail.
//!
//! Everything here runs with the ledger of `exhaustion` locked and all workers noted in it as
//! resting. That module explains what this means, and why a deadlock that is declared here is one.

use crate::retire::stack::StackExhausted;
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::stacks::exhaustion::{class_of, host_of, put_back};
use crate::scheduler::stacks::ledger::{Ledger, Order};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::release;
use crate::scheduler::worker::shared::Shared;
use crate::shim::time::{Duration, now};
use crate::task::record::{Phase, Record};
use crate::task::words::tree::{Node, NodeKind};
use crossbeam_deque::Steal;
use std::collections::HashSet;
use std::ptr::{self, NonNull};

/// How long the kernel must have refused a stack before a task fails for it.
const PATIENCE: Duration = Duration::from_millis(200);

/// Finds hosts for fresh tasks, or one task that must fail, and enters the orders. Appends the
/// workers to wake to `ordered`.
pub(crate) fn resolve(worker: &Worker, ledger: &mut Ledger, ordered: &mut Vec<usize>) {
    let shared = worker.shared();
    let Some(still) = nobody_runs(shared) else { return };
    let fresh = drain_injector(worker);
    let mut local = Vec::new();
    for_each_worker(shared, |worker| {
        let index = worker.remote.index;
        // Stale entries stay for their worker.
        let fresh = |record: &&NonNull<Record>| {
            // SAFETY: the queue holds a reference.
            unsafe { record.as_ref() }.phase() == Phase::Ready
        };
        local.extend(
            worker.queues.local.borrow().iter().filter(fresh).map(|record| (*record, index)),
        );
    });
    let mut left = Vec::new();
    for record in fresh {
        let mut host = None;
        for_each_worker(shared, |worker| {
            let index = worker.remote.index;
            if host.is_none() && !ordered.contains(&index) {
                host = host_of(record, worker).map(|host| (index, host));
            }
        });
        match host {
            Some((index, host)) => {
                ordered.push(index);
                ledger.lines[index].orders.push(Order::Visit(record, host));
            }
            None => left.push(record),
        }
    }
    for &(record, index) in &local {
        for_each_worker(shared, |worker| {
            if worker.remote.index == index
                && !ordered.contains(&index)
                && let Some(host) = host_of(record, worker)
            {
                ordered.push(index);
                ledger.lines[index].orders.push(Order::Visit(record, host));
            }
        });
    }
    if ordered.is_empty()
        && let Some((record, index)) = verdict(worker, &left, &local, &still)
        && let Some(reason) = last_attempt(shared, ledger, record)
    {
        left.retain(|other| *other != record);
        ordered.push(index);
        ledger.lines[index].orders.push(Order::Refuse(record, reason));
    }
    for record in left {
        put_back(worker, record);
    }
}

fn for_each_worker(shared: &Shared, mut f: impl FnMut(&Worker)) {
    for index in 0..shared.workers() {
        // SAFETY: the worker rests and the ledger is locked, so its thread does not write its own
        // part; the lock makes its earlier writes visible.
        f(unsafe { &*shared.seat(index) });
    }
}

/// The tasks of all coroutines, none of which can go on.
#[derive(Default)]
struct Still {
    parked: HashSet<*const Record>,
    /// Tasks that an isolation keeps waiting: they go on when other tasks' waits have ended.
    kept: HashSet<*const Record>,
}

/// Collects the tasks of all coroutines. Returns `None` if any can go on, or if a worker has been
/// sent anything.
fn nobody_runs(shared: &Shared) -> Option<Still> {
    let mut still = Still::default();
    let mut all = true;
    for_each_worker(shared, |worker| {
        all &= !worker.has_ready() && !worker.has_ready_besides_queue();
        worker.isolations.for_each_kept(|record| {
            still.kept.insert(record.as_ptr().cast_const());
        });
        worker.fibers.for_each(|fiber| {
            // SAFETY: null, or the task of a suspended coroutine, which has not ended.
            match unsafe { fiber.task.get().as_ref() } {
                Some(task) if still.kept.contains(&ptr::from_ref(task)) => {}
                Some(task) if task.phase() == Phase::Parked && task.wait.is_parked() => {
                    still.parked.insert(ptr::from_ref(task));
                }
                // An isolation has kept it waiting before it began.
                None if still.kept.contains(&fiber.first.get()) => {}
                _ => all = false,
            }
        });
    });
    all.then_some(still)
}

/// Takes all fresh tasks out of the injector, claimed.
fn drain_injector(worker: &Worker) -> Vec<NonNull<Record>> {
    let mut fresh = Vec::new();
    loop {
        match worker.shared().injector.steal() {
            Steal::Success(item) => match item.open() {
                Runnable::Fresh(record) => {
                    // SAFETY: the item holds a reference.
                    if unsafe { record.as_ref() }.claim() {
                        fresh.push(record);
                    } else {
                        // SAFETY: the stale item's reference, given up.
                        unsafe { release(record, 1) };
                    }
                }
                Runnable::Started(record) => {
                    // A started task needs no stack, and goes on here.
                    let _ = worker.open(Item::started(record));
                }
            },
            Steal::Retry => {}
            Steal::Empty => return fresh,
        }
    }
}

/// The worker that shall end a fresh task without calling it: the one whose own queue holds the
/// task, otherwise preferably the present worker. `None` if every such worker keeps the task
/// waiting.
fn who_refuses(worker: &Worker, record: NonNull<Record>, index: Option<usize>) -> Option<usize> {
    let mut found = None;
    for_each_worker(worker.shared(), |other| {
        let here = index.is_none_or(|index| index == other.remote.index);
        if here && other.may_run(record) && (found.is_none() || ptr::eq(other, worker)) {
            found = Some(other.remote.index);
        }
    });
    found
}

/// Picks the task that must fail, and the worker that ends it. Returns `None` if any task may go
/// on.
fn verdict(
    worker: &Worker,
    fresh: &[NonNull<Record>],
    local: &[(NonNull<Record>, usize)],
    still: &Still,
) -> Option<(NonNull<Record>, usize)> {
    let Still { parked, kept } = still;
    // This also covers the end of the runtime: sections that ignore cancellation wait on.
    if worker.has_ready() {
        return None;
    }
    // Every unfinished task of the runtime is fresh, or is on a coroutine, or is an ancestor of
    // one.
    let mut seen = HashSet::new();
    let mut waiting = HashSet::new();
    let all_fresh = || {
        let local = local.iter().map(|(record, index)| (*record, Some(*index)));
        fresh.iter().map(|record| (*record, None)).chain(local)
    };
    let mut candidate = None;
    for (record, index) in all_fresh() {
        let mut above = HashSet::new();
        collect_waiting(record.as_ptr().cast_const().cast(), &mut seen, &mut above);
        // Pick the first task for which, or for an ancestor of which, a task waits. For later tasks
        // the ancestors may have been visited already.
        if candidate.is_none() && (parked.is_empty() || !above.is_disjoint(parked)) {
            candidate = who_refuses(worker, record, index).map(|index| (record, index));
        }
        waiting.extend(above);
    }
    for task in parked.iter().chain(kept) {
        collect_waiting(task.cast(), &mut seen, &mut waiting);
    }
    if parked.iter().all(|task| waiting.contains(task)) { candidate } else { None }
}

/// Collects the tasks that wait for the end of `node` or of one of its ancestors. Stops at a node
/// that has been visited.
fn collect_waiting(
    mut at: *const Node,
    seen: &mut HashSet<*const Node>,
    waiting: &mut HashSet<*const Record>,
) {
    // SAFETY: the caller's task is unfinished, so its ancestors are alive.
    while let Some(node) = unsafe { at.as_ref() } {
        if !seen.insert(at) {
            return;
        }
        match node.kind {
            // SAFETY: a node of kind Task is the start of its record.
            NodeKind::Task => waiting.extend(unsafe { (*at.cast::<Record>()).join.waiting_task() }),
            NodeKind::Scope if node.is_waiting() => {
                // SAFETY: a node of kind Scope is the start of its frame.
                let owner = unsafe { (*at.cast::<ScopeFrame>()).owner() };
                waiting.insert(owner.as_ptr());
            }
            NodeKind::Scope => {}
            NodeKind::Root => return,
        }
        at = node.parent;
    }
}

/// A last attempt to get a stack for the task. Returns the reason for the failure, or `None` if
/// there is a stack after all or still hope for one.
fn last_attempt(
    shared: &Shared,
    ledger: &mut Ledger,
    record: NonNull<Record>,
) -> Option<StackExhausted> {
    match shared.stacks.take(class_of(shared, record)) {
        Ok(stack) => {
            shared.stacks.give_back([stack]);
            None
        }
        Err(reason @ StackExhausted::Limit { .. }) => Some(reason),
        Err(reason) => {
            let since = *ledger.hopeless.get_or_insert_with(now);
            (now() - since >= PATIENCE).then_some(reason)
        }
    }
}
