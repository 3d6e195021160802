//! The coroutine: a stack with a saved context, and a small block of bookkeeping at the stack's top.
//!
//! The block lies in the page that the first frames touch anyway, so it costs no memory of its own.
//! All fields belong to the worker that the coroutine is at home on; a waker reads `worker`, which
//! cannot change while the coroutine is suspended by a wait.

use crate::asm;
use crate::retire::context::Context;
use crate::retire::stack::{Stack, StackClass};
use crate::shim::time::Instant;
use crate::task::record::Record;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// Bytes below a saved stack pointer that are left alone.
const RED_ZONE: usize = 128;

/// What must be left of a stack with `usable` bytes for a task that is run as a guest: a quarter, and
/// 12 KiB (half, if that is less).
fn guest_room(usable: usize) -> usize {
    (usable / 4).max((12 << 10).min(usable / 2))
}

/// Whether its worker observes the task on a coroutine (scheduler/balance/crowd.rs).
#[derive(Clone, Copy)]
#[repr(u8)] // so that it is told apart by one byte
pub(crate) enum Observation {
    /// Not before the task waits.
    None,
    /// No: nothing is to be learnt of the task that the coroutine was made for.
    Ignored,
    Task(Observed),
}

/// A task that is observed.
#[derive(Clone, Copy)]
pub(crate) struct Observed {
    /// The class of the place where it was spawned.
    pub(crate) class: u8,
    pub(crate) task: *const Record,
    /// It has been seen to wait.
    pub(crate) waited: bool,
    /// Whether it has waited for the first time as soon as it had started, if that was seen.
    pub(crate) hasty: Option<bool>,
    /// When it began, if it is observed since then.
    pub(crate) began: Option<Instant>,
    /// For how long the worker had been idle by then, and how often tasks had waited there.
    pub(crate) idle: Duration,
    pub(crate) parks: u64,
}

/// See the module's documentation. `W` is the worker, which this layer knows nothing of.
#[repr(C, align(16))]
pub(crate) struct FiberOf<W> {
    pub(crate) context: Context,
    stack: Cell<Option<Stack>>,
    /// A task may be run in place while the stack pointer is above this.
    half: usize,
    /// The innermost task on it, while it is suspended.
    pub(crate) task: Cell<*const Record>,
    /// A task to start on it before anything else; null for a plain loop.
    pub(crate) first: Cell<*const Record>,
    pub(crate) worker: Cell<*const W>,
    /// The suspended coroutine whose stack this one is a guest on; null for one with its own.
    host: Cell<*const FiberOf<W>>,
    /// The one that is a guest on this one's stack.
    guest: Cell<*const FiberOf<W>>,
    /// The one that has called this one and waits for its end, if their worker is blocked.
    pub(crate) caller: Cell<*const FiberOf<W>>,
    /// The wait of the task on it was shielded for the sake of the guest.
    pub(crate) lent: Cell<bool>,
    /// The innermost task on it that polls a future.
    pub(crate) polls: Cell<*const Record>,
    pub(crate) observation: Cell<Observation>,
    pub(crate) next: Cell<*const FiberOf<W>>,
    pub(crate) previous: Cell<*const FiberOf<W>>,
}

impl<W> FiberOf<W> {
    /// The coroutine that a thread is, for the worker's own stack.
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

    /// Lays a new coroutine out on a stack; `entry` is called with its address.
    ///
    /// # Safety
    /// The stack is the caller's and nothing lives on it.
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
        // SAFETY: below the block there is nothing but the unused stack.
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

    /// Lays a new coroutine out below the frames of a suspended one, on the same stack.
    ///
    /// # Safety
    /// `host` is suspended, is not continued before the guest has ended and been [dismissed], and has
    /// [room](FiberOf::has_room_for_guest) for it.
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
        // SAFETY: below the host's frames there is nothing but unused stack.
        let context = unsafe { Context::on_part(bottom, end, this.cast(), entry, this.cast()) };
        let coroutine = FiberOf {
            context,
            stack: Cell::new(None),
            // There is no other stack to go to: children are called as long as there is room at all.
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

    /// Whether it stands on the stack of another.
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

    /// Forgets a guest that has ended; gives back its host, which may go on.
    ///
    /// # Safety
    /// `self` is a guest, has left its stack for good, and nobody else has touched that stack since.
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

    /// Whether more than half of the stack is left below the caller's frame. False on any stack that
    /// is not this coroutine's (a bare coroutine's, a signal handler's).
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let pointer = asm::stack_pointer();
        pointer > self.half && pointer < ptr::from_ref(self) as usize
    }

    fn with_stack<R>(&self, f: impl FnOnce(&Stack) -> R) -> Option<R> {
        // SAFETY: the field is written only at the creation and when the stack is taken out, both by
        // whoever owns the coroutine; nobody holds a reference into it meanwhile.
        if let Some(stack) = unsafe { &*self.stack.as_ptr() } {
            return Some(f(stack));
        }
        // SAFETY: null, or a coroutine that stays while it has a guest.
        unsafe { self.host.get().as_ref() }?.with_stack(f)
    }

    fn bounds(&self) -> Option<Range<usize>> {
        self.with_stack(|s| s.bottom() as usize..s.limit_top() as usize)
    }

    /// The addresses of the guard below the stack; none for a thread's own.
    pub(crate) fn guard(&self) -> Option<Range<usize>> {
        self.with_stack(Stack::guard)
    }

    pub(crate) fn class(&self) -> Option<StackClass> {
        self.with_stack(Stack::class)
    }

    /// Ends the coroutine's bookkeeping and hands its stack out; a guest has none. The caller may still
    /// run on it.
    pub(crate) fn take_stack(&self) -> Option<Stack> {
        self.stack.take()
    }
}
