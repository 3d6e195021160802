//! Stopping a node and all nodes below it, and waking the waiters.
//!
//! A thread stops a node by setting STOPPED in its word; one thread does so for each node. This
//! thread then adds up the node's slots, wakes the waiters, and stops the children. Children that
//! have children or waiters of their own go on a list of nodes to visit. The list is linked through
//! the nodes, and a node is on one list at most, since one thread has stopped it. So a tree of any
//! depth takes neither stack nor memory. Other children are done after one update under the
//! parent's lock.
//!
//! The lock is released after each [`BATCH`]. A cursor into the list of children keeps the place: a
//! child that is removed meanwhile moves the cursor on. A new child is inserted before the cursor,
//! and finds that the parent is stopped.

use super::node::{Next, Node, State, carry_out, depart};
use super::node_ref::NodeRef;
use super::word::{CHILD, HOLD, TOO_MANY, too_many};
use crate::scheduler::wait::waiters::{WaitList, Wakes};
use crate::shim::atomic::Ordering;
use std::ptr;

/// The number of children that are stopped, or waiters that are woken, per acquisition of the lock.
const BATCH: usize = if cfg!(loom) { 1 } else { 64 };

/// Stops a node and all nodes below it, unless the node is stopped already.
pub(super) fn stop(node: &NodeRef) {
    let hold = if node.slots.is_some() { HOLD } else { 0 };
    let Some(step) = node.word.stop(hold) else { return };
    node.stopped.store(true, Ordering::SeqCst);
    if step.left {
        // SAFETY: `step` cleared ARRIVED, so the reference that ARRIVED owned is ours.
        let left = unsafe { NodeRef::from_raw(node.as_ptr()) };
        carry_out(Next::Left(left, step.now));
    }
    let mut todo = ptr::null();
    push(&mut todo, node.clone());
    while let Some(node) = pop(&mut todo) {
        spread(&node, &mut todo);
    }
}

fn push(todo: &mut *const Node, node: NodeRef) {
    node.todo.set(*todo);
    *todo = node.into_raw();
}

fn pop(todo: &mut *const Node) -> Option<NodeRef> {
    if todo.is_null() {
        return None;
    }
    // SAFETY: `push` put the node on the list together with its reference.
    let node = unsafe { NodeRef::from_raw(*todo) };
    *todo = node.todo.get();
    Some(node)
}

/// Visits a node that has just been stopped.
fn spread(node: &NodeRef, todo: &mut *const Node) {
    if let Some(slots) = &node.slots {
        let mut state = node.lock();
        state.folded = true;
        let sum = slots.freeze();
        // Negative if guards that were made in the word have been dropped in a slot.
        if sum.cast_signed() >= TOO_MANY.cast_signed() {
            too_many();
        }
        let step = node.word.depart(HOLD.wrapping_sub(sum));
        drop(state);
        if step.left {
            // SAFETY: `step` cleared ARRIVED, so the reference that ARRIVED owned is ours.
            carry_out(Next::Left(unsafe { NodeRef::from_raw(node.as_ptr()) }, step.now));
        }
    }
    notify_stopped(node);
    let mut left = 0;
    let mut state = node.lock();
    state.cursor = state.first;
    loop {
        let mut batch = BATCH;
        while batch > 0 {
            let this = state.cursor;
            // SAFETY: the nodes in the list are alive while the lock is held.
            let Some(child) = (unsafe { this.as_ref() }) else { break };
            state.cursor = child.next_in_list();
            left += stop_child(this, child, todo);
            batch -= 1;
        }
        if batch > 0 {
            break;
        }
        drop(state);
        state = node.lock();
    }
    drop(state);
    if left > 0 {
        // SAFETY: `stop_child` has made `left` children leave, and this node still counts them for
        // us.
        unsafe { depart(node.as_ptr(), CHILD * left) };
    }
    // A node that never had a guard does not leave its parent, so no other step notifies its
    // waiters.
    // MUTANT(shutdown.spread.complete): false
    if node.word.look().is_complete() {
        notify_complete(node);
    }
}

/// Stops a child under the lock of its parent. Returns 1 if the child has left the parent and is to
/// be uncounted there, else 0.
fn stop_child(this: *const Node, child: &Node, todo: &mut *const Node) -> u64 {
    let Some(step) = child.word.stop(0) else { return 0 };
    child.stopped.store(true, Ordering::SeqCst);
    if step.now.wants_visit() {
        // SAFETY: `this` comes from `NodeRef::as_ptr`, and the nodes in the list are alive.
        push(todo, unsafe { NodeRef::another(this) });
    }
    if step.left {
        // SAFETY: `step` cleared ARRIVED, so the reference that ARRIVED owned is ours. It is not
        // the last one, which would free the node under the lock: the child was arrived and empty
        // before this step, so it is no orphan, and has a holder or a child.
        drop(unsafe { NodeRef::from_raw(this) });
    }
    u64::from(step.left)
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
    loop {
        let (mut wakes, mut batch) = (Wakes::default(), BATCH);
        let mut state = node.lock();
        if let Some(list) = list(&mut state) {
            while batch > 0
                && let Some(wake) = list.grant_first(0)
            {
                wakes.add(wake);
                batch -= 1;
            }
        }
        drop(state);
        wakes.deliver();
        if batch > 0 {
            return;
        }
    }
}
