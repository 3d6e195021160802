//! A counted reference to a node.
//!
//! Like std's `Arc`, but without weak references, and the thread that has the only reference frees
//! the node without an update. A child that is made and dropped unused takes six updates; an `Arc`
//! would need two more.
//!
//! A new reference is made from an existing one, or from the parent's list of children under the
//! parent's lock. A node is removed from that list before its last reference goes. So a count of
//! one stays one.

use super::node::Node;
use super::word::too_many;
use crate::shim::atomic::Ordering;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

/// Two references are equal if they refer to the same node.
#[derive(PartialEq, Eq)]
pub(super) struct NodeRef(NonNull<Node>);

// SAFETY: a node may be used and freed by any thread.
unsafe impl Send for NodeRef {}
// SAFETY: a node may be used by several threads at once. Of its cells, `index` is accessed under
// the parent's lock, and `todo` only by the thread that has stopped the node.
unsafe impl Sync for NodeRef {}

unwind_safe! { impl NodeRef }

impl NodeRef {
    /// Makes the first reference. The node counts it already.
    pub(super) fn new(node: Box<Node>) -> NodeRef {
        NodeRef(NonNull::from(Box::leak(node)))
    }

    /// Makes a copy that is not counted.
    ///
    /// # Safety
    /// Something else than the copy keeps the node alive while the copy is used. The copy is taken
    /// out of its `ManuallyDrop` only together with a counted reference that the caller owns.
    pub(super) unsafe fn uncounted(&self) -> ManuallyDrop<NodeRef> {
        ManuallyDrop::new(NodeRef(self.0))
    }

    /// Returns the address of the node, as its identity.
    pub(super) fn addr(&self) -> usize {
        self.0.addr().get()
    }

    /// Returns whether this is the only reference. If so, another one can come only from the
    /// parent's list.
    pub(super) fn is_only(&self) -> bool {
        // Acquire: whatever was done through the other references happens before.
        // MUTANT(shutdown.reference.only): relaxed
        self.references.load(Ordering::Acquire) == 1
    }

    /// Gives up this reference. Returns the node if it was the last one.
    pub(super) fn into_inner(self) -> Option<Box<Node>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        unsafe { this.release() }
    }

    /// Gives up a reference. Returns the node if it was the last one.
    ///
    /// # Safety
    /// The caller does not use the reference again.
    unsafe fn release(&self) -> Option<Box<Node>> {
        // An only reference is the last one, without an update.
        if !self.is_only() {
            // Release: what was done through this reference happens before the node is freed.
            // MUTANT(shutdown.reference.release): relaxed, split
            if self.references.fetch_sub(1, Ordering::Release) != 1 {
                return None;
            }
            // Acquire: so does what was done through the other references. This is a load, not a
            // fence, as sanitizers do not understand fences.
            // MUTANT(shutdown.reference.last): relaxed
            self.references.load(Ordering::Acquire);
        }
        // SAFETY: the node was made from a box, and no other reference to it exists.
        Some(unsafe { Box::from_raw(self.0.as_ptr()) })
    }
}

impl Deref for NodeRef {
    type Target = Node;

    #[inline(always)]
    fn deref(&self) -> &Node {
        // SAFETY: this reference keeps the node alive.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for NodeRef {
    fn clone(&self) -> NodeRef {
        // Relaxed: this reference keeps the node alive, so its owner already sees the contents.
        if self.references.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2 {
            too_many();
        }
        NodeRef(self.0)
    }
}

impl Drop for NodeRef {
    fn drop(&mut self) {
        // SAFETY: this reference is being dropped, and is not used again.
        drop(unsafe { self.release() });
    }
}
