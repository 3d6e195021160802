//! Which bare coroutine a thread is in.
//!
//! `runtime::coroutine` keeps a pointer to the innermost running one here, from which others lead to
//! those that wait for it; null on a thread's or a task's own stack. The scheduler, which knows
//! nothing of bare coroutines, sets the pointer of a task aside when it suspends the task, native
//! stacks and all, and puts it back when the task goes on: else the next task would be in them.
//!
//! Plain thread-local storage will do, also around a switch. A bare coroutine is not `Send`, so a task
//! that has one on its stack stays on its thread; for any other task the pointer is null, and nothing
//! is written after the switch.

use std::cell::Cell;
use std::ptr;

thread_local! {
    // Without a destructor, so that it can be read as long as the thread lives, from a signal handler
    // too.
    static INNERMOST: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// The innermost running coroutine, or null.
#[inline(always)]
pub(crate) fn innermost() -> *const () {
    INNERMOST.get()
}

/// Makes another one the innermost; returns the one before.
#[inline(always)]
pub(crate) fn set_innermost(coroutine: *const ()) -> *const () {
    INNERMOST.replace(coroutine)
}

/// The pointer of a suspended task.
#[must_use = "without it the task would lose its current coroutine"]
pub(crate) struct Saved(*const ());

/// Sets the pointer of the running task aside: the next one starts outside of any coroutine.
#[inline(always)]
pub(crate) fn suspend_chain() -> Saved {
    let innermost = innermost();
    if !innermost.is_null() {
        set_innermost(ptr::null());
    }
    Saved(innermost)
}

/// Puts the pointer of a task back that goes on.
#[inline(always)]
pub(crate) fn restore_chain(saved: Saved) {
    if !saved.0.is_null() {
        set_innermost(saved.0);
    }
}
