//! A counted reference to a node.
//!
//! As std's `Arc`, but without weak references, and who finds that he has the only one frees the node without an update: a child that nothing
//! hangs on is made and ended by six updates, where an `Arc` would need another two.
//!
//! Nobody can make a reference without one, but by the list of the node's parent, under that one's lock; the node is taken out of that before
//! the last one goes. So a count of one stays one.

use super::node::Node;
use super::word::too_many;
use crate::shim::atomic::{AtomicUsize, Ordering};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

pub(super) struct NodeRef(NonNull<Node>);

/// How many references there are. A node begins with that of whoever makes it.
pub(super) struct References(AtomicUsize);

impl References {
    pub(super) fn one() -> References {
        References(AtomicUsize::new(1))
    }
}

// SAFETY: a node is shared by design, and freed by whoever is last.
unsafe impl Send for NodeRef {}
// SAFETY: as above.
unsafe impl Sync for NodeRef {}

impl NodeRef {
    pub(super) fn new(node: Box<Node>) -> NodeRef {
        NodeRef(NonNull::from(Box::leak(node)))
    }

    pub(super) fn as_ptr(&self) -> *const Node {
        self.0.as_ptr()
    }

    pub(super) fn into_raw(self) -> *const Node {
        let node = self.as_ptr();
        std::mem::forget(self);
        node
    }

    /// # Safety
    /// That of `into_raw`, or of `as_ptr` with a reference that is the caller's; it passes to what is returned.
    pub(super) unsafe fn from_raw(node: *const Node) -> NodeRef {
        // SAFETY: not null, as it is that of a node.
        NodeRef(unsafe { NonNull::new_unchecked(node.cast_mut()) })
    }

    /// One more.
    ///
    /// # Safety
    /// The pointer is that of a reference, and something keeps the node meanwhile.
    pub(super) unsafe fn another(node: *const Node) -> NodeRef {
        // SAFETY: kept by the caller.
        let count = unsafe { &(*node).references.0 };
        // Relaxed: what keeps the node is known to the caller by other means.
        if count.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2 {
            too_many();
        }
        // SAFETY: counted just now.
        unsafe { NodeRef::from_raw(node) }
    }

    /// Whether there is no other one. Then nobody can make one, but by the list of the parent.
    pub(super) fn is_only(&self) -> bool {
        // Acquire: what those have done who had one happens before.
        // MUTANT(shutdown.reference.only): relaxed
        self.references.0.load(Ordering::Acquire) == 1
    }

    pub(super) fn is_same(&self, other: &NodeRef) -> bool {
        self.0 == other.0
    }

    /// Gives it up: the node, if this was the last one.
    pub(super) fn into_inner(self) -> Option<Box<Node>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: this reference goes here.
        unsafe { release(&this) }
    }
}

/// # Safety
/// The reference is not used any more.
unsafe fn release(this: &NodeRef) -> Option<Box<Node>> {
    // The only one is the last one.
    if !this.is_only() {
        // Release: what was done with this one happens before the end.
        // MUTANT(shutdown.reference.release): relaxed, split
        if this.references.0.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        // Acquire: and so does what was done with the others. A load and no fence, since sanitizers do not see what a fence carries.
        // MUTANT(shutdown.reference.last): relaxed
        this.references.0.load(Ordering::Acquire);
    }
    // SAFETY: made from a box, and nobody else has it.
    Some(unsafe { Box::from_raw(this.0.as_ptr()) })
}

impl Deref for NodeRef {
    type Target = Node;

    #[inline(always)]
    fn deref(&self) -> &Node {
        // SAFETY: kept by this reference.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for NodeRef {
    fn clone(&self) -> NodeRef {
        // SAFETY: kept by this reference.
        unsafe { NodeRef::another(self.as_ptr()) }
    }
}

impl Drop for NodeRef {
    fn drop(&mut self) {
        // SAFETY: this reference goes here.
        drop(unsafe { release(self) });
    }
}
