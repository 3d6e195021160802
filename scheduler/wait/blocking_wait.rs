//! Structured waits that block the worker: during unwinding, and inside `no_suspend`.
//!
//! A destructor that runs during unwinding may open a scope or block on a task. That wait must
//! not be cut short. But no other task may run on this thread meanwhile: it would see
//! `thread::panicking()`, poison locks, and count its own panics on top. The same holds for the
//! end of a scope inside `no_suspend`, where the task must keep its thread. So the worker is
//! **blocked** until the wait is over: it calls fresh descendants of the waiting task, gives
//! everything else to the other workers, and otherwise blocks its thread.
//!
//! Two kinds of descendants are given away too:
//!
//! * The second half of a join that the waiting task is in the middle of, unless the task waits
//!   for this half. It may have been forked before the unwinding or the section began, and must
//!   not see either. Its join takes it back from wherever it lies.
//! * Inside `no_suspend`, every descendant that the wait is not for. It may have been spawned
//!   before the section began, and its own waits would panic. The wait is for the joined task and
//!   its descendants, or for all descendants of the scope that is at its end. (During unwinding
//!   the other descendants are called too. They are shielded from the unwinding, and the workers
//!   that could run them instead may be waiting for them.)
//!
//! # Where a descendant is called
//!
//! * On the present stack, if a join could call the task in place there.
//! * Otherwise on a coroutine of its own ([`call_apart`]). The blocked coroutine waits for it as
//!   a caller does: nothing suspends on a blocked worker, so a task that is begun runs to its
//!   end.
//! * If there is no stack for that, the task is given away. A task that no other worker may or
//!   can run is called on the present stack all the same: better a reported overflow than a hang.
//!
//! # Why no blocked worker waits for another
//!
//! Tasks that are given away lie in the injector. Such a task may be a descendant of a task for
//! which another worker is blocked, and if all workers are blocked, no other worker takes it. So
//! every blocked worker also takes its own descendants out of the injector, and is told when
//! another blocked worker has put a task there:
//!
//! * The giver pushes the task, then raises `given_away`, then wakes the other workers.
//! * A blocked worker reads `given_away` before it looks into the injector. When it lies down, it
//!   announces that, fences, and reads `given_away` again.
//!
//! Tasks that a blocked worker takes out and puts back do not raise `given_away`. They are in no
//! queue meanwhile, so blocked workers look into the injector one at a time.
//!
//! # Limits
//!
//! Two cases hang, and are documented: a descendant that another worker has started waits for a
//! task that is at home on the blocked worker; or a task is given away for want of a stack while
//! all other workers are blocked too.

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

/// How long a blocked worker rests while another worker starves.
const WHILE_OTHERS_STARVE: Duration = Duration::from_millis(1);
/// How long a blocked worker rests otherwise. It is not woken for a task that comes into the
/// injector from outside (by a lease or a promise), and may be the only worker that can take the
/// task. Besides, busy workers may set timers meanwhile, which this worker fires when they are
/// overdue.
const LOOK: Duration = Duration::from_millis(10);

/// Blocks the worker until the published wait of `task`, its running task, is over.
#[cold]
pub(crate) fn block<'a>(worker: &Worker, task: NonNull<Record>) -> &'a Worker {
    // SAFETY: `task` is the running task, so its record is alive.
    let me = unsafe { task.as_ref() };
    let node = worker.node.get();
    // The waiting task may be in a bare coroutine; the tasks that are called meanwhile are not.
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
            // The waker has queued the task, or is about to.
            if worker.queues.ready.remove(task) {
                me.set_phase(Phase::Running);
                break;
            }
        } else {
            offer_or_run(worker, task);
            if !me.wait.is_parked() {
                continue; // a task that was run here has ended the wait
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
    Worker::current().expect("a blocked worker stays on its thread")
}

/// Runs fresh descendants of `task` from this worker's queues and from the injector, and gives
/// the other tasks in this worker's queues away.
fn offer_or_run(worker: &Worker, task: NonNull<Record>) {
    let mut given = GivenAway::default();
    loop {
        while let Some(record) = next_here(worker, &mut given) {
            match place_for(worker, task, record) {
                Some(place) => {
                    // The call may take long, or wait for a task that is given away.
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

/// Tasks that a blocked or isolated worker has found and does not run. They are in no queue until
/// they are put into one.
#[derive(Default)]
pub(in crate::scheduler) struct GivenAway {
    /// Claimed tasks.
    pub(in crate::scheduler) fresh: Vec<NonNull<Record>>,
    pub(in crate::scheduler) started: Vec<NonNull<Record>>,
}

impl GivenAway {
    /// Puts the tasks into the injector (local tasks into the local queue). Tells the other
    /// workers if fresh tasks were put into the injector.
    pub(in crate::scheduler) fn queue(&mut self, worker: &Worker) {
        let shared = worker.shared();
        let mut any = false;
        for record in self.fresh.drain(..) {
            // SAFETY: we hold the task's run reference, so its record is alive.
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

/// Takes a fresh task out of this worker's own queues, and claims it.
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

/// Takes the first fresh task out of the injector for which `wanted` returns a value, and claims
/// it. Puts the tasks before it back. Returns the task and the value.
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
                        // SAFETY: we hold the task's run reference, so its record is alive.
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
        // A worker that looked into the injector meanwhile may have gone to sleep.
        shared.idle.notify(shared, true);
    }
    found
}

/// Where a descendant is called.
enum Place {
    /// On the present stack.
    Here,
    /// On a coroutine with this stack.
    Apart(Stack),
}

/// Returns where to call a claimed task. Returns `None` if the wait of `task` does not allow the
/// call, or if other workers may find a stack for it.
fn place_for(worker: &Worker, task: NonNull<Record>, record: NonNull<Record>) -> Option<Place> {
    // SAFETY: we hold the task's run reference, so its record is alive.
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

/// Returns whether a claimed task is the second half of a join that `task` is in the middle of,
/// and `task` does not wait for it yet.
pub(in crate::scheduler) fn is_open_half(fresh: &Record, task: NonNull<Record>) -> bool {
    fresh.traits.origin == Origin::Called
        && task_of(fresh.node.parent) == Some(task)
        && fresh.join.waiting_task() != Some(task.as_ptr().cast_const())
}

/// Returns whether `task` waits for the end of a claimed descendant, or of a node above that.
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
            // The innermost node of `task` above the descendant: a scope, or the node of the task
            // itself. The latter is closed at the end of the task, when it waits no more.
            return node.kind == NodeKind::Scope && node.is_waiting();
        }
        // SAFETY: a node of kind Task is the start of its record, and this one is an ancestor, so
        // it is alive.
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

// The only call of `start` in this file. With two, the compiler would not inline `start` on the
// hot path.
#[cold]
#[inline(never)]
fn start_here(worker: &Worker, record: NonNull<Record>) {
    start(worker, record).uncount(worker);
}

/// Runs a claimed task on a coroutine of its own, and returns when the task has ended.
fn call_apart(worker: &Worker, task: NonNull<Record>, record: NonNull<Record>, stack: Stack) {
    let (me, first) = (worker.fiber(), record.as_ptr());
    // SAFETY: the stack was taken for this call, and is unused.
    let fiber = unsafe { FiberOf::create(stack, ptr::from_ref(worker), first, enter_apart) };
    // SAFETY: the coroutine was made above, and its stack is given back only below.
    let fiber = unsafe { fiber.as_ref() };
    worker.adopt(fiber);
    fiber.caller.set(me);
    // Noted for every coroutine that is left.
    me.task.set(task.as_ptr());
    worker.fibers.running.set(fiber);
    // SAFETY: `me` runs, and stays here until the new coroutine switches back to it.
    unsafe { me.context.switch(&fiber.context) };
    worker.reap();
    // `me` may be the main coroutine, which has no task between two others.
    me.task.set(ptr::null());
    worker.disown(fiber);
    let stack = fiber.take_stack().expect("the coroutine was made with a stack");
    worker.memory.stacks.borrow_mut().put(stack);
}

/// The first and last function on a coroutine that `call_apart` makes.
unsafe extern "C" fn enter_apart(data: *mut u8, message: usize) {
    // SAFETY: `data` is the coroutine that has just begun. It lives until it has switched back to
    // `call_apart`.
    let fiber = unsafe { &*data.cast_const().cast::<Fiber>() };
    // SAFETY: this is the first action of the new coroutine.
    unsafe { fiber.context.arrive(message) };
    let here = || Worker::current().expect("a blocked worker stays on its thread");
    // A panic of the task itself does not get here, as in `enter`.
    let called = catch_unwind(AssertUnwindSafe(|| {
        let first = NonNull::new(fiber.first.replace(ptr::null()).cast_mut());
        start_here(here(), first.expect("the coroutine was made for a task"));
    }));
    if called.is_err() {
        abort_with("the scheduler has panicked below a task, which is a bug");
    }
    let worker = here();
    let caller = fiber.caller.get();
    worker.fibers.running.set(caller);
    #[cfg(cygnet_tsan)]
    worker.fibers.departed.set(fiber);
    // SAFETY: nothing on this stack is used again, and the caller waits in `call_apart`.
    unsafe { fiber.context.leave(&(*caller).context) }
}
