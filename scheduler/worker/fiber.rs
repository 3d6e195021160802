//! The fiber, a worker's coroutine: a stack with a saved context, and a small block of bookkeeping
//! at the stack's top.
//!
//! The block lies in the page that the first frames touch anyway, so it costs no memory of its own.
//! All fields belong to the fiber's home worker. A waker reads `worker`, which does not change
//! while the fiber is suspended by a wait.

use crate::asm;
use crate::retire::context::Context;
use crate::retire::stack::{Stack, StackClass};
use crate::scheduler::stacks::ledger::ExtraFor;
use crate::shim::time::Instant;
use crate::task::record::Record;
use crate::task::reference::{RunRef, TaskRef};
use std::cell::Cell;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};
use std::time::Duration;

/// Whether the worker observes the task on a fiber (balance/crowd.rs).
#[derive(Clone, Copy)]
#[repr(u8)] // so that one byte tells the variants apart
pub(crate) enum Observation {
    /// Not before the task waits.
    None,
    /// No: there is nothing to learn from the task that the fiber was made for.
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

/// A fiber; see the module's documentation. `W` is the worker, of which this layer knows nothing.
#[repr(C, align(16))]
pub(crate) struct FiberOf<W> {
    pub(crate) context: Context,
    stack: Cell<Option<Stack>>,
    /// A task may be run in place while the stack pointer is above this address.
    half: usize,
    /// The innermost task on the fiber, while it is suspended.
    pub(crate) task: Cell<*const Record>,
    /// A task to start before anything else; `None` for a plain loop.
    pub(crate) first: Cell<Option<RunRef>>,
    pub(crate) worker: Cell<*const W>,
    /// The wait in whose name the fiber has an extra stack (`exhaustion`).
    pub(crate) extra_for: Cell<Option<ExtraFor>>,
    /// The fiber that has called this one and waits for its end, if their worker is blocked.
    pub(crate) caller: Cell<Option<NextOf<W>>>,
    /// The fiber has called another one, so its context is saved in the middle of that call.
    pub(crate) calls: Cell<bool>,
    /// The innermost task on the fiber that polls a future.
    pub(crate) polls: Cell<*const Record>,
    pub(crate) observation: Cell<Observation>,
}

impl<W> FiberOf<W> {
    fn new(
        context: Context,
        stack: Option<Stack>,
        half: usize,
        first: Option<RunRef>,
        worker: *const W,
    ) -> FiberOf<W> {
        FiberOf {
            context,
            stack: Cell::new(stack),
            half,
            task: Cell::new(ptr::null()),
            first: Cell::new(first),
            worker: Cell::new(worker),
            extra_for: Cell::new(None),
            caller: Cell::new(None),
            calls: Cell::new(false),
            polls: Cell::new(ptr::null()),
            observation: Cell::new(Observation::None),
        }
    }

    /// The main fiber, which is a thread on its own stack.
    pub(crate) fn of_thread(worker: *const W) -> FiberOf<W> {
        FiberOf::new(Context::of_thread(), None, usize::MAX, None, worker)
    }

    /// Creates a fiber on a stack, on which nothing lives. `entry` is called with the fiber's
    /// address.
    ///
    /// # Safety
    /// The call of `entry` with that address is sound when the fiber is continued.
    #[inline]
    pub(crate) unsafe fn create(
        stack: Stack,
        worker: *const W,
        first: RunRef,
        entry: asm::Entry,
    ) -> NextOf<W> {
        let top = stack.top().wrapping_sub(size_of::<FiberOf<W>>());
        let this: *mut FiberOf<W> = top.wrapping_sub(top as usize % 64).cast();
        let bottom = stack.bottom() as usize;
        let half = bottom + (stack.limit_top() as usize - bottom) / 2;
        // SAFETY: below the block there is only unused stack, which is ours. The caller's contract
        // covers `entry`.
        let context = unsafe { Context::on_stack(&stack, this.cast(), entry, this.cast()) };
        // SAFETY: the top of the stack is ours, mapped, aligned to 64 and large enough.
        unsafe {
            this.write(FiberOf::new(context, Some(stack), half, Some(first), worker));
            NextOf(NonNull::new_unchecked(this))
        }
    }

    /// The task that is set aside on the fiber, while it is suspended.
    pub(crate) fn waiting_task(&self) -> Option<TaskRef<'_>> {
        // SAFETY: null, or the innermost task on the fiber, which has not ended.
        Some(unsafe { TaskRef::new(NonNull::new(self.task.get().cast_mut())?) })
    }

    /// Whether more than half of the stack is left below the caller's frame. Returns `false` on any
    /// stack that is not this fiber's (a bare coroutine's, a signal handler's).
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let pointer = asm::stack_pointer();
        pointer > self.half && pointer < ptr::from_ref(self) as usize
    }

    fn with_stack<R>(&self, f: impl FnOnce(&Stack) -> R) -> Option<R> {
        // SAFETY: the field is written only when the fiber is created and when the stack is taken
        // out, both by the owner of the fiber. No reference into the field exists at these times.
        unsafe { &*self.stack.as_ptr() }.as_ref().map(f)
    }

    /// The addresses of the guard below the stack. `None` on a thread's own stack.
    pub(crate) fn guard(&self) -> Option<Range<usize>> {
        self.with_stack(Stack::guard)
    }

    pub(crate) fn class(&self) -> Option<StackClass> {
        self.with_stack(Stack::class)
    }

    /// Takes the stack out, which ends the bookkeeping. The caller may still run on the stack.
    pub(crate) fn take_stack(&self) -> Option<Stack> {
        self.stack.take()
    }
}

/// A fiber that a worker may go on with. It is new or suspended, or the running one itself, and the
/// holder alone may continue it.
#[must_use]
pub(crate) struct NextOf<W>(pub(super) NonNull<FiberOf<W>>);

impl<W> NextOf<W> {
    pub(crate) fn pointer(&self) -> *const FiberOf<W> {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub(crate) fn is(&self, fiber: *const FiberOf<W>) -> bool {
        ptr::eq(self.0.as_ptr(), fiber)
    }
}

impl<W> Deref for NextOf<W> {
    type Target = FiberOf<W>;

    #[inline(always)]
    fn deref(&self) -> &FiberOf<W> {
        // SAFETY: a fiber stays where it is until it has run to its end.
        unsafe { self.0.as_ref() }
    }
}
