//! What most nodes never have: a name, task-locals, a place in the lists of the tree, a reason why they were
//! cancelled. Allocated at first use.
//!
//! They live as long as the node's record, or its frame, and a little longer if a walk is on its way to them:
//! then whoever comes last frees them (see [`children`](super::list of children)).

use crate::shim::atomic::AtomicU32;
use crate::task::attachment::Attachment;
use crate::task::cause::Cause;
use crate::task::children::Children;
use std::any::Any;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// The innermost binding of task-locals, if there is one.
pub(crate) type Locals = Option<Arc<dyn Any + Send + Sync>>;

/// See the module's documentation.
#[repr(C)]
pub(crate) struct ColdData {
    /// First, so that a list of children is its cold data.
    children: Children,
    pub(crate) name: Option<Box<str>>,
    /// Owned by whoever runs the task.
    pub(crate) locals: UnsafeCell<Locals>,
    /// Why the node is cancelled: written down by who cancels it and gives a reason, by a walk if there is one who may ask after its end, or
    /// else by the first who asks. What is here is what everybody is told.
    pub(crate) cause: OnceLock<Arc<Cause>>,
    /// For those who run in the node, or below it. Ends with the node, whoever keeps the rest.
    pub(crate) attached: Attachment,
    /// How many calls of the task were refused as it was cancelled. Written by whoever runs it.
    pub(crate) refusals: AtomicU32,
}

impl ColdData {
    pub(crate) fn new() -> ColdData {
        ColdData::with(None, None)
    }

    /// Those of a task that begins with a name or with bindings.
    pub(crate) fn with(name: Option<Box<str>>, locals: Locals) -> ColdData {
        ColdData {
            children: Children::new(),
            name,
            locals: UnsafeCell::new(locals),
            cause: OnceLock::new(),
            attached: Attachment::none(),
            refusals: AtomicU32::new(0),
        }
    }

    pub(crate) fn children(&self) -> &Children {
        &self.children
    }

    /// Ends the cold data of a node that has ended and that nobody uses any more. Destructors of the user's run
    /// here.
    ///
    /// # Safety
    /// That; `cold` came from a box, and is not used afterwards.
    pub(crate) unsafe fn end(cold: NonNull<ColdData>) {
        // A scope has no name, and somebody with a handle to it may look at what it has.
        // SAFETY: alive.
        let name = if unsafe { cold.as_ref() }.name.is_some() {
            // SAFETY: of a task nobody else uses anything but the list of children.
            unsafe { (*cold.as_ptr()).name.take() }
        } else {
            None
        };
        // SAFETY: alive; those who have handles leave this alone.
        let own = (name, unsafe { (*cold.as_ref().locals.get()).take() });
        // SAFETY: alive; and who has a handle leaves it alone.
        let attached = unsafe { cold.as_ref().attached.end() };
        // SAFETY: passed on. As a pointer to the whole.
        unsafe { Children::end(cold.cast()) };
        drop((own, attached));
    }
}
