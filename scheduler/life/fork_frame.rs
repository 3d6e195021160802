//! The untyped part of a fork, in the frame of its join. The `fork` module has the protocol.

use crate::retire::nesting::Pin;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::queue::fork_list::{Forked, Link};
use crate::scheduler::worker::release::HandleRef;
use crate::shim::atomic::AtomicBool;
use crate::task::words::tree::Node;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The part of a fork that does not depend on its types.
#[repr(C)]
pub(crate) struct Fork {
    pub(super) link: Link,
    pub(super) node: *const Node,
    /// Calls the closure and stores the outcome.
    pub(super) call: unsafe fn(NonNull<Fork>),
    pub(super) public: Cell<MaybeUninit<Public>>,
}

/// The part of a fork that is written when it becomes public.
pub(super) struct Public {
    /// None if no other worker may run the fork. Used by the owner alone.
    pub(super) proxy: Cell<Option<HandleRef<()>>>,
    /// The closure has been called. Written by the proxy, read after the proxy's end.
    pub(super) called: AtomicBool,
    /// Keeps the bare coroutine that the join is in from suspending. Used by the owner alone.
    pub(super) pin: Cell<Option<Pin>>,
}

impl Fork {
    /// # Safety
    /// The fork is public, and the write of this part happens before the call.
    pub(super) unsafe fn public(&self) -> &Public {
        // SAFETY: written when the fork became public, and not written as a whole again.
        unsafe { (*self.public.as_ptr()).assume_init_ref() }
    }

    /// The node that forked. For a fork that may be public.
    pub(super) fn live_node(&self) -> LiveNode<'_> {
        assert!(!self.node.is_null(), "only a fork of a task becomes public");
        // SAFETY: the node is that of the frame around the join, or of an outer one.
        unsafe { LiveNode::new(self.node) }
    }
}

// SAFETY: `node` and `call` never change. The link is shared by the protocol of the fork list
// (`fork_list`), and `public` by the protocol of `fork`.
unsafe impl Sync for Fork {}

// SAFETY: the link is the first field of a `repr(C)` struct.
unsafe impl Forked for Fork {
    #[inline(always)]
    fn link(&self) -> &Link {
        &self.link
    }

    fn node(&self) -> *const Node {
        self.node
    }
}
