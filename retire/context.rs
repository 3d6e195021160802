//! A flow of control that can be left and continued, and the one way to switch between two.
//!
//! Wraps the routines of `asm` so that the sanitizers learn of each switch. Whoever calls says who is
//! left and who is continued; nothing here knows what they are.

use crate::asm;
use crate::retire::stack::Stack;
use std::cell::Cell;
use std::ptr;

/// A flow of control: the saved stack pointer while it is not running.
pub(crate) struct Context {
    pointer: Cell<*mut u8>,
    #[cfg(cygnet_asan)]
    shadow: Shadow,
    #[cfg(cygnet_tsan)]
    fiber: Cell<*mut std::ffi::c_void>,
    /// The fiber that it was left on: that of a bare coroutine if a task waits inside one.
    #[cfg(cygnet_tsan)]
    left_on: Cell<*mut std::ffi::c_void>,
    /// This flow's fiber is the thread's own and not ours to destroy.
    #[cfg(cygnet_tsan)]
    adopted: bool,
}

/// What AddressSanitizer wants to know of a stack.
#[cfg(cygnet_asan)]
struct Shadow {
    fake: Cell<*mut std::ffi::c_void>,
    bottom: Cell<*const u8>,
    size: Cell<usize>,
}

impl Context {
    /// The flow that is running now, on a stack that is not ours (a thread's own).
    pub(crate) fn of_thread() -> Context {
        Context {
            pointer: Cell::new(ptr::null_mut()),
            #[cfg(cygnet_asan)]
            shadow: Shadow {
                fake: Cell::new(ptr::null_mut()),
                // Learned when it is left for the first time.
                bottom: Cell::new(ptr::null()),
                size: Cell::new(0),
            },
            #[cfg(cygnet_tsan)]
            fiber: Cell::new(asm::sanitizer::thread::current()),
            #[cfg(cygnet_tsan)]
            left_on: Cell::new(ptr::null_mut()),
            #[cfg(cygnet_tsan)]
            adopted: true,
        }
    }

    /// As if made by `of_thread` now. For a flow that has been left with this context before, or never.
    #[inline(always)]
    #[allow(clippy::unused_self, clippy::missing_const_for_fn)]
    pub(crate) fn renew(&self) {
        // The rest is learned whenever the flow is left.
        #[cfg(cygnet_tsan)]
        {
            self.fiber.set(asm::sanitizer::thread::current());
            self.left_on.set(ptr::null_mut());
        }
    }

    /// A new flow on `stack`, whose frames start below `top`: the first switch to it calls
    /// `entry(data, _)`, which begins with [`Context::arrive`].
    ///
    /// # Safety
    /// Nothing lives on the stack below `top`, which lies within it, and the call is sound when it
    /// is made.
    #[inline]
    pub(crate) unsafe fn on_stack(
        stack: &Stack,
        top: *mut u8,
        entry: asm::Entry,
        data: *mut u8,
    ) -> Context {
        let (bottom, end) = (stack.bottom(), stack.limit_top());
        // SAFETY: passed on.
        unsafe { Context::on_part(bottom, end, top, entry, data) }
    }

    /// As `on_stack`, on the part of a stack from `bottom` to `end`.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(crate) unsafe fn on_part(
        bottom: *mut u8,
        end: *mut u8,
        top: *mut u8,
        entry: asm::Entry,
        data: *mut u8,
    ) -> Context {
        let _ = (bottom, end);
        Context {
            // SAFETY: passed on; the bottom of a stack is far below its top.
            pointer: Cell::new(unsafe { asm::prepare(top, entry, data) }),
            #[cfg(cygnet_asan)]
            shadow: Shadow {
                fake: Cell::new(ptr::null_mut()),
                bottom: Cell::new(bottom),
                size: Cell::new(end as usize - bottom as usize),
            },
            #[cfg(cygnet_tsan)]
            fiber: Cell::new(asm::sanitizer::thread::create()),
            #[cfg(cygnet_tsan)]
            left_on: Cell::new(ptr::null_mut()),
            #[cfg(cygnet_tsan)]
            adopted: false,
        }
    }

    /// Where the frames of a flow that does not run end.
    pub(crate) fn saved(&self) -> *mut u8 {
        self.pointer.get()
    }

    /// Leaves `self`, the running flow, and continues `to`. Returns when somebody continues `self`.
    ///
    /// # Safety
    /// `self` is running on this thread; `to` is suspended or new, its memory is there, and it may
    /// run now on this thread. Both outlive the switch.
    #[inline(always)]
    pub(crate) unsafe fn switch(&self, to: &Context) {
        // SAFETY: passed on.
        unsafe { to.announce(Some(self)) };
        // SAFETY: passed on; the place is ours.
        let from = unsafe {
            asm::switch(self.pointer.as_ptr(), to.pointer.get(), ptr::from_ref(self) as usize)
        };
        // SAFETY: the switch has come back to this flow.
        unsafe { self.arrived_from(from as *const Context) };
    }

    /// Leaves `self` for good and continues `to`.
    ///
    /// # Safety
    /// As for `switch`; no frame of `self` is used again. Its memory stays until `to` runs.
    pub(crate) unsafe fn leave(&self, to: &Context) -> ! {
        // SAFETY: passed on.
        unsafe { to.announce(None) };
        // SAFETY: passed on.
        unsafe { asm::leave(to.pointer.get(), 0) }
    }

    /// To be called first thing by the entry function, with its `message`.
    ///
    /// # Safety
    /// `self` is the flow that has just begun.
    #[inline(always)]
    pub(crate) unsafe fn arrive(&self, message: usize) {
        // SAFETY: passed on.
        unsafe { self.arrived_from(message as *const Context) };
    }

    /// Tells the sanitizers that this flow is about to run, in place of `from` (`None`: it ends).
    #[inline(always)]
    #[allow(clippy::unused_self, clippy::missing_const_for_fn)]
    unsafe fn announce(&self, from: Option<&Context>) {
        let _ = from;
        #[cfg(cygnet_asan)]
        {
            let mut fake = ptr::null_mut();
            let save = from.is_some().then_some(&mut fake);
            let (bottom, size) = (self.shadow.bottom.get(), self.shadow.size.get());
            // SAFETY: the switch follows at once, to this stack.
            unsafe { asm::sanitizer::address::start_switch(save, bottom, size) };
            if let Some(from) = from {
                from.shadow.fake.set(fake);
            }
        }
        #[cfg(cygnet_tsan)]
        {
            if let Some(from) = from {
                from.left_on.set(asm::sanitizer::thread::current());
            }
            let left_on = self.left_on.get();
            let fiber = if left_on.is_null() { self.fiber.get() } else { left_on };
            // SAFETY: the switch follows at once, and the flow runs nowhere.
            unsafe { asm::sanitizer::thread::switch_to(fiber) };
        }
    }

    #[inline(always)]
    unsafe fn arrived_from(&self, from: *const Context) {
        let _ = from;
        #[cfg(cygnet_asan)]
        {
            // SAFETY: a switch has just come to this stack.
            let (bottom, size) =
                unsafe { asm::sanitizer::address::finish_switch(self.shadow.fake.get()) };
            // SAFETY: null if the flow we come from has ended; else it is suspended, thus there.
            if let Some(from) = unsafe { from.as_ref() } {
                from.shadow.bottom.set(bottom);
                from.shadow.size.set(size);
            }
        }
    }

    /// Forgets a flow that has ended (or never began). For another flow.
    #[cfg(cygnet_tsan)]
    pub(crate) fn end(&self) {
        if !self.adopted {
            // SAFETY: the flow is not running and never will.
            unsafe { asm::sanitizer::thread::destroy(self.fiber.get()) };
        }
    }
}
