//! The handle of a task.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::scheduler::cancel::cancel;
use crate::scheduler::life::complete::{
    drop_outcome_by_handle, drop_outcome_early, finish, release_parent, release_run,
};
use crate::scheduler::run_loop::call::call_child;
use crate::scheduler::wait::no_suspend::{assert_may_wait, is_forbidden};
use crate::scheduler::wait::park::await_end_anywhere;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::{free_bare, release};
use crate::shim::atomic::Ordering;
use crate::task::cause::{Cause, Reason};
use crate::task::record::{JoinedAtHome, Record};
use crate::task::words::join::Waiter;
use crate::task::words::tree::Node;
use crate::task::words::wait::WaitKind;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

/// The identity of a task, unique within the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TaskId(pub(crate) u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One reference to a task's record, and the right to take its outcome. Every kind of handle is
/// built on one.
pub(crate) struct Claim<T> {
    record: NonNull<Record>,
    outcome: PhantomData<T>,
}

// SAFETY: records are shared by design. The outcome may move to another thread through the claim,
// which `T: Send` allows.
unsafe impl<T: Send> Send for Claim<T> {}
// SAFETY: a shared claim gives no access to a `T`.
unsafe impl<T: Send> Sync for Claim<T> {}

impl<T> Claim<T> {
    /// # Safety
    /// The caller passes on the handle's reference, and `T` is the type of the task's outcome.
    pub(crate) unsafe fn new(record: NonNull<Record>) -> Claim<T> {
        Claim { record, outcome: PhantomData }
    }

    pub(crate) fn record(&self) -> &Record {
        // SAFETY: the claim holds a reference to the record.
        unsafe { self.record.as_ref() }
    }

    pub(crate) fn pointer(&self) -> NonNull<Record> {
        self.record
    }

    /// Waits for the end of the task and takes its outcome. `in_scope` says that the task's parent
    /// is a scope that outlives the handle.
    #[inline(always)]
    // A deadlock report names the place of the call, so all callers have the same attribute.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn join(self, kind: WaitKind, in_scope: bool) -> Result<T, JoinError> {
        // Between tasks a worker has no current node, and no record has a null parent.
        let Some(worker) = Worker::current() else { return self.await_and_take(kind, in_scope) };
        if !worker.claim_in_place(self.record, kind) {
            return self.join_elsewhere(worker, kind, in_scope);
        }
        call_child(worker, self.record, kind);
        let record = self.record();
        let ended = record.node.close();
        if !(ended && record.is_last(2) && record.join.is_empty() && record.cold().is_none()) {
            return self.end_shared(kind, ended, in_scope);
        }
        // The run reference and the handle's are the only ones, and no earlier poll has left a
        // waker. Nothing will read the record again, so the end of the task is not recorded in it.
        uncount(worker, record.node.parent);
        let record = ManuallyDrop::new(self).record;
        // SAFETY: the call above stored the outcome, and the handle was the only claim to it.
        let outcome = unsafe { Record::take_outcome(record) };
        // The parts are moved one at a time, as `take_outcome` returns them.
        match outcome {
            Ok(value) => {
                // SAFETY: the two references were the last ones, and `cold()` was `None`.
                unsafe { free_bare(worker, record) };
                Ok(value)
            }
            Err(failure) => {
                // SAFETY: the two references were the last ones, and `cold()` was `None`.
                unsafe { free_bare(worker, record) };
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
        in_scope: bool,
    ) -> Result<T, JoinError> {
        if kind != WaitKind::Structured && worker.task().is_some() && worker.is_interrupted() {
            return self.refuse(in_scope);
        }
        if self.record().join.is_done() {
            // A loop that joins only finished tasks neither calls nor spawns, so others get their
            // turn here.
            worker.let_others_between_joins();
            // SAFETY: the task has ended, and the claim to its outcome is ours.
            return unsafe { self.take() };
        }
        match worker.start_and_await(self.record, kind) {
            None => self.await_and_take(kind, in_scope),
            Some(Err(_)) => self.cut_short(),
            Some(Ok(())) if self.record().at_home.get() == JoinedAtHome::Ended => {
                // SAFETY: the task ended on this worker and left its run reference to the joiner.
                unsafe { self.take_all(worker) }
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
    fn end_shared(self, kind: WaitKind, ended: bool, in_scope: bool) -> Result<T, JoinError> {
        let record = self.record();
        if !ended {
            // The last of the child's own children completes it.
            record.stored.set(true);
            return self.await_and_take(kind, in_scope);
        }
        finish(record);
        record.join.finish_unshared();
        // Dropping an earlier poll's waker may have run a destructor that waits, and a migratable
        // joiner may have changed workers there.
        let worker = Worker::current().expect("tasks run on workers");
        uncount(worker, record.node.parent);
        // SAFETY: the task has just ended on this worker, and claiming it in place took over its
        // run reference.
        unsafe { self.take_all(worker) }
    }

    /// Takes the outcome of a task that has ended on this worker, and releases its run reference
    /// together with the handle's.
    ///
    /// # Safety
    /// The task has ended on this worker, and its run reference belongs to the caller.
    unsafe fn take_all(self, worker: &Worker) -> Result<T, JoinError> {
        let record = ManuallyDrop::new(self).record;
        // SAFETY: the task has ended, and the claim was the only one.
        let outcome = unsafe { take_outcome(record) };
        let retired = worker.retired().as_ptr().expose_provenance();
        // SAFETY: the two references keep the record alive.
        unsafe { record.as_ref() }.place.store(retired, Ordering::Relaxed);
        // SAFETY: the run reference and the handle's belong to us, and `place` is this worker's
        // queue.
        unsafe { release_run(worker, record, 2) };
        outcome
    }

    /// Joins for a caller that must not wait, or was cancelled before the join began: cancels the
    /// task, or drops the outcome if the task has ended.
    #[cold]
    #[inline(never)]
    fn refuse(self, in_scope: bool) -> Result<T, JoinError> {
        if is_running_task(self.record) {
            self.let_go(in_scope);
            return Err(JoinError::OwnEnd);
        }
        let ended = self.record().join.is_done();
        if !ended {
            cancel(self.record(), Cancelled::passed_on());
        }
        self.let_go(in_scope);
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
        let ended = self.record().join.is_done();
        if !ended {
            cancel(self.record(), Cancelled::passed_on());
        }
        let Some(claim) = self.detach() else {
            return Err(JoinError::Cancelled(Cancelled::here()));
        };
        if claim.record().outcome_dropped.load(Ordering::Relaxed) {
            // A local task: `detach` dropped its outcome here, and its last child has ended since.
            claim.let_go(false);
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
    fn await_and_take(self, kind: WaitKind, in_scope: bool) -> Result<T, JoinError> {
        let may_be_refused = kind != WaitKind::Structured && !self.record().join.is_done();
        if is_running_task(self.record) || may_be_refused && is_refused() {
            return self.refuse(in_scope);
        }
        match await_end_anywhere(&self.record().join, kind) {
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
            !self.record().outcome_dropped.load(Ordering::Relaxed),
            "an outcome is taken after its drop"
        );
        let record = ManuallyDrop::new(self).record;
        // SAFETY: the task has ended, and the claim was the only one.
        let outcome = unsafe { take_outcome(record) };
        // SAFETY: the handle's reference is ours, and nothing uses it after this.
        unsafe { release(record, 1) };
        outcome
    }

    /// Gives up the outcome without cancelling the task. If the task has ended, the outcome is
    /// dropped here.
    pub(crate) fn let_go(self, in_scope: bool) {
        let Some(ended) = self.detach() else { return };
        let record = ManuallyDrop::new(ended).record;
        // SAFETY: the task has ended, and the claim was the only one.
        unsafe { drop_outcome_by_handle(record, in_scope) };
        // SAFETY: the handle's reference is ours, and nothing uses it after this.
        unsafe { release(record, 1) };
    }

    /// Leaves the outcome to be dropped at the end of the task, or returns the claim if the task
    /// has ended. A local task that is only waiting for its children has its outcome dropped here,
    /// so a returned claim may be without one (`outcome_dropped`).
    fn detach(self) -> Option<Claim<T>> {
        let task = self.record();
        if task.traits.local && task.stored.get() && !task.join.is_done() {
            // Only children are left, and the last of them may end on another worker. The outcome
            // need not be `Send`, so it is dropped here, on the task's home worker, before the
            // claim is given up.
            // SAFETY: the outcome is stored, only the handle may touch it before the word is
            // DETACHED, and the task had not ended.
            unsafe { drop_outcome_early(self.record) };
        }
        if !task.join.detach() {
            return Some(self);
        }
        let record = ManuallyDrop::new(self).record;
        // SAFETY: the handle's reference is ours, and nothing uses it after this.
        unsafe { release(record, 1) };
        None
    }

    /// Cancels the task and gives up its outcome.
    pub(crate) fn abandon(self) {
        if !self.record().join.is_done() {
            cancel(self.record(), None);
        }
        self.let_go(false);
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> bool {
        let join = &self.record().join;
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
    claim: Option<Claim<T>>,
}

impl<T> Task<T> {
    pub(crate) fn new(claim: Claim<T>) -> Task<T> {
        Task { claim: Some(claim) }
    }

    /// Takes the claim out without running the handle's destructor.
    #[inline]
    fn into_claim(self) -> Claim<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the claim is read once, from a handle that is neither dropped nor used again.
        let claim = unsafe { ptr::read(&this.claim) };
        claim.expect("present until the task is joined, detached or dropped")
    }

    fn claim(&self) -> &Claim<T> {
        self.claim.as_ref().expect("present until the task is joined, detached or dropped")
    }

    pub(crate) fn record(&self) -> &Record {
        self.claim().record()
    }

    /// Joins by a structured wait, which is never cut short.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn await_end(self) -> Result<T, JoinError> {
        let claim = self.into_claim();
        claim.join(WaitKind::Structured, false)
    }

    pub(crate) fn pointer(&self) -> NonNull<Record> {
        self.claim().pointer()
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
    /// [`JoinError::NoStack`] if no stack was left to start the task on, and none could ever become
    /// free; [`JoinError::OwnEnd`] if a task joins itself.
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
        self.into_claim().join(WaitKind::Grant, false)
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
        CancelHandle::of_task(self.pointer())
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
            claim.let_go(false);
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
impl<T> UnwindSafe for Task<T> {}
impl<T> RefUnwindSafe for Task<T> {}

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

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.record().id())
            .field("name", &self.name())
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// Moves the outcome out of a record.
///
/// # Safety
/// The contract of [`Record::take_outcome`].
#[inline(always)]
unsafe fn take_outcome<T>(record: NonNull<Record>) -> Result<T, JoinError> {
    // SAFETY: the caller keeps the contract of `Record::take_outcome`, by this function's own.
    match unsafe { Record::take_outcome::<T>(record) } {
        Ok(value) => Ok(value),
        Err(failure) => Err(JoinError::from(failure)),
    }
}

/// Uncounts a child that its parent called in place; the parent runs on this worker.
#[inline(always)]
fn uncount(worker: &Worker, parent: *const Node) {
    let left = release_parent(worker.number(), parent);
    debug_assert!(left.is_none(), "uncounting a child ended its running parent");
}

/// Returns whether the caller must not wait: it is on a worker's thread between tasks, or inside
/// `no_suspend`. A wait there panics, or fails if the thread is unwinding.
pub(crate) fn is_refused() -> bool {
    Worker::current().is_some_and(|worker| worker.task().is_none() || is_forbidden())
}

/// Returns whether `record` is the calling task.
pub(crate) fn is_running_task(record: NonNull<Record>) -> bool {
    Worker::current().and_then(Worker::task) == Some(record)
}

/// Returns whether two references are to the same record.
pub(crate) fn same(a: &Record, b: NonNull<Record>) -> bool {
    ptr::eq(a, b.as_ptr())
}
