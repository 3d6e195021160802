//! Whether a task is cancelled, and how it becomes so.
//!
//! A cancel **marks** a node of the tree, and carries the mark to all linked nodes below it
//! (`task/children/mod.rs` has the protocol). In each node that it marks, it **interrupts** the
//! wait of the task that runs in the node, if the task is parked in an interruptible wait. No task
//! runs inside the call: an interrupted task is queued. Hooks that the walk has reached are called
//! by the canceller, when the walk is over and no lock is held.
//!
//! **How a task learns of a cancel.** A task asks its own node, then its ancestors up to the first
//! linked one. Before it parks in an interruptible wait it links its innermost node, checks
//! whether that is cancelled, publishes its wait and checks again. The canceller marks the node,
//! then checks whether the task waits. Both sides use the total order of SeqCst, so one of the two
//! sees the other.
//!
//! **An interruption may be stale.** It may come from another node than the one that the task
//! waits in: from an outer node, while the task is in an inner one that ignores cancellation; or
//! from a node that the task has left meanwhile. So an interrupted task checks whether it is
//! cancelled, and goes on waiting if it is not (`Worker::wait_within`).
//!
//! **A cancel may come too late**: its caller saw the task running, and marks the node after the
//! task has ended. Completion does not pay for this. The first query after completion decides
//! whether the task counts as cancelled (`TreeWord::decide`): a mark that is there counts, and a
//! later one is ignored. The end of a scope takes its node out of the reach of handles, under the
//! lock of the scope's list.

mod delivery;
pub(crate) mod hook;
pub(crate) mod reason;
pub(crate) mod unresponsive;

pub(in crate::scheduler) use delivery::link_to_wait;
pub(crate) use delivery::{
    Delivery, Woken, cancel, cancel_all, cancel_children, cancel_node, link, link_and_mark,
    stop_ignoring,
};

use crate::scheduler::cancel::reason::write_cause_down;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::timers::fire_if_overdue;
use crate::scheduler::wait::interrupted::Interrupted;
use crate::scheduler::worker::release::SharedRef;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::task::children;
use crate::task::reference::{Ready, RunRef, TaskRef};
use crate::task::words::tree::{NodeKind, Verdict};

/// Ancestors that one query asks at most. If none of them knows, the query links the last one, so
/// that no later query needs to go further.
const LOOK: usize = 8;
/// Queries of a node's ancestors after which the node is linked, so that its own word answers.
const OFTEN: u8 = 16;

/// Whether `node` is cancelled.
#[inline(always)]
pub(crate) fn is_cancelled(node: LiveNode<'_>) -> bool {
    is_cancelled_here_or_above(node)
        // The only worker that could fire a deadline may be busy with the very task that asks.
        || node.is_timed() && fire_if_overdue(node) && is_cancelled_here_or_above(node)
}

#[inline(always)]
fn is_cancelled_here_or_above(node: LiveNode<'_>) -> bool {
    match node.verdict() {
        Verdict::AskParent => is_cancelled_above(node),
        verdict => verdict == Verdict::Cancelled,
    }
}

/// As `is_cancelled`, for a task that has not started and asks once.
#[inline(always)]
pub(crate) fn is_cancelled_at_start(task: &RunRef) -> bool {
    task.node.word().is_marked() || is_cancelled_here_or_above(LiveNode::parent_of_run(task))
}

#[inline(never)]
fn is_cancelled_above(node: LiveNode<'_>) -> bool {
    if node.asks() >= OFTEN {
        link(node);
        return node.verdict() == Verdict::Cancelled;
    }
    let mut at = node;
    for _ in 0..LOOK {
        // A root never answers `AskParent`.
        let Some(parent) = at.parent() else { return false };
        at = parent;
        match at.verdict() {
            Verdict::AskParent => {}
            Verdict::Cancelled => {
                // MUTANT(cancel.inherit): first return true
                return inherit_all(node, at);
            }
            Verdict::NotCancelled => return false,
        }
    }
    link(at);
    let cancelled = at.verdict() == Verdict::Cancelled;
    cancelled && inherit_all(node, at)
}

/// Marks `node` and the nodes between it and `above`, at most `LOOK` further up, which was found
/// to be cancelled. Returns what `inherit` returns.
#[cold]
#[inline(never)]
fn inherit_all(node: LiveNode<'_>, above: LiveNode<'_>) -> bool {
    let (mut path, mut length) = ([node; LOOK], 0);
    for at in node.and_above().take_while(|at| !at.is(above.pointer())) {
        path[length] = at;
        length += 1;
    }
    inherit(&path[..length], above)
}

/// Marks nodes because `above`, the parent of the last one, was found to be cancelled. Each node
/// is the parent of the one before it. Returns `false` if one of them has begun to ignore
/// cancellation meanwhile: then the nodes below it are not cancelled.
fn inherit(nodes: &[LiveNode<'_>], above: LiveNode<'_>) -> bool {
    let origin = above.origin();
    for node in nodes.iter().rev() {
        let first = delivery::inherit(*node, origin);
        // MUTANT(cancel.inherit.ignored): false
        if !first && node.verdict() != Verdict::Cancelled {
            return false;
        }
    }
    true
}

/// Marks the node of a task that will not start because an ancestor was found to be cancelled, if
/// others have references to the task and might ask.
#[cold]
pub(crate) fn inherit_unstarted(node: LiveNode<'_>) {
    if !node.task().is_some_and(|task| task.is_known()) || node.word().is_marked() {
        return;
    }
    // The nearest ancestor that is known to be cancelled, at the latest the root.
    inherit(&[node], node.up_to(|above| above.verdict() == Verdict::Cancelled));
}

/// Returns a reference to the running task, for another party. `innermost` is the node that the
/// task is in. `None` if that is a root.
pub(crate) fn make_known(innermost: LiveNode<'_>) -> Option<SharedRef> {
    let node = innermost.up_to(|node| node.kind == NodeKind::Task);
    let task = node.task()?;
    if !node.is_linked() {
        // From here on a cancel from above shows in the task's own word.
        link(node);
    }
    // A walk either sees the reference, or has left its mark, which is seen below.
    let mut reference = None;
    children::between_walks(&node, || reference = Some(SharedRef::new(task)));
    // MUTANT(cancel.known.look): false
    if node.word().is_marked() {
        let origin = node.origin();
        if !origin.is(node.pointer()) {
            write_cause_down(&node, origin);
        }
    }
    reference
}

/// Begins to ignore cancellation in a node in which the caller runs. Returns `false` if the node
/// ignored it already, and an error if the node is cancelled.
pub(crate) fn begin_ignoring(node: LiveNode<'_>) -> Result<bool, Interrupted> {
    if node.word().is_ignoring() {
        return Ok(false);
    }
    // A cancel from above may not have left a mark here.
    if is_cancelled(node) || !node.word().ignore() {
        return Err(Interrupted);
    }
    Ok(true)
}

/// Records that the time of a wait is over, and interrupts the wait. Returns the task if the caller
/// must queue it. The waiter checks the record after it has published its wait, so one of
/// the two sees the other (task/words/wait.rs).
pub(super) fn expire(task: TaskRef<'_>, over: &AtomicBool) -> Option<Ready> {
    // MUTANT(limit.expire): relaxed
    over.swap(true, Ordering::SeqCst);
    task.interrupt()
}
