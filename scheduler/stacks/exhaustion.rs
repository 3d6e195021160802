//! Stack exhaustion: what the workers do when no stack can be had.
//!
//! A worker that cannot get a stack for a fresh task is *starving*. While no worker starves,
//! nothing in this module runs; the only cost is a load of `pressure` when a worker has nothing
//! else to do.
//!
//! # Measures, in order
//!
//! 1. **Ready coroutines go on**, and loops that have a stack go on taking fresh tasks. So a task
//!    waits until another has ended, and nothing is lost.
//! 2. **Warm stacks go back** (`relieve`, `rest`). Under pressure every worker that comes to its
//!    main coroutine gives up its pool. So does the starving worker, whose pool may be of another
//!    class. Loops that end pass through the main coroutine. A worker that has given anything back
//!    wakes the starving workers.
//! 3. **Fresh tasks go to the injector**, where every worker finds them. A starving worker naps,
//!    for at most 16 ms at a time, since memory may come free without notice.
//! 4. **A fresh task runs as a guest** on the stack of a coroutine that waits for it. The guest's
//!    frames lie below the frames of the waiter, its *host*. The host cannot go on before the guest
//!    has ended, as it waits for that very task or for one that ends after it. A cancel would wake
//!    the host; meanwhile a shield in its wait word holds the cancel back. The guest is a coroutine
//!    of its own and may wait like any other. It needs at least 12 KiB and a quarter of the stack
//!    ([`FiberOf::has_room_for_guest`]). A task that asked for a larger stack, or that may migrate,
//!    cannot be a guest.
//! 5. **A task fails** if nothing else helps: see below.
//!
//! # Stopping all workers, and deadlocks
//!
//! A worker that starves, or that idles under pressure, notes itself in the ledger as resting
//! before it lies down. Before it does anything else, it removes the note, under the same lock.
//! Suppose a worker holds the lock, finds all workers noted, and finds no order that its worker has
//! not got up for yet. Then no task runs, and the task tree does not change except by foreign
//! threads (spawn, unpark, cancel, drop of a handle). The last worker to note itself examines all
//! tasks (deadlock.rs). It looks for hosts on any worker and leaves orders for the guests. If it
//! finds none, it declares a deadlock if all of the following hold:
//!
//! * A last attempt to get a stack failed. If memory or mappings are short, attempts must have
//!   failed for 200 ms, as other programs may free some.
//! * Every coroutine of the runtime either is parked in a wait for a task of this runtime (the end
//!   of a scope, a join, block_on), or is kept waiting by an isolation (wait/isolation.rs) until
//!   such a wait ends. A park does not count, nor does a call of `blocking`, a wait for a task of
//!   another runtime or for a primitive (a mutex, an event, ...), or a worker that is blocked in
//!   the middle of an unwinding: others may end all of these.
//! * A fresh task is among the tasks waited for, or below one of them, and some worker might run
//!   it. A task that every worker keeps waiting may find a stack later.
//!
//! Then this fresh task ends with [`Failure::NoStack`], which wakes its waiter. Only one task fails
//! at a time, since the waiter that goes on frees a stack, or runs the other tasks.
//!
//! Two cases are not detected, and wait for ever like any deadlock: tasks that wait for each other
//! in a ring; and a coroutine that parks, or waits for a primitive, and would be woken only by a
//! task that has no stack. One case is taken for a deadlock although a foreign thread could end it:
//! joins that the thread would cancel by dropping their tasks' handles.

use crate::retire::stack::StackClass;
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::life::complete::complete;
use crate::scheduler::life::scope_frame::task_of;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::queue::private_deque::Portion;
use crate::scheduler::run_loop::call::drop_locals;
use crate::scheduler::run_loop::enter;
use crate::scheduler::stacks::deadlock::resolve;
use crate::scheduler::stacks::ledger::{Ledger, Order};
use crate::scheduler::steal::idle::{Rest, Roused};
use crate::scheduler::wait::no_suspend::no_suspend;
use crate::scheduler::worker::fiber::FiberOf;
use crate::scheduler::worker::shared::Shared;
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::atomic::Ordering;
use crate::shim::time::Duration;
use crate::task::outcome::Failure;
use crate::task::record::{Origin, Phase, Record};
use crate::task::words::tree::{Node, NodeKind};
use std::ptr::{self, NonNull};

/// The number of fresh tasks that a worker looks at before it lies down.
const LOOK: usize = 64;
/// The number of generations that it goes up to find a waiter.
const DEPTH: usize = 64;

/// Called when a worker could not get a stack.
#[cold]
pub(crate) fn begin(worker: &Worker) {
    if worker.memory.exhausted.replace(true) {
        return;
    }
    let shared = worker.shared();
    shared.exhaustion.ledger().lines[worker.remote.index].starving = true;
    shared.pressure.store(true, Ordering::SeqCst);
    // Sleepers keep warm stacks, and must be noted as resting.
    for index in (0..shared.workers()).filter(|index| *index != worker.remote.index) {
        shared.idle.notify_worker(shared, index);
    }
}

/// Called when the worker has got a stack after all, or needs none any more.
#[cold]
pub(crate) fn end(worker: &Worker) {
    worker.memory.exhausted.set(false);
    let shared = worker.shared();
    let mut ledger = shared.exhaustion.ledger();
    ledger.lines[worker.remote.index].starving = false;
    ledger.hopeless = None;
    settle(shared, &ledger);
}

/// Keeps up the pressure as long as a worker starves or has orders. A worker that does not starve
/// looks for its orders only under pressure, and may get up after the starving worker for which
/// they were given.
fn settle(shared: &Shared, ledger: &Ledger) {
    let pressure = ledger.lines.iter().any(|line| line.starving || !line.orders.is_empty());
    // Under the lock: a worker that begins to starve later stores `true` after this store.
    shared.pressure.store(pressure, Ordering::SeqCst);
}

/// Helps the starving workers, and this one, whenever the worker is at its main coroutine under
/// pressure. Returns `true` if it has run anything.
#[cold]
pub(crate) fn relieve(worker: &Worker) -> bool {
    if !worker.memory.exhausted.get() {
        give_up_warm(worker);
    }
    let orders = {
        let mut ledger = worker.shared().exhaustion.ledger();
        let orders = std::mem::take(&mut ledger.lines[worker.remote.index].orders);
        if !orders.is_empty() {
            settle(worker.shared(), &ledger);
        }
        orders
    };
    let mut ran = false;
    for order in orders {
        ran |= carry_out(worker, order);
    }
    ran || worker.memory.exhausted.get() && look_here(worker)
}

/// Tries again to get the larger stack that a task needs. Its loop has left its own stack for the
/// task, and there was none; now no stack of this worker is in use. Returns `false` if the task
/// must wait.
#[cold]
pub(crate) fn retry_dedicated(worker: &Worker) -> bool {
    give_up_warm(worker);
    let Some(record) = NonNull::new(worker.queues.dedicated.replace(ptr::null()).cast_mut()) else {
        return false;
    };
    match worker.new_fiber(class_of(worker.shared(), record), record.as_ptr()) {
        Some(fiber) => {
            worker.leave_main(fiber);
            true
        }
        None => {
            put_back(worker, record);
            false
        }
    }
}

/// The class of stack that a fresh task needs.
pub(crate) fn class_of(shared: &Shared, record: NonNull<Record>) -> StackClass {
    // SAFETY: in our hand, or queued by a worker that rests, with a reference.
    match unsafe { record.as_ref() }.traits.stack_class {
        0 => shared.config.stack_class,
        class => StackClass::from_byte(class),
    }
}

/// Gives back all warm stacks and wakes the starving workers. Returns `true` if there was a warm
/// stack.
fn give_up_warm(worker: &Worker) -> bool {
    worker.dismiss_spare();
    worker.housekeeping();
    if worker.memory.stacks.borrow().warm() == 0 {
        return false;
    }
    let shared = worker.shared();
    worker.memory.stacks.borrow_mut().drain(&shared.stacks);
    let starving: Vec<usize> = {
        let ledger = shared.exhaustion.ledger();
        let others = |index: &usize| *index != worker.remote.index && ledger.lines[*index].starving;
        (0..shared.workers()).filter(others).collect()
    };
    for index in starving {
        shared.idle.notify_worker(shared, index);
    }
    true
}

/// Lies down under pressure. Returns `None` if there is something to do at once.
#[cold]
pub(crate) fn rest(worker: &Worker, nap: Duration) -> Option<Roused> {
    let shared = worker.shared();
    let me = worker.remote.index;
    if worker.has_ready() || give_up_warm(worker) && worker.has_fresh() {
        return None;
    }
    if publish(worker) > 0 {
        shared.idle.notify(shared, true);
    }
    if worker.memory.exhausted.get() && !worker.has_fresh() {
        end(worker);
        return None;
    }
    let mut ledger = shared.exhaustion.ledger();
    if worker.has_ready() || !ledger.lines[me].orders.is_empty() {
        return None;
    }
    ledger.lines[me].resting = true;
    let mut ordered = Vec::new();
    // A worker with orders is about to get up, and its orders come first.
    // MUTANT(exhaustion.rest.all): with ledger.lines.iter().all(|line| line.resting)
    if ledger.lines.iter().all(|line| line.resting && line.orders.is_empty()) {
        resolve(worker, &mut ledger, &mut ordered);
        if ordered.contains(&me) {
            ledger.lines[me].resting = false;
        }
        if !ordered.is_empty() {
            settle(shared, &ledger);
        }
    }
    let mine = !ledger.lines[me].resting;
    drop(ledger);
    for &index in ordered.iter().filter(|index| **index != me) {
        shared.idle.notify_worker(shared, index);
    }
    if mine {
        return None;
    }
    worker.counters().sleeps.add(1);
    let nap = worker.time_to_next().map_or(nap, |time| nap.min(time));
    let roused = shared.idle.rest(shared, me, Rest::Nap(nap), || {
        worker.has_ready()
            || shared.is_stopping()
            || !shared.exhaustion.ledger().lines[me].orders.is_empty()
    });
    shared.exhaustion.ledger().lines[me].resting = false;
    Some(roused)
}

/// Moves the fresh tasks at hand to the injector, where every worker finds them. Returns how many.
fn publish(worker: &Worker) -> usize {
    let shared = worker.shared();
    let mut count = 0;
    if let Some(record) = NonNull::new(worker.queues.dedicated.replace(ptr::null()).cast_mut()) {
        put_back(worker, record);
        count += 1;
    }
    loop {
        let given = worker.remote.private.hand_over(1, Portion::HALF, |record| {
            // SAFETY: the run reference is in our hand.
            unsafe { record.as_ref() }.set_phase(Phase::Ready);
            shared.injector.push(Item::fresh(record));
        });
        count += given;
        if given == 0 && worker.remote.private.is_empty() {
            break;
        }
    }
    while let Some(item) = worker.queues.deque.pop() {
        match item.open() {
            Runnable::Fresh(record) => {
                shared.injector.push(Item::fresh(record));
                count += 1;
            }
            Runnable::Started(record) => {
                // It needs no stack.
                let _ = worker.open(Item::started(record));
            }
        }
    }
    count
}

/// Queues a claimed task again.
pub(crate) fn put_back(worker: &Worker, record: NonNull<Record>) {
    // SAFETY: the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    task.unclaim();
    if task.traits.local {
        worker.queues.local.borrow_mut().push_back(record);
    } else {
        worker.shared().injector.push(Item::fresh(record));
    }
}

/// Looks at some of the fresh tasks at hand: ends the cancelled ones, and runs the first that can
/// be a guest here. Returns `true` if it did anything.
fn look_here(worker: &Worker) -> bool {
    let mut others = Vec::new();
    let mut found = None;
    let mut ended = false;
    let isolated = worker.isolations.any();
    let next = || if isolated { worker.next_member() } else { worker.next_fresh() };
    while others.len() < LOOK
        && let Some(record) = next()
    {
        if let Some(why) = cancelled(record) {
            refuse(worker, record, why);
            ended = true;
            continue;
        }
        found = host_of(record, worker).map(|host| (record, host));
        if found.is_some() {
            break;
        }
        others.push(record);
    }
    if isolated && found.is_none() && others.is_empty() {
        // The other fresh tasks must not be started here.
        end(worker);
    }
    for record in others {
        put_back(worker, record);
    }
    match found {
        Some((record, host)) => carry_out(worker, Order::Visit(record, host)) || ended,
        None => ended,
    }
}

/// The failure of a fresh task, in our hand, that will not be called anyway. An external task has
/// no closure, and keeps the outcome that it has.
fn cancelled(record: NonNull<Record>) -> Option<Failure> {
    // SAFETY: the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    let ends = match task.traits.origin {
        Origin::Spawned => is_cancelled(&task.node),
        Origin::Called => false,
        Origin::External => true,
    };
    ends.then(|| Failure::NotStarted(cause_of(&task.node)))
}

/// Finds a coroutine of `worker` that waits for the end of the fresh task, or of one that ends
/// after it, and that has room for it.
///
/// `worker` is the caller, on its main coroutine, or it rests with the ledger locked.
pub(crate) fn host_of(record: NonNull<Record>, worker: &Worker) -> Option<*const Fiber> {
    // SAFETY: the run reference is in the caller's hand.
    let task = unsafe { record.as_ref() };
    if task.traits.needs_own_stack() || !worker.may_run(record) {
        return None;
    }
    let mut at: *const Node = &raw const task.node;
    for _ in 0..DEPTH {
        // SAFETY: the ancestors of an unfinished task are alive.
        let node = unsafe { at.as_ref() }?;
        let waiter = match node.kind {
            NodeKind::Root => return None,
            NodeKind::Scope => node.is_waiting().then(|| task_of(at)).flatten(),
            NodeKind::Task => {
                // Compare with the parent, which is alive; the pointer in the join word may be to a
                // task that is not.
                // SAFETY: a node of kind Task is the start of its record.
                let joined = unsafe { (*at.cast::<Record>()).join.waiting_task() };
                task_of(node.parent).filter(|parent| joined == Some(parent.as_ptr().cast_const()))
            }
        };
        if let Some(waiter) = waiter
            && let Some(host) = coroutine_of(waiter, worker)
            && host.has_room_for_guest()
        {
            return Some(host);
        }
        at = node.parent;
    }
    None
}

/// The coroutine that a task is parked on, if `worker` is its home.
fn coroutine_of(record: NonNull<Record>, worker: &Worker) -> Option<&Fiber> {
    // SAFETY: an ancestor of an unfinished task is alive.
    let task = unsafe { record.as_ref() };
    if task.node.home() != worker.number() || task.phase() != Phase::Parked {
        return None;
    }
    // A task that a cancel has woken stays in this phase until it runs, and needs its stack for
    // that.
    if !task.wait.is_parked() {
        return None;
    }
    let place = ptr::with_exposed_provenance::<Fiber>(task.place.load(Ordering::Relaxed));
    // SAFETY: the task is parked (or woken and not continued) at home, and its home runs nothing
    // now, so its coroutine is alive and suspended.
    let fiber = unsafe { &*place };
    ptr::eq(fiber.task.get(), record.as_ptr()).then_some(fiber)
}

/// Carries out an order. Returns `true` if it has run or ended the task.
fn carry_out(worker: &Worker, order: Order) -> bool {
    match order {
        Order::Refuse(record, reason) => {
            let taken = take_if_local(worker, record);
            if taken {
                let why = cancelled(record).unwrap_or(Failure::NoStack(reason));
                refuse(worker, record, why);
            }
            taken
        }
        Order::Visit(record, host) => {
            // SAFETY: the host is one of ours and suspended: nothing has run here since it was
            // found.
            take_if_local(worker, record) && visit(worker, record, unsafe { &*host })
        }
    }
}

/// Takes a local task out of its queue, where no other worker may steal it; all other tasks are in
/// our hand already.
fn take_if_local(worker: &Worker, record: NonNull<Record>) -> bool {
    // SAFETY: the task is queued here or in our hand, so there is a reference to it.
    let task = unsafe { record.as_ref() };
    if task.traits.local && task.phase() == Phase::Ready {
        let mut local = worker.queues.local.borrow_mut();
        let at = local.iter().position(|other| *other == record);
        return at.and_then(|at| local.remove(at)).is_some() && task.claim();
    }
    true
}

/// Runs a claimed task on the stack of its waiter. Returns `false` if the waiter has been woken,
/// and the task is queued again.
fn visit(worker: &Worker, record: NonNull<Record>, host: &Fiber) -> bool {
    // SAFETY: the task of a suspended coroutine has not ended.
    let waiter = unsafe { &*host.task.get() };
    let shielded = if host.has_room_for_guest() { waiter.wait.shield() } else { None };
    let Some(shielded) = shielded else {
        // The waiter was cancelled meanwhile: it frees its stack.
        put_back(worker, record);
        return false;
    };
    host.lent.set(shielded);
    // SAFETY: the host is suspended and has room. It waits for a task that cannot end before this
    // one, and the shield keeps a cancel from waking it.
    let guest =
        unsafe { FiberOf::create_guest(host, ptr::from_ref(worker), record.as_ptr(), enter) };
    // SAFETY: made above.
    worker.adopt(unsafe { guest.as_ref() });
    worker.counters().in_place.add(1);
    worker.leave_main(guest.as_ptr());
    true
}

/// Called at once, on the main coroutine, when a guest has ended: releases its host.
#[cold]
pub(crate) fn see_off(worker: &Worker) {
    // SAFETY: the guest's memory lies on the stack of its host, which is still suspended.
    let guest = unsafe { &*worker.fibers.vacated.replace(ptr::null()) };
    // SAFETY: the guest has left its stack for good, and only this coroutine has run since.
    let host = unsafe { guest.dismiss_guest() };
    if !host.lent.replace(false) {
        return;
    }
    let task = NonNull::new(host.task.get().cast_mut()).expect("a host has a task");
    // SAFETY: the task of a suspended coroutine has not ended.
    let wait = &unsafe { task.as_ref() }.wait;
    if wait.unshield() {
        worker.make_ready(task);
    }
}

/// Ends a claimed task without calling it, on the main coroutine.
fn refuse(worker: &Worker, record: NonNull<Record>, why: Failure) {
    // SAFETY: claimed, so the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    if task.phase() != Phase::Running {
        // It comes from the private deque, where its phase was not changed.
        task.set_phase(Phase::Running);
    }
    task.node.set_home(worker.number());
    let outer = worker.node.replace(&raw const task.node);
    // The captured values are dropped. Their destructors are a user's, and cannot wait on this
    // stack.
    no_suspend(|| {
        // SAFETY: the caller has claimed the task.
        unsafe { Record::abandon(record, why) };
        if let Some(cold) = task.cold() {
            drop_locals(cold);
        }
    });
    worker.node.set(outer);
    // SAFETY: the run reference is in our hand.
    unsafe { complete(worker, record) }.uncount(worker);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::retire::stack::StackExhausted;
    use crate::scheduler::blocking::PoolConfig;
    use crate::scheduler::life::complete::wake;
    use crate::scheduler::worker::shared::Config;

    #[test]
    fn a_worker_with_orders_feels_pressure_after_the_last_starving_worker() {
        let config = Config {
            workers: 2,
            stack_class: StackClass::for_size(64 << 10).unwrap(),
            max_stacks: Some(1),
            on_panic: None,
            guard_report: false,
        };
        let blocking = PoolConfig {
            wake,
            max_threads: 1,
            keep_alive: Duration::ZERO,
            thread_name: String::new(),
            cores: None,
        };
        let shared = Shared::new(config, blocking);
        // SAFETY: no thread is this worker.
        let starving = unsafe { &*shared.seat(0) };
        starving.shared.set(crate::shim::Arc::as_ptr(&shared));
        begin(starving);
        // No worker thread carries it out here.
        let order = Order::Refuse(NonNull::dangling(), StackExhausted::Limit { max_stacks: 1 });
        shared.exhaustion.ledger().lines[1].orders.push(order);
        end(starving);
        assert!(shared.pressure.load(Ordering::Relaxed));
        let mut ledger = shared.exhaustion.ledger();
        ledger.lines[1].orders.clear();
        settle(&shared, &ledger);
        assert!(!shared.pressure.load(Ordering::Relaxed));
    }
}
