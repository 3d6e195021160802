//! Stack exhaustion: what the workers do when no stack can be had.
//!
//! A worker that cannot get a stack for a fresh task is *starving*, until it gets one or has no
//! fresh task left. While no worker starves, nothing in this module runs; the only cost is a load
//! of `pressure` when a worker has nothing else to do.
//!
//! # Measures, in order
//!
//! 1. **Ready fibers go on**, and loops that have a stack go on taking fresh tasks. So a task
//!    waits until another has ended, and nothing is lost.
//! 2. **Warm stacks go back** (`relieve`, `rest`). Under pressure every worker that comes to its
//!    main fiber, or is blocked, gives up its pool. So does the starving worker, whose pool may
//!    be of another class. Loops that end pass through the main fiber. A worker that has given
//!    anything back wakes the others.
//! 3. **Fresh tasks go to the injector**, where every worker finds them. A starving worker naps,
//!    for at most 16 ms at a time, since memory may come free without notice.
//! 4. **An awaited task exceeds `max_stacks`.** A task is *awaited* while another one waits for its
//!    end, or for the end of a task or scope above it. If it only queued, a program of nested waits
//!    deeper than the limit would stop. So it may have an *extra* stack, in the name of that wait.
//! 5. **An awaited task fails** with [`Failure::NoStack`] if the kernel refuses the memory.
//!
//! # Extra stacks
//!
//! An extra stack runs one task and no loop. Then it goes straight back to the runtime's memory and
//! not to a pool, where any task could get it. A wait has at most one extra stack at a time. The
//! *ledger* has an entry for each, and
//!
//! ```text
//! stacks <= max_stacks + entries
//! ```
//!
//! holds always: all other stacks are taken only below the limit. A waiter has a stack itself, and
//! waits for something below it. So from a stack within the limit there is at most one chain of
//! extra stacks, whose tasks wait for each other, and which is no longer than the waits are nested.
//! A scope with ten thousand tasks that sleep has one extra stack. There are two exceptions. If a
//! wait is cancelled while the task on the extra stack goes on, the stack stays in use, and the
//! waiter may end and leave its own stack to others. And a task tells its waiter of its end before
//! it leaves its stack: if its thread is not scheduled then, the next wait may have a stack
//! already.
//!
//! The *nearest* ancestor that waits is the waiter that counts. It waits for the end of a scope, in
//! a join, or for a future that has polled the handle of a task below it. A starving worker looks
//! for such tasks if it has nothing ready, or else at the fair turn of fresh tasks, and only after
//! it has starved for [`PAUSE`], in which warm stacks come back.
//!
//! Waits of others are another matter: a waiter that is no ancestor may belong to another runtime,
//! where any number of tasks may wait without a stack of this one. They count only at a
//! *standstill*: no worker has started a task for [`PATIENCE`], other than for an ancestor on an
//! extra stack, while this worker starved, this worker has nothing ready, and all others rest, be
//! it in a wait that blocks them. So a standstill ends with each stack of that kind, and many waits
//! exceed the limit slowly. They are
//!
//! * the join by a task that is no ancestor;
//! * the join by a thread that runs a blocking call, for which a task waits;
//! * the wait of a task of another runtime that has a child here ([`ChildOn`]), of which one counts
//!   at a time, be the task waiting or not;
//! * the waits of all futures, which count as one: a waker does not tell whose it is.
//!
//! A plain thread has no stack of any runtime, and its wait does not count.
//!
//! [`ChildOn`]: crate::ChildOn
//!
//! # Why awaited tasks go on
//!
//! Suppose that every fiber of the runtime waits for the end of a task or scope. From one fiber go
//! to what it waits for, from there to a fiber below that, and so on. Without a ring of joins,
//! which is a deadlock of the program, this ends at a waiter that waits for fresh tasks alone. If
//! it is an ancestor, it is the nearest one that waits, and it has no extra stack in this wait,
//! whose task would have started. Otherwise it has joined one of these tasks, itself or by a
//! thread, and has no extra stack either. So one of the tasks may have one. (This does not hold for
//! the second of two futures that wait for tasks which are not below the polling ones.) The tasks
//! lie in the injector, or in the queue of a worker that has nothing else to do, and each such
//! worker looks at all fresh tasks that it may start. A worker that is isolated (wait/isolation.rs)
//! looks at the members, and what its innermost owner waits for are members.
//!
//! If some fibers can go on, or may be woken from outside, these tasks need not wait for them.
//!
//! # If the kernel refuses memory
//!
//! Joins, and the ends of scopes, call children on the waiter's own stack while half of it is free
//! (life/in_place.rs). Other awaited tasks wait. At a standstill one of them fails, if the kernel
//! has refused each stack to this worker for [`PATIENCE`]. Here a task is awaited also while a
//! thread on its own waits for it. A task that nothing waits for waits for memory.
//!
//! # What waits for ever
//!
//! Tasks that wait for each other in a ring; a fiber that parks, or waits for a primitive, and
//! would be woken only by a task that has no stack and may have no extra one (an actor's answer
//! comes from such a task); and an ancestor whose extra stack runs a task of an earlier, cancelled
//! wait that ends only after the present one.

use crate::retire::stack::{Stack, StackExhausted};
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::life::complete::complete;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::queue::item::Item;
use crate::scheduler::queue::private_deque::Portion;
use crate::scheduler::run_loop::Loop;
use crate::scheduler::run_loop::call::drop_locals;
use crate::scheduler::stacks::awaited::Awaited;
use crate::scheduler::stacks::ledger::ExtraFor;
use crate::scheduler::steal::idle::{Rest, Roused};
use crate::scheduler::wait::no_suspend::no_suspend;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::queued;
use crate::scheduler::worker::switch::NextFiber;
use crate::shim::atomic::Ordering;
use crate::shim::time::{Duration, Instant, now};
use crate::task::outcome::Failure;
use crate::task::record::{Origin, Phase};
use crate::task::reference::RunRef;
use std::ptr;

/// The number of fresh tasks that a worker looks at before it goes on, and after how long a nap it
/// looks at one more.
const FEW: usize = 64;
const NAP_FOR_ONE_MORE: Duration = Duration::from_micros(8);
/// How long a worker must have starved before an awaited task exceeds the limit.
const PAUSE: Duration = Duration::from_micros(100);
/// How long no task must have started before there is a standstill, and how long the kernel must
/// have refused memory before a task fails for it.
const PATIENCE: Duration = Duration::from_millis(200);
/// How many times it must have done so, should the clock have jumped.
const REFUSALS: u32 = 8;

/// Called when a worker could not get a stack within the limit.
#[cold]
pub(crate) fn begin(worker: &Worker, reason: StackExhausted) {
    note_refusal(worker, reason);
    if worker.memory.exhausted.replace(true) {
        return;
    }
    worker.memory.starving_since.set(Some(now()));
    worker.memory.stalled_since.set(None);
    let shared = worker.shared();
    shared.exhaustion.note(true, |any| shared.pressure.store(any, Ordering::SeqCst));
    // Sleepers keep warm stacks.
    wake_others(worker);
}

/// Called when the worker has got a stack after all, or needs none any more.
#[cold]
pub(crate) fn end(worker: &Worker) {
    if !worker.memory.exhausted.replace(false) {
        return;
    }
    worker.memory.refused.set(None);
    let shared = worker.shared();
    // Under the lock: a worker that begins to starve later stores `true` after this store.
    shared.exhaustion.note(false, |any| shared.pressure.store(any, Ordering::SeqCst));
}

fn note_refusal(worker: &Worker, reason: StackExhausted) {
    if reason != StackExhausted::Limit {
        let (since, times) = worker.memory.refused.get().unwrap_or_else(|| (now(), 0));
        worker.memory.refused.set(Some((since, times + 1)));
    }
}

/// Wakes all other workers.
pub(in crate::scheduler) fn wake_others(worker: &Worker) {
    let shared = worker.shared();
    for index in (0..shared.workers()).filter(|index| *index != worker.remote.index) {
        shared.idle.notify_worker(shared, index);
    }
}

/// Helps the starving workers, or this one, whenever the worker is at its main fiber under
/// pressure. `nap` is how long it has rested for want of stacks. Returns `true` if it has run
/// anything.
#[cold]
pub(crate) fn relieve(worker: &Worker, nap: Duration) -> bool {
    if !worker.memory.exhausted.get() {
        give_up_warm(worker);
        return false;
    }
    (worker.memory.in_turn.replace(false) || !worker.has_ready()) && look_here(worker, nap)
}

/// Tries again to get the larger stack that a task needs. Its loop has left its own stack for the
/// task, and there was none; now no stack of this worker is in use. Returns `false` if the task
/// must wait.
#[cold]
pub(crate) fn retry_dedicated(worker: &Worker) -> bool {
    give_up_warm(worker);
    let Some(task) = worker.queues.dedicated.take() else { return false };
    match worker.new_fiber(worker.class_for(&task), task) {
        Ok(fiber) => {
            worker.leave_main(fiber);
            true
        }
        Err(task) => {
            put_back(worker, task);
            false
        }
    }
}

/// Gives back all warm stacks and wakes the other workers. Returns `true` if there was a warm
/// stack.
fn give_up_warm(worker: &Worker) -> bool {
    worker.dismiss_spare();
    worker.housekeeping();
    give_up_pool(worker)
}

/// The same, without the stack of the spare fiber. On any fiber.
pub(in crate::scheduler) fn give_up_pool(worker: &Worker) -> bool {
    if worker.memory.stacks.borrow().warm() == 0 {
        return false;
    }
    worker.memory.stacks.borrow_mut().drain(&worker.shared().stacks);
    wake_others(worker);
    true
}

/// Lies down under pressure. Returns `None` if there is something to do at once.
#[cold]
pub(crate) fn rest(worker: &Worker, nap: Duration) -> Option<Roused> {
    let shared = worker.shared();
    if worker.has_ready() || give_up_warm(worker) && worker.has_fresh() {
        return None;
    }
    if move_to_injector(worker) > 0 {
        shared.idle.notify(shared, true);
    }
    if worker.memory.exhausted.get() && !worker.has_fresh() {
        end(worker);
        return None;
    }
    worker.counters().sleeps.add(1);
    let nap = worker.time_to_next().map_or(nap, |time| nap.min(time));
    Some(shared.idle.rest(shared, worker.remote.index, Rest::Nap(nap), || {
        worker.has_ready() || shared.is_stopping()
    }))
}

/// Moves the fresh tasks at hand to the injector, where every worker finds them. Returns how many.
fn move_to_injector(worker: &Worker) -> usize {
    let shared = worker.shared();
    let mut count = 0;
    if let Some(task) = worker.queues.dedicated.take() {
        put_back(worker, task);
        count += 1;
    }
    loop {
        let given = worker.remote.private.hand_over(1, Portion::HALF, |task| {
            task.set_phase(Phase::Ready);
            shared.injector.push(Item::fresh(task));
        });
        count += given;
        if given == 0 && worker.remote.private.is_empty() {
            break;
        }
    }
    while let Some(item) = worker.queues.deque.pop() {
        if item.is_started() {
            // It needs no stack.
            let _ = worker.open(item);
        } else {
            shared.injector.push(item);
            count += 1;
        }
    }
    count
}

/// Queues a claimed task again.
pub(crate) fn put_back(worker: &Worker, task: RunRef) {
    task.unclaim();
    if task.traits.local {
        worker.queues.local.borrow_mut().push_back(queued(task));
    } else {
        worker.shared().injector.push(Item::fresh(task));
    }
}

/// What a look at the fresh tasks may do for an awaited one.
struct Hopes {
    /// The task may have an extra stack if an ancestor waits for it.
    extra: bool,
    /// The task may have an extra stack if others wait for it.
    for_others: bool,
    /// The task fails if the kernel refuses memory once more.
    last: bool,
}

impl Hopes {
    fn of(worker: &Worker) -> Hopes {
        let shared = worker.shared();
        let for_long = |since: Option<Instant>, time| since.is_some_and(|at| now() - at >= time);
        let (memory, stalled) = (&worker.memory, &worker.memory.stalled_since);
        let started: u64 = shared.remotes().map(|remote| remote.counters.dispatched.get()).sum();
        let extra: u64 = shared.remotes().map(|remote| remote.counters.extra.get()).sum();
        // A task that is about to start is counted in `extra` alone.
        let counted = started.saturating_sub(extra);
        if counted > memory.started.get() || stalled.get().is_none() {
            memory.started.set(counted);
            stalled.set(Some(now()));
        }
        let standstill = for_long(stalled.get(), PATIENCE)
            && !worker.has_ready()
            && shared.idle.all_rest_but_one(shared.workers());
        let refused = memory.refused.get().filter(|(_, times)| *times >= REFUSALS);
        Hopes {
            extra: for_long(memory.starving_since.get(), PAUSE),
            for_others: standstill,
            last: standstill && for_long(refused.map(|(since, _)| since), PATIENCE),
        }
    }
}

/// What becomes of a fresh task that a starving worker has looked at.
enum Fate {
    Runs(NextFiber),
    Fails(RunRef, Failure),
    Waits(RunRef),
}

/// Looks at some of the fresh tasks at hand: ends those that will not be called, and runs the first
/// that may have an extra stack. Returns `true` if it did anything.
fn look_here(worker: &Worker, nap: Duration) -> bool {
    let most = FEW + (nap.as_nanos() / NAP_FOR_ONE_MORE.as_nanos()) as usize;
    let mut hopes = Hopes::of(worker);
    let mut others = Vec::new();
    let mut found = None;
    let mut ended = false;
    let isolated = worker.isolations.any();
    let next = || if isolated { worker.next_member() } else { worker.next_fresh() };
    while found.is_none()
        && others.len() < most
        && let Some(task) = next()
    {
        match fate(worker, task, &mut hopes) {
            Fate::Runs(fiber) => found = Some(fiber),
            Fate::Fails(task, why) => {
                refuse(worker, task, why);
                ended = true;
            }
            Fate::Waits(task) => others.push(task),
        }
    }
    if isolated && found.is_none() && others.is_empty() {
        // The other fresh tasks must not be started here.
        end(worker);
    }
    others.into_iter().for_each(|task| put_back(worker, task));
    let any = ended || found.is_some();
    if let Some(fiber) = found {
        worker.leave_main(fiber);
    }
    any
}

/// Decides what becomes of a claimed task. If the kernel refuses memory, the hopes of this look are
/// over.
fn fate(worker: &Worker, task: RunRef, hopes: &mut Hopes) -> Fate {
    if let Some(why) = cancelled(&task) {
        return Fate::Fails(task, why);
    }
    let awaited = Awaited::of(&task);
    let ancestor = awaited.nearest.filter(|_| hopes.extra);
    let others = awaited.others.into_iter().filter(|_| hopes.for_others);
    let ledger = &worker.shared().exhaustion;
    let mut waits = ancestor.into_iter().chain(others);
    let taken = if let Some(wait) = waits.find(|wait| ledger.enter(*wait)) {
        match take_extra(worker, &task, wait) {
            Ok(stack) => {
                if ancestor == Some(wait) {
                    worker.counters().extra.add(1);
                }
                return Fate::Runs(begin_extra(worker, task, wait, stack));
            }
            Err(reason) => Err(reason),
        }
    } else if awaited.any && hopes.last {
        // The usual attempt, which comes next, gets the stack if there is one.
        let shared = worker.shared();
        shared.stacks.take(worker.class_for(&task)).map(|stack| shared.stacks.give_back([stack]))
    } else {
        Ok(())
    };
    match taken {
        Ok(()) | Err(StackExhausted::Limit) => Fate::Waits(task),
        Err(reason) => {
            let fails = hopes.last;
            *hopes = Hopes { extra: false, for_others: false, last: false };
            if fails { Fate::Fails(task, Failure::NoStack(reason)) } else { Fate::Waits(task) }
        }
    }
}

/// Takes an extra stack for a claimed task, in the name of `wait`, which has been entered.
fn take_extra(worker: &Worker, task: &RunRef, wait: ExtraFor) -> Result<Stack, StackExhausted> {
    let shared = worker.shared();
    shared.stacks.take_extra(worker.class_for(task)).inspect_err(|reason| {
        shared.exhaustion.strike(wait);
        note_refusal(worker, *reason);
    })
}

/// Makes a fiber with an extra stack for a claimed task.
fn begin_extra(worker: &Worker, task: RunRef, wait: ExtraFor, stack: Stack) -> NextFiber {
    worker.memory.refused.set(None);
    let fiber = NextFiber::new::<Loop>(worker, stack, task);
    fiber.extra_for.set(Some(wait));
    worker.adopt(&fiber);
    fiber
}

/// Gives back the extra stack of a fiber that has ended. On the main fiber.
#[cold]
pub(crate) fn give_back_extra(worker: &Worker) {
    // SAFETY: the fiber has left its stack for good, and only the main one has run since. The
    // reference is not used after the stack has been given back.
    let fiber = unsafe { &*worker.fibers.ended_extra.replace(ptr::null()) };
    let (wait, stack) = (fiber.extra_for.get(), fiber.take_stack());
    let shared = worker.shared();
    shared.stacks.give_back(stack);
    shared.exhaustion.strike(wait.expect("set when the fiber was made"));
    // The limit allows another stack if some within it have been given back meanwhile.
    if shared.pressure.load(Ordering::Relaxed) && shared.stacks.has_room() {
        wake_others(worker);
    }
}

/// The failure of a fresh task, in our hand, that will not be called anyway. An external task has
/// no closure, and keeps the outcome that it has.
fn cancelled(task: &RunRef) -> Option<Failure> {
    let ends = match task.traits.origin {
        Origin::Spawned | Origin::Sent => is_cancelled(LiveNode::from(task)),
        Origin::Called => false,
        Origin::External => true,
    };
    ends.then(|| Failure::NotStarted(cause_of(LiveNode::from(task))))
}

/// Ends a claimed task without calling it, on the main fiber.
fn refuse(worker: &Worker, task: RunRef, why: Failure) {
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
        unsafe { task.abandon(why) };
        if let Some(cold) = task.cold() {
            drop_locals(cold);
        }
    });
    worker.node.set(outer);
    complete(worker, task).uncount(worker);
}
