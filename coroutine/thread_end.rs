//! Being told that a thread begins to destroy its thread-local values.
//!
//! A destructor of a thread-local value of ours would not do: the others' may run before it.

use std::ffi::c_void;

/// What glibc offers to compilers for `thread_local` objects: the last one registered is the first
/// one called. Rust registers a destructor for each value when that is first used.
type Register = unsafe extern "C" fn(
    destructor: unsafe extern "C" fn(*mut c_void),
    object: *mut c_void,
    dso_symbol: *mut c_void,
) -> libc::c_int;

/// Has `callback` called on this thread right before the destructors of those thread-local values that
/// have been used so far. Where the C library does not offer it, never.
pub(super) fn call_before_destructors(callback: fn()) {
    // Looked up rather than linked: other C libraries lack it.
    // SAFETY: the name is a C string.
    let register = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_thread_atexit_impl".as_ptr()) };
    if register.is_null() {
        return;
    }
    // SAFETY: the symbol of that name has this type.
    let register = unsafe { std::mem::transmute::<*mut c_void, Register>(register) };
    // A null symbol keeps the main program loaded and not the library that this code is in; but the
    // registration of the pool's destructor, made before, does, and that one is called after ours.
    // SAFETY: `call` may be called with the pointer to a function.
    unsafe { register(call, callback as *mut c_void, std::ptr::null_mut()) };
}

unsafe extern "C" fn call(callback: *mut c_void) {
    // SAFETY: it is the function that was registered.
    let callback = unsafe { std::mem::transmute::<*mut c_void, fn()>(callback) };
    callback();
}
