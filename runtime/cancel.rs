//! Cancelling tasks and scopes, and ignoring cancellation for a while.

use crate::retire::nesting::Pin;
use crate::runtime::cancelled::CancelledFuture;
use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::scheduler::cancel::hook::Body;
use crate::scheduler::cancel::{
    begin_ignoring, cancel, cancel_children, link, make_known, stop_ignoring,
};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::wait::watching::{
    Watching, is_cancelled_or_was, is_marked_or_was, watch_scope, watch_task,
};
use crate::scheduler::worker::release::SharedRef;
use crate::task::cause::{Cause, Reason};
use crate::task::children::ChildrenRef;
use crate::task::reference::TaskRef;
use std::panic::Location;
use std::sync::Arc;

/// Cancels a task, or a scope, and everything below it, from any thread. Has no effect after the
/// end of the task or scope. Keeps a little memory, and nothing else of the target.
///
/// [`Task::cancel_handle`](crate::Task::cancel_handle), [`cancel_handle`] and
/// [`Scope::cancel_handle`](crate::Scope::cancel_handle) make one.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let (give, handles) = std::sync::mpsc::channel();
/// let task = rt.spawn(move || {
///     give.send(cygnet::cancel_handle()).unwrap();
///     while cygnet::checkpoint().is_ok() {
///         // .. a piece of work ..
///     }
///     "stopped"
/// });
/// let window = std::thread::spawn(move || {
///     handles.recv().unwrap().cancel("the user has closed the window");
/// });
/// assert_eq!(task.join().unwrap(), "stopped");
/// # window.join().unwrap();
/// ```
#[derive(Clone)]
pub struct CancelHandle {
    target: Target,
}

#[derive(Clone)]
enum Target {
    Task(SharedRef),
    /// Keeps the memory of the scope's list of children.
    Scope(ChildrenRef),
}

unwind_safe! { impl CancelHandle }

impl CancelHandle {
    pub(crate) fn of_task(task: TaskRef<'_>) -> CancelHandle {
        CancelHandle { target: Target::Task(SharedRef::new(task)) }
    }

    /// Makes a handle of a scope; the caller runs in the scope or below it.
    pub(crate) fn of_scope(node: LiveNode<'_>) -> CancelHandle {
        if !node.is_linked() {
            link(node);
        }
        let children = ChildrenRef::new(node.cold().expect("a linked node has cold data"), &node);
        // The handle may watch the scope, so the scope's end must look into its list.
        children.bear();
        CancelHandle { target: Target::Scope(children) }
    }

    /// Cancels the task or scope. If it is cancelled several times, the first reason counts.
    ///
    /// Does not suspend, and resumes no task in place. Costs an allocation and some tens of
    /// nanoseconds for each descendant that waits or has waited.
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        if self.is_reached() {
            return;
        }
        self.pass_on(Cause::new(reason.into(), Some(Location::caller())));
    }

    /// Returns a future that is ready when the task or scope is cancelled or has ended, for any
    /// executor and for [`select!`](crate::select).
    ///
    /// The output is the reason if the target was cancelled, by this handle, through an ancestor or
    /// otherwise. That includes a target that computes and never checks for cancellation. The
    /// output is `None` if the target ended without being cancelled. While it
    /// [ignores](ignore_cancellation) a cancellation, the target does not count as cancelled.
    ///
    /// Dropping the future leaves nothing behind. The future is `Unpin`, and keeps as much of the
    /// task as a handle does.
    ///
    /// The waker is called by the thread that cancels the target or an ancestor, or by the first
    /// call that learns of such a cancellation: [`checkpoint`](crate::checkpoint) and similar calls
    /// of the task or a descendant, or a query to a [lease](crate::ScopeLease) or a
    /// [group](crate::TaskGroup) below it. So the waker must not wait for a lock that may be held
    /// during such calls.
    ///
    /// Does not suspend. The first poll costs up to five allocations and a few locks, and a few
    /// more for each ancestor that has not waited yet.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let task = rt.spawn(cygnet::park);
    /// let (handle, watched) = (task.cancel_handle(), task.cancel_handle().cancelled_async());
    /// handle.cancel("enough");
    /// let cancelled = cygnet::wait(watched)?; // on a plain thread
    /// assert_eq!(cancelled.unwrap().reason().to_string(), "enough");
    /// let _ = task.join();
    ///
    /// let task = rt.spawn(|| 1);
    /// let watched = task.cancel_handle().cancelled_async();
    /// assert_eq!(task.join().unwrap(), 1);
    /// assert!(cygnet::wait(watched)?.is_none());
    /// # Ok::<(), cygnet::Cancelled>(())
    /// ```
    pub fn cancelled_async(&self) -> CancelledFuture {
        CancelledFuture::new(self.clone())
    }

    /// Hangs a hook on the target, which is told whether the target is cancelled or ends.
    ///
    /// # Safety
    /// The handle is kept for longer than the returned value.
    pub(super) unsafe fn watch(&self, body: Box<dyn Body>) -> Watching {
        match &self.target {
            Target::Task(task) => watch_task(task, body),
            // `of_scope` has called `bear`.
            Target::Scope(children) => watch_scope(children, body),
        }
    }

    /// Cancels the task or scope for a cause that was made elsewhere.
    pub(crate) fn pass_on(&self, cause: Arc<Cause>) {
        match &self.target {
            Target::Task(task) => cancel(task, Some(cause)),
            Target::Scope(children) => cancel_children(children, Some(cause)),
        }
    }

    /// Returns whether the task or scope has been cancelled, by this handle, through an ancestor or
    /// otherwise, even while it ignores the cancellation. After the target's end the answer does
    /// not change.
    ///
    /// For a task, costs three loads, or an atomic update once it has ended. For a scope, costs a
    /// load, and a lock once it is cancelled. The first query of a task that has never waited costs
    /// up to two allocations and a few locks, and a few more for each ancestor that has never
    /// waited.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        match &self.target {
            Target::Task(task) => is_cancelled_or_was(task),
            Target::Scope(_) => self.is_reached(),
        }
    }

    /// Returns whether a cancellation has reached the target. A task that has never waited learns
    /// of an ancestor's cancellation only when it asks.
    #[inline]
    fn is_reached(&self) -> bool {
        match &self.target {
            Target::Task(task) => is_marked_or_was(task),
            Target::Scope(children) => children.is_marked(),
        }
    }
}

debug! { impl CancelHandle as this { cancelled: this.is_reached() } }

/// Returns a handle that cancels the calling task.
///
/// In the second half of a [`join`](crate::join()) that another worker has taken, the handle
/// cancels that half alone.
///
/// Does not suspend. Costs some tens of nanoseconds for a task that has never waited.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     let handle = cygnet::cancel_handle();
///     assert!(cygnet::checkpoint().is_ok());
///     handle.cancel("enough");
///     assert!(cygnet::checkpoint().is_err());
/// });
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn cancel_handle() -> CancelHandle {
    let (worker, _) = here("cancel_handle");
    let task = make_known(worker.running_node()).expect("the caller runs in a task");
    CancelHandle { target: Target::Task(task) }
}

/// Runs `f`, and lets no outside cancellation interrupt `f` or the tasks that it spawns.
///
/// Applies to the innermost open scope of the calling task, or to the task itself if it has no open
/// scope, and to everything below. A cancellation that arrives meanwhile is kept and takes effect
/// when `f` has ended: the next wait then returns [`Cancelled`]. Scopes and timeouts opened inside
/// `f` can be cancelled as usual. Sections nest.
///
/// Does not suspend by itself. Costs two locked instructions.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     let handle = cygnet::cancel_handle();
///     let saved = cygnet::ignore_cancellation(|| {
///         handle.cancel("half-way");
///         cygnet::yield_now().is_ok() // .. a wait ..
///     });
///     assert_eq!(saved, Ok(true));
///     assert!(cygnet::checkpoint().is_err()); // now it is delivered
/// });
/// ```
///
/// # Errors
/// [`Cancelled`], without calling `f`, if the task is already cancelled.
///
/// # Panics
/// With the panic of `f`; cancellation takes effect again as if `f` had returned. Outside a task.
#[track_caller]
pub fn ignore_cancellation<R>(f: impl FnOnce() -> R) -> Result<R, Cancelled> {
    let (worker, _) = here("ignore_cancellation");
    let _pin = Pin::innermost();
    let node = worker.running_node();
    let began = begin_ignoring(node).map_err(|_| Cancelled::here())?;
    // Also ends the section when `f` unwinds.
    struct Section<'a>(Option<LiveNode<'a>>);
    impl Drop for Section<'_> {
        fn drop(&mut self) {
            self.0.take().map(stop_ignoring);
        }
    }
    let _section = Section(began.then_some(node));
    Ok(f())
}
