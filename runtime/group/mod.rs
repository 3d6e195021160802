//! Groups: a node of the task tree on the heap, for tasks that are spawned one by one and from
//! anywhere.

mod hold;
mod member;

pub use member::MemberResult;

use crate::runtime::cancel::CancelHandle;
use crate::runtime::combinators::TaskError;
use crate::runtime::errors::{Cancelled, JoinError, SpawnError};
use crate::runtime::handle::Handle;
use crate::runtime::here;
use crate::runtime::lease::spawn_from_anywhere;
use crate::runtime::spawn::terms_with;
use crate::runtime::task::Task;
use crate::runtime::task_builder::{Guarding, Seal, TaskBuilder, TaskPlace, task};
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::life::external::OnCancel;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::wait::no_suspend::assert_may_wait;
use crate::scheduler::worker::shared as scheduler;
use crate::task::cause::Reason;
use crate::task::record::Traits;
use hold::Hold;
use member::{Kept, Member, Shared};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A group of tasks, the members, which are spawned one by one, from tasks and threads, and joined
/// or cancelled together.
///
/// A group is a node of the task tree that is not bound to a stack frame. A *linked* group is a
/// child of the scope that is open where the group is made, or of the task: the scope ends after
/// the group, and a cancel of the scope reaches it. A *detached* group belongs only to a runtime.
///
/// The members have no handles. A member returns nothing, or a failure; the group keeps the first
/// failure. A panic is a failure, and so is a member that did not start because of a cancel. A
/// group that [fails fast](TaskGroup::fail_fast) then cancels the other members.
///
/// Dropping a group cancels its members, as dropping a [`Task`] does, and does not wait for them. A
/// join consumes the group, so no member can be spawned after it:
///
/// ```compile_fail,E0382
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let group = cygnet::TaskGroup::new();
/// group.join().unwrap();
/// group.add(|| ());
/// # });
/// ```
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::sync::Arc;
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let served = Arc::new(AtomicUsize::new(0));
/// rt.block_on(|| {
///     let group = cygnet::TaskGroup::new();
///     for _connection in 0..10 {
///         let served = served.clone();
///         group.add(move || { served.fetch_add(1, Ordering::Relaxed); });
///     }
///     group.join().unwrap();
/// });
/// assert_eq!(served.load(Ordering::Relaxed), 10);
/// ```
///
/// With failures:
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     let group = cygnet::TaskGroup::fallible().fail_fast();
///     for text in ["1", "two", "3"] {
///         group.add(move || text.parse::<u32>().map(drop));
///     }
///     let error = group.join().unwrap_err();
///     assert_eq!(error.to_string(), "invalid digit found in string");
/// });
/// ```
#[must_use = "dropping a TaskGroup cancels its members; call join"]
pub struct TaskGroup<E = Infallible> {
    /// The task that is the parent of the members; `None` below a group that was closed.
    task: Option<Task<()>>,
    shared: Arc<Shared<E>>,
    /// The hold is a linked one: repeated here, so that `is_cancelled` need not go there.
    is_linked: bool,
    fails_fast: bool,
}

impl TaskGroup {
    /// Makes a group whose only failures are panics, linked to the innermost scope that is open in
    /// the calling task, or to the task. See [`TaskGroup`] for an example.
    ///
    /// Does not suspend. Costs two allocations and a record.
    ///
    /// # Panics
    /// If called outside a task.
    #[expect(clippy::new_without_default, reason = "it works inside a task only")]
    #[track_caller]
    pub fn new() -> TaskGroup {
        TaskGroup::fallible()
    }

    /// Makes a group that belongs only to a runtime, and whose only failures are panics.
    ///
    /// The group does not hold up the end of its runtime: that cancels the members and waits for
    /// them, not for the group. A group that was cancelled, or whose runtime has ended, takes no
    /// more members. The failure that it has kept can still be joined.
    ///
    /// Can be called anywhere. Does not suspend. Costs as much as [`TaskGroup::new`], and four
    /// allocations and some lock acquisitions more.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let group = cygnet::TaskGroup::detached(&rt.handle()).unwrap();
    /// group.add(|| { /* .. */ });
    /// group.join().unwrap(); // here on a plain thread
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] if the runtime has ended or is ending.
    #[track_caller]
    pub fn detached(handle: &Handle) -> Result<TaskGroup, SpawnError<()>> {
        TaskGroup::fallible_detached(handle)
    }
}

impl<E: Send + 'static> TaskGroup<E> {
    /// Makes a linked group for members that may fail. Otherwise like [`TaskGroup::new`], also in
    /// cost. See [`TaskGroup`] for an example.
    ///
    /// # Panics
    /// If called outside a task.
    #[track_caller]
    pub fn fallible() -> TaskGroup<E> {
        let (worker, _) = here("TaskGroup::new");
        TaskGroup::below(worker.shared(), worker.running_node(), OnCancel::Wait, false)
    }

    /// Makes a detached group for members that may fail. Otherwise like [`TaskGroup::detached`],
    /// also in cost.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let group = cygnet::TaskGroup::fallible_detached(&rt.handle()).unwrap();
    /// group.add(|| "x".parse::<u8>().map(drop));
    /// assert!(group.join().is_err());
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] if the runtime has ended or is ending.
    #[track_caller]
    pub fn fallible_detached(handle: &Handle) -> Result<TaskGroup<E>, SpawnError<()>> {
        let shared = handle.shared();
        let child = shared.root.admit().ok_or(SpawnError(()))?;
        Ok(TaskGroup::below(shared, child.into_parent(), OnCancel::Tell, true))
    }

    /// Makes a group below `parent`, which the caller holds open, from any thread. If `counted`,
    /// the parent counts it already.
    #[track_caller]
    fn below(
        shared: &scheduler::Shared,
        parent: LiveNode<'_>,
        on_cancel: OnCancel,
        counted: bool,
    ) -> TaskGroup<E> {
        // Without bindings of task-locals, which handles do not keep.
        let terms = terms_with(Location::caller(), Traits::default(), None, None);
        let (handle, outside) = shared.spawn_external(parent, terms, on_cancel, counted);
        TaskGroup::with(Some(Task::new(handle)), Hold::new(outside, on_cancel))
    }

    fn with(task: Option<Task<()>>, hold: Hold) -> TaskGroup<E> {
        let is_linked = hold.on_cancel() == OnCancel::Wait;
        TaskGroup { task, shared: Arc::new(Shared::new(hold)), is_linked, fails_fast: false }
    }

    /// Makes the group cancel its members when the first of them fails. Costs nothing, and does not
    /// suspend.
    pub fn fail_fast(self) -> TaskGroup<E> {
        TaskGroup { fails_fast: true, ..self }
    }

    /// Makes a group below this one: this group ends after it, and a cancel of this group reaches
    /// it.
    ///
    /// Can be called anywhere. Does not suspend. Costs as much as [`TaskGroup::new`].
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let server = cygnet::TaskGroup::detached(&rt.handle()).unwrap();
    /// let connection: cygnet::TaskGroup = server.child();
    /// connection.add(|| assert!(cygnet::park().is_err()));
    /// server.cancel("the server stops");
    /// drop(connection.join());
    /// server.join().unwrap();
    /// ```
    #[track_caller]
    pub fn child<C: Send + 'static>(&self) -> TaskGroup<C> {
        let hold = &self.shared.hold;
        let _entered = match hold.enter() {
            Ok(entered) => entered,
            Err(gate) => return TaskGroup::with(None, Hold::Detached(Arc::clone(gate))),
        };
        // `_entered` holds the group open, and so its node.
        TaskGroup::below(hold.outside().shared(), self.shared.node(), hold.on_cancel(), false)
    }

    /// Spawns a member. If a task of the group's runtime calls this, the member inherits its
    /// task-locals. If the group is cancelled, the closure is dropped, here or by a worker. A
    /// [`TaskBuilder`] spawns a member with a name or a stack size, by [`TaskBuilder::spawn_in`].
    ///
    /// Can be called anywhere. Does not suspend. In a task of the same runtime, costs as much as
    /// [`spawn`](crate::spawn()) and two locked instructions (four if the group is detached);
    /// elsewhere as much as [`Handle::spawn`]. See [`TaskGroup`] for an example.
    ///
    /// # Panics
    /// If there are some 134 million unfinished members. If the closure is dropped here and one of
    /// its destructors panics.
    #[track_caller]
    pub fn add<F, R>(&self, f: F)
    where
        F: FnOnce() -> R + Send + 'static,
        R: MemberResult<E>,
    {
        self.place(task(), f, Seal);
    }

    /// Waits until all members have ended.
    ///
    /// Suspends the calling task, or blocks a plain thread.
    ///
    /// # Errors
    /// The first failure. A member that only passes on a cancel of the group counts only if no
    /// other member has failed: a member that did not start, was unwound, or returned the very
    /// [`Cancelled`] of that cancel. [`JoinError::Cancelled`] if the calling task is cancelled; the
    /// members are then cancelled too, as with [`Task::join`].
    ///
    /// # Panics
    /// As for [`Task::join`].
    pub fn join(self) -> Result<(), TaskError<E>> {
        self.shared.hold.close();
        let joined = self.task.map_or(Ok(()), Task::join);
        match self.shared.take() {
            Some(kept) => Err(kept.failure),
            None => joined.map_err(TaskError::Join),
        }
    }

    /// Cancels all members and waits until they have ended, even if the calling task is cancelled.
    ///
    /// Suspends the calling task (the wait is structured), or blocks a plain thread. Costs as much
    /// as [`Task::cancel`].
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let group = cygnet::TaskGroup::new();
    /// group.add(|| assert!(cygnet::park().is_err()));
    /// group.cancel_and_join("the server stops").unwrap();
    /// # });
    /// ```
    ///
    /// A member that calls this on its own group waits for itself, for ever.
    ///
    /// # Errors
    /// The first failure. A member does not fail because of this cancel if it did not start, was
    /// unwound, or returns the very [`Cancelled`] that its wait has returned (also in a
    /// [`JoinError`] or a `Box<dyn Error + Send + Sync>`). [`JoinError::Cancelled`], without a
    /// wait, on a worker's thread between tasks while it is panicking.
    ///
    /// # Panics
    /// As for [`Task::join`].
    #[track_caller]
    pub fn cancel_and_join(self, reason: impl Into<Reason>) -> Result<(), TaskError<E>> {
        self.cancel(reason);
        // A caller that may not wait is refused by a join too, and the join can return an error.
        let wait = if assert_may_wait().is_ok() { Task::await_end } else { Task::join };
        self.shared.hold.close();
        let joined = self.task.map_or(Ok(()), wait);
        let failure = |kept: Option<Kept<E>>| kept.filter(|kept| !kept.is_consequence);
        match failure(self.shared.take()).or_else(|| failure(joined.err().map(Kept::from))) {
            Some(kept) => Err(kept.failure),
            None => Ok(()),
        }
    }

    /// Cancels all members, including later ones. See [`Task::cancel`], also for the cost. Does not
    /// suspend.
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        if let Some(task) = &self.task {
            task.cancel(reason);
        }
    }

    /// Returns a handle that cancels the members from anywhere and may outlive the group. The
    /// handle also tells when a cancel from above has come. Costs a locked instruction. Does not
    /// suspend.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::of_task(self.shared.hold.outside().task())
    }

    /// Returns whether a member that is spawned now would not start.
    ///
    /// Does not suspend. Takes some nanoseconds, except for the first caller that learns of a
    /// cancel from above: that caller runs the hooks and wakers registered for it.
    pub fn is_cancelled(&self) -> bool {
        match &self.task {
            Some(task) if self.is_linked => {
                // SAFETY: this handle, which has not closed the group, keeps the task from ending.
                is_cancelled(unsafe { LiveNode::new(&raw const task.record().node) })
            }
            // Every cancel from above has reached this node; the nodes above may be gone.
            _ => self.shared.hold.outside().is_cancelled(),
        }
    }
}

impl<E, F, R> TaskPlace<F> for &TaskGroup<E>
where
    E: Send + 'static,
    F: FnOnce() -> R + Send + 'static,
    R: MemberResult<E>,
{
    type Spawned = ();

    fn place<G: Guarding>(self, task: TaskBuilder<G>, f: F, _: Seal) {
        task.refuse_now("a group");
        let hold = &self.shared.hold;
        let _entered = match hold.enter() {
            Ok(entered) => entered,
            Err(gate) => {
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(f)));
                // Kept even if a destructor of the captures has panicked.
                let why = JoinError::NotStarted(Cancelled::new(gate.cause()));
                self.shared.keep(why.into());
                return dropped.unwrap_or_else(|payload| resume_unwind(payload));
            }
        };
        let fails_fast = self.fails_fast.then_some(Location::caller());
        let member = Member { group: Arc::clone(&self.shared), fails_fast, ran: false };
        // The closure's captures must be dropped before the member.
        let parts = (f, member);
        let run = move || {
            let (f, member) = parts;
            member.run(f);
        };
        let shared = hold.outside().shared();
        // SAFETY: the closure is 'static, and `_entered` holds the group open, so its node is open.
        let task = unsafe { spawn_from_anywhere(shared, self.shared.node(), task, run, true) };
        task.into_iter().for_each(Task::detach);
    }
}

unwind_safe! { impl<E> TaskGroup<E> }

debug! { impl<E> TaskGroup<E> as this { fails_fast: this.fails_fast, .. } }
