//! The handle of a task.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::scheduler::cancel::cancel;
use crate::scheduler::life::complete::ParentLives;
use crate::scheduler::worker::release::HandleRef;
use crate::shim::time::Duration;
use crate::task::cause::{Cause, Reason};
use crate::task::record::Record;
use crate::task::reference::TaskRef;
use crate::task::words::wait::WaitKind;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::{fmt, ptr};

/// The identity of a task, unique within the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TaskId(pub(crate) u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The handle of a spawned task.
///
/// Dropping it cancels the task and all its descendants, without waiting. A task that has not
/// started never will; its captures are dropped when its turn comes. A started task learns of the
/// cancellation from its present or next wait. [`Task::detach`] gives up the handle without
/// cancelling. (Dropping the handle of a task in a [`scope`](crate::scope()) does not cancel the
/// task, as the scope waits for it in any case.)
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

    /// Has a waker told of the task's end, unless it has ended. Returns whether it has.
    pub(crate) fn tell_of_end(&self, waker: &Waker) -> bool {
        self.claim().poll(&mut Context::from_waker(waker))
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

    /// Waits for the task's end and returns its value. A panic of the task goes on in the caller.
    /// For code that passes a cancel on with `?`, and has nothing to say about a panic.
    ///
    /// Suspends and costs as [`join`](Task::join) does.
    ///
    /// ```
    /// fn sum() -> Result<u64, cygnet::Cancelled> {
    ///     let left = cygnet::spawn(|| (1..=10u64).sum::<u64>());
    ///     let right = cygnet::spawn(|| (11..=20u64).sum::<u64>());
    ///     Ok(left.value()? + right.value()?)
    /// }
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// assert_eq!(rt.block_on(sum), Ok(210));
    /// ```
    ///
    /// # Errors
    /// [`Cancelled`] if the task or the caller was cancelled, with the same rules as for `join`;
    /// with [`Reason::Abandoned`] if the task's [`Promise`](crate::Promise) was dropped, or the
    /// other runtime it was to run on ended.
    ///
    /// # Panics
    /// With the panic of the task. If the kernel refused memory for the task's stack; if a task
    /// waits for its own end. As `join` does.
    #[track_caller]
    pub fn value(self) -> Result<T, Cancelled> {
        self.join().map_err(JoinError::into_cancelled)
    }

    /// Waits for the task's end, but not longer than a time, and returns its value.
    ///
    /// If the time is up, or the calling task is cancelled, the handle keeps its claim, and the
    /// task lives on. A time of zero suspends once; a time that overflows the clock never passes.
    /// When the outcome has been returned, the handle is empty: the task is finished, to cancel it
    /// does nothing, and other calls panic.
    ///
    /// Suspends the calling task, or blocks a plain thread, unless the task has ended. Calls no
    /// child in place. Costs two locked instructions, and in a task a timer.
    ///
    /// ```
    /// use cygnet::JoinError;
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let parked = rt.block_on(|| {
    ///     let mut task = cygnet::spawn(|| cygnet::park().is_ok());
    ///     let early = task.join_timeout(Duration::from_millis(1));
    ///     assert!(matches!(early, Err(JoinError::TimedOut)));
    ///     task.cancel("enough");
    ///     task.join_timeout(Duration::from_secs(60))
    /// });
    /// assert!(!parked.unwrap());
    /// ```
    ///
    /// # Errors
    /// [`JoinError::TimedOut`]; the errors of [`join`](Task::join). A caller that is cancelled gets
    /// [`JoinError::Cancelled`] even if the task has ended: its value stays where it is.
    ///
    /// # Panics
    /// If the outcome has been taken by an earlier call. As `join` does.
    #[track_caller]
    pub fn join_timeout(&mut self, time: Duration) -> Result<T, JoinError> {
        HandleRef::join_timeout(&mut self.claim, time)
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
        if let Some(claim) = &self.claim {
            cancel(claim, Some(Cause::new(reason.into(), Some(Location::caller()))));
        }
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
        self.claim.as_ref().is_none_or(|claim| claim.join.is_done())
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
        id: this.claim.as_ref().map(|claim| claim.id()),
        name: this.claim.as_ref().and_then(|claim| claim.name()),
        finished: this.is_finished(),
    }
}
