//! The fiber, a worker's coroutine: a stack with a saved context, and a small block of bookkeeping
//! at the stack's top.
//!
//! The block lies in the page that the first frames touch anyway, so it costs no memory of its own.
//! All fields belong to the coroutine's home worker. A waker reads `worker`, which does not change
//! while the coroutine is suspended by a wait.

use crate::asm;
use crate::retire::context::Context;
use crate::retire::stack::{Stack, StackClass};
use crate::shim::time::Instant;
use crate::task::record::Record;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// The bytes below a saved stack pointer that are left alone.
const RED_ZONE: usize = 128;

/// The part of a stack with `usable` bytes that must be free for a guest: a quarter, and at least
/// 12 KiB (or half of the stack, if that is less).
fn guest_room(usable: usize) -> usize {
    (usable / 4).max((12 << 10).min(usable / 2))
}

/// Whether the worker observes the task on a coroutine (balance/crowd.rs).
#[derive(Clone, Copy)]
#[repr(u8)] // so that one byte tells the variants apart
pub(crate) enum Observation {
    /// Not before the task waits.
    None,
    /// No: there is nothing to learn from the task that the coroutine was made for.
    Ignored,
    Task(Observed),
}

/// A task that is observed.
#[derive(Clone, Copy)]
pub(crate) struct Observed {
    /// The class of its spawn place.
    pub(crate) class: u8,
    pub(crate) task: *const Record,
    /// The task has been seen to wait.
    pub(crate) waited: bool,
    /// Whether the task's first wait came as soon as it had started, if that was seen.
    pub(crate) hasty: Option<bool>,
    /// When the task began, if it is observed since then.
    pub(crate) began: Option<Instant>,
    /// At that time: how long the worker had been idle, and how often tasks had waited there.
    pub(crate) idle: Duration,
    pub(crate) parks: u64,
}

/// A coroutine; see the module's documentation. `W` is the worker, of which this layer knows
/// nothing.
#[repr(C, align(16))]
pub(crate) struct FiberOf<W> {
    pub(crate) context: Context,
    stack: Cell<Option<Stack>>,
    /// A task may be run in place while the stack pointer is above this address.
    half: usize,
    /// The innermost task on the coroutine, while it is suspended.
    pub(crate) task: Cell<*const Record>,
    /// A task to start before anything else; null for a plain loop.
    pub(crate) first: Cell<*const Record>,
    pub(crate) worker: Cell<*const W>,
    /// For a guest: the suspended coroutine that owns the stack. Null for a coroutine with its own
    /// stack.
    host: Cell<*const FiberOf<W>>,
    /// The guest on this coroutine's stack.
    guest: Cell<*const FiberOf<W>>,
    /// The coroutine that has called this one and waits for its end, if their worker is blocked.
    pub(crate) caller: Cell<*const FiberOf<W>>,
    /// The wait of the task was shielded for the sake of the guest.
    pub(crate) lent: Cell<bool>,
    /// The innermost task on the coroutine that polls a future.
    pub(crate) polls: Cell<*const Record>,
    pub(crate) observation: Cell<Observation>,
    pub(crate) next: Cell<*const FiberOf<W>>,
    pub(crate) previous: Cell<*const FiberOf<W>>,
}

impl<W> FiberOf<W> {
    /// The main coroutine, which is a thread on its own stack.
    pub(crate) fn of_thread(worker: *const W) -> FiberOf<W> {
        FiberOf {
            context: Context::of_thread(),
            stack: Cell::new(None),
            half: usize::MAX,
            task: Cell::new(ptr::null()),
            first: Cell::new(ptr::null()),
            worker: Cell::new(worker),
            host: Cell::new(ptr::null()),
            guest: Cell::new(ptr::null()),
            caller: Cell::new(ptr::null()),
            lent: Cell::new(false),
            polls: Cell::new(ptr::null()),
            observation: Cell::new(Observation::None),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        }
    }

    /// Creates a coroutine on a stack. `entry` is called with the coroutine's address.
    ///
    /// # Safety
    /// The stack is the caller's, and nothing lives on it.
    #[inline]
    pub(crate) unsafe fn create(
        stack: Stack,
        worker: *const W,
        first: *const Record,
        entry: asm::Entry,
    ) -> NonNull<FiberOf<W>> {
        let top = stack.top().wrapping_sub(size_of::<FiberOf<W>>());
        let this: *mut FiberOf<W> = top.wrapping_sub(top as usize % 64).cast();
        let bottom = stack.bottom() as usize;
        let half = bottom + (stack.limit_top() as usize - bottom) / 2;
        // SAFETY: below the block there is only unused stack, which is the caller's.
        let context = unsafe { Context::on_stack(&stack, this.cast(), entry, this.cast()) };
        let coroutine = FiberOf {
            context,
            stack: Cell::new(Some(stack)),
            half,
            task: Cell::new(ptr::null()),
            first: Cell::new(first),
            worker: Cell::new(worker),
            host: Cell::new(ptr::null()),
            guest: Cell::new(ptr::null()),
            caller: Cell::new(ptr::null()),
            lent: Cell::new(false),
            polls: Cell::new(ptr::null()),
            observation: Cell::new(Observation::None),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        };
        // SAFETY: the top of the stack is ours, mapped, aligned to 64 and large enough.
        unsafe { this.write(coroutine) };
        // SAFETY: a stack's top is not null.
        unsafe { NonNull::new_unchecked(this) }
    }

    /// Creates a guest: a coroutine below the frames of a suspended one, on the same stack.
    ///
    /// # Safety
    /// `host` is suspended, is not continued before the guest has ended and been [dismissed], and
    /// has [room](FiberOf::has_room_for_guest) for it.
    ///
    /// [dismissed]: FiberOf::dismiss_guest
    pub(crate) unsafe fn create_guest(
        host: &FiberOf<W>,
        worker: *const W,
        first: *const Record,
        entry: asm::Entry,
    ) -> NonNull<FiberOf<W>> {
        let bounds = host.bounds().expect("a host stands on a stack of ours");
        let bottom = ptr::with_exposed_provenance_mut::<u8>(bounds.start);
        let end = host.context.saved().wrapping_sub(RED_ZONE);
        let top = end.wrapping_sub(size_of::<FiberOf<W>>());
        let this: *mut FiberOf<W> = top.wrapping_sub(top as usize % 64).cast();
        // SAFETY: by contract the host stays suspended, so below its frames there is only unused
        // stack.
        let context = unsafe { Context::on_part(bottom, end, this.cast(), entry, this.cast()) };
        let coroutine = FiberOf {
            context,
            stack: Cell::new(None),
            // There is no other stack to go to: children are called as long as there is room at
            // all.
            half: bounds.start + guest_room(bounds.end - bounds.start),
            task: Cell::new(ptr::null()),
            first: Cell::new(first),
            worker: Cell::new(worker),
            host: Cell::new(host),
            guest: Cell::new(ptr::null()),
            caller: Cell::new(ptr::null()),
            lent: Cell::new(false),
            polls: Cell::new(ptr::null()),
            observation: Cell::new(Observation::None),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        };
        // SAFETY: inside the host's stack, below its frames, aligned to 64.
        unsafe { this.write(coroutine) };
        host.guest.set(this);
        // SAFETY: an address within a stack is not null.
        unsafe { NonNull::new_unchecked(this) }
    }

    /// Whether this coroutine is a guest on the stack of another.
    pub(crate) fn is_guest(&self) -> bool {
        !self.host.get().is_null()
    }

    /// Whether a guest would have room on this suspended coroutine's stack.
    pub(crate) fn has_room_for_guest(&self) -> bool {
        let Some(bounds) = self.bounds() else { return false };
        let saved = self.context.saved() as usize;
        let needed = guest_room(bounds.end - bounds.start) + RED_ZONE + size_of::<Self>() + 64;
        self.guest.get().is_null() && bounds.contains(&saved) && saved - bounds.start >= needed
    }

    /// Dismisses a guest that has ended. Returns its host, which may go on.
    ///
    /// # Safety
    /// `self` is a guest, has left its stack for good, and no other code has touched that stack
    /// since.
    pub(crate) unsafe fn dismiss_guest<'a>(&self) -> &'a FiberOf<W> {
        // SAFETY: a host stays suspended until its guest is dismissed.
        let host = unsafe { &*self.host.get() };
        #[cfg(cygnet_tsan)]
        self.context.end();
        host.guest.set(ptr::null());
        #[cfg(cygnet_asan)]
        if let Some(bounds) = host.bounds() {
            // The guest's last frames were left without being unwound.
            let bottom = ptr::with_exposed_provenance_mut::<u8>(bounds.start);
            crate::retire::stack::unpoison(bottom, host.context.saved() as usize - bounds.start);
        }
        host
    }

    /// Whether more than half of the stack is left below the caller's frame. Returns `false` on any
    /// stack that is not this coroutine's (a bare coroutine's, a signal handler's).
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let pointer = asm::stack_pointer();
        pointer > self.half && pointer < ptr::from_ref(self) as usize
    }

    fn with_stack<R>(&self, f: impl FnOnce(&Stack) -> R) -> Option<R> {
        // SAFETY: the field is written only when the coroutine is created and when the stack is
        // taken out, both by the owner of the coroutine. No reference into the field exists at
        // these times.
        if let Some(stack) = unsafe { &*self.stack.as_ptr() } {
            return Some(f(stack));
        }
        // SAFETY: null, or a coroutine that stays while it has a guest.
        unsafe { self.host.get().as_ref() }?.with_stack(f)
    }

    fn bounds(&self) -> Option<Range<usize>> {
        self.with_stack(|s| s.bottom() as usize..s.limit_top() as usize)
    }

    /// The addresses of the guard below the stack. `None` on a thread's own stack.
    pub(crate) fn guard(&self) -> Option<Range<usize>> {
        self.with_stack(Stack::guard)
    }

    pub(crate) fn class(&self) -> Option<StackClass> {
        self.with_stack(Stack::class)
    }

    /// Takes the stack out, which ends the bookkeeping; a guest has none. The caller may still run
    /// on the stack.
    pub(crate) fn take_stack(&self) -> Option<Stack> {
        self.stack.take()
    }
}
