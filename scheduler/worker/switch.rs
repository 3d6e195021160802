//! The switch from one fiber of a worker to another, and the first and last function on each.

use crate::retire::stack::Stack;
use crate::scheduler::spans;
use crate::scheduler::worker::fiber::{FiberOf, NextOf};
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::abort_with;
use crate::shim::atomic::Ordering;
use crate::task::record::Phase;
use crate::task::reference::{Ready, RunRef, TaskRef};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

/// A fiber that the worker may go on with.
pub(crate) type NextFiber = NextOf<Worker>;

/// What a fiber does.
pub(crate) trait Program {
    type Result;

    fn run(fiber: &Fiber) -> Self::Result;

    /// Gives up the fiber, and returns the one to go on with. Called as the last thing on the
    /// stack, which may be in its pool already.
    fn end(worker: &Worker, fiber: &Fiber, result: Self::Result) -> NextFiber;
}

impl NextFiber {
    /// The fiber of a task that goes on.
    #[inline(always)]
    pub(crate) fn of(task: Ready) -> NextFiber {
        NextOf(NonNull::from(Worker::fiber_of(&task)))
    }

    /// The main fiber, which goes on whenever nothing else can.
    #[inline(always)]
    pub(crate) fn main(worker: &Worker) -> NextFiber {
        NextOf(NonNull::from(worker.main()))
    }

    /// A new fiber.
    #[inline]
    pub(crate) fn new<P: Program>(worker: &Worker, stack: Stack, first: RunRef) -> NextFiber {
        // SAFETY: `enter` is called with the address of a fiber that has just begun.
        unsafe { FiberOf::create(stack, ptr::from_ref(worker), first, enter::<P>) }
    }

    /// A fresh task, which has just got this fiber, as one that is ready to go on there.
    pub(crate) fn into_ready(self, task: TaskRef<'_>) -> Ready {
        task.place.store(self.pointer().expose_provenance(), Ordering::Relaxed);
        // SAFETY: the run reference is the fiber's, which is suspended before the task's start, and
        // which the caller had in its hand alone.
        unsafe { Ready::new(task.pointer()) }
    }
}

impl Worker {
    /// Goes on with `next`, unless that is the running fiber. Returns when the running fiber is
    /// continued, maybe on another worker if its task may migrate.
    #[inline(always)]
    pub(crate) fn switch(&self, next: NextFiber) {
        let me = self.fiber();
        if !next.is(me) {
            let spans = spans::leave();
            self.fibers.running.set(next.pointer());
            // SAFETY: `me` runs; `next` is suspended, new, or the main fiber, in this worker's hand
            // alone, and lives until it has run to its end.
            unsafe { me.context.switch(&next.context) };
            spans.enter_again();
        }
    }

    /// Suspends the running task, which is ready to go on. The caller queues it, and leaves its
    /// fiber before anything can continue it.
    #[inline(always)]
    pub(in crate::scheduler) fn suspend(&self, me: TaskRef<'_>) -> Ready {
        me.place.store(self.fibers.running.get().expose_provenance(), Ordering::Relaxed);
        me.set_phase(Phase::Suspended);
        // SAFETY: the task runs here, and only this worker continues what is in its run queue.
        unsafe { Ready::new(me.pointer()) }
    }

    /// Runs a new fiber to its end, at which it goes on with its caller.
    pub(crate) fn call_on(&self, fiber: NextFiber) {
        let me = self.fiber();
        fiber.caller.set(Some(NextOf(NonNull::from(me))));
        me.calls.set(true);
        self.switch(fiber);
        me.calls.set(false);
    }
}

/// The first and last function on each fiber.
unsafe extern "C" fn enter<P: Program>(data: *mut u8, message: usize) {
    // SAFETY: `data` is the fiber that has just begun; it lives until it is left below.
    let fiber = unsafe { &*data.cast_const().cast::<Fiber>() };
    // SAFETY: this is the first call on the new fiber.
    unsafe { fiber.context.arrive(message) };
    // A task's own panic does not reach this frame. A panic that does is a bug of the scheduler,
    // and there is no frame below to unwind into.
    let Ok(result) = catch_unwind(AssertUnwindSafe(|| P::run(fiber))) else {
        abort_with("the scheduler has panicked below a task, which is a bug");
    };
    let worker = Worker::current().expect("fibers run on workers");
    let next = P::end(worker, fiber, result);
    worker.fibers.running.set(next.pointer());
    #[cfg(cygnet_tsan)]
    worker.fibers.departed.set(fiber);
    // SAFETY: nothing on this stack is used again: this function has no locals left; `next` is in
    // our hand alone.
    unsafe { fiber.context.leave(&next.context) }
}
