//! The part of a coroutine that does not depend on the types of its values: its place in the chain
//! of running coroutines, and the two switches.
//!
//! # Access
//!
//! Everything belongs to one thread, so there are cells and no atomics. The two sides never run at
//! the same time: a store before a switch is visible to the other side after it.
//!
//! | state | resumer's side | body's side |
//! | --- | --- | --- |
//! | Created, Suspended | may resume, unwind, drop | does not run |
//! | Running | waits in `enter` | runs, or waits for one that it has resumed |
//! | Finished | may drop | is gone, its stack in the pool |

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::{panic, ptr};

use super::current;
use crate::retire::context::Context;
use crate::retire::nesting::{self, PinCount};
use crate::scheduler::worker::Worker;
use crate::shim::abort_with;

/// The state of a coroutine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// The coroutine has a stack, and its body has not been called.
    Created,
    /// The body runs, or waits for another coroutine that it has resumed.
    Running,
    /// The body waits in [`Yielder::suspend`](super::Yielder::suspend).
    Suspended,
    /// The body has returned or panicked. The stack is gone.
    Finished,
}

/// Whether a body may suspend.
///
/// Never while its thread is panicking, no matter where the panic began. The standard library
/// counts the panics in progress on a thread, but tells only whether there is one. So a body that a
/// destructor resumes during an unwinding looks the same as a body that has begun a second panic of
/// its own. If the latter left its stack, its panic would never end, and the thread would count as
/// panicking for ever.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspension {
    IfNotPanicking,
    /// The coroutine is being unwound because it was dropped.
    Never,
    /// Like `Never`, and the body has tried to suspend once.
    NeverAgain,
}

/// The payload that unwinds a coroutine which is dropped before its end. Only this module can make
/// one.
struct Dismissed;

/// The part of a coroutine that is independent of its types; see the module's documentation.
///
/// The pin count comes first: a pointer to it is a pointer to the whole.
#[repr(C)]
pub(super) struct Link {
    pins: PinCount,
    pub(super) context: Context,
    /// The flow of the resumer, which waits; valid while running. It is kept here and not in the
    /// resumer's frame, as each load on the way to the other side's stack pointer delays the
    /// switch.
    pub(super) resumer: Context,
    /// The next coroutine in the chain; valid while running.
    pub(super) resumed_by: Cell<*const Link>,
    pub(super) state: Cell<State>,
    suspension: Cell<Suspension>,
    /// The coroutine certainly ends before anything that it borrows, for instance a thread-local
    /// value.
    pub(super) scoped: bool,
    pub(super) id: u64,
    pub(super) name: Option<Arc<str>>,
    /// The size of the stack as the user knows it, and the guard below it.
    pub(super) stack_size: usize,
    pub(super) guard: Range<usize>,
}

impl Link {
    pub(super) fn new(
        context: Context,
        name: Option<Arc<str>>,
        stack_size: usize,
        guard: Range<usize>,
        scoped: bool,
    ) -> Link {
        Link {
            pins: PinCount::new(),
            context,
            resumer: Context::of_thread(),
            resumed_by: Cell::new(ptr::null()),
            state: Cell::new(State::Created),
            suspension: Cell::new(Suspension::IfNotPanicking),
            scoped,
            id: current::new_id(),
            name,
            stack_size,
            guard,
        }
    }

    #[inline(always)]
    pub(super) fn may_be_resumed(&self) -> bool {
        (self.state.get() == State::Suspended && self.may_go_on()) || self.may_be_started()
    }

    // Kept apart so that the usual case is a comparison and not a jump table.
    #[cold]
    #[inline(never)]
    fn may_be_started(&self) -> bool {
        self.state.get() == State::Created
    }

    /// Returns whether the body may go on. It may not if it could be in the middle of using a
    /// thread-local value that has been destroyed.
    #[inline(always)]
    pub(super) fn may_go_on(&self) -> bool {
        !current::thread_is_ending() || self.scoped
    }

    /// Runs the body until it suspends or ends.
    ///
    /// # Safety
    /// The state is Created or Suspended, and everything that the body borrows is still there.
    /// `self` stays at its address until this returns.
    #[inline(always)]
    pub(super) unsafe fn enter(&self) {
        self.resumer.renew();
        let (worker, resumed_by) = nesting::enter(ptr::from_ref(self).cast());
        // SAFETY: the word is null or points to this thread's worker, which clears it before it
        // goes.
        if let Some(worker) = unsafe { worker.cast::<Worker>().as_ref() } {
            // A join must not leave a fork in the fork list where a join that comes later would
            // find it.
            worker.remote.forks.request_from_self();
        }
        self.resumed_by.set(resumed_by.cast());
        self.state.set(State::Running);
        // SAFETY: this flow is the running one. It waits here until the other flow comes back to
        // it, and until then this coroutine cannot be resumed again, as its state is Running. The
        // other flow is suspended or new, its stack is there, and by contract it may run.
        unsafe { self.resumer.switch(&self.context) };
        nesting::set_innermost(resumed_by);
    }

    /// Returns whether the body was continued in order to be unwound. For the body, after a switch.
    #[inline(always)]
    pub(super) fn is_dismissed(&self) -> bool {
        self.suspension.get() == Suspension::Never
    }

    /// Unwinds the body. For the body, if [`is_dismissed`](Self::is_dismissed) is true.
    #[cold]
    #[inline(never)]
    pub(super) fn unwind_from_here(&self) -> ! {
        // `resume_unwind` does not call the panic hook: nothing has gone wrong.
        panic::resume_unwind(Box::new(Dismissed))
    }

    /// Returns whether `payload` is the one by which `unwind` has brought the body to its end.
    pub(super) fn was_unwound_by(&self, payload: &(dyn std::any::Any + Send)) -> bool {
        // The body may have caught the payload of another coroutine and thrown it again. That is a
        // panic like any other.
        self.suspension.get() != Suspension::IfNotPanicking && payload.is::<Dismissed>()
    }

    /// Panics unless the caller is the body and may leave its stack suspended.
    #[inline(always)]
    pub(super) fn assert_may_suspend(&self) -> Suspending<'_> {
        // The coroutine is not free if it is pinned, or forbidden to suspend by `dismiss` because
        // it is dropped.
        if crate::shim::panicking() || !ptr::eq(current::innermost(), self) || !self.pins.is_free()
        {
            self.refuse_to_suspend();
        }
        Suspending(self)
    }

    /// Forbids the body to suspend, for ever: it is about to be unwound.
    pub(super) fn dismiss(&self) {
        self.suspension.set(Suspension::Never);
        self.pins.forbid_suspension();
    }

    #[cold]
    #[inline(never)]
    fn refuse_to_suspend(&self) {
        if !ptr::eq(current::innermost(), self) {
            panic!(
                "Yielder::suspend was called from outside of its coroutine: only the body itself can \
                 suspend, not another coroutine or a task that runs inside it"
            );
        }
        if self.pins.is_pinned() {
            panic!(
                "Yielder::suspend was called inside a call that must return first, in the task or \
                 thread where it began: no_suspend, wait, select!, scope, join, a parallel loop, \
                 timeout, shield, ignore_cancellation, TaskLocal::scope or send_modify"
            );
        }
        match self.suspension.get() {
            Suspension::NeverAgain => fatal(
                "was dropped, has caught the unwinding and keeps suspending instead of ending",
                self,
            ),
            Suspension::Never => {
                self.suspension.set(Suspension::NeverAgain);
                panic!(
                    "Yielder::suspend was called while its coroutine is unwound because it was \
                     dropped: it can never be resumed again"
                )
            }
            Suspension::IfNotPanicking => panic!(
                "Yielder::suspend was called while its thread is panicking: a destructor must not \
                 suspend while a panic unwinds its coroutine, and a coroutine that is resumed \
                 during a panic must run to its end"
            ),
        }
    }

    /// Forgets the flow of control. Only a sanitizer keeps state about it.
    #[cfg(cygnet_tsan)]
    pub(super) fn retire(&self) {
        self.context.end();
    }
}

/// The right of a running body to suspend, for the moment.
pub(super) struct Suspending<'a>(&'a Link);

impl Suspending<'_> {
    /// Switches from the body to its resumer. Returns when the coroutine is resumed.
    #[inline(always)]
    pub(super) fn begin(self) {
        let Suspending(link) = self;
        link.state.set(State::Suspended);
        // SAFETY: the body is the innermost coroutine, so its flow is the running one, and the
        // resumer waits in `enter`.
        unsafe { link.context.switch(&link.resumer) };
    }
}

/// Aborts the process with a message: going on would free memory that is in use.
#[cold]
pub(super) fn fatal(what: &str, link: &Link) -> ! {
    let name = link.name.as_deref().unwrap_or("unnamed");
    abort_with(&format!("coroutine {} ({name}) {what}", link.id))
}
