//! The stop of a node, and of all below it; and those who wait for it, or for its end.
//!
//! Each node is stopped by one who says so in its word first. He then adds up its slots, wakes those who wait, and stops its children, of
//! which those that have children, or somebody who waits, are put on a list of what is still to be visited: links in the nodes, each of
//! which has one who has stopped it. So a tree of any depth takes neither stack nor memory. A child that is empty is stopped under
//! the lock of its parent by one update, and no more.
//!
//! The lock is given back after each [`BATCH`]. A cursor in the list stays where the stop has got to: a child that goes meanwhile moves it, and one
//! that comes is put before it, and finds that the parent is stopped.

use super::node::{Next, Node, State, carry_out, depart};
use super::node_ref::NodeRef;
use super::word::{CHILD, HOLD, TOO_MANY, too_many};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::MutexGuard;
use crate::shim::atomic::Ordering;
use std::ptr;

/// So many are stopped, or woken, before others may have the lock.
const BATCH: usize = if cfg!(loom) { 1 } else { 64 };

/// Stops a node and all below it, unless it is stopped.
pub(super) fn stop(node: &NodeRef) {
    let hold = if node.slots.is_some() { HOLD } else { 0 };
    let Some(step) = node.word.stop(hold) else { return };
    node.stopped.store(true, Ordering::SeqCst);
    if step.left {
        // SAFETY: the reference of what was in it is ours.
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
    // SAFETY: pushed with its reference.
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
        // Below zero, if guards that were made in the word have been dropped in a slot.
        if sum.cast_signed() >= TOO_MANY.cast_signed() {
            too_many();
        }
        let step = node.word.depart(HOLD.wrapping_sub(sum));
        drop(state);
        if step.left {
            // SAFETY: the reference of what was in it is ours.
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
            // SAFETY: who is in the list is alive.
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
        // SAFETY: the units of the children that have left.
        unsafe { depart(node.as_ptr(), CHILD * left) };
    }
    // One that never had anything in it leaves nobody, and nobody tells of its end.
    // MUTANT(shutdown.spread.complete): false
    if node.word.look().is_complete() {
        notify_complete(node);
    }
}

/// Stops a child under the lock of its parent: 1 if it has left that, which is to be uncounted.
fn stop_child(this: *const Node, child: &Node, todo: &mut *const Node) -> u64 {
    let Some(step) = child.word.stop(0) else { return 0 };
    child.stopped.store(true, Ordering::SeqCst);
    if step.now.wants_visit() {
        // SAFETY: who is in the list is alive.
        push(todo, unsafe { NodeRef::another(this) });
    }
    if step.left {
        // SAFETY: the reference of what was in it is ours. It is not the last one: it was arrived and empty before this step, and so has
        // somebody who holds it.
        drop(unsafe { NodeRef::from_raw(this) });
    }
    u64::from(step.left)
}

/// Wakes those who wait for the stop.
pub(super) fn notify_stopped(node: &Node) {
    wake_all(node, |state| Some(&mut state.for_stop));
}

/// Wakes those who wait for the completion, as long as it is complete: a guard may have come meanwhile, and then somebody who waits for that one.
/// Who drops it comes here once more.
pub(super) fn notify_complete(node: &Node) {
    wake_all(node, |state| node.word.look().is_complete().then_some(&mut state.for_end));
}

/// Wakes all who are in a list, if what they wait for is so: looked up under each lock.
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

/// The stop of a node, to be waited for.
pub(super) struct ForStop<N>(pub(super) N);

/// The completion of a node, to be waited for.
pub(super) struct ForEnd<N>(pub(super) N);

macro_rules! waitable {
    ($name:ident, $list:ident, $is_so:ident) => {
        impl<N: std::ops::Deref<Target = Node>> Waitable for $name<N> {
            type State = State;

            fn what(&self) -> &'static str {
                "a stop, or what comes after it"
            }

            /// What has been so is so: nobody gives it back.
            fn stands(&self) -> bool {
                true
            }

            fn state(&self) -> MutexGuard<'_, State> {
                self.0.lock()
            }

            fn waiters(state: &mut State) -> &mut WaitList {
                &mut state.$list
            }

            fn try_enter(&self, _: &mut State, _: &WaitNode, _: &mut Wakes) -> Option<u32> {
                // MUTANT(shutdown.wait.look): with { self.0.word.ask_for_visit(); None }
                self.0.word.ask_for_visit().$is_so().then_some(0)
            }

            fn give_back(&self, _: &WaitNode) {}
        }
    };
}

waitable!(ForStop, for_stop, is_over);
waitable!(ForEnd, for_end, is_complete);
