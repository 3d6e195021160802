//! The bare coroutine that a thread is in.
//!
//! A *bare coroutine* is a [`Coroutine`](crate::coroutine::Coroutine), which a program resumes by
//! hand. Each thread has a pointer to its innermost running bare coroutine. From there
//! `coroutine::current` follows the chain of resumers, which wait for it. On a thread's or a task's
//! own stack the pointer is null.
//!
//! The scheduler knows nothing else of bare coroutines. When it suspends a task it sets the task's
//! pointer aside, and when the task continues it restores the pointer. Otherwise the next task
//! would seem to run inside the coroutines of the suspended one.
//!
//! The pointer is the second thread word of the assembly source. It is read anew each time, because
//! `join` reads it in the middle of a user's function, which may continue on another thread.
//!
//! Beyond that, the scheduler can [pin](Pin) the innermost bare coroutine. This also tags the
//! pointer: see [`Chain`].

use crate::asm::Words;
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// The part of a bare coroutine that this module knows. A pointer to it is one to the coroutine.
pub(crate) struct PinCount {
    /// The number of sections that must end before the body leaves its stack, and the bit
    /// [`PinCount::FORBIDDEN`].
    pins: Cell<u64>,
}

impl PinCount {
    pub(crate) const fn new() -> PinCount {
        PinCount { pins: Cell::new(0) }
    }

    /// Set by the coroutine's owner: the body must never leave its stack again, pinned or not.
    const FORBIDDEN: u64 = 1 << 63;

    /// Returns whether the coroutine is neither pinned nor forbidden to suspend.
    pub(crate) fn is_free(&self) -> bool {
        self.pins.get() == 0
    }

    /// Returns whether the body is in a section that pins it.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.get() & !PinCount::FORBIDDEN != 0
    }

    /// Forbids the body to leave its stack, for ever. The caller tags the chain.
    pub(crate) fn forbid_suspension(&self) {
        self.pins.set(self.pins.get() | PinCount::FORBIDDEN);
    }
}

/// Keeps the bare coroutine that the caller is in, if any, from suspending as long as the pin
/// lives.
///
/// Three kinds of calls use a pin: `no_suspend`; calls that change the task around a closure and
/// then undo the change (the node of a scope, the bindings of task-locals); and calls that keep a
/// reference to the task while they run foreign code (joins, parallel loops, and waits for a
/// future, which also rely on the thread).
///
/// If the coroutine were suspended in the middle of such a call, the task could continue with the
/// change in place, undo it out of order, or end, and another task could resume the coroutine.
pub(crate) struct Pin(Option<NonNull<PinCount>>);

impl Pin {
    /// Pins the innermost bare coroutine of the running thread, if there is one.
    #[inline]
    pub(crate) fn innermost() -> Pin {
        let coroutine = NonNull::new(innermost().cast_mut());
        if let Some(coroutine) = coroutine {
            // SAFETY: a coroutine in the chain of the running thread is alive.
            let pins = unsafe { &coroutine.as_ref().pins };
            pins.set(pins.get() + 1);
            set_innermost(Chain::of(coroutine.as_ptr()).tagged());
        }
        Pin(coroutine)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(coroutine) = self.0 {
            // SAFETY: this frame stands on the pinned coroutine or was called from it, so the
            // coroutine cannot end before this returns.
            let pins = unsafe { &coroutine.as_ref().pins };
            // The tag stays. Only the coroutine itself knows whether there is another reason for
            // it.
            pins.set(pins.get() - 1);
        }
    }
}

/// A pointer to the innermost coroutine of a chain, or null.
///
/// The lowest bit is a tag. Without it, the coroutine is the only one in the chain, and may
/// suspend. With it, the coroutine must look closer first: it is pinned, or it is being unwound, or
/// another coroutine has resumed it, or it was pinned before.
#[derive(Clone, Copy)]
pub(crate) struct Chain(*const PinCount);

const TAG: usize = 1;

impl Chain {
    pub(crate) const EMPTY: Chain = Chain(ptr::null());

    /// The chain that ends with `coroutine`, without a tag.
    #[inline(always)]
    pub(crate) fn of(coroutine: *const PinCount) -> Chain {
        Chain(coroutine)
    }

    /// Returns whether this is the chain of code outside of any coroutine.
    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_null()
    }

    /// Makes the innermost coroutine look closer before it suspends.
    #[inline(always)]
    pub(crate) fn tagged(self) -> Chain {
        Chain(self.0.map_addr(|address| address | TAG))
    }

    /// Returns the innermost coroutine, or null.
    #[inline(always)]
    pub(crate) fn innermost(self) -> *const PinCount {
        self.0.map_addr(|address| address & !TAG)
    }

    /// Returns whether `coroutine` is the innermost one and the chain is not tagged.
    #[inline(always)]
    pub(crate) fn is_untagged(self, coroutine: *const PinCount) -> bool {
        ptr::eq(self.0, coroutine)
    }

    /// Returns the chain of the running thread, or of its running task.
    #[inline(always)]
    pub(crate) fn read(words: Words) -> Chain {
        Chain(words.nesting().cast_const().cast())
    }

    /// Makes this the chain of the running thread, or of its running task.
    #[inline(always)]
    pub(crate) fn write(self, words: Words) {
        words.set_nesting(self.0.cast_mut().cast());
    }
}

/// Returns the innermost running bare coroutine, or null. May be called at any time in the life of
/// the thread, also from a signal handler.
#[inline(always)]
pub(crate) fn innermost() -> *const PinCount {
    Chain::read(Words::here()).innermost()
}

/// Returns whether the caller is in a bare coroutine.
#[inline(always)]
pub(crate) fn is_inside() -> bool {
    !Chain::read(Words::here()).is_empty()
}

/// Replaces the chain of the running thread.
#[inline(always)]
fn set_innermost(chain: Chain) {
    chain.write(Words::here());
}

/// The chain pointer of a suspended task.
#[must_use = "without it the task would lose its current coroutine"]
pub(crate) struct Saved(Chain);

/// Sets the pointer of the running task aside. The next task starts outside of any bare coroutine.
#[inline(always)]
pub(crate) fn suspend_nesting() -> Saved {
    let chain = Chain::read(Words::here());
    if !chain.is_empty() {
        set_innermost(Chain::EMPTY);
    }
    Saved(chain)
}

/// Restores the pointer of a task that continues. Returns whether that task is in a bare coroutine.
#[inline(always)]
pub(crate) fn restore_nesting(saved: Saved) -> bool {
    if saved.0.is_empty() {
        return false;
    }
    set_innermost(saved.0);
    true
}
