//! The waiters of a primitive (a mutex, an event, ..): tasks, plain threads and futures, in one
//! list.
//!
//! # Access to a node
//!
//! Each primitive has a [`WaitList`] behind a lock of its own. The lock is held for a few
//! instructions at a time, and never together with another such lock. A [`WaitNode`] lies on the
//! frame of the waiting call, or in the future, and does not move. From its entry into a list on,
//! all of it, but for its whereabouts, is read and written under that lock alone, until the waiter
//! has received its grant or has left. The same holds for what its `cell` points to.
//!
//! ```text
//! OUT --enter--> LISTED --grant (by the granter)--> OUT --collected--
//!                  |                                 |
//!                  |                                 +-- given back (interrupted, dropped)
//!                  +-- leave (interrupted, timed out, dropped)
//! ```
//!
//! **One step decides**: who takes the node out of the list, under the lock. The granter hands over
//! what the node asked for in the same critical section. A waiter that leaves finds the node in one
//! of two states:
//!
//! * In the list: it takes the node out, as if it had never been there.
//! * Out: it was granted. What was granted belongs to the waiter, which uses it or gives it back to
//!   the next.
//!
//! # The seat
//!
//! A primitive may have a seat for a waiter that is alone: a word that holds the address of its
//! node, and is changed without the lock (sync/channel/line.rs). The node belongs to whoever takes
//! its address out of the word. That is the waiter, which leaves; or a granter, which answers and
//! wakes it; or the holder of the lock, which pushes it into the list. If a waiter finds its
//! address gone, it takes the lock, and so waits for a push that is under way. Then the node is in
//! the list, or somebody is granting it or has done so. A future never sits: its waker may be
//! replaced at each poll.
//!
//! # Wake-ups
//!
//! Under the lock, or with a node out of the seat, the granter moves the waiter out of the node
//! ([`Wakes`]). It wakes the waiter when the lock is free, and does not touch the node any more.
//!
//! * A *future* that is polled meanwhile finds its grant, and may be dropped.
//! * A *task* or *thread* may not leave. Its wait is one wait of one wait word
//!   (task/words/wait.rs), which is over when the grant has arrived there. An interruption or a
//!   timeout ends the wait of a task only in the sense that the task runs again. The task then
//!   looks at its node. If the node is granted, the task waits for the grant that is under way,
//!   and nothing can interrupt this wait. Therefore the record, or the waiter of the thread, is
//!   alive when the granter comes to it, and no grant is left over for a later wait.
//!
//! One wait of one word also means that no other wait of the same word may begin between the
//! entry of a node that names a task or a thread and the collection of its grant. Foreign code
//! may run in between: a condition variable unlocks its mutex, which may call a waker. Then the
//! node is entered without a waiter, and examined again when the foreign code has returned
//! ([`queue`]).
//!
//! **No wake-up is lost**: a node is entered under the lock, after a last look at what the
//! primitive has to give. The giver acts under the same lock; or it first gives, and then looks
//! for waiters, both in the total order of SeqCst. Each primitive says which.
//!
//! # Cancellation is total
//!
//! A cancelled task is turned away before it waits, even from what is free. A task that finds
//! itself cancelled when it continues gives back what it was granted ([`Waitable::give_back`]),
//! unless the grant [stands](Waitable::stands). A task that times out and was granted just then
//! keeps the grant: it was in time.

mod list;
mod turns;
mod wait_future;

pub(crate) use list::{WaitList, WaitNode, Wake, Wakes, Who, with_wakes};
pub(crate) use turns::Turns;
pub(crate) use wait_future::WaitFuture;

use crate::scheduler::timers::tick::Tick;
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::no_suspend::{assert_may_suspend, assert_may_wait};
use crate::scheduler::wait::park::waits;
use crate::scheduler::worker::Worker;
use crate::shim::MutexGuard;
use crate::shim::time::Instant;
use crate::task::reference::{TaskRef, WaiterRef};
use crate::task::thread_waiter::ThreadWaiter;
use crate::task::words::wait::WaitKind;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::Arc;

/// A primitive with a wait list.
pub(crate) trait Waitable {
    /// The state that the lock guards.
    type State;

    /// Names what is waited for, for reports.
    const WHAT: &'static str = "";

    /// The same, for a primitive that has several.
    fn what(&self) -> &'static str {
        Self::WHAT
    }

    /// Describes the present owner for reports, if the primitive knows it.
    fn owner(&self) -> Option<String> {
        None
    }

    /// Returns whether what was granted to a node is used up at once and cannot be given back. A
    /// task that is cancelled meanwhile then keeps it.
    fn stands(&self, _: &WaitNode) -> bool {
        false
    }

    fn state(&self) -> MutexGuard<'_, Self::State>;

    fn waiters(state: &mut Self::State) -> &mut WaitList;

    /// Takes what the node asks for if it is available at once, and returns the answer. Returns
    /// `None` if the node has to wait. The call may grant something to other waiters.
    fn try_enter(&self, state: &mut Self::State, node: &WaitNode, wakes: &mut Wakes)
    -> Option<u32>;

    /// Returns whether the node has been in the list before and now enters it as the first one.
    fn comes_back(&self, _: &WaitNode) -> bool {
        false
    }

    /// Enters the node without the lock, if the primitive has a seat for that and it is free.
    fn sit(&self, _: &WaitNode, _: impl FnOnce() -> Who) -> bool {
        false
    }

    /// Returns whether a node that has just sat down may find what it asks for.
    fn has_news(&self) -> bool {
        false
    }

    /// Takes a node out of the seat, if it is there.
    fn stand_up(&self, _: &WaitNode) -> bool {
        false
    }

    /// Called when a waiter has left the list without a grant, or was refused although it would
    /// have to wait. What kept others waiting may be gone.
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

    fn stands(&self, node: &WaitNode) -> bool {
        (**self).stands(node)
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

    fn sit(&self, node: &WaitNode, who: impl FnOnce() -> Who) -> bool {
        (**self).sit(node, who)
    }

    fn has_news(&self) -> bool {
        (**self).has_news()
    }

    fn stand_up(&self, node: &WaitNode) -> bool {
        (**self).stand_up(node)
    }

    fn left(&self, state: &mut W::State, wakes: &mut Wakes) {
        (**self).left(state, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        (**self).give_back(node);
    }
}

/// Waits until `source` grants what is asked for, or the time `until` has come. `token` is for
/// the primitive.
///
/// # Errors
/// [`Interruption`]. A plain thread is never cancelled.
///
/// # Panics
/// If it has to wait inside `no_suspend`, or on a worker between tasks. (During unwinding it
/// returns [`Interruption::Cancelled`] instead.)
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

/// Same as [`enter`], and calls `queued` after it has entered the list, before it waits. `queued`
/// may run foreign code, but does not panic.
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

/// Same as [`enter_and`], with a node of the caller, which is in no list. The caller can read its
/// token afterwards: a grant may leave something there.
#[inline]
#[track_caller]
pub(crate) fn enter_node<W: Waitable + ?Sized>(
    source: &W,
    node: Pin<&WaitNode>,
    mode: WaitMode,
    queued: Option<&mut dyn FnMut()>,
) -> Result<u32, Interruption> {
    let _waits = waits(|| {
        let owner = source.owner().map_or(String::new(), |owner| format!(", which {owner} has"));
        format!("{} at {}{owner}", source.what(), node.location)
    });
    match Worker::current().and_then(|worker| Some((worker, worker.task()?))) {
        Some((worker, task)) => enter_as_task(source, node, mode, queued, worker, task),
        None => enter_as_thread(source, node, mode, queued),
    }
}

/// How to wait.
#[derive(Clone, Copy)]
pub(crate) enum WaitMode {
    /// Until a grant, a cancel, or the given time, if any.
    Until(Option<Instant>),
    /// As `Until`, but waits also while the thread unwinds, and blocks the worker for that.
    Blocking(Option<Instant>),
    /// Until a grant, without interruption: the caller relies on it.
    Structured,
}

/// The result of [`queue`].
#[derive(PartialEq, Eq)]
pub(crate) enum Enqueue {
    /// The node need not wait. This is the answer.
    Answer(u32),
    /// The node is in the list, or in the seat.
    Waits,
    /// The node was in the list, and has been granted what it asked for. There will be no
    /// wake-up.
    Granted,
    /// The node would have to wait, and may not.
    Refused,
}

#[inline]
#[track_caller]
fn enter_as_task<W: Waitable + ?Sized>(
    source: &W,
    node: Pin<&WaitNode>,
    mode: WaitMode,
    queued: Option<&mut dyn FnMut()>,
    worker: &Worker,
    task: TaskRef<'_>,
) -> Result<u32, Interruption> {
    // SAFETY: this call returns only after the grant, or when the node has left the list, or the
    // seat, without one.
    let who = || Who::Task(unsafe { WaiterRef::new(task) });
    let unwinding = crate::shim::panicking();
    let (until, blocks) = match mode {
        WaitMode::Until(until) => (until, false),
        WaitMode::Blocking(until) => (until, unwinding),
        WaitMode::Structured => {
            // A structured wait ends only with the grant, which takes the node out of the list, or
            // of the seat, before this frame goes.
            return Ok(match queue(source, node, who, true, queued) {
                Enqueue::Answer(answer) => answer,
                entry => {
                    if entry == Enqueue::Waits {
                        worker.await_grant(task);
                    }
                    node.answer()
                }
            });
        }
    };
    // MUTANT(waiters.turned_away): false
    if worker.is_late() || !worker.may_wait() {
        worker.give_way(task);
        return Err(Interruption::Cancelled);
    }
    let may_wait = blocks || worker.forbidden.get() == 0 && !unwinding;
    // A grant or `leave` takes the node out before this frame goes. If it was granted, the task
    // continues only when the grant has arrived.
    let (result, mut worker) = match queue(source, node, who, may_wait, queued) {
        Enqueue::Answer(answer) => return Ok(answer),
        Enqueue::Refused => {
            assert_may_suspend();
            return Err(Interruption::Cancelled);
        }
        Enqueue::Granted => (Ok(()), worker),
        Enqueue::Waits if blocks => worker.block_until(task, until.map(Tick::not_before)),
        Enqueue::Waits => match until.map(Tick::not_before) {
            None => {
                let (result, worker) = worker.wait_on(task, WaitKind::Grant);
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
        worker = worker.await_grant(task);
    }
    // MUTANT(waiters.cancelled): false
    if !source.stands(&node) && worker.is_cancelled_here() {
        source.give_back(&node);
        worker.give_way(task);
        return Err(Interruption::Cancelled);
    }
    Ok(node.answer())
}

#[cold]
#[inline(never)]
#[track_caller]
fn enter_as_thread<W: Waitable + ?Sized>(
    source: &W,
    node: Pin<&WaitNode>,
    mode: WaitMode,
    queued: Option<&mut dyn FnMut()>,
) -> Result<u32, Interruption> {
    let waiter = ThreadWaiter::current();
    let who = || Who::Thread(Arc::as_ptr(&waiter));
    // A structured wait that is not allowed was refused before this call.
    let may_wait = match mode {
        WaitMode::Structured => true,
        WaitMode::Blocking(_) if crate::shim::panicking() => true,
        WaitMode::Until(_) | WaitMode::Blocking(_) => Worker::current().is_none(),
    };
    // A grant or `leave` takes the node out before this frame goes. If it was granted, the thread
    // continues only when the grant has arrived.
    match queue(source, node, who, may_wait, queued) {
        Enqueue::Answer(answer) => return Ok(answer),
        Enqueue::Granted => return Ok(node.answer()),
        Enqueue::Waits => {}
        Enqueue::Refused => {
            let refused = assert_may_wait();
            debug_assert!(refused.is_err(), "a plain thread was refused a wait");
            return Err(Interruption::Cancelled);
        }
    }
    let until = match mode {
        WaitMode::Until(until) | WaitMode::Blocking(until) => until,
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

/// Lets a node take the seat of the primitive if it has one that is free, or enters it into the
/// list: see [`queue_up`].
#[inline(always)]
pub(crate) fn queue<W: Waitable + ?Sized>(
    source: &W,
    node: Pin<&WaitNode>,
    who: impl Fn() -> Who,
    may_wait: bool,
    queued: Option<&mut dyn FnMut()>,
) -> Enqueue {
    // MUTANT(waiters.seat.look): with may_wait && queued.is_none() && source.sit(&node, &who)
    let sits = may_wait
        && queued.is_none()
        && source.sit(&node, &who)
        && (!source.has_news() || !leave(source, node));
    if sits {
        return Enqueue::Waits;
    }
    queue_up(source, node, who, may_wait, queued)
}

/// Enters a node into the list, unless it gets what it asks for at once, or may not wait: then
/// nothing is left behind. Calls `queued` when the node is in the list.
///
/// Foreign code may run here: `queued`, and the wakers of other waiters that were granted
/// something by the entry. The node names no waiter before that code has returned. Otherwise a
/// grant could arrive in the wait word, and a wait that the foreign code begins would take it for
/// its own.
///
/// The waiter that `who` returns does not leave the wait before the grant has arrived.
fn queue_up<W: Waitable + ?Sized>(
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
            W::waiters(&mut state).push(node, source.comes_back(&node));
            Enqueue::Waits
        }
        None => {
            // The word of the primitive may announce a waiter already.
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
    if !node.is_listed() {
        return Enqueue::Granted;
    }
    node.set_who(who());
    Enqueue::Waits
}

/// Takes a node out of the list, or of the seat. Returns `false` if it has been granted. The caller
/// then waits for the grant, if it has not come yet.
pub(crate) fn leave<W: Waitable + ?Sized>(source: &W, node: Pin<&WaitNode>) -> bool {
    if source.stand_up(&node) {
        return true;
    }
    let mut state = source.state();
    // MUTANT(waiters.leave.look): false
    if !node.is_listed() {
        return false;
    }
    // SAFETY: the node is in the list.
    unsafe { W::waiters(&mut state).take_out(&node) };
    let mut wakes = Wakes::default();
    source.left(&mut state, &mut wakes);
    drop(state);
    wakes.deliver();
    true
}
