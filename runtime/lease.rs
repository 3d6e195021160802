//! Leases: what holds a scope open for those who are not below it.

use crate::runtime::here;
use crate::runtime::local::Chain;
use crate::runtime::spawn::{TaskBuilder, outside_terms, step_terms, terms};
use crate::runtime::task::{Claim, Task};
use crate::scheduler::cancel::{cancel_node, is_cancelled};
use crate::scheduler::life::external::{OnCancel, Outside};
use crate::scheduler::life::spawn::Terms;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::task::cause::{Cause, Reason};
use crate::task::record::{Record, Traits};
use crate::task::words::tree::Node;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Holds a scope, or a task, open, and spawns into it, from anywhere: from other tasks and threads, when the frame that
/// made it has long returned.
///
/// It counts as a child: the scope waits at its end, and a task's result is not seen, before the last clone is dropped
/// and what was spawned has ended. That last drop may come from any thread; the end that it brings is scheduled, and does
/// not happen inside the drop. A cancel of the scope reaches what is spawned with it, and does not end it.
///
/// Get one with [`lease`] or [`Scope::lease`](crate::Scope::lease). One that is forgotten (`mem::forget`), or kept in the
/// result of the very task that it holds open, holds it open for ever.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let seen = Arc::new(AtomicUsize::new(0));
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         let (lease, seen) = (s.lease(), seen.clone());
///         // A thread that has nothing to do with the runtime.
///         std::thread::spawn(move || {
///             for _ in 0..10 {
///                 let seen = seen.clone();
///                 lease.spawn(move || seen.fetch_add(1, Ordering::Relaxed)).detach();
///             }
///         });
///     });
///     assert_eq!(seen.load(Ordering::Relaxed), 10); // the scope has waited for them
/// });
/// ```
#[must_use = "dropping the last lease lets the scope end"]
#[derive(Clone)]
pub struct ScopeLease {
    hold: Arc<Hold>,
}

struct Hold {
    /// The child that is unfinished as long as somebody has a lease.
    child: Outside<()>,
    /// The node that is held open.
    node: *const Node,
}

// SAFETY: nodes are shared by design; this one is open.
unsafe impl Send for Hold {}
// SAFETY: as above.
unsafe impl Sync for Hold {}

impl Drop for Hold {
    fn drop(&mut self) {
        let settled = self.child.settle(Ok(()));
        debug_assert!(settled.is_ok(), "a cancel does not end it, and nobody else settles it");
    }
}

impl UnwindSafe for ScopeLease {}
impl RefUnwindSafe for ScopeLease {}

/// A lease on the innermost scope that is open in the calling task, or on the task itself if there is none. See
/// [`ScopeLease`].
///
/// Does not suspend. Costs an allocation and a record.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let task = rt.spawn(|| {
///     let lease = cygnet::lease();
///     std::thread::spawn(move || {
///         std::thread::sleep(std::time::Duration::from_millis(1));
///         drop(lease);
///     })
/// });
/// // The result is not seen before the lease is gone.
/// task.join().unwrap().join().unwrap();
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn lease() -> ScopeLease {
    let (worker, _) = here("lease");
    // SAFETY: that of the running task, or of a scope on its stack.
    unsafe { ScopeLease::new(worker.node.get()) }
}

impl ScopeLease {
    /// A lease on a node.
    ///
    /// # Safety
    /// The node is open, by the running task, or by a child of it that runs here.
    #[track_caller]
    pub(crate) unsafe fn new(node: *const Node) -> ScopeLease {
        let (worker, task) = here("lease");
        let mut terms = terms(task, Location::caller(), Traits::default(), None);
        terms.detached = true;
        // SAFETY: passed on.
        let (_, child) = unsafe { worker.spawn_external(node, terms, OnCancel::Wait) };
        ScopeLease { hold: Arc::new(Hold { child, node }) }
    }

    fn node(&self) -> &Node {
        // SAFETY: held open.
        unsafe { &*self.hold.node }
    }

    /// Spawns a task in the scope, from anywhere. A task of the scope's runtime that calls this hands its task-locals down.
    ///
    /// Does not suspend. Costs as [`spawn`](crate::spawn()) in a task of the same runtime, and as
    /// [`Handle::spawn`](crate::Handle::spawn) elsewhere. See [`ScopeLease`] for an example.
    ///
    /// # Panics
    /// With some 134 million unfinished siblings.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(TaskBuilder::default(), f)
    }

    /// As [`ScopeLease::spawn`], also in what it costs, with a name or a stack of its own size. Does not suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let task = cygnet::lease().spawn_with(cygnet::task().name("late"), || 7);
    /// assert_eq!(task.name(), Some("late"));
    /// assert_eq!(task.join().unwrap(), 7);
    /// # });
    /// ```
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn spawn_with<F, T>(&self, task: TaskBuilder, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let shared = self.hold.child.shared();
        let birth = (task, Location::caller());
        // SAFETY: 'static; the node is held open.
        let record = unsafe { spawn_from_anywhere(shared, self.hold.node, f, birth, false) };
        // SAFETY: the handle's reference is ours.
        Task::new(unsafe { Claim::new(record) })
    }

    /// Spawns a task whose result nobody takes, with these bindings of task-locals, whoever calls.
    pub(crate) fn spawn_step(
        &self,
        at: &'static Location<'static>,
        locals: Chain,
        f: impl FnOnce() + Send + 'static,
    ) {
        let (shared, terms) = (self.hold.child.shared(), step_terms(at, locals));
        // SAFETY: 'static; the node is held open.
        unsafe { spawn_on_terms(shared, self.hold.node, f, terms) };
    }

    /// Cancels the scope, with all that is in it. See [`Scope::cancel`](crate::Scope::cancel), also for what it costs. Does
    /// not suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let lease = cygnet::lease();
    /// let task = lease.spawn(|| cygnet::park());
    /// lease.cancel("the window was closed");
    /// assert!(lease.is_cancelled());
    /// # drop((task, lease));
    /// # });
    /// ```
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        let cause = Cause::new(reason.into(), Some(Location::caller()));
        // SAFETY: held open.
        unsafe { cancel_node(self.node(), Some(cause)) };
    }

    /// Whether what is spawned now would not start any more. Does not suspend; some nanoseconds, but for who is the first to learn
    /// of a cancel from above: he calls the hooks and wakers that are to be told.
    pub fn is_cancelled(&self) -> bool {
        is_cancelled(self.node())
    }
}

impl fmt::Debug for ScopeLease {
    /// As far as the scope knows: to ask those above it may call hooks, and the caller may have a lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeLease").field("cancelled", &self.node().word().is_marked()).finish()
    }
}

/// Spawns a child of a node of a runtime, whoever calls: a task of that runtime spawns it on its worker and hands its
/// task-locals down.
///
/// # Safety
/// The node is held open; what `f` borrows outlives the child.
pub(crate) unsafe fn spawn_from_anywhere<F, T>(
    shared: &Shared,
    parent: *const Node,
    f: F,
    (task, at): (TaskBuilder, &'static Location<'static>),
    detached: bool,
) -> NonNull<Record>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let (traits, name) = task.into_parts();
    let terms = match worker_of(shared).and_then(Worker::task) {
        Some(caller) => terms(caller, at, traits, name),
        None => outside_terms(at, traits, name),
    };
    // SAFETY: passed on.
    unsafe { spawn_on_terms(shared, parent, f, Terms { detached, ..terms }) }
}

/// The worker of a runtime that the caller is on.
fn worker_of(shared: &Shared) -> Option<&'static Worker> {
    Worker::current().filter(|worker| ptr::eq(worker.shared.get(), shared))
}

/// Spawns a child of a node of a runtime, whoever calls.
///
/// # Safety
/// As for `spawn_from_anywhere`.
unsafe fn spawn_on_terms<F, T>(
    shared: &Shared,
    parent: *const Node,
    f: F,
    terms: Terms,
) -> NonNull<Record>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    match worker_of(shared).filter(|worker| worker.task().is_some()) {
        // SAFETY: passed on.
        Some(worker) => unsafe { worker.spawn(parent, f, terms) },
        // SAFETY: passed on.
        None => unsafe { shared.spawn_below(parent, f, terms) },
    }
}
