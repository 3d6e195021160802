//! What most nodes never have: a name, task-locals, a place in the lists of the tree, a reason why they were
//! cancelled. Allocated at first use.
//!
//! They live as long as the node's record, or its frame, and a little longer if a walk is on its way to them:
//! then whoever comes last frees them (see [`branch`](super::branch)).

use crate::shim::atomic::AtomicU32;
use crate::task::attachment::Attachment;
use crate::task::branch::Branch;
use crate::task::cause::Cause;
use std::any::Any;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// The innermost binding of task-locals, if there is one.
pub(crate) type Locals = Option<Arc<dyn Any + Send + Sync>>;

/// See the module's documentation.
#[repr(C)]
pub(crate) struct Extras {
    /// First, so that a branch is its extras.
    branch: Branch,
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

impl Extras {
    pub(crate) fn new() -> Extras {
        Extras::with(None, None)
    }

    /// Those of a task that begins with a name or with bindings.
    pub(crate) fn with(name: Option<Box<str>>, locals: Locals) -> Extras {
        Extras {
            branch: Branch::new(),
            name,
            locals: UnsafeCell::new(locals),
            cause: OnceLock::new(),
            attached: Attachment::none(),
            refusals: AtomicU32::new(0),
        }
    }

    pub(crate) fn branch(&self) -> &Branch {
        &self.branch
    }

    /// Ends the extras of a node that has ended and that nobody uses any more. Destructors of the user's run
    /// here.
    ///
    /// # Safety
    /// That; `extras` came from a box, and is not used afterwards.
    pub(crate) unsafe fn end(extras: NonNull<Extras>) {
        // A scope has no name, and somebody with a handle to it may look at what it has.
        // SAFETY: alive.
        let name = if unsafe { extras.as_ref() }.name.is_some() {
            // SAFETY: of a task nobody else uses anything but the branch.
            unsafe { (*extras.as_ptr()).name.take() }
        } else {
            None
        };
        // SAFETY: alive; those who have handles leave this alone.
        let own = (name, unsafe { (*extras.as_ref().locals.get()).take() });
        // SAFETY: alive; and who has a handle leaves it alone.
        let attached = unsafe { extras.as_ref().attached.end() };
        // SAFETY: passed on. As a pointer to the whole.
        unsafe { Branch::end(extras.cast()) };
        drop((own, attached));
    }
}
