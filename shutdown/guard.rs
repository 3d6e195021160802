//! Guards: work in progress.

use super::node::Node;
use super::node_ref::NodeRef;
use super::report::Origin;
use super::slots::ThreadNumber;
use std::mem::ManuallyDrop;
use std::panic::Location;

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
    /// Not counted as a reference: the node counts the guard, which keeps the node alive.
    node: ManuallyDrop<NodeRef>,
    place: &'static Location<'static>,
    /// The guard's number in the node's list of places, or 0 if the node does not record places.
    number: u64,
}

impl Guard {
    /// Makes a guard of a node that has a handle.
    #[inline(always)]
    pub(super) fn new(node: &NodeRef, place: &'static Location<'static>) -> Guard {
        Guard::try_new(node, place).expect("a node with a handle or a guard has not ended")
    }

    /// Makes a guard, or returns `None` if the node has ended.
    #[inline(always)]
    pub(super) fn try_new(node: &NodeRef, place: &'static Location<'static>) -> Option<Guard> {
        // SAFETY: the node has counted the guard just now.
        Node::enter(node, ThreadNumber::current()).then(|| unsafe { Guard::counted(node, place) })
    }

    /// # Safety
    /// The caller has counted this guard in the node.
    #[inline(always)]
    pub(super) unsafe fn counted(node: &NodeRef, place: &'static Location<'static>) -> Guard {
        // SAFETY: the node counts the guard, which keeps the node alive until the guard is dropped.
        let guard = Guard { node: unsafe { node.uncounted() }, place, number: 0 };
        if guard.node.reports { guard.with_place_kept() } else { guard }
    }

    #[cold]
    #[inline(never)]
    fn with_place_kept(mut self) -> Guard {
        let mut state = self.node.state.lock();
        self.number = state.places.last_key_value().map_or(1, |(last, _)| last + 1);
        state.places.insert(self.number, Origin::new(self.place, crate::current_id()));
        drop(state);
        self
    }

    #[cold]
    #[inline(never)]
    fn forget_place(&self) {
        self.node.state.lock().places.remove(&self.number);
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if self.number != 0 {
            self.forget_place();
        }
        // SAFETY: the node counts this guard, which is given up here.
        unsafe { Node::leave(&self.node, ThreadNumber::current()) }
    }
}

impl Clone for Guard {
    #[inline]
    fn clone(&self) -> Guard {
        Guard::new(&self.node, self.place)
    }
}

impl PartialEq for Guard {
    fn eq(&self, other: &Guard) -> bool {
        self.node == other.node
    }
}

impl Eq for Guard {}

debug! { impl Guard as this { place: format_args!("{}", this.place) } }
