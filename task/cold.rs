//! Data that most nodes never have: a name, task-locals, a list of children, the reason of a
//! cancel. Allocated at first use.
//!
//! The cold data live as long as the node's record or frame. If a walk is on its way to them, they
//! live a little longer, and the last user frees them (see [`children`](super::children)).

use crate::shim::atomic::AtomicU32;
use crate::task::attachment::Attachment;
use crate::task::cause::Cause;
use crate::task::children::Children;
use std::any::Any;
use std::cell::UnsafeCell;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// The innermost binding of task-locals, if there is one.
pub(crate) type Locals = Option<Arc<dyn Any + Send + Sync>>;

/// See the module's documentation.
#[repr(C)]
pub(crate) struct ColdData {
    /// First, so that a pointer to the list of children is one to its cold data.
    children: Children,
    pub(crate) name: Option<Box<str>>,
    /// Used only by the thread that runs the task.
    pub(crate) locals: UnsafeCell<Locals>,
    /// The span in which the task was spawned, until it begins. Used as `locals` is.
    #[cfg(feature = "tracing")]
    pub(crate) span: UnsafeCell<Option<tracing::Span>>,
    /// The id of the task of another runtime that has a child which ends with this task.
    pub(crate) sent_by: Option<NonZero<u64>>,
    /// Why the node is cancelled. Written once: by a canceller that gives a reason; by a walk, if
    /// the reason may be asked for after the node's end; or else by the first caller that asks. All
    /// callers are told this reason.
    pub(crate) cause: OnceLock<Arc<Cause>>,
    /// Used by code that runs in the node, or below it. Ends with the node, even if a handle keeps
    /// the rest.
    pub(crate) attached: Attachment,
    /// The number of calls that were refused because the task is cancelled. Written by the thread
    /// that runs the task.
    pub(crate) refusals: AtomicU32,
}

impl ColdData {
    pub(crate) fn new() -> ColdData {
        ColdData::with(None, None)
    }

    /// The cold data of a task that begins with a name or with task-local bindings.
    pub(crate) fn with(name: Option<Box<str>>, locals: Locals) -> ColdData {
        ColdData {
            children: Children::new(),
            name,
            locals: UnsafeCell::new(locals),
            #[cfg(feature = "tracing")]
            span: UnsafeCell::new(None),
            sent_by: None,
            cause: OnceLock::new(),
            attached: Attachment::none(),
            refusals: AtomicU32::new(0),
        }
    }

    pub(crate) fn children(&self) -> &Children {
        &self.children
    }

    /// Ends the cold data of a node that has ended. Destructors of the user run here.
    ///
    /// # Safety
    /// The node has ended; `cold` came from a box, and the caller does not use it afterwards.
    pub(crate) unsafe fn end(cold: NonNull<ColdData>) {
        // A scope has no name, and a handle to a scope may look at its cold data at this moment.
        // SAFETY: the cold data are alive until `Children::end` below.
        let name = if unsafe { cold.as_ref() }.name.is_some() {
            // SAFETY: this is a task, of which other threads use only the list of children.
            unsafe { (*cold.as_ptr()).name.take() }
        } else {
            None
        };
        // SAFETY: the cold data are alive, and handles do not use the bindings.
        let own = (name, unsafe { (*cold.as_ref().locals.get()).take() });
        // SAFETY: as above.
        #[cfg(feature = "tracing")]
        let own = (own, unsafe { (*cold.as_ref().span.get()).take() });
        // SAFETY: the cold data are alive, and handles do not use the attachment.
        let attached = unsafe { cold.as_ref().attached.end() };
        // SAFETY: the node has ended, and the pointer is that to the whole allocation.
        unsafe { Children::end(cold.cast()) };
        drop((own, attached));
    }
}
