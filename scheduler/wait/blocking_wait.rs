//! Waits that block the worker: structured ones during unwinding and inside `no_suspend`, and those
//! of a shutdown with a time limit during unwinding.
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
//! * Otherwise on a fiber of its own ([`call_apart`]). The blocked fiber waits for it as
//!   a caller does: nothing suspends on a blocked worker, so a task that is begun runs to its
//!   end.
//! * If there is no stack for that, the task is given away. A task that no other worker may or
//!   can run is called on the present stack all the same: better a reported overflow than a hang.
//!   A wait with a time limit ends without that.
//!
//! A wait with a time limit calls descendants only if no other worker can run them. A call may take
//! longer than the limit, or for ever: the descendant may wait for what its ancestor does later.
//!
//! # Why no blocked worker waits for another
//!
//! Tasks that are given away lie in the injector. Such a task may be a descendant of a task for
//! which another worker is blocked, and if all workers are blocked, no other worker takes it. So
//! every blocked worker also takes its own descendants out of the injector, and is told when
//! another blocked worker has put a task there:
//!
//! * The giver pushes the task, then raises `given_away`, then wakes the other workers.
//! * A blocked worker reads `given_away` before it looks into the injector. Before it
//!   sleeps, it announces that, fences, and reads `given_away` again.
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
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::queue::public::steal_until;
use crate::scheduler::run_loop::call::start;
use crate::scheduler::stacks::exhaustion::{give_up_pool, wake_others};
use crate::scheduler::steal::idle::Rest;
use crate::scheduler::worker::release::{claimed, queued};
use crate::scheduler::worker::switch::{NextFiber, Program};
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::atomic::Ordering;
use crate::shim::time::Duration;
use crate::task::record::{Origin, Phase, Record};
use crate::task::reference::{Ready, RunRef, TaskRef};
use crate::task::words::join::Registered;
use crate::task::words::tree::NodeKind;
use std::ptr;

/// How long a blocked worker rests while another worker starves.
const WHILE_OTHERS_STARVE: Duration = Duration::from_millis(1);
/// How long a blocked worker rests otherwise. It is not woken for a task that comes into the
/// injector from outside (by a lease or a promise), and may be the only worker that can take the
/// task. Besides, busy workers may set timers meanwhile, which this worker fires when they are
/// overdue.
const OTHERWISE: Duration = Duration::from_millis(10);

/// What ends a wait that blocks its worker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Grant,
    /// A grant, or the end of a time limit.
    Time,
}

/// Blocks the worker until the published wait of `task`, its running task, is over.
#[cold]
pub(crate) fn block<'a>(worker: &Worker, task: TaskRef<'_>, until: Until) -> &'a Worker {
    let me = task.get();
    let node = worker.node.get();
    // The waiting task may be in a bare coroutine; the tasks that are called meanwhile are not.
    let chain = suspend_nesting();
    if !worker.remote.forks.is_clear() {
        worker.make_forks_public();
    }
    let shared = worker.shared();
    loop {
        let starving = shared.pressure.load(Ordering::Relaxed);
        let given_away = shared.given_away.load(Ordering::Acquire);
        worker.fire_overdue(|| ());
        worker.collect();
        if !me.wait.is_parked() {
            // The waker has queued the task, or is about to.
            if worker.queues.ready.remove(task).is_some() {
                me.set_phase(Phase::Running);
                break;
            }
        } else {
            offer_or_run(worker, task, until);
            if !me.wait.is_parked() {
                continue; // a task that was run here has ended the wait
            }
        }
        if starving {
            give_up_pool(worker);
        }
        let rest = Rest::BlockedFor(if starving { WHILE_OTHERS_STARVE } else { OTHERWISE });
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
fn offer_or_run(worker: &Worker, task: TaskRef<'_>, until: Until) {
    let mut given = GivenAway::default();
    loop {
        while let Some(fresh) = next_here(worker, &mut given) {
            match stack_for(worker, task, &fresh, until) {
                Some(on) => {
                    // The call may take long, or wait for a task that is given away.
                    given.queue(worker);
                    run(worker, task, fresh, on);
                }
                None => given.fresh.push(fresh),
            }
        }
        given.queue(worker);
        match next_injected(worker, |fresh| stack_for(worker, task, fresh, until)) {
            Some((fresh, on)) => run(worker, task, fresh, on),
            None => return,
        }
    }
}

/// Tasks that a blocked or isolated worker has found and does not run. They are in no queue until
/// they are put into one.
#[derive(Default)]
pub(in crate::scheduler) struct GivenAway {
    /// Claimed tasks.
    pub(in crate::scheduler) fresh: Vec<RunRef>,
    pub(in crate::scheduler) started: Vec<Ready>,
}

impl GivenAway {
    /// Puts the tasks into the injector (local tasks into the local queue). Tells the other
    /// workers if fresh tasks were put into the injector.
    pub(in crate::scheduler) fn queue(&mut self, worker: &Worker) {
        let shared = worker.shared();
        let mut any = false;
        for task in self.fresh.drain(..) {
            task.unclaim();
            if task.traits.local {
                worker.queues.local.borrow_mut().push_back(queued(task));
            } else {
                shared.inject_item(Item::fresh(task));
                any = true;
            }
        }
        for task in self.started.drain(..) {
            shared.inject_item(Item::started(task));
        }
        if any && shared.workers() > 1 {
            shared.given_away.fetch_add(1, Ordering::Release);
            wake_others(worker);
        }
    }
}

/// Takes a fresh task out of this worker's own queues, and claims it.
fn next_here(worker: &Worker, given: &mut GivenAway) -> Option<RunRef> {
    let public = || {
        while let Some(item) = worker.queues.deque.pop() {
            match claimed(item) {
                Some(Runnable::Fresh(task)) => return Some(task),
                Some(Runnable::Started(task)) => given.started.push(task),
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
    mut wanted: impl FnMut(&RunRef) -> Option<W>,
) -> Option<(RunRef, W)> {
    let shared = worker.shared();
    let turn = shared.injector_turn.lock();
    let mut others = Vec::new();
    let check = |item| {
        match claimed(item)? {
            Runnable::Fresh(task) => {
                if let Some(value) = wanted(&task) {
                    return Some((task, value));
                }
                task.unclaim();
                others.push(Item::fresh(task));
            }
            Runnable::Started(task) => others.push(Item::started(task)),
        }
        None
    };
    let found = steal_until(|| shared.injector.steal(), check);
    let any = !others.is_empty();
    others.into_iter().for_each(|item| shared.injector.push(item));
    drop(turn);
    if any {
        // A worker that looked into the injector meanwhile may have gone to sleep.
        shared.idle.notify(shared, true);
    }
    found
}

/// The stack on which a descendant is called.
enum RunOn {
    /// The present one.
    Here,
    /// This one, with a fiber of its own.
    Apart(Stack),
}

/// Returns the stack on which to call a claimed task. Returns `None` if the wait of `task` does not
/// allow the call, or if other workers may find a stack for it.
fn stack_for(worker: &Worker, task: TaskRef<'_>, fresh: &RunRef, until: Until) -> Option<RunOn> {
    let shared = worker.shared();
    let alone = shared.workers() == 1;
    if until == Until::Time && !alone && !fresh.traits.local {
        return None;
    }
    if !descends_from(LiveNode::parent_of_run(fresh), task) || is_unjoined_half(fresh, task) {
        return None;
    }
    if worker.forbidden.get() > 0 && !is_waited_for(fresh, task) {
        return None;
    }
    if !fresh.traits.needs_own_stack() && worker.fiber().has_room() {
        return Some(RunOn::Here);
    }
    match worker.memory.stacks.borrow_mut().take(worker.class_for(fresh), &shared.stacks) {
        Ok(stack) => Some(RunOn::Apart(stack)),
        Err(_) => (until == Until::Grant && (fresh.traits.local || alone)).then_some(RunOn::Here),
    }
}

/// Returns whether a claimed task is the second half of a join that `task` is in the middle of,
/// and `task` does not wait for it yet.
pub(in crate::scheduler) fn is_unjoined_half(fresh: &RunRef, task: TaskRef<'_>) -> bool {
    fresh.traits.origin == Origin::Called
        && LiveNode::parent_of_run(fresh).task() == Some(task)
        && !is_joined_by(fresh, task)
}

fn is_joined_by(record: &Record, task: TaskRef<'_>) -> bool {
    record.join.registered() == Registered::Task(task.pointer().as_ptr())
}

/// Returns whether `task` waits for the end of a claimed descendant, or of a node above that.
fn is_waited_for(fresh: &RunRef, task: TaskRef<'_>) -> bool {
    if is_joined_by(fresh, task) {
        return true;
    }
    for node in LiveNode::parent_of_run(fresh).and_above() {
        let owner = node.task();
        if owner == Some(task) {
            // The innermost node of `task` above the descendant: a scope, or the node of the task
            // itself. The latter is closed at the end of the task, when it waits no more.
            return node.kind == NodeKind::Scope && node.is_waiting();
        }
        if node.kind == NodeKind::Task && owner.is_some_and(|above| is_joined_by(&above, task)) {
            return true;
        }
    }
    false
}

fn descends_from(node: LiveNode<'_>, task: TaskRef<'_>) -> bool {
    node.and_above().any(|node| node.task() == Some(task))
}

/// Runs a claimed descendant of the waiting task to its end.
fn run(worker: &Worker, task: TaskRef<'_>, fresh: RunRef, on: RunOn) {
    match on {
        RunOn::Here => start_here(worker, fresh),
        RunOn::Apart(stack) => call_apart(worker, task, fresh, stack),
    }
}

// The only call of `start` in this file. With two, the compiler would not inline `start` on the
// hot path.
#[cold]
#[inline(never)]
fn start_here(worker: &Worker, task: RunRef) {
    start(worker, task).uncount(worker);
}

/// Runs a claimed task on a fiber of its own, and returns when the task has ended.
fn call_apart(worker: &Worker, task: TaskRef<'_>, first: RunRef, stack: Stack) {
    let me = worker.fiber();
    let fiber = NextFiber::new::<Apart>(worker, stack, first);
    worker.adopt(&fiber);
    // Noted for every fiber that is left.
    me.task.set(task.pointer().as_ptr());
    worker.call_on(fiber);
    worker.reap();
    // `me` may be the main fiber, which has no task between two others.
    me.task.set(ptr::null());
    worker.disown();
}

/// The program of a fiber that `call_apart` makes.
struct Apart;

impl Program for Apart {
    type Result = ();

    fn run(fiber: &Fiber) {
        let first = fiber.first.take().expect("the coroutine was made for a task");
        start_here(here(), first);
    }

    fn end(worker: &Worker, fiber: &Fiber, (): ()) -> NextFiber {
        // We still stand on this stack. The pool is ours, and nothing is taken from it before the
        // switch.
        let stack = fiber.take_stack().expect("the coroutine was made with a stack");
        worker.memory.stacks.borrow_mut().put(stack);
        fiber.caller.take().expect("the coroutine was called")
    }
}

fn here<'a>() -> &'a Worker {
    Worker::current().expect("a blocked worker stays on its thread")
}
