//! The root of a runtime's tree, and how it ends.
//!
//! A root has no task of its own. It takes children from foreign threads, which are not counted in
//! it themselves. So its end depends on two words. [`Root::shut`] sets the flag `shut`, then closes
//! the node. A foreign thread counts its child in the node, then looks at the flag. An addition
//! that follows the closing in the order of the node's word is `Acquire`, and the closing is
//! `Release`: the thread sees the flag, and undoes the addition. An earlier addition is counted by
//! the closing, and its child is waited for.
//!
//! A task of the runtime may add a child to a shut root: the root counts the task, or an ancestor of
//! it, and so does not end meanwhile.

use crate::scheduler::life::live_node::LiveNode;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::time::now;
use crate::shim::{Condvar, Mutex, is_simulated};
use crate::task::children::Children;
use crate::task::words::tree::{NOBODY, Node, NodeKind, Release};
use crossbeam_utils::CachePadded;
use std::mem::ManuallyDrop;
use std::ptr;
use std::time::Duration;

/// The root of a runtime's tree.
#[repr(C)]
pub(crate) struct Root {
    /// First, so that a pointer to a node of kind Root is a pointer to its root.
    pub(crate) node: Node,
    /// Foreign threads are refused.
    shut: AtomicBool,
    /// The runtime ends: waits are interrupted, and fresh tasks are not started.
    closing: AtomicBool,
    /// One list for each worker: children come from all threads, and are independent of each
    /// other.
    children_lists: Box<[CachePadded<Children>]>,
    ended: Mutex<bool>,
    changed: Condvar,
}

/// A child that the root counts, and that is to be spawned. Dropped, it is not counted any more.
#[must_use = "the root counts the child only as long as this exists"]
pub(crate) struct Admitted<'a>(&'a Root);

impl<'a> Admitted<'a> {
    /// The root, which does not end before the child.
    pub(crate) fn into_parent(self) -> LiveNode<'a> {
        let root = ManuallyDrop::new(self).0;
        // SAFETY: the root counts the child, and so has not ended.
        unsafe { LiveNode::new(&raw const root.node) }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        // MUTANT(root.admit.last): false
        if self.0.node.release_child(NOBODY) == Release::Last {
            self.0.end();
        }
    }
}

impl Root {
    pub(crate) fn new(workers: usize) -> Root {
        Root {
            children_lists: (0..workers).map(|_| CachePadded::new(Children::new())).collect(),
            node: Node::new(NodeKind::Root, ptr::null(), 0),
            shut: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            ended: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// The list in which a child is entered.
    pub(crate) fn children_for(&self, child: &Node) -> &Children {
        // Addresses differ between the runs of a simulation, and all attempts to link a node must
        // use the same list.
        if is_simulated() {
            return &self.children_lists[0];
        }
        // Any even distribution will do. Records are more than 64 bytes apart.
        &self.children_lists[(ptr::from_ref(child).addr() >> 6) % self.children_lists.len()]
    }

    pub(crate) fn children_lists(&self) -> impl Iterator<Item = &Children> {
        self.children_lists.iter().map(|children| &**children)
    }

    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Counts a task that a foreign thread spawns, or one of the runtime's own tasks: `inside` tells
    /// the latter. Returns `None` if the runtime takes no more tasks from the caller.
    pub(crate) fn admit(&self, inside: impl Fn() -> bool) -> Option<Admitted<'_>> {
        if self.refuses(&inside) {
            return None;
        }
        self.node.add_child_from_outside();
        let admitted = Admitted(self);
        // MUTANT(root.admit.look): false
        if self.refuses(inside) {
            return None;
        }
        Some(admitted)
    }

    #[inline]
    fn refuses(&self, inside: impl Fn() -> bool) -> bool {
        self.shut.load(Ordering::Acquire) && (self.is_closing() || !inside())
    }

    /// Takes no more tasks from foreign threads, and cancels nothing. The last task ends the root,
    /// or this call does. Called by the owner of the runtime, as is `close`.
    pub(crate) fn shut(&self) {
        if self.shut.load(Ordering::Relaxed) {
            return;
        }
        // MUTANT(root.close.flag): late
        self.shut.store(true, Ordering::Release);
        if self.node.close_for_good() {
            self.end();
        }
    }

    /// Takes no more tasks at all, and cancels those that are there. The last one ends the root, or
    /// this call does.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.shut();
    }

    /// Ends the root: no task is left, and none will come.
    pub(crate) fn end(&self) {
        let mut ended = self.ended.lock();
        *ended = true;
        // Under the lock, since a waiter may free the root as soon as it has seen the flag.
        self.changed.notify_all();
    }

    #[cfg(all(test, loom))]
    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.lock()
    }

    /// Waits for the end. Returns `false` if `patience` ran out first.
    pub(crate) fn wait(&self, patience: Option<Duration>) -> bool {
        let start = now();
        let mut ended = self.ended.lock();
        while !*ended {
            let Some(patience) = patience else {
                ended = self.changed.wait(ended);
                continue;
            };
            let Some(left) = patience.checked_sub(now() - start) else { break };
            let woken = self.changed.wait_timeout(ended, left);
            (ended, _) = woken;
        }
        *ended
    }
}
