//! The handle of a task.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::scheduler::cancel::cancel;
use crate::scheduler::life::complete::{
    Orphan, ParentLives, finish, release_both, uncount_in_parent,
};
use crate::scheduler::run_loop::call::call_child;
use crate::scheduler::wait::no_suspend::{assert_may_wait, is_forbidden};
use crate::scheduler::wait::park::await_end_anywhere;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::HandleRef;
use crate::shim::atomic::Ordering;
use crate::task::cause::{Cause, Reason};
use crate::task::record::{JoinedAtHome, Record};
use crate::task::reference::{RunRef, TaskRef};
use crate::task::words::join::Waiter;
use crate::task::words::wait::WaitKind;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, ptr};

/// The identity of a task, unique within the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TaskId(pub(crate) u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> HandleRef<T> {
    /// Waits for the end of the task and takes its outcome.
    #[inline(always)]
    // A deadlock report names the place of the call, so all callers have the same attribute.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn join(self, kind: WaitKind, parent: ParentLives) -> Result<T, JoinError> {
        // Between tasks a worker has no current node, and no record has a null parent.
        let Some(worker) = Worker::current() else { return self.await_and_take(kind, parent) };
        let Some(run) = worker.claim_in_place(self.task(), kind) else {
            return self.join_elsewhere(worker, kind, parent);
        };
        call_child(worker, &run, kind);
        let ended = run.node.close();
        if !(ended && run.is_last(2) && run.join.is_empty() && run.cold().is_none()) {
            return self.end_shared(run, kind, ended, parent);
        }
        // The run reference and the handle's are the only ones, and no earlier poll has left a
        // waker. Nothing will read the record again, so the end of the task is not recorded in it.
        uncount_in_parent(worker, &run);
        // SAFETY: the call above stored the outcome, and the handle has the only claim to it.
        let outcome = unsafe { self.read_outcome() };
        // The parts are moved one at a time, as `read_outcome` returns them.
        match outcome {
            Ok(value) => {
                // SAFETY: the two references were the last ones, and `cold()` was `None`.
                unsafe { self.free_bare(worker, run) };
                Ok(value)
            }
            Err(failure) => {
                // SAFETY: the two references were the last ones, and `cold()` was `None`.
                unsafe { self.free_bare(worker, run) };
                Err(JoinError::from(failure))
            }
        }
    }

    /// Waits for a task that cannot be called in place.
    #[inline(never)]
    #[cfg_attr(feature = "sim", track_caller)]
    fn join_elsewhere(
        self,
        worker: &Worker,
        kind: WaitKind,
        parent: ParentLives,
    ) -> Result<T, JoinError> {
        if kind != WaitKind::Structured && worker.task().is_some() && worker.is_interrupted() {
            let ended = self.join.is_done();
            return self.refuse(ended, parent);
        }
        if self.join.is_done() {
            // A loop that joins only finished tasks neither calls nor spawns, so others get their
            // turn here.
            worker.let_others_between_joins();
            // SAFETY: the task has ended, and the claim to its outcome is ours.
            return unsafe { self.take() };
        }
        match worker.start_and_await(self.task(), kind) {
            None => self.await_and_take(kind, parent),
            Some(Err(_)) => self.cut_short(),
            Some(Ok(())) if self.at_home.get() == JoinedAtHome::Ended => {
                // SAFETY: the task ended on this worker and left its run reference to the joiner.
                let run = unsafe { RunRef::new(self.task().pointer()) };
                self.take_all(worker, run)
            }
            // SAFETY: the task has ended, and the claim to its outcome is ours.
            Some(Ok(())) => unsafe { self.take() },
        }
    }

    /// Finishes the join of a child that was called in place, if the child has unfinished children
    /// or its record is referenced elsewhere.
    #[cold]
    #[inline(never)]
    #[cfg_attr(feature = "sim", track_caller)]
    fn end_shared(
        self,
        run: RunRef,
        kind: WaitKind,
        ended: bool,
        parent: ParentLives,
    ) -> Result<T, JoinError> {
        if !ended {
            // The last of the child's own children completes it, and has its run reference.
            run.stored.set(true);
            let _ = run.into_pointer();
            return self.await_and_take(kind, parent);
        }
        finish(&run);
        run.join.finish_unshared();
        // Dropping an earlier poll's waker may have run a destructor that waits, and a migratable
        // joiner may have changed workers there.
        let worker = Worker::current().expect("tasks run on workers");
        uncount_in_parent(worker, &run);
        self.take_all(worker, run)
    }

    /// Takes the outcome of a task that has ended on this worker, and releases its run reference
    /// together with the handle's.
    fn take_all(self, worker: &Worker, run: RunRef) -> Result<T, JoinError> {
        // SAFETY: the task has ended, and the handle has the only claim to its outcome.
        let outcome = unsafe { self.outcome() };
        release_both(worker, run, self);
        outcome
    }

    /// Joins for a caller that must not wait, or was cancelled before the join began: cancels the
    /// task, or drops the outcome if the task has ended. `ended` says whether it had when the
    /// caller looked.
    #[cold]
    #[inline(never)]
    fn refuse(self, ended: bool, parent: ParentLives) -> Result<T, JoinError> {
        if is_running_task(self.task()) {
            self.let_go(parent);
            return Err(JoinError::OwnEnd);
        }
        if !ended {
            cancel(&self, Cancelled::passed_on());
        }
        self.let_go(parent);
        if !ended {
            // Panics inside `no_suspend`, with a message that says so.
            let _ = assert_may_wait();
        }
        if let Some(worker) = Worker::current()
            && let Some(task) = worker.task()
        {
            worker.give_way(task);
        }
        Err(JoinError::Cancelled(Cancelled::here()))
    }

    /// Finishes a wait that was cut short. If the task has ended by now, the caller still gets its
    /// outcome, as it would from a child that was called in place while the caller was cancelled.
    /// Otherwise the task is cancelled.
    #[cold]
    #[inline(never)]
    fn cut_short(self) -> Result<T, JoinError> {
        let ended = self.join.is_done();
        if !ended {
            cancel(&self, Cancelled::passed_on());
        }
        let Some(claim) = self.detach() else {
            return Err(JoinError::Cancelled(Cancelled::here()));
        };
        if claim.outcome_dropped.load(Ordering::Relaxed) {
            // A local task: `detach` dropped its outcome here, and its last child has ended since.
            claim.let_go(ParentLives::UNKNOWN);
            return Err(JoinError::Cancelled(Cancelled::here()));
        }
        // SAFETY: `detach` returns the claim only if the join word is done, and `outcome_dropped`
        // is false, so the outcome is there.
        match unsafe { claim.take() } {
            // The cancel above ended the task, so the caller's own cancellation is reported.
            Err(JoinError::NotStarted(_) | JoinError::Unwound(_)) if !ended => {
                Err(JoinError::Cancelled(Cancelled::here()))
            }
            outcome => outcome,
        }
    }

    #[inline(never)]
    #[cfg_attr(feature = "sim", track_caller)]
    fn await_and_take(self, kind: WaitKind, parent: ParentLives) -> Result<T, JoinError> {
        let ended = self.join.is_done();
        if is_running_task(self.task()) || !ended && is_refused(kind) {
            return self.refuse(ended, parent);
        }
        match await_end_anywhere(&self.join, kind) {
            // SAFETY: the task has ended, and the claim to its outcome is ours.
            Ok(()) => unsafe { self.take() },
            Err(_) => self.cut_short(),
        }
    }

    /// Takes the outcome of a task that has ended.
    ///
    /// # Safety
    /// The join word is done, and the outcome has not been dropped.
    unsafe fn take(self) -> Result<T, JoinError> {
        debug_assert!(
            !self.outcome_dropped.load(Ordering::Relaxed),
            "an outcome is taken after its drop"
        );
        // SAFETY: the task has ended, and the handle has the only claim to its outcome.
        unsafe { self.outcome() }
    }

    /// Moves the outcome out, as the result of a join.
    ///
    /// # Safety
    /// As for [`read_outcome`](HandleRef::read_outcome).
    unsafe fn outcome(&self) -> Result<T, JoinError> {
        // The parts are moved one at a time, as `read_outcome` returns them.
        // SAFETY: the contract is that of this function.
        match unsafe { self.read_outcome() } {
            Ok(value) => Ok(value),
            Err(failure) => Err(JoinError::from(failure)),
        }
    }

    /// Gives up the outcome without cancelling the task. If the task has ended, the outcome is
    /// dropped here.
    pub(crate) fn let_go(self, parent: ParentLives) {
        if let Some(ended) = self.detach() {
            // SAFETY: the task has ended, and the handle has the only claim to its outcome.
            unsafe { Orphan::new(ended.task()) }.drop_by_handle(parent.of(&ended));
        }
    }

    /// Leaves the outcome to be dropped at the end of the task, or returns the claim if the task
    /// has ended. A local task that is only waiting for its children has its outcome dropped here,
    /// so a returned claim may be without one (`outcome_dropped`).
    fn detach(self) -> Option<HandleRef<T>> {
        let task = self.task();
        if task.traits.local && task.stored.get() && !task.join.is_done() {
            // Only children are left, and the last of them may end on another worker. The outcome
            // need not be `Send`, so it is dropped here, on the task's home worker, before the
            // claim is given up.
            // SAFETY: the outcome is stored, only the handle may touch it before the word is
            // DETACHED, and the task had not ended.
            unsafe { Orphan::new(task) }.drop_early();
        }
        let ended = !task.join.detach();
        ended.then_some(self)
    }

    /// Cancels the task and gives up its outcome.
    pub(crate) fn abandon(self) {
        if !self.join.is_done() {
            cancel(&self, None);
        }
        self.let_go(ParentLives::UNKNOWN);
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> bool {
        let join = &self.join;
        join.is_done() || join.register(Waiter::Waker(Box::new(cx.waker().clone()))).is_err()
    }
}

/// The handle of a spawned task.
///
/// Dropping it cancels the task and all its descendants, without waiting. A task that has not
/// started never will; its captures are dropped when its turn comes. A started task learns of the
/// cancellation from its present or next wait. [`Task::detach`] gives up the handle without
/// cancelling.
///
/// A `Task` is also a future with the outcome of [`Task::join`], for use in any executor; inside a
/// task, call `join`. Forgetting a handle (`mem::forget`) leaks the record and the result, and the
/// task goes on.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let sum = rt.block_on(|| {
///     let a = cygnet::spawn(|| (1..=10u64).sum::<u64>());
///     let b = cygnet::spawn(|| (11..=20u64).sum::<u64>());
///     a.join().unwrap() + b.join().unwrap()
/// });
/// assert_eq!(sum, 210);
/// ```
///
/// A `Task<T>` is `Send` only if `T` is, because the result moves with the handle:
///
/// ```compile_fail,E0277
/// fn elsewhere(task: cygnet::Task<std::rc::Rc<u8>>) {
///     std::thread::spawn(move || task.is_finished());
/// }
/// ```
#[must_use = "dropping a Task cancels it; call join or detach"]
pub struct Task<T> {
    claim: Option<HandleRef<T>>,
}

impl<T> Task<T> {
    pub(crate) fn new(claim: HandleRef<T>) -> Task<T> {
        Task { claim: Some(claim) }
    }

    /// Takes the claim out without running the handle's destructor.
    #[inline]
    pub(crate) fn into_claim(self) -> HandleRef<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the claim is read once, from a handle that is neither dropped nor used again.
        let claim = unsafe { ptr::read(&this.claim) };
        claim.expect("present until the task is joined, detached or dropped")
    }

    fn claim(&self) -> &HandleRef<T> {
        self.claim.as_ref().expect("present until the task is joined, detached or dropped")
    }

    pub(crate) fn record(&self) -> &Record {
        self.claim()
    }

    /// Joins by a structured wait, which is never cut short.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn await_end(self) -> Result<T, JoinError> {
        let claim = self.into_claim();
        claim.join(WaitKind::Structured, ParentLives::UNKNOWN)
    }

    pub(crate) fn task(&self) -> TaskRef<'_> {
        self.claim().task()
    }

    /// Waits for the task's end and returns its value.
    ///
    /// Suspends the calling task, or blocks a plain thread, unless the task has ended. A child that
    /// has not started is called in place if more than half of the stack is left and tasks of its
    /// kind need not be spread over the workers.
    ///
    /// Spawn and join together cost no locked instruction for a child that is called in place, two
    /// if the child needs its own stack, and five if it had been started before (the architecture
    /// document lists them).
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with the payload if the closure panicked; [`JoinError::NotStarted`]
    /// if the task was cancelled, or the runtime ended, before the start; [`JoinError::Unwound`] if
    /// it left its closure by [`Cancelled::unwind`]; [`JoinError::Abandoned`] if its
    /// [`Promise`](crate::Promise) was dropped, or the other runtime it was to run on ended;
    /// [`JoinError::NoStack`] if the kernel refused memory for the task's stack;
    /// [`JoinError::OwnEnd`] if a task joins itself.
    ///
    /// [`JoinError::Cancelled`] if the *calling* task is cancelled before the call, its runtime
    /// ends, or its thread is unwinding. The handle is then dropped, so the joined task is
    /// cancelled, or its value is dropped if it has ended. If the calling task is cancelled during
    /// the call, the joined task decides: if it has ended when `join` returns, the caller gets its
    /// value or its error; otherwise it is cancelled.
    ///
    /// A task that joins a task which waits for it (its parent, for example) waits until one of the
    /// two is cancelled.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), unless the task has ended; nothing is called in
    /// place there. On a worker's thread between tasks (in a thread hook, a waker, or the
    /// destructor of a result that no handle takes), where waiting is not possible.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let sum = cygnet::spawn(|| 1 + 1);
    /// let failed = cygnet::spawn(|| -> u8 { panic!("no luck") });
    /// assert_eq!(sum.join().unwrap(), 2);
    /// assert_eq!(failed.join().unwrap_err().to_string(), "the task panicked: no luck");
    /// # });
    /// ```
    #[cfg_attr(feature = "sim", track_caller)]
    pub fn join(self) -> Result<T, JoinError> {
        self.into_claim().join(WaitKind::Grant, ParentLives::UNKNOWN)
    }

    /// Cancels the task and all its descendants. May be called from any thread. Descendants that
    /// have not started never will, and each of the others learns of it from its present or next
    /// wait. The handle keeps its claim to the result. Has no effect on a task that has ended or is
    /// already cancelled.
    ///
    /// Does not suspend, and resumes no task in place. Costs an allocation and some tens of
    /// nanoseconds for each descendant that waits or has waited.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let task = rt.spawn(|| cygnet::park().map_err(|cancelled| cancelled.reason().to_string()));
    /// # while rt.metrics().workers.iter().all(|worker| worker.parks == 0) {}
    /// task.cancel("it takes too long");
    /// assert_eq!(task.join().unwrap(), Err("it takes too long".to_string()));
    /// ```
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        cancel(self.record(), Some(Cause::new(reason.into(), Some(Location::caller()))));
    }

    /// Returns a handle that can only cancel the task. See [`CancelHandle`]. Does not suspend.
    /// Costs a locked instruction.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::of_task(self.task())
    }

    /// Returns whether the task and all its children have ended. Does not suspend. Costs a load.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let task = rt.spawn(|| 7);
    /// while !task.is_finished() {
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(task.join().unwrap(), 7);
    /// ```
    pub fn is_finished(&self) -> bool {
        self.record().join.is_done()
    }

    /// Gives up the handle without cancelling the task. The task's parent still ends after it. The
    /// result is dropped on the worker where the task ends, and a panic is reported to
    /// [`Builder::on_panic`](crate::Builder::on_panic).
    ///
    /// Does not suspend. Costs one or two locked instructions.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// static DONE: AtomicBool = AtomicBool::new(false);
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// rt.block_on(|| cygnet::spawn(|| DONE.store(true, Ordering::Release)).detach());
    /// assert!(DONE.load(Ordering::Acquire)); // block_on waited for it
    /// ```
    pub fn detach(mut self) {
        if let Some(claim) = self.claim.take() {
            claim.let_go(ParentLives::UNKNOWN);
        }
    }

    /// The task's identity, which [`current_id`](crate::current_id) returns inside the task. Does
    /// not suspend. Costs a load.
    pub fn id(&self) -> TaskId {
        TaskId(self.record().id())
    }

    /// The name given by [`TaskBuilder::name`](crate::TaskBuilder::name), if any. Does not suspend.
    /// Costs two loads.
    pub fn name(&self) -> Option<&str> {
        self.record().name()
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            claim.abandon();
        }
    }
}

// As for std's `JoinHandle`: a handle shows nothing of the task before the task has ended.
unwind_safe! { impl<T> Task<T> }

impl<T> Unpin for Task<T> {}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let done = self.claim.as_ref().expect("cygnet: a Task was polled after its end").poll(cx);
        if !done {
            return Poll::Pending;
        }
        let claim = self.claim.take().expect("checked above");
        // SAFETY: `poll` found the join word done, and nothing has dropped the outcome of a task
        // whose handle still has its claim.
        Poll::Ready(unsafe { claim.take() })
    }
}

debug! {
    impl<T> Task<T> as this {
        id: this.record().id(),
        name: this.name(),
        finished: this.is_finished(),
    }
}

/// Returns whether the caller must not wait: it is on a worker's thread between tasks, or inside
/// `no_suspend`. A wait there panics, or fails if the thread is unwinding. But a structured wait
/// between tasks or while the thread is unwinding blocks the worker.
fn is_refused(kind: WaitKind) -> bool {
    Worker::current().is_some_and(|worker| {
        if kind == WaitKind::Structured {
            worker.task().is_some() && is_forbidden() && !crate::shim::panicking()
        } else {
            worker.task().is_none() || is_forbidden()
        }
    })
}

/// Returns whether `record` is the calling task.
pub(crate) fn is_running_task(task: TaskRef<'_>) -> bool {
    Worker::current().and_then(Worker::task) == Some(task)
}
