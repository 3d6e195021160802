//! What is the same for every coroutine, whatever values it takes and gives: its place in the chain
//! of running coroutines, and the two switches.
//!
//! # Who may touch what
//!
//! All of it belongs to one thread, so there are cells and no atomics. The two sides never run at the
//! same time: whoever stores before a switch is read by the other after it.
//!
//! | state | resumer's side | body's side |
//! | --- | --- | --- |
//! | Created, Suspended | may resume, unwind, drop | does not run |
//! | Running | waits in `enter` | runs, or waits for one that it has resumed |
//! | Finished | may drop | is gone, its stack in the pool |

use std::cell::Cell;
use std::ops::Range;
use std::panic;
use std::ptr;
use std::sync::Arc;

use super::current;
use crate::retire::chain::Node;
use crate::retire::context::Context;
use crate::scheduler::worker::Worker;
use crate::shim::abort_with;

/// Where a coroutine is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// It has a stack, and its body has not been called.
    Created,
    /// Its body runs, or waits for another coroutine that it has resumed.
    Running,
    /// Its body waits in [`Yielder::suspend`](super::Yielder::suspend).
    Suspended,
    /// Its body has returned or panicked. The stack is gone.
    Finished,
}

/// When a body may suspend.
///
/// Never while its thread is panicking, whoever panics. The standard library counts the panics of a
/// thread that are under way and tells only whether there is one: a body that is resumed by a
/// destructor during an unwinding could not be told from one that has begun a second panic of its
/// own. If that one left its stack, its panic would never end, and the thread would count as
/// panicking for ever.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspension {
    IfNotPanicking,
    /// The coroutine is being unwound because it was dropped.
    Never,
    /// The same, and the body has tried to suspend once.
    NeverAgain,
}

/// What unwinds a coroutine that is dropped before its end. Nobody else can make one.
struct Dismissed;

/// See the module's documentation.
///
/// The node comes first: a pointer to it is a pointer to the whole.
#[repr(C)]
pub(super) struct Link {
    node: Node,
    context: Context,
    /// Where the resumer waits; valid while running. Here and not in the resumer's frame: each load that
    /// leads to the other side's stack pointer delays the switch.
    resumer: Context,
    /// The next one in the chain; valid while running.
    pub(super) resumed_by: Cell<*const Link>,
    state: Cell<State>,
    suspension: Cell<Suspension>,
    /// It certainly ends before anything that it borrows, a thread-local value for instance.
    pub(super) scoped: bool,
    pub(super) id: u64,
    pub(super) name: Option<Arc<str>>,
    /// The size of its stack as the user knows it, and the guard below.
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
            node: Node::new(),
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
    pub(super) fn state(&self) -> State {
        self.state.get()
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    #[inline(always)]
    pub(super) fn may_be_resumed(&self) -> bool {
        (self.state() == State::Suspended && self.may_go_on()) || self.may_be_started()
    }

    // Apart, so that the usual case is a comparison and not a table of jumps.
    #[cold]
    #[inline(never)]
    fn may_be_started(&self) -> bool {
        self.state() == State::Created
    }

    /// Whether it may go on: not if it may be in the middle of using a thread-local value that has
    /// been destroyed.
    #[inline(always)]
    pub(super) fn may_go_on(&self) -> bool {
        !current::thread_is_ending() || self.scoped
    }

    /// Runs the body until it suspends or ends.
    ///
    /// # Safety
    /// The state is Created or Suspended, and the code on the other side may go on: what it borrows
    /// is there. `self` stays where it is until this returns.
    #[inline(always)]
    pub(super) unsafe fn enter(&self) {
        self.resumer.renew();
        let (worker, resumed_by) = current::enter(self);
        // SAFETY: as in `Worker::current`.
        if let Some(worker) = unsafe { worker.cast::<Worker>().as_ref() } {
            // A join must not leave a fork where one that comes later would find it.
            worker.remote.forks.demand_attention();
        }
        self.resumed_by.set(resumed_by);
        self.state.set(State::Running);
        // SAFETY: this flow is the running one and waits here until the other comes back to it, and until
        // then nobody else resumes this coroutine; the other is suspended or new, its stack is there, and
        // by contract it may run.
        unsafe { self.resumer.switch(&self.context) };
        current::set_innermost(resumed_by);
    }

    /// Leaves the body for its resumer; comes back when it is resumed.
    ///
    /// # Safety
    /// The caller is the body, and [`Link::assert_may_suspend`] has returned.
    #[inline(always)]
    pub(super) unsafe fn suspend(&self) {
        self.state.set(State::Suspended);
        // SAFETY: the body is the innermost coroutine, so it is its flow that runs, and the resumer
        // waits in `go_on`.
        unsafe { self.context.switch(&self.resumer) };
    }

    /// To be called first thing on the coroutine's own stack.
    ///
    /// # Safety
    /// This flow has just begun, with that message.
    pub(super) unsafe fn begin(&self, message: usize) {
        // SAFETY: passed on.
        unsafe { self.context.arrive(message) };
    }

    /// Leaves the coroutine for good.
    ///
    /// # Safety
    /// The caller is the root of the coroutine; nothing on its stack is needed any more.
    pub(super) unsafe fn end(&self) -> ! {
        self.state.set(State::Finished);
        // SAFETY: as in `suspend`. The stack and this object are freed by the resumer.
        unsafe { self.context.leave(&self.resumer) }
    }

    /// Runs the destructors on the stack, innermost first, by unwinding it.
    ///
    /// # Safety
    /// As for `enter`; the state is Suspended.
    pub(super) unsafe fn unwind(&self) {
        self.dismiss();
        // SAFETY: the caller's contract is that of `enter`.
        unsafe { self.enter() };
        if self.state.get() != State::Finished {
            fatal("came back from its unwinding without having ended", self);
        }
    }

    /// In the body, after it has been continued: whether without an input, to be unwound.
    #[inline(always)]
    pub(super) fn is_dismissed(&self) -> bool {
        self.suspension.get() == Suspension::Never
    }

    /// In the body, if so.
    #[cold]
    #[inline(never)]
    pub(super) fn unwind_from_here(&self) -> ! {
        // No panic hook runs: nothing has gone wrong.
        panic::resume_unwind(Box::new(Dismissed))
    }

    /// Whether the payload is what `unwind` has brought the body to its end with.
    pub(super) fn was_unwound_by(&self, payload: &(dyn std::any::Any + Send)) -> bool {
        // A payload of another coroutine may have been caught and thrown again here: that one is a
        // panic like any other.
        self.suspension.get() != Suspension::IfNotPanicking && payload.is::<Dismissed>()
    }

    /// Panics unless the caller is the body and may leave its stack suspended.
    #[inline(always)]
    pub(super) fn assert_may_suspend(&self) {
        // The node is not free while it is pinned, or if the coroutine is dropped: `dismiss`.
        if crate::shim::panicking() || !ptr::eq(current::innermost(), self) || !self.node.is_free()
        {
            self.refuse_to_suspend();
        }
    }

    /// Keeps the body from suspending for good.
    fn dismiss(&self) {
        self.suspension.set(Suspension::Never);
        self.node.guard();
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
        if self.node.is_pinned() {
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
                     dropped: nobody will resume it"
                )
            }
            Suspension::IfNotPanicking => panic!(
                "Yielder::suspend was called while its thread is panicking: a destructor must not \
                 suspend while a panic unwinds its coroutine, and a coroutine that is resumed \
                 during a panic must run to its end"
            ),
        }
    }

    /// Forgets the flow of control. Only a sanitizer keeps anything of it.
    #[cfg(cygnet_tsan)]
    pub(super) fn retire(&self) {
        self.context.end();
    }
}

/// Ends the process with a sentence: going on would free memory that is in use.
#[cold]
pub(super) fn fatal(what: &str, link: &Link) -> ! {
    let name = link.name().unwrap_or("unnamed");
    abort_with(&format!("coroutine {} ({name}) {what}", link.id))
}
