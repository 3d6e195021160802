//! The claim of a handle to the outcome of its task: how it is joined, and given up.

use crate::runtime::errors::{Cancelled, JoinError};
use crate::scheduler::cancel::cancel;
use crate::scheduler::life::complete::{
    Orphan, ParentLives, finish, release_both, uncount_in_parent,
};
use crate::scheduler::run_loop::call::call_child;
use crate::scheduler::wait::end::{await_end_anywhere, await_end_anywhere_until};
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::no_suspend::{assert_may_wait, is_forbidden};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::HandleRef;
use crate::shim::atomic::Ordering;
use crate::shim::time::{Duration, now};
use crate::task::record::{JoinedAtHome, Origin};
use crate::task::reference::{RunRef, TaskRef};
use crate::task::words::join::Waiter;
use crate::task::words::wait::WaitKind;
use std::task::Context;

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

    /// Waits until the task has ended, but not longer than `time`, and takes its outcome. If there
    /// is none yet, the claim stays where it is.
    #[track_caller]
    pub(crate) fn join_timeout(claim: &mut Option<Self>, time: Duration) -> Result<T, JoinError> {
        let this = claim.as_ref().expect("cygnet: a task was joined again after its outcome");
        this.await_end_for(time)?;
        let this = claim.take().expect("checked above");
        // SAFETY: the task has ended, and the claim to its outcome is ours.
        unsafe { this.take() }
    }

    /// Waits until the task has ended, but not longer than `time`.
    #[track_caller]
    fn await_end_for(&self, time: Duration) -> Result<(), JoinError> {
        if is_running_task(self.task()) {
            return Err(JoinError::OwnEnd);
        }
        if !self.join.is_done() && is_refused(WaitKind::Grant) {
            // Panics, with a message that says where the caller is, unless the thread is unwinding.
            let _ = assert_may_wait();
            return Err(JoinError::Cancelled(Cancelled::here()));
        }
        await_end_anywhere_until(&self.join, now().checked_add(time)).map_err(|short| match short {
            Interruption::Cancelled => JoinError::Cancelled(Cancelled::here()),
            Interruption::TimedOut => JoinError::TimedOut,
        })
    }

    /// Takes the outcome of a task that has ended.
    ///
    /// # Safety
    /// The join word is done, and the outcome has not been dropped.
    pub(super) unsafe fn take(self) -> Result<T, JoinError> {
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
        // The handle of a task that was sent to its worker may be at another one.
        if self.traits.local && self.traits.origin != Origin::Sent {
            self.drop_early();
        }
        let ended = !self.join.detach();
        ended.then_some(self)
    }

    /// Drops the outcome of a task of this worker that is only waiting for its children.
    #[cold]
    #[inline(never)]
    fn drop_early(&self) {
        let task = self.task();
        if task.stored.get() && !task.join.is_done() {
            // The last of the children may end on another worker. The outcome need not be `Send`,
            // so it is dropped here, on the task's home worker, before the claim is given up.
            // SAFETY: the outcome is stored, only the handle may touch it before the word is
            // DETACHED, and the task had not ended.
            unsafe { Orphan::new(task) }.drop_early();
        }
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
