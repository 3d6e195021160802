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

    // SAFETY: the signatures are those of sanitizer/common_interface_defs.h and asan_interface.h,
    // where `size_t` is a `usize` and an absent `save` is null.
    unsafe extern "C" {
        /// To be called right before a switch to the stack of `size` bytes from `bottom` upwards.
        ///
        /// `save` keeps the fake stack of the current coroutine until [`finish_switch`]. `None`
        /// gives the fake stack up, for a coroutine that is never continued.
        ///
        /// # Safety
        ///
        /// This thread's next action is that switch, and the stack is as described.
        #[link_name = "__sanitizer_start_switch_fiber"]
        pub(crate) fn start_switch(save: Option<&mut *mut c_void>, bottom: *const u8, size: usize);

        /// To be called before anything else on the other side, with the value that `start_switch`
        /// saved when this stack was left (null at the start of a coroutine). Stores the bounds of
        /// the stack switched from: its lowest address and its size.
        ///
        /// # Safety
        ///
        /// A switch that was announced by `start_switch` has just come to this stack, and `saved`
        /// is this stack's own.
        #[link_name = "__sanitizer_finish_switch_fiber"]
        pub(crate) fn finish_switch(saved: *mut c_void, bottom: &mut *const u8, size: &mut usize);

        /// Forgets the poisoned areas of frames that never returned, before a stack is used again.
        ///
        /// # Safety
        ///
        /// The region is mapped, and no live frame lies in it.
        #[link_name = "__asan_unpoison_memory_region"]
        pub(crate) fn unpoison(bottom: *const u8, size: usize);
    }
}

/// ThreadSanitizer: one "fiber" (clock and shadow call stack) for each coroutine.
#[cfg(cygnet_tsan)]
pub(crate) mod thread {
    use std::ffi::c_void;

    // SAFETY: the signatures are those of tsan_interface.h. The safe functions have no conditions.
    unsafe extern "C" {
        /// Returns the fiber that this thread runs on. A thread's own fiber exists from its start.
        #[link_name = "__tsan_get_current_fiber"]
        pub(crate) safe fn current() -> *mut c_void;

        /// Creates a fiber for a new coroutine. No flag is defined: `flags` is 0.
        #[link_name = "__tsan_create_fiber"]
        pub(crate) safe fn create(flags: libc::c_uint) -> *mut c_void;

        /// To be called right before the switch to the coroutine of `fiber`.
        ///
        /// With the `flags` 0, an announced switch is a synchronisation: everything before it in
        /// the coroutine that is left happens before everything after it in the one that is
        /// continued.
        ///
        /// The calling function must be the one that switches. Each instrumented function records
        /// its entry and its exit on the call stack of the current fiber, so a function that is
        /// left on another fiber than it was entered on would pop an entry of that other fiber.
        ///
        /// # Safety
        ///
        /// `fiber` exists and is current on no thread, and this thread's next action is that
        /// switch.
        #[link_name = "__tsan_switch_to_fiber"]
        pub(crate) fn switch_to(fiber: *mut c_void, flags: libc::c_uint);

        /// Frees the fiber of a coroutine that is never continued.
        ///
        /// # Safety
        ///
        /// `fiber` came from [`create`], is current on no thread, and is not used again.
        #[link_name = "__tsan_destroy_fiber"]
        pub(crate) fn destroy(fiber: *mut c_void);
    }
}
