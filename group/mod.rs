//! Several tasks with one owner, [`TaskGroup`], and one task with several, [`SharedTask`].
//!
//! A group is a node of the task tree on the heap, for tasks that are spawned one by one and from
//! anywhere.

mod given;
mod hold;
mod member;
mod shared_task;

pub use member::MemberResult;
pub use shared_task::SharedTask;

use crate::runtime::lease::spawn_from_anywhere;
use crate::runtime::spawn::terms_with;
use crate::runtime::task_builder::{Guarding, Seal, TaskPlace};
use crate::runtime::{CancelHandle, Handle, SpawnError, Task, TaskBuilder, TaskError, here, task};
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::life::external::OnCancel;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::wait::no_suspend::assert_may_wait;
use crate::scheduler::worker::shared as scheduler;
use crate::task::cause::Reason;
use crate::task::record::Traits;
use given::Given;
use hold::Hold;
use member::{Kept, Member, Shared};
use std::cell::Cell;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;

/// A group of tasks, the members, which are spawned one by one, from tasks and threads, and joined
/// or cancelled together.
///
/// A group is a node of the task tree that is not bound to a stack frame. A *linked* group is a
/// child of the scope that is open where the group is made, or of the task: the scope ends after
/// the group, and a cancel of the scope reaches it. A *detached* group belongs only to a runtime.
///
/// There are two kinds of members. [`add`](TaskGroup::add) adds a member that returns nothing, or a
/// failure. The group keeps only the first failure, so a server may add members for ever.
/// [`spawn`](TaskGroup::spawn) adds a member that returns a value, and returns a handle that
/// cancels this member alone. The group keeps the value until [`next`](TaskGroup::next) takes it.
///
/// A panic is a failure, and so is a member that did not start because of a cancel. A group that
/// [fails fast](TaskGroup::fail_fast) then cancels the other members.
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
/// With values, as they come:
///
/// ```
/// use cygnet::{TaskError, TaskGroup};
///
/// fn total(texts: &[&'static str]) -> Result<u32, TaskError<std::num::ParseIntError>> {
///     let mut numbers = TaskGroup::fallible().fail_fast();
///     for text in texts.iter().copied() {
///         numbers.spawn_try(move || text.parse::<u32>());
///     }
///     let mut total = 0;
///     while let Some(number) = numbers.next()? {
///         total += number;
///     }
///     Ok(total)
/// }
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(rt.block_on(|| total(&["1", "2", "3"])).unwrap(), 6);
/// let error = rt.block_on(|| total(&["1", "two", "3"])).unwrap_err();
/// assert_eq!(error.to_string(), "invalid digit found in string");
/// ```
///
/// With failures alone:
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
pub struct TaskGroup<T = (), E = Infallible> {
    /// The task that is the parent of the members; `None` below a group that was closed.
    task: Option<Task<()>>,
    shared: Arc<Shared<T, E>>,
    /// The hold is a linked one: repeated here, so that `is_cancelled` need not go there.
    is_linked: bool,
    fails_fast: bool,
}

impl<T: Send + 'static> TaskGroup<T> {
    /// Makes a group whose only failures are panics, linked to the innermost scope that is open in
    /// the calling task, or to the task. See [`TaskGroup`] for an example.
    ///
    /// Does not suspend. Costs two allocations and a record.
    ///
    /// # Panics
    /// If called outside a task.
    #[expect(clippy::new_without_default, reason = "it works inside a task only")]
    #[track_caller]
    pub fn new() -> TaskGroup<T> {
        TaskGroup::fallible()
    }

    /// Makes a group that belongs only to a runtime, and whose only failures are panics.
    ///
    /// The group does not hold up the end of its runtime: that cancels the members and waits for
    /// them, not for the group. A group that was cancelled, or whose runtime has ended, takes no
    /// more members. What it has kept can still be taken and joined.
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
    pub fn detached(handle: &Handle) -> Result<TaskGroup<T>, SpawnError<()>> {
        TaskGroup::fallible_detached(handle)
    }
}

impl<T: Send + 'static, E: Send + 'static> TaskGroup<T, E> {
    /// Makes a linked group for members that may fail. Otherwise like [`TaskGroup::new`], also in
    /// cost. See [`TaskGroup`] for an example.
    ///
    /// # Panics
    /// If called outside a task.
    #[track_caller]
    pub fn fallible() -> TaskGroup<T, E> {
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
    pub fn fallible_detached(handle: &Handle) -> Result<TaskGroup<T, E>, SpawnError<()>> {
        let shared = handle.shared();
        let child = shared.admit().ok_or(SpawnError(()))?;
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
    ) -> TaskGroup<T, E> {
        // Without bindings of task-locals, which handles do not keep.
        let terms = terms_with(Location::caller(), Traits::default(), None, None, None);
        let (handle, outside) = shared.spawn_external(parent, terms, on_cancel, counted);
        TaskGroup::with(Some(Task::new(handle)), Hold::new(outside, on_cancel))
    }

    fn with(task: Option<Task<()>>, hold: Hold) -> TaskGroup<T, E> {
        let is_linked = hold.on_cancel() == OnCancel::Wait;
        TaskGroup { task, shared: Arc::new(Shared::new(hold)), is_linked, fails_fast: false }
    }

    /// Makes the group cancel its members when the first of them fails. Costs nothing, and does not
    /// suspend.
    pub fn fail_fast(self) -> TaskGroup<T, E> {
        TaskGroup { fails_fast: true, ..self }
    }

    /// Makes a group below this one: this group ends after it, and a cancel of this group reaches
    /// it.
    ///
    /// Can be called anywhere. Does not suspend. Costs as much as [`TaskGroup::new`].
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let server = cygnet::TaskGroup::<()>::detached(&rt.handle()).unwrap();
    /// let connection: cygnet::TaskGroup = server.child();
    /// connection.add(|| assert!(cygnet::park().is_err()));
    /// server.cancel("the server stops");
    /// drop(connection.join());
    /// server.join().unwrap();
    /// ```
    #[track_caller]
    pub fn child<U: Send + 'static, C: Send + 'static>(&self) -> TaskGroup<U, C> {
        let hold = &self.shared.hold;
        let _entered = match hold.enter() {
            Ok(entered) => entered,
            Err(gate) => return TaskGroup::with(None, Hold::Detached(Arc::clone(gate))),
        };
        // `_entered` holds the group open, and so its node.
        TaskGroup::below(hold.outside().shared(), self.shared.node(), hold.on_cancel(), false)
    }

    /// Spawns a member that returns a value, and returns a handle that cancels this member alone.
    /// The group keeps the value until [`next`](TaskGroup::next) takes it, or the group ends.
    ///
    /// The value comes when all tasks below the member have ended. A member that is cancelled alone
    /// and does not start, is unwound, or returns the very [`Cancelled`](crate::Cancelled) of that
    /// cancel (also in a [`JoinError`](crate::JoinError), a [`WaitError`](crate::sync::WaitError)
    /// or a `Box<dyn Error + Send + Sync>`), gives nothing and is no failure.
    ///
    /// Otherwise as [`add`](TaskGroup::add), also in cost; the value passes an unbounded
    /// [channel](crate::sync::unbounded()) in an allocation of its own, and the handle takes a
    /// locked instruction.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// rt.block_on(|| {
    ///     let mut group = cygnet::TaskGroup::fallible();
    ///     let endless = group.spawn_try(|| cygnet::park().map(|()| "unparked"));
    ///     group.spawn(|| "first");
    ///     assert_eq!(group.next().unwrap(), Some("first"));
    ///     endless.cancel("enough");
    ///     assert_eq!(group.next().unwrap(), None);
    /// });
    /// ```
    ///
    /// # Panics
    /// As for [`add`](TaskGroup::add).
    #[track_caller]
    pub fn spawn<F>(&self, f: F) -> CancelHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn_try(move || Ok(f()))
    }

    /// Spawns a member that returns a value or fails. Otherwise like [`spawn`](TaskGroup::spawn).
    /// See [`TaskGroup`] for an example.
    ///
    /// # Panics
    /// As for [`add`](TaskGroup::add).
    #[track_caller]
    pub fn spawn_try<F>(&self, f: F) -> CancelHandle
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        self.shared.expect();
        let member = self.launch(task(), f, true);
        let handle = member.as_ref().map(Task::cancel_handle);
        member.into_iter().for_each(Task::detach);
        // A group that was closed drops the closure. Its own handle has as little to cancel.
        handle.unwrap_or_else(|| self.cancel_handle())
    }

    /// Waits for the next value of a [spawned](TaskGroup::spawn) member, in the order in which they
    /// come. Returns `None` when this method has taken the outcome of every such member.
    ///
    /// Suspends the calling task, or blocks a plain thread, unless there is a value or no member.
    /// Costs as much as [`Receiver::recv`](crate::sync::Receiver::recv). See [`TaskGroup`] for an
    /// example. A [`timeout`](crate::timeout()) around the call leaves the members as they are.
    ///
    /// # Errors
    /// The failure of a member; the next call goes on with the others.
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled) if the calling task is cancelled and
    /// members are left: their outcomes stay where they are.
    ///
    /// # Panics
    /// As for [`Receiver::recv`](crate::sync::Receiver::recv).
    #[expect(clippy::should_implement_trait, reason = "`?` must come before the `while let`")]
    #[track_caller]
    pub fn next(&mut self) -> Result<Option<T>, TaskError<E>> {
        while let Some(given) = self.to_come() {
            if let Some(value) = given.count(given.receive.recv())? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Like [`next`](TaskGroup::next), as a future for any executor, and for
    /// [`select!`](crate::select). If it is dropped before it is ready, it has taken nothing.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let mut group = cygnet::TaskGroup::detached(&rt.handle()).unwrap();
    /// group.spawn(|| 7);
    /// let seven = cygnet::wait(std::pin::pin!(group.next_async())).unwrap();
    /// assert_eq!(seven.unwrap(), Some(7));
    /// ```
    ///
    /// If it is forgotten (`mem::forget`), it keeps the outcome that may have been set aside for
    /// it, for which a later call then waits for ever.
    ///
    /// # Errors
    /// As for [`next`](TaskGroup::next). The future does not notice a cancel of the task that polls
    /// it: that task drops the future.
    pub async fn next_async(&mut self) -> Result<Option<T>, TaskError<E>> {
        while let Some(given) = self.to_come() {
            if let Some(value) = given.count(given.receive.recv_async().await)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// The outcomes, if one is to come.
    fn to_come(&self) -> Option<&Given<T, E>> {
        let given = self.shared.given().filter(|given| given.is_one_left())?;
        if let Some(task) = self.task.as_ref().filter(|_| given.is_first_wait()) {
            // So that the members count as awaited when stacks are short.
            task.tell_of_end(Waker::noop());
        }
        Some(given)
    }

    /// Spawns a member, and returns its task, if the group is open.
    #[track_caller]
    fn launch<G: Guarding, F>(&self, task: TaskBuilder<G>, f: F, gives: bool) -> Option<Task<()>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        task.refuse_now("a group");
        let hold = &self.shared.hold;
        let fails_fast = self.fails_fast.then_some(Location::caller());
        let (group, has_given) = (Arc::clone(&self.shared), Cell::new(false));
        let mut member = Member { group, fails_fast, gives, ran: false, has_given };
        let _entered = match hold.enter() {
            Ok(entered) => entered,
            Err(gate) => {
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(f)));
                // Kept even if a destructor of the captures has panicked.
                member.refuse(gate.cause());
                dropped.unwrap_or_else(|payload| resume_unwind(payload));
                return None;
            }
        };
        // The closure's captures must be dropped before the member.
        let parts = (f, member);
        let run = move || {
            let (f, member) = parts;
            member.run(f);
        };
        let shared = hold.outside().shared();
        // The value and the error pass over the member's stack.
        let task = task.fitting::<F, Result<T, E>>(shared.config.stack_class);
        // SAFETY: the closure is 'static, and `_entered` holds the group open, so its node is open.
        unsafe { spawn_from_anywhere(shared, self.shared.node(), task, run, !gives) }
    }

    /// Waits until all members have ended. Values that were not taken are dropped.
    ///
    /// Suspends the calling task, or blocks a plain thread.
    ///
    /// # Errors
    /// The first failure. A member that only passes on a cancel of the group counts only if no
    /// other member has failed: a member that did not start, was unwound, or returned the very
    /// [`Cancelled`](crate::Cancelled) of that cancel. A failure that [`next`](TaskGroup::next) has
    /// returned does not count; of the others, those of added members come before those of spawned
    /// ones. [`JoinError::Cancelled`](crate::JoinError::Cancelled) if the
    /// calling task is cancelled; the members are then cancelled too, as with [`Task::join`].
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
    /// unwound, or returns the very [`Cancelled`](crate::Cancelled) that its wait has returned
    /// (also in a [`JoinError`](crate::JoinError) or a `Box<dyn Error + Send + Sync>`).
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled), without a wait, on a worker's thread
    /// between tasks while it is panicking.
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

impl<E: Send + 'static> TaskGroup<(), E> {
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
}

impl<E, F, R> TaskPlace<F> for &TaskGroup<(), E>
where
    E: Send + 'static,
    F: FnOnce() -> R + Send + 'static,
    R: MemberResult<E>,
{
    type Spawned = ();

    fn place<G: Guarding>(self, task: TaskBuilder<G>, f: F, _: Seal) {
        let f = move || f().into_failure().map_or(Ok(()), Err);
        self.launch(task, f, false).into_iter().for_each(Task::detach);
    }
}

unwind_safe! { impl<T, E> TaskGroup<T, E> }

debug! { impl<T, E> TaskGroup<T, E> as this { fails_fast: this.fails_fast, .. } }
