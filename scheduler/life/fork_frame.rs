//! The untyped part of a fork, in the frame of its join. The `fork` module has the protocol.

use crate::retire::nesting::Pin;
use crate::scheduler::queue::fork_list::{Forked, Link};
use crate::task::record::Record;
use crate::task::words::tree::Node;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The part of a fork that does not depend on its types.
#[repr(C)]
pub(crate) struct Fork {
    pub(super) link: Link,
    pub(super) node: *const Node,
    /// Calls the closure and stores the outcome.
    pub(super) call: unsafe fn(NonNull<Fork>),
    pub(super) public: UnsafeCell<MaybeUninit<Public>>,
}

/// The part of a fork that is written when it becomes public.
pub(super) struct Public {
    /// None if no other worker may run the fork.
    pub(super) proxy: Option<NonNull<Record>>,
    /// The closure has been called. Written by the proxy, read after the proxy's end.
    pub(super) called: bool,
    /// Keeps the bare coroutine that the join is in from suspending.
    pub(super) pin: Option<Pin>,
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
