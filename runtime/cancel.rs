//! Cancelling, and not being cancelled for a while.

use crate::retire::chain::Pin;
use crate::runtime::cancelled::CancelledFuture;
use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::scheduler::cancel::hook::Body;
use crate::scheduler::cancel::{
    begin_ignoring, cancel, cancel_branch, link, make_known, stop_ignoring,
};
use crate::scheduler::wait::watching::{
    Watching, is_cancelled_or_was, is_marked_or_was, watch_scope, watch_task,
};
use crate::scheduler::worker::release::release;
use crate::task::branch::Branch;
use crate::task::cause::{Cause, Reason};
use crate::task::extras::Extras;
use crate::task::record::Record;
use crate::task::words::tree::Node;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

/// Cancels a task, or a scope, with all that is below it, from any thread and at any time, also after its end
/// (when it does nothing). Keeps nothing of it but a little memory.
///
/// Get one with [`Task::cancel_handle`](crate::Task::cancel_handle), [`cancel_handle`] or
/// [`Scope::cancel_handle`](crate::Scope::cancel_handle).
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
pub struct CancelHandle {
    target: Target,
}

enum Target {
    /// A counted reference.
    Task(NonNull<Record>),
    /// A handle that keeps the branch of a scope.
    Scope(NonNull<Branch>),
}

// SAFETY: records and branches are shared by design; nothing of the task's types is given out.
unsafe impl Send for CancelHandle {}
// SAFETY: as above.
unsafe impl Sync for CancelHandle {}

impl UnwindSafe for CancelHandle {}
impl RefUnwindSafe for CancelHandle {}

impl CancelHandle {
    pub(crate) fn of_task(record: NonNull<Record>) -> CancelHandle {
        // SAFETY: the caller has a reference.
        unsafe { record.as_ref() }.add_reference();
        CancelHandle { target: Target::Task(record) }
    }

    /// Of a scope in which, or below which, the caller runs.
    pub(crate) fn of_scope(node: &Node) -> CancelHandle {
        if !node.is_linked() {
            link(node);
        }
        // As a pointer to the whole of the extras.
        let extras: *const Extras = node.extras().expect("a linked node has extras");
        // SAFETY: those of a node that has not ended.
        let branch = unsafe { (*extras).branch() };
        branch.add_handle_of(node);
        // It may be watched by the handle.
        branch.bear();
        CancelHandle {
            target: Target::Scope(NonNull::new(extras.cast_mut().cast()).expect("a reference")),
        }
    }

    /// Cancels it. The first reason counts.
    ///
    /// Does not suspend, and resumes nothing in place. Costs an allocation and, for each descendant that waits or
    /// has waited, some tens of nanoseconds.
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        if self.is_reached() {
            return;
        }
        self.pass_on(Cause::new(reason.into(), Some(Location::caller())));
    }

    /// A future for the moment when it is cancelled, or has ended without: for any executor, and for
    /// [`select!`](crate::select).
    ///
    /// Ready with the reason if it is cancelled, by this handle or otherwise, also with an ancestor, and while it computes
    /// and does not ask; with `None` if it has ended without. While it [ignores](ignore_cancellation) that, it is not
    /// cancelled. Dropped, the future leaves nothing behind; it need not be pinned by hand, and keeps as much of the
    /// task as a handle does.
    ///
    /// The waker is called by whoever cancels the task or scope, or an ancestor of it, or by a call that is the first to learn of such a
    /// cancel: of the task itself, of one below it, or one that asks a [lease](crate::ScopeLease) or a [group](crate::TaskGroup)
    /// below it, as [`checkpoint`](crate::checkpoint) does. It is not to wait for a lock that these may be made with.
    ///
    /// Does not suspend. The first poll costs up to five allocations and a few locks, and a few more for each ancestor that has
    /// not waited yet.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let task = rt.spawn(cygnet::park);
    /// let (handle, watched) = (task.cancel_handle(), task.cancel_handle().cancelled_async());
    /// handle.cancel("enough");
    /// let cancelled = cygnet::wait(watched)?; // here on a plain thread
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

    /// Has this told what becomes of it.
    ///
    /// # Safety
    /// The handle is kept for longer than what is returned.
    pub(super) unsafe fn watch(&self, body: Box<dyn Body>) -> Watching {
        match self.target {
            // SAFETY: we hold a reference.
            Target::Task(record) => watch_task(unsafe { record.as_ref() }, body),
            // SAFETY: we hold a handle; the branch was said to bear when it was made.
            Target::Scope(branch) => unsafe { watch_scope(branch, body) },
        }
    }

    /// The same with a cause that somebody else has had.
    pub(crate) fn pass_on(&self, cause: Arc<Cause>) {
        match self.target {
            // SAFETY: we hold a reference.
            Target::Task(record) => cancel(unsafe { record.as_ref() }, Some(cause)),
            // SAFETY: we hold a handle.
            Target::Scope(branch) => cancel_branch(unsafe { branch.as_ref() }, Some(cause)),
        }
    }

    /// Whether it has been cancelled, by this handle or otherwise, also with an ancestor; also while it ignores that. Of one that has
    /// ended the answer stays. Three loads; of a task that has ended an update; for a scope one load, and a lock once it is
    /// cancelled. Of a task that has never waited the first question costs up to two allocations and a few locks, and a few more for each
    /// ancestor that has not either.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        match self.target {
            // SAFETY: we hold a reference.
            Target::Task(record) => is_cancelled_or_was(unsafe { record.as_ref() }),
            Target::Scope(_) => self.is_reached(),
        }
    }

    /// The same as far as a cancel has come to it: of an ancestor's a task that has never waited learns when it asks.
    #[inline]
    fn is_reached(&self) -> bool {
        match self.target {
            // SAFETY: we hold a reference.
            Target::Task(record) => is_marked_or_was(unsafe { record.as_ref() }),
            // SAFETY: we hold a handle.
            Target::Scope(branch) => unsafe { branch.as_ref() }.is_marked(),
        }
    }
}

impl Clone for CancelHandle {
    fn clone(&self) -> CancelHandle {
        match self.target {
            Target::Task(record) => CancelHandle::of_task(record),
            Target::Scope(branch) => {
                // SAFETY: we hold a handle.
                unsafe { branch.as_ref() }.add_handle();
                CancelHandle { target: Target::Scope(branch) }
            }
        }
    }
}

impl Drop for CancelHandle {
    fn drop(&mut self) {
        match self.target {
            // SAFETY: our reference; it is the last only if the handle has disposed of the outcome.
            Target::Task(record) => unsafe { release(record, 1) },
            // SAFETY: ours.
            Target::Scope(branch) => unsafe { Branch::release_handle(branch) },
        }
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("cancelled", &self.is_reached()).finish()
    }
}

/// A handle that cancels the calling task.
///
/// In a second half of a [`join`](crate::join()) that another worker has taken this is that half alone.
///
/// Does not suspend. Costs some tens of nanoseconds, for a task that has never waited.
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
    let (_, task) = here("cancel_handle");
    // SAFETY: the running task.
    make_known(unsafe { task.as_ref() });
    CancelHandle { target: Target::Task(task) }
}

/// Runs `f`, and lets no cancellation from outside interrupt it or what it spawns.
///
/// It holds for the innermost scope that is open in the calling task, or the task itself if there is none,
/// and for all that is below. What comes meanwhile is kept, and takes effect when `f` has ended: then the next
/// wait returns [`Cancelled`]. A cancel of what was opened inside `f`, as by a timeout there, works as ever.
/// Sections nest.
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
/// [`Cancelled`], without calling `f`, if the task is cancelled already.
///
/// # Panics
/// With the panic of `f`, after which it is as if `f` had returned. Outside a task.
#[track_caller]
pub fn ignore_cancellation<R>(f: impl FnOnce() -> R) -> Result<R, Cancelled> {
    let (worker, _) = here("ignore_cancellation");
    let _pin = Pin::innermost();
    let node = worker.node.get();
    // SAFETY: that of the running task, or of a scope on its stack, which does not end before this call.
    let node = unsafe { &*node };
    let began = begin_ignoring(node).map_err(|_| Cancelled::here())?;
    // Also when `f` unwinds.
    struct Section<'a>(Option<&'a Node>);
    impl Drop for Section<'_> {
        fn drop(&mut self) {
            self.0.take().map(stop_ignoring);
        }
    }
    let _section = Section(began.then_some(node));
    Ok(f())
}
