//! Telling the sanitizers about stacks.
//!
//! AddressSanitizer and ThreadSanitizer keep a picture of the current stack of each thread and have to
//! be told when it changes. The calls are made by whoever switches, not by the switch itself: only
//! that layer knows the bounds of stacks and which coroutine is meant. Without the configuration flags
//! `cygnet_asan` and `cygnet_tsan`, which CI sets together with the sanitizer, nothing is here.

/// AddressSanitizer: bounds of stacks, and the side stacks it uses to detect use after return.
#[cfg(cygnet_asan)]
pub(crate) mod address {
    use std::ffi::c_void;
    use std::ptr;

    use crate::asm::external;

    /// To be called right before a switch to the stack of `size` bytes from `bottom` upwards.
    ///
    /// `save` keeps the side stack of the current coroutine until [`finish_switch`]; `None` gives it
    /// up, for a coroutine that is never continued.
    ///
    /// # Safety
    ///
    /// The next thing this thread does is that switch, and the stack is as described.
    pub(crate) unsafe fn start_switch(
        save: Option<&mut *mut c_void>,
        bottom: *const u8,
        size: usize,
    ) {
        let save = save.map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: null is allowed for `save`; the rest is the caller's promise.
        unsafe { external::__sanitizer_start_switch_fiber(save, bottom.cast(), size) };
    }

    /// To be called first thing on the other side, with what `start_switch` saved when this stack
    /// was left (null at the start of a coroutine). Returns the bounds of the stack switched from:
    /// its lowest address and its size.
    ///
    /// # Safety
    ///
    /// A switch that was announced by `start_switch` has just come to this stack, and `saved` is
    /// this stack's own.
    pub(crate) unsafe fn finish_switch(saved: *mut c_void) -> (*const u8, usize) {
        let mut bottom = ptr::null();
        let mut size = 0;
        // SAFETY: both places are ours; the rest is the caller's promise.
        unsafe { external::__sanitizer_finish_switch_fiber(saved, &mut bottom, &mut size) };
        (bottom.cast(), size)
    }

    /// Forgets what frames that never returned have poisoned, before a stack is used again.
    ///
    /// # Safety
    ///
    /// The region is mapped, and no live frame lies in it.
    pub(crate) unsafe fn unpoison(bottom: *const u8, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { external::__asan_unpoison_memory_region(bottom.cast(), size) };
    }
}

/// ThreadSanitizer: one "fiber" (clock and shadow call stack) for each coroutine.
#[cfg(cygnet_tsan)]
pub(crate) mod thread {
    use std::ffi::c_void;

    use crate::asm::external;

    /// The fiber this thread runs on; a thread's own one exists from its start.
    pub(crate) fn current() -> *mut c_void {
        // SAFETY: asks the runtime for a pointer, without conditions.
        unsafe { external::__tsan_get_current_fiber() }
    }

    /// A fiber for a new coroutine.
    pub(crate) fn create() -> *mut c_void {
        // SAFETY: no conditions; no flag is defined for creation.
        unsafe { external::__tsan_create_fiber(0) }
    }

    /// To be called right before the switch to the coroutine of `fiber`.
    ///
    /// A switch announced so is a synchronisation: what the coroutine left does before it
    /// happens before what the other one does after it.
    ///
    /// Always inlined, and the function it is inlined into must be the one that switches: each
    /// instrumented function notes its entry and its exit on the call stack of the current fiber, so
    /// one that is left on another fiber than it was entered on takes from a stranger's.
    ///
    /// # Safety
    ///
    /// `fiber` exists, runs nowhere, and the next thing this thread does is that switch.
    #[inline(always)]
    pub(crate) unsafe fn switch_to(fiber: *mut c_void) {
        // SAFETY: the caller's promise; flag 0 asks for the synchronisation.
        unsafe { external::__tsan_switch_to_fiber(fiber, 0) };
    }

    /// Frees the fiber of a coroutine that is never continued.
    ///
    /// # Safety
    ///
    /// `fiber` came from [`create`], is current on no thread, and is not used again.
    pub(crate) unsafe fn destroy(fiber: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { external::__tsan_destroy_fiber(fiber) };
    }
}
