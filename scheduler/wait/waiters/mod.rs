//! Those who wait for a primitive (a mutex, an event, ..): tasks, plain threads and futures, in one list.
//!
//! # Who may touch what
//!
//! A primitive has a [`WaitList`] behind a lock of its own, which is blocked for a few instructions at a time, and never
//! together with another one. A [`WaitNode`] lies on the frame of the call that waits, or in the future, and does not
//! move; all of it is read and written under that lock alone, but before it has been in a list.
//!
//! ```text
//! OUT --enter--> IN --grant (who opens the primitive)--> GRANTED --collected--> OUT
//!                 |                                         |
//!                 +------- leave (cut, timed out, dropped)  +-- given back (cut, dropped)
//! ```
//!
//! **One step decides**: the change of the stage, under the lock. Who grants takes the node out, and hands over what it
//! asked for, in the same breath. So who leaves finds the node IN, and takes it out as if it had never been there, or finds
//! it GRANTED, and then what was granted is its own: to be used, or given back to the next.
//!
//! # How they are woken
//!
//! Under the lock the granter copies out whom to wake ([`Wakes`]), and wakes it when the lock is free. It does not touch the
//! node any more: a future that is polled meanwhile finds its grant and may go. A task and a thread may not: theirs is
//! *one wait of one wait word* (task/words/wait.rs), which is over when the grant has arrived there. So a cut, and
//! time that is up, end the wait of a task only as far as the processor is concerned. It then looks at its node, and if that is
//! GRANTED it waits for the grant that is under way, which nothing can stop. Therefore the record and the thread's waiter
//! are there when the granter comes to them, and no grant is ever left over for a later wait.
//!
//! *One wait* also means that no other one of the same word may begin between the entry of a node that names a task or a
//! thread and the collection of its grant. Where foreign code runs in between (a condition variable unlocks its mutex, which
//! may call a waker), the node is entered in nobody's name, and looked at again afterwards (`queue_and`).
//!
//! **No wake-up is lost**: a node is entered under the lock, after a last look at what the primitive has to give. Who gives
//! does so under the same lock, or first and then looks, in the one total order, whether there is anybody; the primitive
//! says which.
//!
//! # Cancellation is total
//!
//! Before it waits a cancelled task is turned away, also from what is free. One that is found cancelled when it goes on gives
//! back what it was granted ([`Waitable::give_back`]), unless that [cannot be](Waitable::stands). One whose
//! time is up and that was granted just then keeps it: it was in time.

mod list;
mod turns;
mod wait_future;

pub(crate) use list::{WaitList, WaitNode, Wake, Wakes, Who};
pub(crate) use turns::Turns;
pub(crate) use wait_future::WaitFuture;

use crate::scheduler::timers::tick::Tick;
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::no_suspend::{assert_may_suspend, assert_may_wait, is_forbidden};
use crate::scheduler::wait::park::waits;
use crate::scheduler::worker::Worker;
use crate::shim::MutexGuard;
use crate::shim::time::Instant;
use crate::task::record::Record;
use crate::task::thread_waiter::ThreadWaiter;
use crate::task::words::wait::WaitKind;
use list::Stage;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::Arc;

/// A primitive that one can wait for.
pub(crate) trait Waitable {
    /// What its lock guards.
    type State;

    /// What it is that one waits for, in a report.
    fn what(&self) -> &'static str;

    /// Who has it meanwhile, if it is known.
    fn owner(&self) -> Option<String> {
        None
    }

    /// What was granted has been used already, and cannot be given back: who is cancelled meanwhile has it all the same.
    fn stands(&self) -> bool {
        false
    }

    fn state(&self) -> MutexGuard<'_, Self::State>;

    fn waiters(state: &mut Self::State) -> &mut WaitList;

    /// Takes what the node asks for, if it may have it at once: the answer. Others may be granted something by that.
    fn try_enter(&self, state: &mut Self::State, node: &WaitNode, wakes: &mut Wakes)
    -> Option<u32>;

    /// Whether the node has been in the list before and enters it as the first one now.
    fn comes_back(&self, _: &WaitNode) -> bool {
        false
    }

    /// Somebody has left the list without a grant, or would have had to enter it and was refused: what kept others waiting
    /// may be gone.
    fn left(&self, _: &mut Self::State, _: &mut Wakes) {}

    /// Takes back what was granted to a node.
    fn give_back(&self, node: &WaitNode);
}

impl<W: Waitable + ?Sized> Waitable for &W {
    type State = W::State;

    fn what(&self) -> &'static str {
        (**self).what()
    }

    fn owner(&self) -> Option<String> {
        (**self).owner()
    }

    fn stands(&self) -> bool {
        (**self).stands()
    }

    fn state(&self) -> MutexGuard<'_, W::State> {
        (**self).state()
    }

    fn waiters(state: &mut W::State) -> &mut WaitList {
        W::waiters(state)
    }

    fn try_enter(&self, state: &mut W::State, node: &WaitNode, wakes: &mut Wakes) -> Option<u32> {
        (**self).try_enter(state, node, wakes)
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        (**self).comes_back(node)
    }

    fn left(&self, state: &mut W::State, wakes: &mut Wakes) {
        (**self).left(state, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        (**self).give_back(node);
    }
}

/// Waits until `source` grants what is asked for, `until` at most. `token` is for the primitive.
///
/// # Errors
/// As [`Interruption`] says; a plain thread is never cancelled.
///
/// # Panics
/// Inside `no_suspend`, and on a worker between tasks, unless it need not wait. (In the middle of an unwinding it is cancelled there.)
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn enter<W: Waitable + ?Sized>(
    source: &W,
    token: u64,
    until: Option<Instant>,
) -> Result<u32, Interruption> {
    enter_and(source, token, WaitMode::Until(until), None)
}

/// The same, and calls `queued` when it has entered the queue, before it waits. That may run foreign code, but does not
/// panic.
#[track_caller]
pub(crate) fn enter_and<W: Waitable + ?Sized>(
    source: &W,
    token: u64,
    mode: WaitMode,
    queued: Option<&mut dyn FnMut()>,
) -> Result<u32, Interruption> {
    let node = pin!(WaitNode::new(token, Location::caller()));
    enter_node(source, node.as_ref(), mode, queued)
}

/// The same with a node of the caller's, who reads its token afterwards: a grant may leave something there. The node is in no list.
#[track_caller]
pub(crate) fn enter_node<W: Waitable + ?Sized>(
    source: &W,
    node: Pin<&WaitNode>,
    mode: WaitMode,
    queued: Option<&mut dyn FnMut()>,
) -> Result<u32, Interruption> {
    let _waits = waits(|| {
        let owner = source.owner().map_or(String::new(), |owner| format!(", which {owner} has"));
        format!("{} at {}{owner}", source.what(), node.place)
    });
    match Worker::current().and_then(|worker| Some((worker, worker.task()?))) {
        Some((worker, task)) => enter_as_task(source, node, mode, queued, worker, task),
        None => enter_as_thread(source, node, mode, queued),
    }
}

/// How to wait.
#[derive(Clone, Copy)]
pub(crate) enum WaitMode {
    /// Until that time at most, if there is one, or a cancel.
    Until(Option<Instant>),
    /// As long as it takes: what follows relies on it.
    Structured,
}

/// What an entry came to.
#[derive(PartialEq, Eq)]
pub(crate) enum Enqueue {
    /// It had to wait for nothing.
    Answer(u32),
    /// It is in the list.
    Waits,
    /// It was in the list, and has been granted what it asked for: nobody wakes it.
    Granted,
    /// It would have to wait, and may not.
    Refused,
}

#[track_caller]
fn enter_as_task<W: Waitable + ?Sized>(
    source: &W,
    node: Pin<&WaitNode>,
    mode: WaitMode,
    queued: Option<&mut dyn FnMut()>,
    worker: &Worker,
    task: NonNull<Record>,
) -> Result<u32, Interruption> {
    let who = || Who::Task(task.as_ptr());
    let WaitMode::Until(until) = mode else {
        // SAFETY: it is granted before this frame goes.
        return Ok(match unsafe { queue(source, node, who, true, queued) } {
            Enqueue::Answer(answer) => answer,
            entry => {
                if entry == Enqueue::Waits {
                    collect(worker, task);
                }
                node.answer()
            }
        });
    };
    // MUTANT(waiters.turned_away): false
    if worker.is_cancelled_here() {
        worker.give_way(task);
        return Err(Interruption::Cancelled);
    }
    let may_wait = !is_forbidden() && !crate::shim::panicking();
    // SAFETY: it is taken out before this frame goes, and is granted before the task goes on.
    let (result, mut worker) = match unsafe { queue(source, node, who, may_wait, queued) } {
        Enqueue::Answer(answer) => return Ok(answer),
        Enqueue::Refused => {
            assert_may_suspend();
            return Err(Interruption::Cancelled);
        }
        Enqueue::Granted => (Ok(()), worker),
        Enqueue::Waits => match until.map(Tick::not_before) {
            None => {
                let (result, worker) = worker.wait(task, WaitKind::Grant);
                (result.map_err(|_| Interruption::Cancelled), worker)
            }
            Some(at) => worker.wait_until(task, at),
        },
    };
    if let Err(short) = result {
        if leave(source, node) {
            if short == Interruption::Cancelled {
                worker.give_way(task);
            }
            return Err(short);
        }
        // The grant is under way.
        // MUTANT(waiters.collect): skip
        worker = collect(worker, task);
    }
    // MUTANT(waiters.cancelled): false
    if !source.stands() && worker.is_cancelled_here() {
        source.give_back(&node);
        worker.give_way(task);
        return Err(Interruption::Cancelled);
    }
    Ok(node.answer())
}

/// Waits for a grant that comes in any case.
fn collect(worker: &Worker, task: NonNull<Record>) -> &Worker {
    let (result, worker) = worker.wait(task, WaitKind::Structured);
    debug_assert!(result.is_ok(), "a structured wait was cut short");
    worker
}

#[track_caller]
fn enter_as_thread<W: Waitable + ?Sized>(
    source: &W,
    node: Pin<&WaitNode>,
    mode: WaitMode,
    queued: Option<&mut dyn FnMut()>,
) -> Result<u32, Interruption> {
    let waiter = ThreadWaiter::current();
    let who = || Who::Thread(Arc::as_ptr(&waiter));
    // A structured wait that must not be has been refused before it came here.
    let may_wait = matches!(mode, WaitMode::Structured) || Worker::current().is_none();
    // SAFETY: as in `enter_as_task`.
    match unsafe { queue(source, node, who, may_wait, queued) } {
        Enqueue::Answer(answer) => return Ok(answer),
        Enqueue::Granted => return Ok(node.answer()),
        Enqueue::Waits => {}
        Enqueue::Refused => {
            let refused = assert_may_wait();
            debug_assert!(refused.is_err(), "a plain thread may wait");
            return Err(Interruption::Cancelled);
        }
    }
    let until = match mode {
        WaitMode::Until(until) => until,
        WaitMode::Structured => None,
    };
    if !waiter.wait_until(until) {
        if leave(source, node) {
            return Err(Interruption::TimedOut);
        }
        waiter.wait();
    }
    Ok(node.answer())
}

/// Enters a node into the list, unless it gets what it asks for at once, or may not wait: then it leaves nothing behind.
/// Calls `queued` when it is in the list.
///
/// Nobody is woken for the node before foreign code is over that runs here: `queued`, or the wakers of those who were granted
/// something by the entry. A grant in the wait word would be taken for that of a wait which such code begins.
///
/// # Safety
/// The node leaves the list before it goes, and its `who` does not leave the wait before the grant has arrived.
pub(crate) unsafe fn queue<W: Waitable + ?Sized>(
    source: &W,
    node: Pin<&WaitNode>,
    who: impl Fn() -> Who,
    may_wait: bool,
    queued: Option<&mut dyn FnMut()>,
) -> Enqueue {
    let mut wakes = Wakes::default();
    let mut state = source.state();
    let entry = match source.try_enter(&mut state, &node, &mut wakes) {
        Some(answer) => Enqueue::Answer(answer),
        None if may_wait => {
            // MUTANT(waiters.nobodys_name): true
            let at_once = queued.is_none() && wakes.call_nobody();
            node.set_who(if at_once { who() } else { Who::Nobody });
            // SAFETY: passed on.
            unsafe { W::waiters(&mut state).push(node, source.comes_back(&node)) };
            Enqueue::Waits
        }
        None => {
            // The word of the primitive may say already that there is a queue.
            source.left(&mut state, &mut wakes);
            Enqueue::Refused
        }
    };
    drop(state);
    let at_once = queued.is_none() && wakes.call_nobody();
    wakes.deliver();
    if at_once || entry != Enqueue::Waits {
        return entry;
    }
    if let Some(queued) = queued {
        queued();
    }
    let _state = source.state();
    // MUTANT(waiters.queue.look): false
    if node.stage() == Stage::Granted {
        return Enqueue::Granted;
    }
    node.set_who(who());
    Enqueue::Waits
}

/// Takes a node out of the list; false if it has been granted. It is OUT afterwards in any case.
pub(crate) fn leave<W: Waitable + ?Sized>(source: &W, node: Pin<&WaitNode>) -> bool {
    let mut state = source.state();
    // MUTANT(waiters.leave.look): false
    if node.replace_stage(Stage::Out) == Stage::Granted {
        return false;
    }
    // SAFETY: it is in the list, and so is not granted.
    unsafe { W::waiters(&mut state).take_out(&node) };
    let mut wakes = Wakes::default();
    source.left(&mut state, &mut wakes);
    drop(state);
    wakes.deliver();
    true
}
