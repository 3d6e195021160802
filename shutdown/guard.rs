//! A piece of work in progress.

use super::node::Node;
use super::node_ref::NodeRef;
use super::slots::ThreadNumber;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};

/// Work that is in progress: as long as it exists the shutdown of its [`Swansong`](super::Swansong), and of all above that, is not complete.
/// From [`Swansong::guard`](super::Swansong::guard).
///
/// Two guards are equal if they are of the same `Swansong`. A clone counts for itself.
///
/// To make and to drop one takes no lock and allocates nothing: some plain loads and stores on a root that runs, an atomic operation each
/// elsewhere. (If places are kept, see [`Swansong::with_guard_report`](super::Swansong::with_guard_report).) It may be dropped on any thread, and forgotten: then the shutdown is never complete.
pub struct Guard {
    /// As from `NodeRef::as_ptr`; kept by being counted there.
    node: *const Node,
    place: &'static Location<'static>,
    /// Its number in the report of the node; 0 if that keeps none.
    number: u64,
}

// SAFETY: a node is shared by design, and counts the guards of all threads.
unsafe impl Send for Guard {}
// SAFETY: as above.
unsafe impl Sync for Guard {}

impl UnwindSafe for Guard {}
impl RefUnwindSafe for Guard {}

impl Guard {
    /// Of a node that a handle keeps.
    #[inline(always)]
    pub(super) fn new(node: &NodeRef, place: &'static Location<'static>) -> Guard {
        Guard::try_new(node, place).expect("a node with a handle has not ended")
    }

    /// None if the node has ended.
    #[inline(always)]
    pub(super) fn try_new(node: &NodeRef, place: &'static Location<'static>) -> Option<Guard> {
        let node = node.as_ptr();
        // SAFETY: kept by the caller's reference.
        unsafe { Node::enter(node, ThreadNumber::current()) }.then(|| Guard::counted(node, place))
    }

    /// One that has been counted.
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
    /// It has been counted in the node, by the caller, whose pointer is that of a `NodeRef`.
    #[cfg(all(test, loom))]
    pub(super) unsafe fn from_counted(
        node: *const Node,
        place: &'static Location<'static>,
    ) -> Guard {
        Guard::counted(node, place)
    }

    fn node(&self) -> &Node {
        // SAFETY: kept by this guard.
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
        // SAFETY: counted once, and uncounted here.
        unsafe { Node::leave(self.node, ThreadNumber::current()) }
    }
}

impl Clone for Guard {
    #[inline]
    fn clone(&self) -> Guard {
        // SAFETY: kept by this guard.
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
