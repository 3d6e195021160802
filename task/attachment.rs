//! A value that a layer above attaches to a node or to a runtime. It is attached at most once, and
//! stays until the end of the node or runtime.

use crate::shim::atomic::{AtomicPtr, Ordering};
use std::any::Any;
use std::ptr;
use std::sync::Arc;

/// The attached value, of a type that this layer does not know.
pub(crate) type Attached = Arc<dyn Any + Send + Sync>;

/// A slot for an [`Attached`]. The pointer is thin, because most slots stay empty.
pub(crate) struct Attachment(AtomicPtr<Attached>);

impl Attachment {
    pub(crate) fn none() -> Attachment {
        Attachment(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the attached value.
    pub(crate) fn get(&self) -> Option<&Attached> {
        // SAFETY: the pointer came from a box. Only the drop of this slot and `end` free it, and
        // neither runs while there is a reference to the value.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Attaches `value`, unless the slot is filled. Returns the value in the slot.
    pub(crate) fn get_or_attach(&self, value: Attached) -> &Attached {
        let new = Box::into_raw(Box::new(value));
        let null = ptr::null_mut();
        // MUTANT(attachment.made): relaxed, split
        if self.0.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: the box was made above, and the exchange has not published it.
            drop(unsafe { Box::from_raw(new) });
        }
        self.get().expect("the slot is filled")
    }

    /// Takes the value out.
    ///
    /// # Safety
    /// No thread has a reference to the value, or calls `get` or `get_or_attach` during this call.
    pub(crate) unsafe fn end(&self) -> Option<Box<Attached>> {
        let value = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the pointer came from a box, and the swap took it out, so it is freed once.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: `&mut self`, so no other thread uses the slot or the value.
        drop(unsafe { self.end() });
    }
}
