//! Guards: work in progress.

use super::node::Node;
use super::node_ref::NodeRef;
use super::slots::ThreadNumber;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};

/// Work in progress: while it exists, the shutdown of its [`Swansong`](super::Swansong) and of all
/// ancestors is not complete. Made by [`Swansong::guard`](super::Swansong::guard).
///
/// Two guards are equal if they belong to the same `Swansong`. A clone counts separately.
///
/// Making and dropping a guard does not lock or allocate, except where
/// [`Swansong::guard`](super::Swansong::guard) and
/// [`Swansong::with_guard_report`](super::Swansong::with_guard_report) say otherwise. On a running
/// root each takes some plain loads and stores; elsewhere, an atomic operation. A guard may be
/// dropped on any thread. If it is forgotten, the shutdown never completes.
pub struct Guard {
    /// From `NodeRef::as_ptr`. The node counts this guard, which keeps it alive.
    node: *const Node,
    place: &'static Location<'static>,
    /// The guard's number in the node's registry, or 0 if the node does not record places.
    number: u64,
}

// SAFETY: the node may be used by any thread, and counts the guards of all threads.
unsafe impl Send for Guard {}
// SAFETY: the node may be used by several threads at once, and counts with atomics or under a lock.
unsafe impl Sync for Guard {}

impl UnwindSafe for Guard {}
impl RefUnwindSafe for Guard {}

impl Guard {
    /// Makes a guard of a node that has a handle.
    #[inline(always)]
    pub(super) fn new(node: &NodeRef, place: &'static Location<'static>) -> Guard {
        Guard::try_new(node, place).expect("a node with a handle has not ended")
    }

    /// Makes a guard, or returns `None` if the node has ended.
    #[inline(always)]
    pub(super) fn try_new(node: &NodeRef, place: &'static Location<'static>) -> Option<Guard> {
        let node = node.as_ptr();
        // SAFETY: the caller's reference keeps the node alive, and the pointer comes from it.
        unsafe { Node::enter(node, ThreadNumber::current()) }.then(|| Guard::counted(node, place))
    }

    /// Makes the guard that the node has counted just now.
    #[inline(always)]
    fn counted(node: *const Node, place: &'static Location<'static>) -> Guard {
        let guard = Guard { node, place, number: 0 };
        if guard.node().reports {
            return guard.with_place_kept();
        }
        guard
    }

    #[cold]
    #[inline(never)]
    fn with_place_kept(mut self) -> Guard {
        let number = self.node().lock().registry.get_or_insert_default().add(self.place);
        self.number = number;
        self
    }

    /// # Safety
    /// `node` comes from a `NodeRef`, and the caller has counted this guard there.
    #[cfg(all(test, loom))]
    pub(super) unsafe fn from_counted(
        node: *const Node,
        place: &'static Location<'static>,
    ) -> Guard {
        Guard::counted(node, place)
    }

    fn node(&self) -> &Node {
        // SAFETY: the node counts this guard, which keeps it alive.
        unsafe { &*self.node }
    }

    #[cold]
    #[inline(never)]
    fn forget_place(&self) {
        let mut state = self.node().lock();
        state.registry.as_mut().expect("the guard is in it").remove(self.number);
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if self.number != 0 {
            self.forget_place();
        }
        // SAFETY: the node counts this guard, which is given up here; the pointer comes from a
        // `NodeRef`.
        unsafe { Node::leave(self.node, ThreadNumber::current()) }
    }
}

impl Clone for Guard {
    #[inline]
    fn clone(&self) -> Guard {
        // SAFETY: the pointer comes from a `NodeRef`, and this guard keeps the node alive.
        let counted = unsafe { Node::enter(self.node, ThreadNumber::current()) };
        assert!(counted, "a node with a guard has not ended");
        Guard::counted(self.node, self.place)
    }
}

impl PartialEq for Guard {
    fn eq(&self, other: &Guard) -> bool {
        std::ptr::eq(self.node, other.node)
    }
}

impl Eq for Guard {}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("place", &format_args!("{}", self.place)).finish()
    }
}
