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
use crate::shim::atomic::{AtomicUsize, Ordering};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

pub(super) struct NodeRef(NonNull<Node>);

/// The number of references to a node. A new node has one, which belongs to the thread that makes
/// it.
pub(super) struct References(AtomicUsize);

impl References {
    pub(super) fn one() -> References {
        References(AtomicUsize::new(1))
    }
}

// SAFETY: a node may be used and freed by any thread.
unsafe impl Send for NodeRef {}
// SAFETY: a node may be used by several threads at once.
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
    /// `node` comes from `into_raw`, or from `as_ptr` together with a reference that the caller
    /// owns. That reference belongs to the returned value.
    pub(super) unsafe fn from_raw(node: *const Node) -> NodeRef {
        // SAFETY: a pointer to a node is not null.
        NodeRef(unsafe { NonNull::new_unchecked(node.cast_mut()) })
    }

    /// Makes another reference.
    ///
    /// # Safety
    /// `node` comes from a `NodeRef`, and the node stays alive during the call.
    pub(super) unsafe fn another(node: *const Node) -> NodeRef {
        // SAFETY: the caller keeps the node alive.
        let count = unsafe { &(*node).references.0 };
        // Relaxed: the caller keeps the node alive, so it already sees the node's contents.
        if count.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2 {
            too_many();
        }
        // SAFETY: the new reference was counted just now.
        unsafe { NodeRef::from_raw(node) }
    }

    /// Returns whether this is the only reference. If so, another one can come only from the
    /// parent's list.
    pub(super) fn is_only(&self) -> bool {
        // Acquire: whatever was done through the other references happens before.
        // MUTANT(shutdown.reference.only): relaxed
        self.references.0.load(Ordering::Acquire) == 1
    }

    pub(super) fn is_same(&self, other: &NodeRef) -> bool {
        self.0 == other.0
    }

    /// Gives up this reference. Returns the node if it was the last one.
    pub(super) fn into_inner(self) -> Option<Box<Node>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used or dropped again.
        unsafe { release(&this) }
    }
}

/// Gives up a reference. Returns the node if it was the last one.
///
/// # Safety
/// The caller does not use the reference again.
unsafe fn release(this: &NodeRef) -> Option<Box<Node>> {
    // An only reference is the last one, without an update.
    if !this.is_only() {
        // Release: what was done through this reference happens before the node is freed.
        // MUTANT(shutdown.reference.release): relaxed, split
        if this.references.0.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        // Acquire: so does what was done through the other references. This is a load, not a fence,
        // as sanitizers do not understand fences.
        // MUTANT(shutdown.reference.last): relaxed
        this.references.0.load(Ordering::Acquire);
    }
    // SAFETY: the node was made from a box, and no other reference to it exists.
    Some(unsafe { Box::from_raw(this.0.as_ptr()) })
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
        // SAFETY: the pointer is this reference's, which keeps the node alive.
        unsafe { NodeRef::another(self.as_ptr()) }
    }
}

impl Drop for NodeRef {
    fn drop(&mut self) {
        // SAFETY: this reference is being dropped, and is not used again.
        drop(unsafe { release(self) });
    }
}
