//! Leases: handles that keep a scope or a task open from outside it.

use crate::runtime::here;
use crate::runtime::local::Nesting;
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

/// Keeps a scope, or a task, open from anywhere, and spawns tasks into it. Other tasks and threads
/// may hold a lease long after the frame that made it has returned.
///
/// A lease counts as a child. The scope waits, and a task's result stays hidden, until the last
/// clone of the lease is dropped and all tasks spawned with it have ended. The last drop may happen
/// on any thread; the end of the scope is then scheduled on a worker and does not run inside the
/// drop. Cancelling the scope reaches the tasks spawned with the lease, and does not end the lease.
///
/// [`lease`] and [`Scope::lease`](crate::Scope::lease) make one. A lease that is forgotten
/// (`mem::forget`), or kept in the result of the very task that it keeps open, keeps it open for
/// ever.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let seen = Arc::new(AtomicUsize::new(0));
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         let (lease, seen) = (s.lease(), seen.clone());
///         // A thread unrelated to the runtime.
///         std::thread::spawn(move || {
///             for _ in 0..10 {
///                 let seen = seen.clone();
///                 lease.spawn(move || seen.fetch_add(1, Ordering::Relaxed)).detach();
///             }
///         });
///     });
///     assert_eq!(seen.load(Ordering::Relaxed), 10); // the scope waited for all of them
/// });
/// ```
#[must_use = "dropping the last lease lets the scope end"]
#[derive(Clone)]
pub struct ScopeLease {
    hold: Arc<Hold>,
}

struct Hold {
    /// The child, which stays unfinished until the last clone of the lease is dropped.
    child: Outside<()>,
    /// The node that the lease keeps open.
    node: *const Node,
}

// SAFETY: nodes are shared by design, and the unfinished child keeps this one open and so alive.
unsafe impl Send for Hold {}
// SAFETY: nodes are shared by design, and the unfinished child keeps this one open and so alive.
unsafe impl Sync for Hold {}

impl Drop for Hold {
    fn drop(&mut self) {
        let settled = self.child.settle(Ok(()));
        debug_assert!(
            settled.is_ok(),
            "the child of a lease was settled before the last lease was dropped"
        );
    }
}

impl UnwindSafe for ScopeLease {}
impl RefUnwindSafe for ScopeLease {}

/// Makes a lease on the innermost open scope of the calling task, or on the task itself if it has
/// no open scope. See [`ScopeLease`].
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
/// // The result becomes visible only when the lease is gone.
/// task.join().unwrap().join().unwrap();
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn lease() -> ScopeLease {
    let (worker, _) = here("lease");
    // SAFETY: the current node belongs to the running task, or to a scope on its stack, so it is
    // open.
    unsafe { ScopeLease::new(worker.node.get()) }
}

impl ScopeLease {
    /// Makes a lease on a node.
    ///
    /// # Safety
    /// The running task, or a child of the node that runs here, keeps the node open.
    #[track_caller]
    pub(crate) unsafe fn new(node: *const Node) -> ScopeLease {
        let (worker, task) = here("lease");
        let mut terms = terms(task, Location::caller(), Traits::default(), None);
        terms.detached = true;
        // SAFETY: the caller guarantees that the node is open.
        let (_, child) = unsafe { worker.spawn_external(node, terms, OnCancel::Wait) };
        ScopeLease { hold: Arc::new(Hold { child, node }) }
    }

    fn node(&self) -> &Node {
        // SAFETY: the unfinished child keeps the node open, so it is alive.
        unsafe { &*self.hold.node }
    }

    /// Spawns a task in the scope, from anywhere. A task that belongs to the scope's runtime passes
    /// its task-locals on.
    ///
    /// Does not suspend. Costs as much as [`spawn`](crate::spawn()) in a task of the same runtime,
    /// and as much as [`Handle::spawn`](crate::Handle::spawn) elsewhere. See [`ScopeLease`] for an
    /// example.
    ///
    /// # Panics
    /// If the scope has some 134 million unfinished children.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(TaskBuilder::default(), f)
    }

    /// Spawns a task like [`ScopeLease::spawn`], with a name or a stack size of its own. Does not
    /// suspend. Costs as much as [`ScopeLease::spawn`].
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
    /// If the scope has some 134 million unfinished children.
    #[track_caller]
    pub fn spawn_with<F, T>(&self, task: TaskBuilder, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let shared = self.hold.child.shared();
        let birth = (task, Location::caller());
        // SAFETY: `f` is `'static`, and the lease keeps the node open.
        let record = unsafe { spawn_from_anywhere(shared, self.hold.node, f, birth, false) };
        // SAFETY: the spawn returned the handle's reference, which is ours.
        Task::new(unsafe { Claim::new(record) })
    }

    /// Spawns a detached task with the given task-local bindings, whichever thread calls.
    pub(crate) fn spawn_step(
        &self,
        at: &'static Location<'static>,
        locals: Nesting,
        f: impl FnOnce() + Send + 'static,
    ) {
        let (shared, terms) = (self.hold.child.shared(), step_terms(at, locals));
        // SAFETY: `f` is `'static`, and the lease keeps the node open.
        unsafe { spawn_on_terms(shared, self.hold.node, f, terms) };
    }

    /// Cancels the scope and everything in it, as [`Scope::cancel`](crate::Scope::cancel) does, for
    /// the same cost. Does not suspend.
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
        // SAFETY: the unfinished child keeps the node open until this returns.
        unsafe { cancel_node(self.node(), Some(cause)) };
    }

    /// Returns whether the scope is cancelled, so that a task spawned now would never start. Does
    /// not suspend. Costs some nanoseconds. The first call that learns of an ancestor's
    /// cancellation also runs the hooks and wakers that wait for it.
    pub fn is_cancelled(&self) -> bool {
        is_cancelled(self.node())
    }
}

impl fmt::Debug for ScopeLease {
    /// Shows a cancellation only once it has reached the scope: asking the scope's ancestors could
    /// run hooks, and the caller may hold a lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeLease").field("cancelled", &self.node().word().is_marked()).finish()
    }
}

/// Spawns a child of a node of a runtime, from any thread. A task of that runtime spawns it on its
/// own worker and passes its task-locals on.
///
/// # Safety
/// The node is kept open during the call, and everything that `f` borrows outlives the child.
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
    // SAFETY: the caller guarantees an open node and long enough borrows.
    unsafe { spawn_on_terms(shared, parent, f, Terms { detached, ..terms }) }
}

/// The worker of `shared` on the calling thread, if there is one.
fn worker_of(shared: &Shared) -> Option<&'static Worker> {
    Worker::current().filter(|worker| ptr::eq(worker.shared.get(), shared))
}

/// Spawns a child of a node of a runtime on the given terms, from any thread.
///
/// # Safety
/// The node is kept open during the call, and everything that `f` borrows outlives the child.
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
        // SAFETY: the caller keeps the node open, and everything that `f` borrows outlives the
        // child.
        Some(worker) => unsafe { worker.spawn(parent, f, terms) },
        // SAFETY: the caller keeps the node open, and everything that `f` borrows outlives the
        // child.
        None => unsafe { shared.spawn_below(parent, f, terms) },
    }
}
