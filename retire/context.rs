//! A flow of control that can be suspended and continued, and the switch from one to another.
//!
//! This module wraps the routines of `asm`, and tells the sanitizers about each switch. The caller
//! decides which flow is left and which one continues. Nothing here depends on what the flows are.

use crate::asm;
use crate::retire::stack::Stack;
use std::cell::Cell;
use std::ptr;

/// A flow of control. While the flow is not running, this holds its saved stack pointer.
pub(crate) struct Context {
    /// The stack pointer at the last suspension, or the first context of a new flow.
    pointer: Cell<*mut u8>,
    #[cfg(cygnet_asan)]
    shadow: Shadow,
    #[cfg(cygnet_tsan)]
    fiber: Cell<*mut std::ffi::c_void>,
    /// The fiber that was current when this flow was left. It is a bare coroutine's fiber if a task
    /// waits inside that coroutine.
    #[cfg(cygnet_tsan)]
    left_on: Cell<*mut std::ffi::c_void>,
    /// The fiber is the thread's own, so this flow does not destroy it.
    #[cfg(cygnet_tsan)]
    adopted: bool,
}

/// The state that AddressSanitizer needs for a stack: the saved fake stack, and the bounds.
#[cfg(cygnet_asan)]
struct Shadow {
    fake: Cell<*mut std::ffi::c_void>,
    bottom: Cell<*const u8>,
    size: Cell<usize>,
}

impl Context {
    /// Describes the flow that is running now, on a stack that this library did not allocate: the
    /// thread's own.
    pub(crate) fn of_thread() -> Context {
        Context {
            pointer: Cell::new(ptr::null_mut()),
            #[cfg(cygnet_asan)]
            shadow: Shadow {
                fake: Cell::new(ptr::null_mut()),
                // Unknown until the flow is left for the first time.
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

    /// Resets the context to what [`of_thread`](Context::of_thread) would return now. The flow that
    /// was last left by this context, if any, must have been continued.
    #[cfg(not(cygnet_inline_switch))]
    #[inline(always)]
    #[allow(clippy::unused_self, clippy::missing_const_for_fn)]
    pub(crate) fn renew(&self) {
        // Everything else is stored each time the flow is left.
        #[cfg(cygnet_tsan)]
        {
            self.fiber.set(asm::sanitizer::thread::current());
            self.left_on.set(ptr::null_mut());
        }
    }

    /// Makes a new flow on `stack`, with its frames below `top`. The first switch to the flow calls
    /// `entry(data, message)`, which must begin with [`Context::arrive`].
    ///
    /// # Safety
    /// `top` lies within the stack, with room below it for the first frame. The memory below `top`
    /// holds nothing and is the caller's. The call of `entry` must be sound when it is made.
    #[inline]
    pub(crate) unsafe fn on_stack(
        stack: &Stack,
        top: *mut u8,
        entry: asm::Entry,
        data: *mut u8,
    ) -> Context {
        let (bottom, end) = (stack.bottom(), stack.limit_top());
        // SAFETY: by contract `top` lies between these bounds, which are the stack's, the memory
        // below it is free, and the call of `entry` will be sound.
        unsafe { Context::on_part(bottom, end, top, entry, data) }
    }

    /// Makes a new flow like [`on_stack`](Context::on_stack), on the part of a stack from `bottom`
    /// to `end`.
    ///
    /// # Safety
    /// `top` lies between `bottom` and `end`, with room below it for the first frame. The memory
    /// from `bottom` to `top` holds nothing and is the caller's. The call of `entry` must be sound
    /// when it is made.
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
            // SAFETY: by contract the memory below `top` is free and has room for the first frame,
            // and the call of `entry` will be sound.
            pointer: Cell::new(unsafe { asm::prepare(top, entry, data) }),
            #[cfg(cygnet_asan)]
            shadow: Shadow {
                fake: Cell::new(ptr::null_mut()),
                bottom: Cell::new(bottom),
                size: Cell::new(end as usize - bottom as usize),
            },
            #[cfg(cygnet_tsan)]
            fiber: Cell::new(asm::sanitizer::thread::create(0)),
            #[cfg(cygnet_tsan)]
            left_on: Cell::new(ptr::null_mut()),
            #[cfg(cygnet_tsan)]
            adopted: false,
        }
    }

    /// Leaves `self`, the running flow, and continues `to`. Returns when `self` is continued.
    ///
    /// # Safety
    /// `self` is running on this thread. `to` is suspended or new, its stack still exists, and it
    /// may run now on this thread. Both outlive the switch.
    #[inline(always)]
    pub(crate) unsafe fn switch(&self, to: &Context) {
        // SAFETY: the switch from `self` to `to` is the next action, and by contract `to` runs on
        // no thread.
        unsafe { to.announce(Some(self)) };
        // SAFETY: the cell for the saved stack pointer is `self`'s own. By contract `to` is
        // suspended or new, its stack exists and it may run now on this thread. The flow that
        // continues `self` later gives the same promises for `self`.
        let from = unsafe {
            asm::switch(self.pointer.as_ptr(), to.pointer.get(), ptr::from_ref(self) as usize)
        };
        // SAFETY: a switch has just come to this flow with this message. By contract the context
        // that it names outlives the switch.
        unsafe { self.arrive(from) };
    }

    /// Leaves `self` for good and continues `to`.
    ///
    /// # Safety
    /// `self` is running on this thread, and none of its frames is used again. Its stack stays
    /// allocated until `to` runs. `to` is suspended or new, its stack still exists, and it may run
    /// now on this thread.
    pub(crate) unsafe fn leave(&self, to: &Context) -> ! {
        // SAFETY: the switch to `to` is the next action, and by contract `to` runs on no thread.
        unsafe { to.announce(None) };
        // SAFETY: by contract `to` is suspended or new, its stack exists and it may run now on this
        // thread, and nothing on the current stack is used again.
        unsafe { asm::leave(to.pointer.get(), 0) }
    }

    /// Tells the sanitizers that this flow is about to run in place of `from`, or of a flow that
    /// ends if `from` is `None`.
    ///
    /// # Safety
    /// The caller's next action is the switch to `self`, which runs on no thread.
    #[inline(always)]
    #[allow(clippy::unused_self, clippy::missing_const_for_fn)]
    unsafe fn announce(&self, from: Option<&Context>) {
        let _ = from;
        #[cfg(cygnet_asan)]
        {
            let mut fake = ptr::null_mut();
            let save = from.is_some().then_some(&mut fake);
            let (bottom, size) = (self.shadow.bottom.get(), self.shadow.size.get());
            // SAFETY: by contract the switch to this stack follows at once, and the bounds are the
            // stack's.
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
            // SAFETY: by contract the switch to this flow follows at once, and the flow runs on no
            // thread, so its fiber is current on none.
            unsafe { asm::sanitizer::thread::switch_to(fiber, 0) };
        }
    }

    /// Completes a switch to this flow: tells the sanitizers that it has been continued. The entry
    /// function calls this before anything else.
    ///
    /// # Safety
    /// A switch has just come to `self`, and `message` came with it: the context that was left, or
    /// 0 if that flow has ended. The context outlives the switch.
    #[inline(always)]
    pub(crate) unsafe fn arrive(&self, message: usize) {
        let _ = message;
        #[cfg(cygnet_asan)]
        {
            let (mut bottom, mut size) = (ptr::null(), 0);
            // SAFETY: by contract a switch has just come to this stack. `fake` is the value saved
            // when this stack was last left, or null for a new flow.
            unsafe {
                asm::sanitizer::address::finish_switch(
                    self.shadow.fake.get(),
                    &mut bottom,
                    &mut size,
                );
            }
            // SAFETY: the message is 0 if the flow that was left has ended. Otherwise that flow is
            // suspended, so its context is alive.
            if let Some(from) = unsafe { (message as *const Context).as_ref() } {
                from.shadow.bottom.set(bottom);
                from.shadow.size.set(size);
            }
        }
    }

    /// Destroys the fiber of a flow that has ended or never began. Must be called from another
    /// flow.
    #[cfg(cygnet_tsan)]
    pub(crate) fn end(&self) {
        if !self.adopted {
            // SAFETY: by the rule of this function the flow is not running, and it will never run
            // again.
            unsafe { asm::sanitizer::thread::destroy(self.fiber.get()) };
        }
    }
}
