//! The root of a runtime's tree, and how it comes to its end.
//!
//! A root has no task of its own and takes children from outsiders, who are not counted in it. So its
//! end is a matter of two words: [`Root::close`] sets the flag `closing` and then closes the node; a
//! outsider counts its child in the node and then looks at the flag. An addition that comes after the
//! closing in the order of the node's word is `Acquire`, the closing is `Release`: it sees the
//! flag and is undone. One that comes before it is counted by the closing, and waited for.

use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::time::now;
use crate::shim::{Condvar, Mutex, is_simulated};
use crate::task::children::Children;
use crate::task::words::tree::{NOBODY, Node, NodeKind, Release};
use crossbeam_utils::CachePadded;
use std::ptr;
use std::sync::PoisonError;
use std::time::Duration;

/// See the module's documentation.
#[repr(C)]
pub(crate) struct Root {
    /// First, so that a node of kind Root is its root.
    pub(crate) node: Node,
    /// The runtime ends: waits are cut short and fresh tasks are not started.
    closing: AtomicBool,
    /// As many lists of children as there are workers: children come from everywhere, and none has to do with
    /// the other.
    children_lists: Box<[CachePadded<Children>]>,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Root {
    pub(crate) fn new(workers: usize) -> Root {
        Root {
            children_lists: (0..workers).map(|_| CachePadded::new(Children::new())).collect(),
            node: Node::new(NodeKind::Root, ptr::null(), 0),
            closing: AtomicBool::new(false),
            ended: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// The list that a child is entered in.
    pub(crate) fn children_for(&self, child: &Node) -> &Children {
        // An address is another one in each run of a simulation, and whoever links a node has to come to the same list.
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

    /// Counts a task that a foreign thread spawns; false if the runtime takes none any more.
    pub(crate) fn admit(&self) -> bool {
        if self.is_closing() {
            return false;
        }
        self.node.add_child_from_outside();
        // MUTANT(root.admit.look): false
        if self.is_closing() {
            // A task that was admitted and not spawned.
            // MUTANT(root.admit.last): false
            if self.node.release_child(NOBODY) == Release::Last {
                self.end();
            }
            return false;
        }
        true
    }

    /// Takes no more tasks from outsiders; the last task ends the root, or we do.
    pub(crate) fn close(&self) {
        // MUTANT(root.close.flag): late
        self.closing.store(true, Ordering::Release);
        if self.node.close_for_good() {
            self.end();
        }
    }

    /// No task is left and none will come.
    pub(crate) fn end(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended = true;
        // Under the lock: who waits may free us as soon as it has seen the flag.
        self.changed.notify_all();
    }

    #[cfg(all(test, loom))]
    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end; false if `patience` ran out first.
    pub(crate) fn wait(&self, patience: Option<Duration>) -> bool {
        let start = now();
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*ended {
            let Some(patience) = patience else {
                ended = self.changed.wait(ended).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let Some(left) = patience.checked_sub(now() - start) else { break };
            let woken = self.changed.wait_timeout(ended, left);
            (ended, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        *ended
    }
}
