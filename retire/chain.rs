//! Which bare coroutine a thread is in.
//!
//! `runtime::coroutine` keeps a pointer to the innermost running one here, from which others lead to
//! those that wait for it; null on a thread's or a task's own stack. The scheduler, which knows
//! nothing of bare coroutines, sets the pointer of a task aside when it suspends the task, native
//! stacks and all, and puts it back when the task goes on: else the next task would be in them.
//!
//! The pointer is the second word of the assembly source, read anew each time: `join` looks at it in the
//! middle of a user's function, which may go on on another thread.
//!
//! What the scheduler may do to the innermost one is to pin it: see [`Pin`].

use crate::asm;
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// The part of a bare coroutine that is known here.
pub(crate) struct Node {
    /// How many sections its body is in that must end before it is left; and [`Node::GUARDED`].
    pins: Cell<u32>,
}

impl Node {
    pub(crate) const fn new() -> Node {
        Node { pins: Cell::new(0) }
    }

    /// A mark of the coroutine's owner: the body must not leave its stack any more, pinned or not. Beside the
    /// count, so that the usual case is one comparison.
    const GUARDED: u32 = 1 << 31;

    /// Whether it is neither pinned nor guarded.
    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        self.pins.get() == 0
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.get() & !Node::GUARDED != 0
    }

    /// Makes the node one that is never free again.
    pub(crate) fn guard(&self) {
        self.pins.set(self.pins.get() | Node::GUARDED);
    }
}

/// Keeps the coroutine that the caller is in, if any, from suspending.
///
/// For `no_suspend`, for calls that change the task around a closure and change it back (the node of a
/// scope, the bindings of task-locals), and for those that keep a reference to it while they call foreign
/// code: joins, parallel loops, and waits for a future, which also rely on the thread. Were the coroutine left in the middle, the task could go on with the change, undo it out of
/// order, or end; and the coroutine be continued by another task.
pub(crate) struct Pin(Option<NonNull<Node>>);

impl Pin {
    #[inline]
    pub(crate) fn innermost() -> Pin {
        let node = NonNull::new(innermost().cast_mut());
        if let Some(node) = node {
            // SAFETY: a coroutine in the chain of the running thread is alive.
            let pins = unsafe { &node.as_ref().pins };
            pins.set(pins.get() + 1);
        }
        Pin(node)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(node) = self.0 {
            // SAFETY: the coroutine that this frame stands on or is called from; it cannot end before it.
            let pins = unsafe { &node.as_ref().pins };
            pins.set(pins.get() - 1);
        }
    }
}

/// The innermost running coroutine, or null. Can be asked for as long as the thread lives, from a signal
/// handler too.
#[inline(always)]
pub(crate) fn innermost() -> *const Node {
    asm::chain_word().cast()
}

/// Makes another one the innermost.
#[inline(always)]
pub(crate) fn set_innermost(coroutine: *const Node) {
    asm::set_chain_word(coroutine.cast_mut().cast());
}

/// Makes another one the innermost; the thread's first word and the one that was the innermost.
#[inline(always)]
pub(crate) fn enter(coroutine: *const Node) -> (*mut u8, *const Node) {
    let (first, outer) = asm::swap_chain_word(coroutine.cast_mut().cast());
    (first, outer.cast_const().cast())
}

/// The pointer of a suspended task.
#[must_use = "without it the task would lose its current coroutine"]
pub(crate) struct Saved(*const Node);

/// Sets the pointer of the running task aside: the next one starts outside of any coroutine.
#[inline(always)]
pub(crate) fn suspend_chain() -> Saved {
    let innermost = innermost();
    if !innermost.is_null() {
        set_innermost(ptr::null());
    }
    Saved(innermost)
}

/// Puts the pointer of a task back that goes on; whether it is in a bare coroutine.
#[inline(always)]
pub(crate) fn restore_chain(saved: Saved) -> bool {
    if saved.0.is_null() {
        return false;
    }
    set_innermost(saved.0);
    true
}
