//! A structured wait in the middle of an unwinding, or inside `no_suspend`.
//!
//! A destructor that runs because its thread panics may open a scope or block on a task. That wait
//! must not be cut short, but no other task may run on this thread meanwhile either: it would see
//! `thread::panicking()`, poison locks, and count its own panics on top. The same holds of the end of a
//! scope inside `no_suspend`, whose thread the task may not lose. So the worker is **blocked**: it calls
//! those descendants of the waiting task that nobody has started, gives everything else to the other
//! workers, and otherwise blocks its thread until the wait is over.
//!
//! The second half of a join that the waiting task is in the middle of is no such descendant, unless it is
//! what the task waits for. It may have been forked before the unwinding or the section began, and must not
//! see either. It is given away; its join takes it back from wherever it lies.
//!
//! Inside `no_suspend` nor is any other task that was spawned before the section began: its own waits would panic. What is called there is what the
//! wait is for: the task that is joined and what lies below it, or all that lies below the scope that is at its end. (In an unwinding
//! the others are called, too: they are shielded from it, and who else might run them may be waiting for them.)
//!
//! # Where a descendant is called
//!
//! On the stack that is there, if it would do for a join in place. Else on a coroutine of its own
//! ([`call_apart`]), which the blocked one waits for as a caller does: nothing suspends on a blocked worker, so
//! a task that is begun is run to its end. If there is no stack either, it is given away; a task that
//! nobody else may or can run is called here all the same: better a reported overflow than a hang.
//!
//! # Why no held worker waits for another
//!
//! What is given away lies in the injector. It may be a descendant of a task for which another worker is
//! held, and if all are there is nobody else to take it. So every blocked worker takes its own descendants
//! out of the injector too, and is told whenever a blocked one has put something there: `given_away` is
//! raised after the push, and read before the look; one who lies down announces that, fences, and reads it
//! again. What a blocked worker takes out and puts back again is no news. It is in nobody's queue meanwhile,
//! so they look there one at a time.
//!
//! What cannot end so (a descendant, started by another worker, that waits for a task whose home is the
//! held worker) hangs, and is a documented limit. So does what is given away for want of a stack, if all
//! other workers are held too.

use crate::retire::nesting::suspend_nesting;
use crate::retire::stack::Stack;
use crate::scheduler::life::scope_frame::task_of;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::run_loop::call::start;
use crate::scheduler::steal::idle::Rest;
use crate::scheduler::worker::fiber::FiberOf;
use crate::scheduler::worker::release::claimed;
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::abort_with;
use crate::shim::atomic::Ordering;
use crate::shim::time::Duration;
use crate::task::record::{Origin, Phase, Record};
use crate::task::words::tree::{Node, NodeKind};
use crossbeam_deque::Steal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

/// How long a blocked worker rests while others starve.
const WHILE_OTHERS_STARVE: Duration = Duration::from_millis(1);
/// How long it rests else: it is not among those who are woken for what comes into the injector from outside, by a
/// lease or a promise, and may be the only one that can take it. Others may be busy, too, and set timers.
const LOOK: Duration = Duration::from_millis(10);

/// Blocks the worker until `task`, which runs on it, is no longer parked.
#[cold]
pub(crate) fn block<'a>(worker: &Worker, task: NonNull<Record>) -> &'a Worker {
    // SAFETY: the running task.
    let me = unsafe { task.as_ref() };
    let node = worker.node.get();
    // What is called meanwhile is not in the bare coroutine that the waiting task may be in.
    let chain = suspend_nesting();
    if !worker.remote.forks.is_clear() {
        worker.publish_forks();
    }
    let shared = worker.shared();
    loop {
        let starving = shared.pressure.load(Ordering::Relaxed);
        let given_away = shared.given_away.load(Ordering::Acquire);
        worker.fire_overdue(|| ());
        worker.collect();
        if !me.wait.is_parked() {
            // The waker has queued us, or is about to.
            if worker.queues.ready.remove(task) {
                me.set_phase(Phase::Running);
                break;
            }
        } else {
            offer_or_run(worker, task);
            if !me.wait.is_parked() {
                continue; // what was run was what it waited for
            }
        }
        let rest = Rest::BlockedFor(if starving { WHILE_OTHERS_STARVE } else { LOOK });
        let rest = worker.time_to_next().map_or(rest, |time| rest.at_most(time));
        shared.idle.rest(shared, worker.remote.index, rest, || {
            worker.has_ready_besides_queue()
                || !worker.remote.private.is_empty()
                || shared.given_away.load(Ordering::Relaxed) != given_away
                || !starving && shared.pressure.load(Ordering::Relaxed)
        });
    }
    worker.restore_nesting(chain);
    worker.node.set(node);
    Worker::current().expect("a held worker stays")
}

/// Runs fresh descendants of `task` that lie here or in the injector, and lets others have the rest of
/// what lies here.
fn offer_or_run(worker: &Worker, task: NonNull<Record>) {
    let mut given = GivenAway::default();
    loop {
        while let Some(record) = next_here(worker, &mut given) {
            match place_for(worker, task, record) {
                Some(place) => {
                    // It may take long, or wait for one of those.
                    given.queue(worker);
                    run(worker, task, record, place);
                }
                None => given.fresh.push(record),
            }
        }
        given.queue(worker);
        match next_injected(worker, |record| place_for(worker, task, record)) {
            Some((record, place)) => run(worker, task, record, place),
            None => return,
        }
    }
}

/// What a blocked worker has come upon and does not run: in no queue, until it is put into one.
#[derive(Default)]
pub(in crate::scheduler) struct GivenAway {
    /// Claimed.
    pub(in crate::scheduler) fresh: Vec<NonNull<Record>>,
    pub(in crate::scheduler) started: Vec<NonNull<Record>>,
}

impl GivenAway {
    pub(in crate::scheduler) fn queue(&mut self, worker: &Worker) {
        let shared = worker.shared();
        let mut any = false;
        for record in self.fresh.drain(..) {
            // SAFETY: we hold its run reference.
            let task = unsafe { record.as_ref() };
            task.unclaim();
            if task.traits.local {
                worker.queues.local.borrow_mut().push_back(record);
            } else {
                shared.offer(Item::fresh(record));
                any = true;
            }
        }
        for record in self.started.drain(..) {
            shared.offer(Item::started(record));
        }
        if any && shared.workers() > 1 {
            shared.given_away.fetch_add(1, Ordering::Release);
            let me = worker.remote.index;
            for index in (0..shared.workers()).filter(|index| *index != me) {
                shared.idle.notify_worker(shared, index);
            }
        }
    }
}

/// A fresh task of this worker's own queues, claimed.
fn next_here(worker: &Worker, given: &mut GivenAway) -> Option<NonNull<Record>> {
    let public = || {
        while let Some(item) = worker.queues.deque.pop() {
            match claimed(item) {
                Some(Runnable::Fresh(record)) => return Some(record),
                Some(Runnable::Started(record)) => given.started.push(record),
                None => {}
            }
        }
        None
    };
    worker.remote.private.pop().or_else(public).or_else(|| worker.next_local())
}

/// A fresh task in the injector that is `wanted`, claimed, and what that made of it.
pub(in crate::scheduler) fn next_injected<W>(
    worker: &Worker,
    mut wanted: impl FnMut(NonNull<Record>) -> Option<W>,
) -> Option<(NonNull<Record>, W)> {
    let shared = worker.shared();
    let turn = shared.injector_turn.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut found, mut others) = (None, Vec::new());
    while found.is_none() {
        match shared.injector.steal() {
            Steal::Success(item) => match claimed(item) {
                Some(Runnable::Fresh(record)) => {
                    found = wanted(record).map(|place| (record, place));
                    if found.is_none() {
                        // SAFETY: we hold its run reference.
                        unsafe { record.as_ref() }.unclaim();
                        others.push(Item::fresh(record));
                    }
                }
                Some(Runnable::Started(record)) => others.push(Item::started(record)),
                None => {}
            },
            Steal::Retry => std::hint::spin_loop(),
            Steal::Empty => break,
        }
    }
    let any = !others.is_empty();
    others.into_iter().for_each(|item| shared.injector.push(item));
    drop(turn);
    if any {
        // One that looked meanwhile may have lain down.
        shared.idle.notify(shared, true);
    }
    found
}

/// Where a descendant is called.
enum Place {
    /// On the stack that is there.
    Here,
    /// On this one.
    Apart(Stack),
}

/// Where a claimed task is to be called; nowhere if it does not descend from `task`, or others may find a
/// stack for it.
fn place_for(worker: &Worker, task: NonNull<Record>, record: NonNull<Record>) -> Option<Place> {
    // SAFETY: we hold its run reference.
    let fresh = unsafe { record.as_ref() };
    if !descends_from(fresh.node.parent, task) || is_open_half(fresh, task) {
        return None;
    }
    if worker.forbidden.get() > 0 && !is_waited_for(fresh, task) {
        return None;
    }
    if !fresh.traits.needs_own_stack() && worker.fiber().has_room() {
        return Some(Place::Here);
    }
    let shared = worker.shared();
    match worker.memory.stacks.borrow_mut().take(worker.class_for(fresh), &shared.stacks) {
        Ok(stack) => Some(Place::Apart(stack)),
        Err(_) => (fresh.traits.local || shared.workers() == 1).then_some(Place::Here),
    }
}

/// Whether a claimed task stands for the second half of a join that `task` is in the middle of, and has not
/// come to wait for.
pub(in crate::scheduler) fn is_open_half(fresh: &Record, task: NonNull<Record>) -> bool {
    fresh.traits.origin == Origin::Called
        && task_of(fresh.node.parent) == Some(task)
        && fresh.join.waiting_task() != Some(task.as_ptr().cast_const())
}

/// Whether `task` waits for the end of a claimed descendant, or of what that lies below.
fn is_waited_for(fresh: &Record, task: NonNull<Record>) -> bool {
    let is_joined =
        |record: &Record| record.join.waiting_task() == Some(task.as_ptr().cast_const());
    if is_joined(fresh) {
        return true;
    }
    let mut at = fresh.node.parent;
    // SAFETY: the ancestors of an unfinished task are alive.
    while let Some(node) = unsafe { at.as_ref() } {
        if task_of(at) == Some(task) {
            // The innermost of its scopes that the descendant is in. Its own node is closed at its end, when it waits no more.
            return node.kind == NodeKind::Scope && node.is_waiting();
        }
        // SAFETY: a node of kind Task is the start of its record.
        if node.kind == NodeKind::Task && is_joined(unsafe { &*at.cast::<Record>() }) {
            return true;
        }
        at = node.parent;
    }
    false
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

/// Runs a claimed descendant of the waiting task to its end.
fn run(worker: &Worker, task: NonNull<Record>, record: NonNull<Record>, place: Place) {
    match place {
        Place::Here => start_here(worker, record),
        Place::Apart(stack) => call_apart(worker, task, record, stack),
    }
}

// One place for both, or the compiler would not inline `start` where it is hot.
#[cold]
#[inline(never)]
fn start_here(worker: &Worker, record: NonNull<Record>) {
    start(worker, record).uncount(worker);
}

/// Runs a claimed task on a coroutine of its own, and comes back at its end.
fn call_apart(worker: &Worker, task: NonNull<Record>, record: NonNull<Record>, stack: Stack) {
    let (me, first) = (worker.fiber(), record.as_ptr());
    // SAFETY: the stack is ours and unused.
    let fiber = unsafe { FiberOf::create(stack, ptr::from_ref(worker), first, enter_apart) };
    // SAFETY: made above; its stack is given back below.
    let fiber = unsafe { fiber.as_ref() };
    worker.adopt(fiber);
    fiber.caller.set(me);
    // As that of any coroutine that is left.
    me.task.set(task.as_ptr());
    worker.fibers.running.set(fiber);
    // SAFETY: `me` runs and waits here until the other, which is new, comes back to it.
    unsafe { me.context.switch(&fiber.context) };
    worker.reap();
    // It may be the main coroutine, where no task runs between two others.
    me.task.set(ptr::null());
    worker.disown(fiber);
    let stack = fiber.take_stack().expect("it has one of its own");
    worker.memory.stacks.borrow_mut().put(stack);
}

/// Where such a coroutine begins and ends.
unsafe extern "C" fn enter_apart(data: *mut u8, message: usize) {
    // SAFETY: `data` is the coroutine that has just begun; it lives until its caller has it back.
    let fiber = unsafe { &*data.cast_const().cast::<Fiber>() };
    // SAFETY: this is the first thing it does.
    unsafe { fiber.context.arrive(message) };
    let here = || Worker::current().expect("a held worker stays");
    // A task's own panic does not come here, as in `enter`.
    let called = catch_unwind(AssertUnwindSafe(|| {
        let first = NonNull::new(fiber.first.replace(ptr::null()).cast_mut());
        start_here(here(), first.expect("it was made for a task"));
    }));
    if called.is_err() {
        abort_with("the scheduler has panicked below a task, which is a bug");
    }
    let worker = here();
    let caller = fiber.caller.get();
    worker.fibers.running.set(caller);
    #[cfg(cygnet_tsan)]
    worker.fibers.departed.set(fiber);
    // SAFETY: nothing on this stack is used again; the caller waits in `call_apart`.
    unsafe { fiber.context.leave(&(*caller).context) }
}
