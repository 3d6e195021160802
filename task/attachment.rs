//! What a layer above hangs on a node, or on a runtime: one value that comes at some time, and stays to the end.

use crate::shim::atomic::{AtomicPtr, Ordering};
use std::any::Any;
use std::ptr;
use std::sync::Arc;

/// A value that layers below do not know.
pub(crate) type Attached = Arc<dyn Any + Send + Sync>;

/// A place for one; a thin pointer, as most have none.
pub(crate) struct Attachment(AtomicPtr<Attached>);

impl Attachment {
    pub(crate) fn none() -> Attachment {
        Attachment(AtomicPtr::new(ptr::null_mut()))
    }

    /// What is there.
    pub(crate) fn get(&self) -> Option<&Attached> {
        // SAFETY: out of a box, and not freed before this goes, or by `end`, whose caller is alone.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Puts a value there, unless there is one: what is there then.
    pub(crate) fn get_or_attach(&self, value: Attached) -> &Attached {
        let new = Box::into_raw(Box::new(value));
        let null = ptr::null_mut();
        // MUTANT(attachment.made): relaxed, split
        if self.0.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and known to nobody else.
            drop(unsafe { Box::from_raw(new) });
        }
        self.get().expect("it has been attached")
    }

    /// Takes the value out.
    ///
    /// # Safety
    /// Nobody has a reference to what is there, nor comes for one.
    pub(crate) unsafe fn end(&self) -> Option<Box<Attached>> {
        let value = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: out of a box, and the caller is alone.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        drop(unsafe { self.end() });
    }
}
