//! The handle of a task in a scope.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::task::TaskId;
use crate::scheduler::cancel::cancel;
use crate::scheduler::life::complete::ParentLives;
use crate::scheduler::worker::release::HandleRef;
use crate::shim::time::Duration;
use crate::task::cause::{Cause, Reason};
use crate::task::words::wait::WaitKind;
use std::marker::PhantomData;
use std::panic::Location;

/// The handle of a task in a scope. Dropping it does nothing, unlike that of a
/// [`Task`](crate::Task), which cancels: the scope waits for the task in any case, and a panic of
/// the task surfaces from [`scope`](crate::scope()). See [`Scope::spawn`](crate::Scope::spawn) for
/// an example.
pub struct ScopedTask<'scope, T> {
    claim: Option<HandleRef<T>>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedTask<'_, T> {
    /// Makes the handle of a child of the scope. Everything that `T` borrows must outlive `'scope`.
    pub(crate) fn new(claim: HandleRef<T>) -> Self {
        ScopedTask { claim: Some(claim), scope: PhantomData }
    }

    fn parent() -> ParentLives {
        // SAFETY: the parent is a scope, as `new` was told, and is there as long as `'scope` lasts.
        unsafe { ParentLives::in_scope() }
    }

    /// Waits for the task's end and returns its value. Suspends and costs as
    /// [`Task::join`](crate::Task::join) does.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let name = String::from("cygnet");
    /// let length = cygnet::scope(|s| s.spawn(|| name.len()).join());
    /// assert_eq!(length.unwrap(), 6);
    /// # });
    /// ```
    ///
    /// # Errors
    /// The errors of [`Task::join`](crate::Task::join), with the same rule for a calling task that
    /// is cancelled. The scope still waits for a task that its join has cancelled.
    ///
    /// # Panics
    /// As [`Task::join`](crate::Task::join) does.
    #[cfg_attr(feature = "sim", track_caller)]
    pub fn join(mut self) -> Result<T, JoinError> {
        let claim = self.claim.take().expect("present until the task is joined");
        claim.join(WaitKind::Grant, Self::parent())
    }

    /// Waits for the task's end and returns its value. A panic of the task goes on in the caller.
    /// See [`Task::value`](crate::Task::value), also for the errors, the panics and the cost.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let name = String::from("cygnet");
    /// let length = cygnet::scope(|s| s.spawn(|| name.len()).value());
    /// assert_eq!(length, Ok(6));
    /// # });
    /// ```
    #[track_caller]
    pub fn value(self) -> Result<T, Cancelled> {
        self.join().map_err(JoinError::into_cancelled)
    }

    /// Waits for the task's end, but not longer than a time, and returns its value. See
    /// [`Task::join_timeout`](crate::Task::join_timeout), also for the errors, the panics and the
    /// cost.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let minute = std::time::Duration::from_secs(60);
    /// let sum = cygnet::scope(|s| s.spawn(|| 1 + 1).join_timeout(minute));
    /// assert_eq!(sum.unwrap(), 2);
    /// # });
    /// ```
    #[track_caller]
    pub fn join_timeout(&mut self, time: Duration) -> Result<T, JoinError> {
        HandleRef::join_timeout(&mut self.claim, time)
    }

    /// Joins by a structured wait, which is never cut short.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn await_end(mut self) -> Result<T, JoinError> {
        let claim = self.claim.take().expect("present until the task is joined");
        claim.join(WaitKind::Structured, Self::parent())
    }

    /// Cancels the task and all its descendants, as [`Task::cancel`](crate::Task::cancel) does, for
    /// the same cost. Does not suspend.
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        if let Some(claim) = &self.claim {
            cancel(claim, Some(Cause::new(reason.into(), Some(Location::caller()))));
        }
    }

    /// Returns a handle that can only cancel the task, and may outlive the scope. See
    /// [`CancelHandle`]. Does not suspend. Costs a locked instruction.
    pub fn cancel_handle(&self) -> CancelHandle {
        let claim = self.claim.as_ref().expect("present until the task is joined");
        CancelHandle::of_task(claim.task())
    }

    /// Returns whether the task and all its children have ended. Does not suspend. Costs a load.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// cygnet::scope(|s| {
    ///     let task = s.spawn(|| ());
    ///     while !task.is_finished() {
    ///         cygnet::yield_now().unwrap();
    ///     }
    /// });
    /// # });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.claim.as_ref().is_none_or(|claim| claim.join.is_done())
    }

    /// The task's identity, which [`current_id`](crate::current_id) returns inside the task. Does
    /// not suspend. Costs a load.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// cygnet::scope(|s| {
    ///     let task = s.spawn(|| cygnet::current_id().unwrap());
    ///     let id = task.id();
    ///     assert_eq!(task.join().unwrap(), id);
    /// });
    /// # });
    /// ```
    pub fn id(&self) -> TaskId {
        TaskId(self.claim.as_ref().expect("present until the task is joined").id())
    }

    /// The name given by [`TaskBuilder::name`](crate::TaskBuilder::name), if any. Does not suspend.
    /// Costs two loads.
    pub fn name(&self) -> Option<&str> {
        self.claim.as_ref().and_then(|claim| claim.name())
    }
}

impl<T> Unpin for ScopedTask<'_, T> {}
unwind_safe! { impl<T> ScopedTask<'_, T> }

impl<T> Drop for ScopedTask<'_, T> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            claim.let_go(Self::parent());
        }
    }
}

debug! { impl<T> ScopedTask<'_, T> as this { finished: this.is_finished() } }
