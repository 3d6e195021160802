//! The fibers that a worker knows by name: the running one, the main one, and the spare one.

use crate::scheduler::worker::fiber::{FiberOf, NextOf};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// See the module's documentation. `W` is the worker, of which this layer knows nothing.
pub(crate) struct Fibers<W> {
    /// The running fiber.
    pub(crate) running: Cell<*const FiberOf<W>>,
    /// The main fiber, which is the worker's thread itself.
    pub(crate) main: Cell<*const FiberOf<W>>,
    /// A suspended fiber with an idle loop.
    spare: Cell<*const FiberOf<W>>,
    /// The spare fiber is to end.
    pub(crate) dismissing: Cell<bool>,
    /// A fiber with an extra stack that has ended. The main fiber gives the stack back.
    pub(crate) ended_extra: Cell<*const FiberOf<W>>,
    /// The fiber that has just ended, for the sanitizer.
    #[cfg(cygnet_tsan)]
    pub(crate) departed: Cell<*const FiberOf<W>>,
}

impl<W> Fibers<W> {
    pub(crate) fn new() -> Fibers<W> {
        Fibers {
            running: Cell::new(ptr::null()),
            main: Cell::new(ptr::null()),
            spare: Cell::new(ptr::null()),
            dismissing: Cell::new(false),
            ended_extra: Cell::new(ptr::null()),
            #[cfg(cygnet_tsan)]
            departed: Cell::new(ptr::null()),
        }
    }

    pub(crate) fn has_spare(&self) -> bool {
        !self.spare.get().is_null()
    }

    /// Makes the running fiber, which has nothing to do, the spare one.
    pub(crate) fn spare_running(&self) {
        self.spare.set(self.running.get());
    }

    /// Takes the spare fiber, if there is one: it is suspended, or the running one itself.
    #[inline(always)]
    pub(crate) fn take_spare(&self) -> Option<NextOf<W>> {
        NonNull::new(self.spare.replace(ptr::null()).cast_mut()).map(NextOf)
    }
}
