//! Handles to a list of children.

use super::Children;
use crate::shim::atomic::Ordering;
use crate::task::cause::Cause;
use crate::task::cold::ColdData;
use crate::task::words::tree::Node;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// A handle: keeps a list of children and the cold data around it, but not the node.
pub(crate) struct ChildrenRef(NonNull<ColdData>);

// SAFETY: lists of children are shared by design.
unsafe impl Send for ChildrenRef {}
// SAFETY: lists of children are shared by design.
unsafe impl Sync for ChildrenRef {}

impl ChildrenRef {
    /// Makes a handle. `cold` are the cold data of the node, which is linked, and in which the
    /// caller runs or which it keeps from its end.
    pub(crate) fn new(cold: &ColdData, node: &Node) -> ChildrenRef {
        cold.children().add_handle_of(node);
        ChildrenRef(NonNull::from(cold))
    }

    /// Makes a handle that is counted already.
    ///
    /// # Safety
    /// [`hang`](Children::hang) has added a handle to this list, which becomes this one.
    pub(crate) unsafe fn counted(cold: &ColdData) -> ChildrenRef {
        ChildrenRef(NonNull::from(cold))
    }

    /// As [`counted`](ChildrenRef::counted), for the list of this handle.
    ///
    /// # Safety
    /// As for [`counted`](ChildrenRef::counted).
    pub(crate) unsafe fn counted_again(&self) -> ChildrenRef {
        ChildrenRef(self.0)
    }

    /// The recorded cause of the cancel, if there is one.
    pub(crate) fn cause(&self) -> Option<Arc<Cause>> {
        // By the field: the end of the node may take others out at this moment.
        // SAFETY: the handle keeps the cold data.
        unsafe { &(*self.0.as_ptr()).cause }.get().cloned()
    }
}

impl Deref for ChildrenRef {
    type Target = Children;

    fn deref(&self) -> &Children {
        // SAFETY: the handle keeps the list, which is the start of its cold data.
        unsafe { self.0.cast().as_ref() }
    }
}

impl Clone for ChildrenRef {
    fn clone(&self) -> ChildrenRef {
        self.list.lock().handles += 1;
        ChildrenRef(self.0)
    }
}

impl Drop for ChildrenRef {
    fn drop(&mut self) {
        let mut list = self.list.lock();
        list.handles -= 1;
        // MUTANT(children.handle.last): with list.deserted && !self.walked.get()
        if list.deserted && list.handles == 0 && !self.walked.get() {
            let whole = self.whole.load(Ordering::Relaxed);
            drop(list);
            // SAFETY: the end of the node has left the memory to the last of handles and walk,
            // which this is.
            unsafe { Children::free(whole) };
        }
    }
}
