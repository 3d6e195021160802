//! The coroutine: a stack with a saved context, and a small block of bookkeeping at the stack's top.
//!
//! The block lies in the page that the first frames touch anyway, so it costs no memory of its own.
//! All fields belong to the worker that the coroutine is at home on; a waker reads `worker`, which
//! cannot change while the coroutine is suspended by a wait.

use crate::asm;
use crate::retire::context::Context;
use crate::retire::record::Record;
use crate::retire::stack::{Stack, StackClass};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// See the module's documentation. `W` is the worker, which this layer knows nothing of.
#[repr(C, align(16))]
pub(crate) struct Coroutine<W> {
    pub(crate) context: Context,
    stack: Cell<Option<Stack>>,
    /// A task may be run in place while the stack pointer is above this.
    half: usize,
    /// The innermost task on it, while it is suspended.
    pub(crate) task: Cell<*const Record>,
    /// A task to start on it before anything else; null for a plain loop.
    pub(crate) first: Cell<*const Record>,
    pub(crate) worker: Cell<*const W>,
    pub(crate) next: Cell<*const Coroutine<W>>,
    pub(crate) previous: Cell<*const Coroutine<W>>,
}

impl<W> Coroutine<W> {
    /// The coroutine that a thread is, for the worker's own stack.
    pub(crate) fn of_thread(worker: *const W) -> Coroutine<W> {
        Coroutine {
            context: Context::of_thread(),
            stack: Cell::new(None),
            half: usize::MAX,
            task: Cell::new(ptr::null()),
            first: Cell::new(ptr::null()),
            worker: Cell::new(worker),
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
    ) -> NonNull<Coroutine<W>> {
        let top = stack.top().wrapping_sub(size_of::<Coroutine<W>>());
        let this: *mut Coroutine<W> = top.wrapping_sub(top as usize % 64).cast();
        let bottom = stack.bottom() as usize;
        let half = bottom + (stack.limit_top() as usize - bottom) / 2;
        // SAFETY: below the block there is nothing but the unused stack.
        let context = unsafe { Context::on_stack(&stack, this.cast(), entry, this.cast()) };
        let coroutine = Coroutine {
            context,
            stack: Cell::new(Some(stack)),
            half,
            task: Cell::new(ptr::null()),
            first: Cell::new(first),
            worker: Cell::new(worker),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        };
        // SAFETY: the top of the stack is ours, mapped, aligned to 64 and large enough.
        unsafe { this.write(coroutine) };
        // SAFETY: a stack's top is not null.
        unsafe { NonNull::new_unchecked(this) }
    }

    /// Whether more than half of the stack is left below the caller's frame. False on any stack that
    /// is not this coroutine's (a bare coroutine's, a signal handler's).
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let pointer = asm::stack_pointer();
        pointer > self.half && pointer < ptr::from_ref(self) as usize
    }

    /// Bytes left below the caller's frame; 0 on any other stack.
    pub(crate) fn room(&self) -> usize {
        let pointer = asm::stack_pointer();
        match self.bounds() {
            Some(bounds) if bounds.contains(&pointer) => pointer - bounds.start,
            _ => 0,
        }
    }

    fn with_stack<R>(&self, f: impl FnOnce(&Stack) -> R) -> Option<R> {
        // SAFETY: the field is written only at the creation and when the stack is taken out, both by
        // whoever owns the coroutine; nobody holds a reference into it meanwhile.
        unsafe { &*self.stack.as_ptr() }.as_ref().map(f)
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

    /// Ends the coroutine's bookkeeping and hands its stack out. The caller may still run on it.
    pub(crate) fn take_stack(&self) -> Option<Stack> {
        self.stack.take()
    }
}
