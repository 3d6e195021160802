//! Stopping a node and all nodes below it, and waking the waiters.
//!
//! A thread stops a node by setting STOPPED in its word; one thread does so for each node. This
//! thread then adds up the node's slots, wakes the waiters, and stops the children. Children that
//! have children or waiters of their own go on a list of nodes to visit. The list is linked through
//! the nodes, and a node is on one list at most, since one thread has stopped it. So a tree of any
//! depth takes neither stack nor memory. Other children are done after one update under the
//! parent's lock.
//!
//! The lock is released after each [`BATCH`]. The children are visited from the end of the list.
//! When a child is removed meanwhile, the last child takes its place: it was visited before, or is
//! visited at its new place. A new child is added at the end, and finds that the parent is stopped.

use super::node::{Node, State, follow};
use super::node_ref::NodeRef;
use super::word::{CHILD, HOLD, TOO_MANY, too_many};
use crate::scheduler::wait::waiters::{WaitList, Wakes, with_wakes};
use crate::shim::atomic::Ordering;

/// The number of children that are stopped, or waiters that are woken, per acquisition of the lock.
const BATCH: usize = if cfg!(loom) { 1 } else { 64 };

/// Stops a node and all nodes below it, unless the node is stopped already.
pub(super) fn stop(node: &NodeRef) {
    let hold = if node.slots.is_some() { HOLD } else { 0 };
    let Some(step) = node.stop(hold) else { return };
    node.stopped.store(true, Ordering::SeqCst);
    follow(node, step);
    let mut todo = Some(node.clone());
    while let Some(node) = todo {
        todo = node.todo.take();
        spread(&node, &mut todo);
    }
}

/// Visits a node that has just been stopped.
fn spread(node: &NodeRef, todo: &mut Option<NodeRef>) {
    if let Some(slots) = &node.slots {
        let mut state = node.state.lock();
        state.folded = true;
        let sum = slots.freeze();
        // Negative if guards that were made in the word have been dropped in a slot.
        if sum.cast_signed() >= TOO_MANY.cast_signed() {
            too_many();
        }
        // SAFETY: the stop has added HOLD, and the guards in the slots move into the word.
        let step = unsafe { node.depart(HOLD.wrapping_sub(sum)) };
        drop(state);
        follow(node, step);
    }
    notify_stopped(node);
    let (mut left, mut at) = (0, usize::MAX);
    while at > 0 {
        let state = node.state.lock();
        let end = at.min(state.children.len());
        at = end.saturating_sub(BATCH);
        for child in state.children[at..end].iter().rev() {
            left += u64::from(stop_child(child, todo));
        }
    }
    if left > 0 {
        // SAFETY: `stop_child` has made `left` children leave, whose units are the caller's.
        follow(node, unsafe { node.depart(CHILD * left) });
    }
    // A node that never had a guard does not leave its parent, so no other step notifies its
    // waiters.
    // MUTANT(shutdown.spread.complete): false
    if node.word.look().is_complete() {
        notify_complete(node);
    }
}

/// Stops a child under the lock of its parent. Returns `true` if the child has left the parent and
/// is to be uncounted there.
fn stop_child(child: &NodeRef, todo: &mut Option<NodeRef>) -> bool {
    let Some(step) = child.stop(0) else { return false };
    child.stopped.store(true, Ordering::SeqCst);
    if step.now.wants_visit() {
        child.todo.set(todo.replace(child.clone()));
    }
    // This drops the reference that ARRIVED owned. It is not the last one, which would free the
    // node under the lock: the child was arrived and empty before this step, so it is no orphan,
    // and has a holder or a child.
    step.left.is_some()
}

/// Wakes the waiters for the stop.
pub(super) fn notify_stopped(node: &Node) {
    wake_all(node, |state| Some(&mut state.for_stop));
}

/// Wakes the waiters for the completion as long as the node is complete. A guard may have been made
/// meanwhile, and a waiter may wait for that guard; its drop calls this again.
pub(super) fn notify_complete(node: &Node) {
    wake_all(node, |state| node.word.look().is_complete().then_some(&mut state.for_end));
}

/// Wakes the waiters in a list, in batches. `list` returns `None` when what they wait for no longer
/// holds; it is called under each lock acquisition.
fn wake_all(node: &Node, list: impl Fn(&mut State) -> Option<&mut WaitList>) {
    if !node.word.look().wants_visit() {
        return;
    }
    let wake_batch = |state: &mut State, wakes: &mut Wakes| {
        let Some(list) = list(state) else { return false };
        for _ in 0..BATCH {
            let Some(wake) = list.grant_first(0) else { return false };
            wakes.add(wake);
        }
        true
    };
    while with_wakes(&node.state, wake_batch) {}
}
