//! Leases: handles that keep a scope or a task open from outside it.

use crate::runtime::here;
use crate::runtime::local::Nesting;
use crate::runtime::spawn::terms_with;
use crate::runtime::task::Task;
use crate::runtime::task_builder::{Guarding, Seal, TaskBuilder, TaskPlace};
use crate::scheduler::cancel::{cancel_node, is_cancelled};
use crate::scheduler::life::complete::ParentLives;
use crate::scheduler::life::external::{OnCancel, Outside};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::spawn::{Lasting, Terms};
use crate::scheduler::spans::Carried;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::task::cause::{Cause, Reason};
use crate::task::record::Traits;
use std::panic::Location;
use std::sync::Arc;

/// Keeps a scope, or a task, open from anywhere, and spawns tasks into it with
/// [`TaskBuilder::spawn_in`]. Other tasks and threads may hold a lease long after the frame that
/// made it has returned.
///
/// A spawn in a lease does not suspend. In a task of the scope's runtime it costs as much as
/// [`spawn`](crate::spawn()), and the task inherits the task-locals; elsewhere it costs as much as
/// [`Handle::spawn`](crate::Handle::spawn).
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
/// use cygnet::task;
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
///                 task().spawn_in(&lease, move || seen.fetch_add(1, Ordering::Relaxed)).detach();
///             }
///         });
///     });
///     assert_eq!(seen.load(Ordering::Relaxed), 10); // the scope waited for all of them
/// });
/// ```
#[must_use = "dropping the last lease lets the scope end"]
#[derive(Clone)]
pub struct ScopeLease {
    /// A child of the node that the lease keeps open. It ends with the last clone of the lease.
    child: Arc<Outside<()>>,
}

unwind_safe! { impl ScopeLease }

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
    ScopeLease::new(worker.shared(), worker.running_node())
}

impl ScopeLease {
    /// Makes a lease on a node of a runtime, which the caller holds open.
    #[track_caller]
    pub(crate) fn new(shared: &Shared, node: LiveNode<'_>) -> ScopeLease {
        // Without bindings of task-locals and without a span, which handles do not keep.
        let terms = terms_with(Location::caller(), Traits::default(), None, None, None);
        let (handle, child) = shared.spawn_external(node, terms, OnCancel::Wait, false);
        handle.let_go(ParentLives::UNKNOWN);
        ScopeLease { child: Arc::new(child) }
    }

    /// Spawns a step of an actor: a detached task with the task-local bindings and the span of the
    /// actor's task, whichever thread calls.
    pub(crate) fn spawn_step(
        &self,
        at: &'static Location<'static>,
        locals: Nesting,
        span: Option<Carried>,
        f: impl FnOnce() + Send + 'static,
    ) {
        let terms = terms_with(at, Traits::default(), None, locals, span);
        spawn_detached(self.child.shared(), self.child.parent(), f, Lasting::new(), terms);
    }

    /// Cancels the scope and everything in it, as [`Scope::cancel`](crate::Scope::cancel) does, for
    /// the same cost. Does not suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let lease = cygnet::lease();
    /// let task = cygnet::task().spawn_in(&lease, || cygnet::park());
    /// lease.cancel("the window was closed");
    /// assert!(lease.is_cancelled());
    /// # drop((task, lease));
    /// # });
    /// ```
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        let cause = Cause::new(reason.into(), Some(Location::caller()));
        cancel_node(&self.child.parent(), Some(cause));
    }

    /// Returns whether the scope is cancelled, so that a task spawned now would never start. Does
    /// not suspend. Costs some nanoseconds. The first call that learns of an ancestor's
    /// cancellation also runs the hooks and wakers that wait for it.
    pub fn is_cancelled(&self) -> bool {
        is_cancelled(self.child.parent())
    }
}

// Shows a cancellation only once it has reached the scope: asking the scope's ancestors could run
// hooks, and the caller may hold a lock.
debug! { impl ScopeLease as this { cancelled: this.child.parent().word().is_marked() } }

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> TaskPlace<F> for &ScopeLease {
    type Spawned = Task<T>;

    fn place<G: Guarding>(self, task: TaskBuilder<G>, f: F, _: Seal) -> Task<T> {
        task.refuse_now("a lease");
        let (shared, node) = (self.child.shared(), self.child.parent());
        // SAFETY: `f` is `'static`.
        let task = unsafe { spawn_from_anywhere(shared, node, task, f, false) };
        task.expect("it is not detached")
    }
}

/// Spawns a child of a node of a runtime, from any thread. A task of that runtime spawns it on its
/// own worker and passes its task-locals on. Returns no handle if the child is detached, and no
/// guard wants to learn of it.
///
/// # Safety
/// Everything that `f` borrows outlives the child.
#[track_caller]
pub(crate) unsafe fn spawn_from_anywhere<F, T, G: Guarding>(
    shared: &Shared,
    parent: LiveNode<'_>,
    task: TaskBuilder<G>,
    f: F,
    detached: bool,
) -> Option<Task<T>>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let f = task.hold(f);
    let (terms, guard) = task.into_terms(shared.worker_here().and_then(Worker::task));
    // SAFETY: what `f` borrows outlives the child, by the contract; the guard is `'static`.
    let lasting = unsafe { Lasting::promised() };
    if detached && !G::WANTS_TASK {
        spawn_detached(shared, parent, f, lasting, terms);
        return None;
    }
    let worker = shared.worker_here().filter(|worker| worker.task().is_some());
    let task = Task::new(shared.spawn_from(worker, parent, f, lasting, terms));
    guard.belongs_to(&task);
    Some(task)
}

/// Spawns a child of a node of a runtime on the given terms and without a handle, from any thread.
fn spawn_detached<F: FnOnce() -> T, T>(
    shared: &Shared,
    parent: LiveNode<'_>,
    f: F,
    lasting: Lasting<F, T>,
    terms: Terms,
) {
    match shared.worker_here().filter(|worker| worker.task().is_some()) {
        Some(worker) => worker.spawn_detached(parent, f, lasting, terms),
        None => shared.spawn_detached_below(parent, f, lasting, terms),
    }
}
