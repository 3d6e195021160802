//! A callback for the moment when a thread begins to destroy its thread-local values.
//!
//! A thread-local value with a destructor would come too late: destructors of other values may run
//! before it.

use std::ffi::c_void;

/// The glibc function that compilers use for `thread_local` objects: the last destructor registered
/// is the first one called. Rust registers a destructor for each value at its first use.
type Register = unsafe extern "C" fn(
    destructor: extern "C" fn(*mut c_void),
    object: *mut c_void,
    dso_symbol: *mut c_void,
) -> libc::c_int;

/// Has `callback` called on this thread right before the destructors of the thread-local values
/// used so far. If the C library does not offer this, `callback` is never called.
pub(super) fn call_before_destructors(callback: extern "C" fn(*mut c_void)) {
    // Looked up rather than linked: other C libraries lack it.
    // SAFETY: the name is a C string.
    let register = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_thread_atexit_impl".as_ptr()) };
    if register.is_null() {
        return;
    }
    // SAFETY: glibc's function of this name has this type.
    let register = unsafe { std::mem::transmute::<*mut c_void, Register>(register) };
    // A null symbol keeps the main program loaded, not the library that this code is in. But the
    // pool's destructor has been registered before, keeps the library loaded, and is called after
    // ours.
    // SAFETY: the callback takes any pointer.
    unsafe { register(callback, std::ptr::null_mut(), std::ptr::null_mut()) };
}
