//! The handle of a task.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::scheduler::cancel::cancel;
use crate::scheduler::life::complete::{
    dispose_before_the_end, dispose_by_handle, finish, release_parent, release_run,
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

/// The identity of a task: no two tasks of a process have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TaskId(pub(crate) u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What every kind of handle is: one reference, and the claim to the outcome.
pub(crate) struct Claim<T> {
    record: NonNull<Record>,
    outcome: PhantomData<T>,
}

// SAFETY: the record is shared by design; through the claim the outcome moves to another thread,
// which `T: Send` allows.
unsafe impl<T: Send> Send for Claim<T> {}
// SAFETY: a shared claim gives out nothing of `T`.
unsafe impl<T: Send> Sync for Claim<T> {}

impl<T> Claim<T> {
    /// # Safety
    /// The handle's reference is the caller's, and `T` the type of the outcome.
    pub(crate) unsafe fn new(record: NonNull<Record>) -> Claim<T> {
        Claim { record, outcome: PhantomData }
    }

    pub(crate) fn record(&self) -> &Record {
        // SAFETY: the claim holds a reference.
        unsafe { self.record.as_ref() }
    }

    pub(crate) fn pointer(&self) -> NonNull<Record> {
        self.record
    }

    /// Waits for the end and takes the outcome. `in_scope`: the parent is a scope that outlives the handle.
    #[inline(always)]
    // A deadlock's report names the place. What leads here has the same attribute.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn join(self, kind: WaitKind, in_scope: bool) -> Result<T, JoinError> {
        // Between tasks there is no node, and no record has such a parent.
        let Some(worker) = Worker::current() else { return self.await_and_take(kind, in_scope) };
        if !worker.claim_in_place(self.record, kind) {
            return self.join_elsewhere(worker, kind, in_scope);
        }
        call_child(worker, self.record, kind);
        let record = self.record();
        let ended = record.node.close();
        if !(ended && record.is_last(2) && record.join.is_empty() && record.extras().is_none()) {
            return self.end_shared(kind, ended, in_scope);
        }
        // The run reference and the handle's, and no waker of an earlier poll: nobody will look at the
        // record again, so it need not be told that the task has ended.
        uncount(worker, record.node.parent);
        let record = ManuallyDrop::new(self).record;
        // SAFETY: the outcome was stored by the call above, and nobody else can take it.
        let outcome = unsafe { Record::take_outcome(record) };
        // By its parts, as `take_outcome` gives it.
        match outcome {
            Ok(value) => {
                // SAFETY: nobody else has a reference, and there are no extras.
                unsafe { free_bare(worker, record) };
                Ok(value)
            }
            Err(failure) => {
                // SAFETY: as above.
                unsafe { free_bare(worker, record) };
                Err(JoinError::from(failure))
            }
        }
    }

    /// Waits for a task that cannot be called here.
    #[inline(never)]
    #[cfg_attr(feature = "sim", track_caller)]
    fn join_elsewhere(
        self,
        worker: &Worker,
        kind: WaitKind,
        in_scope: bool,
    ) -> Result<T, JoinError> {
        if kind != WaitKind::Structured && worker.task().is_some() && worker.is_cut() {
            return self.refuse(in_scope);
        }
        if self.record().join.is_done() {
            // Whoever joins many such calls no task, and spawns none.
            worker.let_others_between_joins();
            // SAFETY: it has ended, and the claim is ours.
            return unsafe { self.take() };
        }
        match worker.start_and_await(self.record, kind) {
            None => self.await_and_take(kind, in_scope),
            Some(Err(_)) => self.cut_short(),
            Some(Ok(())) if self.record().at_home.get() == JoinedAtHome::Ended => {
                // SAFETY: it has ended on this worker, and left its run reference to us.
                unsafe { self.take_all(worker) }
            }
            // SAFETY: it has ended, and the claim is ours.
            Some(Ok(())) => unsafe { self.take() },
        }
    }

    /// The end of a child that was called here, if it has children left or is known to others.
    #[cold]
    #[inline(never)]
    #[cfg_attr(feature = "sim", track_caller)]
    fn end_shared(self, kind: WaitKind, ended: bool, in_scope: bool) -> Result<T, JoinError> {
        let record = self.record();
        if !ended {
            // The last of its children completes the task.
            record.stored.set(true);
            return self.await_and_take(kind, in_scope);
        }
        finish(record);
        record.join.finish_unshared();
        // That may have dropped a waker, whose destructor may have waited, and a migratable joiner have
        // changed workers.
        let worker = Worker::current().expect("tasks run on workers");
        uncount(worker, record.node.parent);
        // SAFETY: the task has just ended on this worker.
        unsafe { self.take_all(worker) }
    }

    /// Takes the outcome of a task that has ended on this worker, and gives up its run reference too.
    ///
    /// # Safety
    /// That, and the run reference is the caller's.
    unsafe fn take_all(self, worker: &Worker) -> Result<T, JoinError> {
        let record = ManuallyDrop::new(self).record;
        // SAFETY: it has ended, and the claim was the only one.
        let outcome = unsafe { take_outcome(record) };
        let retired = worker.retired().as_ptr().expose_provenance();
        // SAFETY: alive by its references.
        unsafe { record.as_ref() }.place.store(retired, Ordering::Relaxed);
        // SAFETY: the run reference and the handle's are both ours.
        unsafe { release_run(worker, record, 2) };
        outcome
    }

    /// The join of a caller that must not wait, or is cancelled before its join begins: cancels the task, or drops
    /// the outcome of one that has ended.
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
            // Panics inside `no_suspend`, and says so.
            let _ = assert_may_wait();
        }
        if let Some(worker) = Worker::current()
            && let Some(task) = worker.task()
        {
            worker.give_way(task);
        }
        Err(JoinError::Cancelled(Cancelled::here()))
    }

    /// The end of a wait that was cut short. A task that has ended by now keeps its outcome: the caller gets it,
    /// as from a child that was called in place while the caller was cancelled. Any other task is cancelled.
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
        if claim.record().disposed.load(Ordering::Relaxed) {
            // A local task whose outcome was dropped here, and whose last child has ended meanwhile.
            claim.let_go(false);
            return Err(JoinError::Cancelled(Cancelled::here()));
        }
        // SAFETY: `detach` gives the claim back only if the join word is done, and the outcome is there.
        match unsafe { claim.take() } {
            // It has ended since, by the cancel above.
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
            // SAFETY: the task has ended, and the claim is ours.
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
            !self.record().disposed.load(Ordering::Relaxed),
            "an outcome is taken after its drop"
        );
        let record = ManuallyDrop::new(self).record;
        // SAFETY: done, and the claim was the only one.
        let outcome = unsafe { take_outcome(record) };
        // SAFETY: the handle's reference.
        unsafe { release(record, 1) };
        outcome
    }

    /// Lets go of the outcome.
    pub(crate) fn let_go(self, in_scope: bool) {
        let Some(ended) = self.detach() else { return };
        let record = ManuallyDrop::new(ended).record;
        // SAFETY: done, and the claim was the only one.
        unsafe { dispose_by_handle(record, in_scope) };
        // SAFETY: the handle's reference.
        unsafe { release(record, 1) };
    }

    /// Leaves the outcome to the end of the task, which drops it. Returns the claim if the task has ended. The outcome of a local task
    /// that waits for its children is dropped here, so the claim that is returned may have none (`disposed`).
    fn detach(self) -> Option<Claim<T>> {
        let task = self.record();
        if task.traits.local && task.stored.get() && !task.join.is_done() {
            // Only children are left, the last of which may end on another worker. The outcome need not
            // be Send: it is dropped here, at its home, before the claim to it is given up.
            // SAFETY: it is stored, and nobody else touches it before the word says DETACHED; the task had not ended.
            unsafe { dispose_before_the_end(self.record) };
        }
        if !task.join.detach() {
            return Some(self);
        }
        let record = ManuallyDrop::new(self).record;
        // SAFETY: the handle's reference.
        unsafe { release(record, 1) };
        None
    }

    /// Cancels the task and lets go of the outcome.
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
/// Dropping it cancels the task: one that has not started never will (its captures are dropped when
/// its turn comes), one that has is told so by its present or next wait, and so are all its descendants. The
/// drop does not wait.
/// [`Task::detach`] lets go of the handle without cancelling.
///
/// A `Task` is a future with the outcome of [`Task::join`], for use in any executor. Inside a task
/// call `join`. A handle that is forgotten (`mem::forget`) leaks the record and the result; the
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
/// A `Task<T>` is `Send` only if `T` is, as its result goes where it goes:
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

    /// The claim, without the handle's destructor.
    #[inline]
    fn into_claim(self) -> Claim<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, out of a handle that is neither dropped nor used again.
        let claim = unsafe { ptr::read(&this.claim) };
        claim.expect("present until the task is joined, detached or dropped")
    }

    fn claim(&self) -> &Claim<T> {
        self.claim.as_ref().expect("present until the task is joined, detached or dropped")
    }

    pub(crate) fn record(&self) -> &Record {
        self.claim().record()
    }

    /// As `join`, in a wait that is not cut short.
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
    /// nobody has started yet is called right here if more than half of the stack is left, and tasks
    /// like it need not be shared out among the workers: with the spawn that costs no locked instruction; two if it needs a stack of its own; five if it has been
    /// started before (the architecture document lists them).
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with the payload if the closure panicked; [`JoinError::NotStarted`]
    /// if the runtime ended before the start; [`JoinError::NoStack`] if there was no stack to start it
    /// on, and never would have been; [`JoinError::OwnEnd`] if a task joins itself.
    ///
    /// [`JoinError::Cancelled`] if the *calling* task is cancelled before the call, its runtime ends, or its
    /// thread is unwinding. The handle is then dropped: the joined task is cancelled, or its value dropped if it
    /// has ended. If the calling task is cancelled during the call, the joined task decides: one that has ended
    /// when `join` returns gives its value, or its own error, and any other one is cancelled.
    ///
    /// A task that joins one that waits for it (a parent, say) waits until one of the two is
    /// cancelled.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), unless the task has ended: nothing is called there. Nor may
    /// a worker's thread wait between its tasks (in a thread's hook, a waker, the destructor of a result
    /// that nobody takes).
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

    /// Cancels the task and all its descendants, from any thread: those that have not started never do, and
    /// each other one is told by its present wait, or its next one. The handle stays, and so does the claim to
    /// the task's result. A task that has ended, or is cancelled already, stays as it is.
    ///
    /// Does not suspend, and resumes nothing in place. Costs an allocation and, for each descendant that waits or
    /// has waited, some tens of nanoseconds.
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

    /// A handle that cancels the task and does nothing else. Costs a locked instruction. Does not suspend. See
    /// [`CancelHandle`].
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::of_task(self.pointer())
    }

    /// Whether the task, with all its children, has ended. Does not suspend. One load.
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

    /// Lets go of the handle. The task goes on, and its parent still ends after it. Its result is
    /// dropped on the worker where it ends; a panic in it is given to
    /// [`Builder::on_panic`](crate::Builder::on_panic).
    ///
    /// Does not suspend. Costs one locked instruction or two.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// static DONE: AtomicBool = AtomicBool::new(false);
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// rt.block_on(|| cygnet::spawn(|| DONE.store(true, Ordering::Release)).detach());
    /// assert!(DONE.load(Ordering::Acquire)); // block_on ended after it
    /// ```
    pub fn detach(mut self) {
        if let Some(claim) = self.claim.take() {
            claim.let_go(false);
        }
    }

    /// The task's identity: what [`current_id`](crate::current_id) says inside of it. A load; does not
    /// suspend.
    pub fn id(&self) -> TaskId {
        TaskId(self.record().id())
    }

    /// The name it was given, if any, by [`TaskBuilder::name`](crate::TaskBuilder::name). Two loads;
    /// does not suspend.
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

// As std's JoinHandle: nothing of a task is seen through its handle before it has ended.
impl<T> UnwindSafe for Task<T> {}
impl<T> RefUnwindSafe for Task<T> {}

impl<T> Unpin for Task<T> {}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let done = self.claim.as_ref().expect("cygnet: a Task was polled after its end").poll(cx);
        if !done {
            return Poll::Pending;
        }
        let claim = self.claim.take().expect("checked above");
        // SAFETY: `poll` has found the join word done.
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
/// As for [`Record::take_outcome`].
#[inline(always)]
unsafe fn take_outcome<T>(record: NonNull<Record>) -> Result<T, JoinError> {
    // SAFETY: passed on.
    match unsafe { Record::take_outcome::<T>(record) } {
        Ok(value) => Ok(value),
        Err(failure) => Err(JoinError::from(failure)),
    }
}

/// Uncounts a child that was called by its parent, which runs on this worker.
#[inline(always)]
fn uncount(worker: &Worker, parent: *const Node) {
    let left = release_parent(worker.number(), parent);
    debug_assert!(left.is_none(), "the parent runs, it cannot have ended");
}

/// Whether a wait of the caller would be refused, by a panic unless its thread unwinds.
pub(crate) fn is_refused() -> bool {
    Worker::current().is_some_and(|worker| worker.task().is_none() || is_forbidden())
}

/// Whether a task is the calling one.
pub(crate) fn is_running_task(record: NonNull<Record>) -> bool {
    Worker::current().and_then(Worker::task) == Some(record)
}

/// Whether two records are the same.
pub(crate) fn same(a: &Record, b: NonNull<Record>) -> bool {
    ptr::eq(a, b.as_ptr())
}
