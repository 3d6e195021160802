//! Calls that tell the sanitizers about stacks.
//!
//! AddressSanitizer and ThreadSanitizer track the current stack of each thread and must be told
//! when it changes. The caller of a switch makes these calls, not the switch itself: only that
//! layer knows the bounds of stacks and the coroutine in question. Without the configuration flags
//! `cygnet_asan` and `cygnet_tsan`, which CI sets together with the sanitizer, this module is
//! empty.

/// AddressSanitizer: bounds of stacks, and the fake stacks that it uses to detect use after return.
#[cfg(cygnet_asan)]
pub(crate) mod address {
    use std::ffi::c_void;
    use std::ptr;

    use crate::asm::external;

    /// To be called right before a switch to the stack of `size` bytes from `bottom` upwards.
    ///
    /// `save` keeps the fake stack of the current coroutine until [`finish_switch`]. `None` gives
    /// the fake stack up, for a coroutine that is never continued.
    ///
    /// # Safety
    ///
    /// This thread's next action is that switch, and the stack is as described.
    pub(crate) unsafe fn start_switch(
        save: Option<&mut *mut c_void>,
        bottom: *const u8,
        size: usize,
    ) {
        let save = save.map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: null is allowed for `save`. By contract the switch follows and the stack is as
        // described.
        unsafe { external::__sanitizer_start_switch_fiber(save, bottom.cast(), size) };
    }

    /// To be called before anything else on the other side, with the value that `start_switch`
    /// saved when this stack was left (null at the start of a coroutine). Returns the bounds of the
    /// stack switched from: its lowest address and its size.
    ///
    /// # Safety
    ///
    /// A switch that was announced by `start_switch` has just come to this stack, and `saved` is
    /// this stack's own.
    pub(crate) unsafe fn finish_switch(saved: *mut c_void) -> (*const u8, usize) {
        let mut bottom = ptr::null();
        let mut size = 0;
        // SAFETY: both places are local variables. By contract an announced switch has just come
        // here, and `saved` belongs to this stack.
        unsafe { external::__sanitizer_finish_switch_fiber(saved, &mut bottom, &mut size) };
        (bottom.cast(), size)
    }

    /// Forgets the poisoned areas of frames that never returned, before a stack is used again.
    ///
    /// # Safety
    ///
    /// The region is mapped, and no live frame lies in it.
    pub(crate) unsafe fn unpoison(bottom: *const u8, size: usize) {
        // SAFETY: by contract the region is mapped and holds no live frame.
        unsafe { external::__asan_unpoison_memory_region(bottom.cast(), size) };
    }
}

/// ThreadSanitizer: one "fiber" (clock and shadow call stack) for each coroutine.
#[cfg(cygnet_tsan)]
pub(crate) mod thread {
    use std::ffi::c_void;

    use crate::asm::external;

    /// Returns the fiber that this thread runs on. A thread's own fiber exists from its start.
    pub(crate) fn current() -> *mut c_void {
        // SAFETY: the runtime returns a pointer, without conditions.
        unsafe { external::__tsan_get_current_fiber() }
    }

    /// Creates a fiber for a new coroutine.
    pub(crate) fn create() -> *mut c_void {
        // SAFETY: no conditions; no flag is defined for creation.
        unsafe { external::__tsan_create_fiber(0) }
    }

    /// To be called right before the switch to the coroutine of `fiber`.
    ///
    /// An announced switch is a synchronisation: everything before it in the coroutine that is left
    /// happens before everything after it in the one that is continued.
    ///
    /// Always inlined, and the function it is inlined into must be the one that switches. Each
    /// instrumented function records its entry and its exit on the call stack of the current fiber,
    /// so a function that is left on another fiber than it was entered on would pop an entry of
    /// that other fiber.
    ///
    /// # Safety
    ///
    /// `fiber` exists and is current on no thread, and this thread's next action is that switch.
    #[inline(always)]
    pub(crate) unsafe fn switch_to(fiber: *mut c_void) {
        // SAFETY: by contract `fiber` exists, is current on no thread, and the switch follows. Flag
        // 0 asks for the synchronisation.
        unsafe { external::__tsan_switch_to_fiber(fiber, 0) };
    }

    /// Frees the fiber of a coroutine that is never continued.
    ///
    /// # Safety
    ///
    /// `fiber` came from [`create`], is current on no thread, and is not used again.
    pub(crate) unsafe fn destroy(fiber: *mut c_void) {
        // SAFETY: by contract `fiber` exists, is current on no thread and is not used again.
        unsafe { external::__tsan_destroy_fiber(fiber) };
    }
}
