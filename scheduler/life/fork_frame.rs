//! The part of a fork that does not depend on its types, on the frame of its join. `fork` has the
//! protocol.

use crate::retire::nesting::Pin;
use crate::scheduler::queue::fork_list::{Forked, Link};
use crate::task::record::Record;
use crate::task::words::tree::Node;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The part of a fork that does not depend on its types. See the documentation of `fork`.
#[repr(C)]
pub(crate) struct Fork {
    pub(super) link: Link,
    pub(super) node: *const Node,
    /// Calls the closure and stores the outcome.
    pub(super) call: unsafe fn(NonNull<Fork>),
    pub(super) public: UnsafeCell<MaybeUninit<Public>>,
}

/// What a fork has that has left its fork list.
pub(super) struct Public {
    /// None: it could not be given to anybody.
    pub(super) proxy: Option<NonNull<Record>>,
    /// The closure has been called. Written by the proxy, read after its end.
    pub(super) called: bool,
    /// Keeps the bare coroutine that the join is in from suspending.
    pub(super) pin: Option<Pin>,
}

// SAFETY: node and call never change; the link is shared by the protocol of the fork list (`fork_list`), `public` by that in
// the module's documentation.
unsafe impl Sync for Fork {}

// SAFETY: the first field of a struct in C's layout.
unsafe impl Forked for Fork {
    #[inline(always)]
    fn link(&self) -> &Link {
        &self.link
    }

    fn node(&self) -> *const Node {
        self.node
    }
}
