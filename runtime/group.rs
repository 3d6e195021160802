//! Groups: a node of the tree on the heap, for tasks that come one by one and from everywhere.

use crate::retire::cause::{Cause, Reason};
use crate::retire::outcome::Failure;
use crate::retire::record::Traits;
use crate::retire::tree::Node;
use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::{Cancelled, JoinError, SpawnError};
use crate::runtime::handle::Handle;
use crate::runtime::here;
use crate::runtime::lease::spawn_from_anywhere;
use crate::runtime::several::TaskError;
use crate::runtime::spawn::{TaskBuilder, outside_terms, terms};
use crate::runtime::task::{Claim, Task};
use crate::scheduler::cancel::{cancel_node, cause_of, is_cancelled, link};
use crate::scheduler::external::{OnCancel, Outside};
use crate::scheduler::no_suspend::assert_may_wait;
use crate::scheduler::worker::Worker;
use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// What the closure of a member of a [`TaskGroup`] may return: nothing, or a `Result` without a value; or it never does.
pub trait MemberResult<E> {
    /// The failure, if it is one.
    #[doc(hidden)]
    fn into_failure(self) -> Option<E>;
}

impl<E> MemberResult<E> for () {
    fn into_failure(self) -> Option<E> {
        None
    }
}

impl<E> MemberResult<E> for Result<(), E> {
    fn into_failure(self) -> Option<E> {
        self.err()
    }
}

// What a closure returns.
#[doc(hidden)]
pub trait Returns {
    type Value;
}

impl<T> Returns for fn() -> T {
    type Value = T;
}

/// `!`, which cannot be written here yet.
type Never = <fn() -> ! as Returns>::Value;

/// Of a closure that loops for ever.
impl<E> MemberResult<E> for Never {
    fn into_failure(self) -> Option<E> {
        self
    }
}

/// A group of tasks, the members, that are spawned one by one, from tasks and threads, and joined or cancelled together.
///
/// A group is a node of the tree that is not bound to a frame. A *linked* one is a child of the scope that is open where it
/// is made (or of the task): the scope ends after it, and a cancel of the scope reaches it. A *detached* one belongs to a
/// runtime and to nobody else.
///
/// The members have no handles: what they return is nothing, or a failure, of which the group keeps the first. A panic is a
/// failure, and so is a member that did not start because of a cancel. A group that [fails
/// fast](TaskGroup::fail_fast) cancels the others then.
///
/// Dropping a group cancels its members, as dropping a [`Task`] does, and does not wait for them. After a join
/// there is no group any more, and nothing to spawn into:
///
/// ```compile_fail,E0382
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let group = cygnet::TaskGroup::new();
/// group.join().unwrap();
/// group.spawn(|| ());
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
///         group.spawn(move || { served.fetch_add(1, Ordering::Relaxed); });
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
///         group.spawn(move || text.parse::<u32>().map(drop));
///     }
///     let error = group.join().unwrap_err();
///     assert_eq!(error.to_string(), "invalid digit found in string");
/// });
/// ```
#[must_use = "dropping a TaskGroup cancels its members; call join"]
pub struct TaskGroup<E = Infallible> {
    /// The task that has the members for children.
    task: Task<()>,
    /// Holds it open for members to come; a cancel does not end it.
    node: Outside<()>,
    failures: Arc<Failures<E>>,
    fails_fast: bool,
}

/// What the members share.
struct Failures<E> {
    first: Mutex<Option<TaskError<E>>>,
}

impl<E> Failures<E> {
    /// Keeps the first, or the first that is not the mere consequence of a cancel. False if it is not this one.
    fn keep(&self, failure: TaskError<E>) -> bool {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let keeps =
            first.as_ref().is_none_or(|first| is_consequence(first) && !is_consequence(&failure));
        // A user's destructors may run: not under the lock.
        let other = if keeps { first.replace(failure) } else { Some(failure) };
        drop(first);
        drop(other);
        keeps
    }
}

/// Whether it says no more than that there was a cancel.
fn is_consequence<E>(failure: &TaskError<E>) -> bool {
    matches!(failure, TaskError::Join(JoinError::NotStarted(_) | JoinError::Unwound(_)))
}

/// A member, until it has run.
struct Member<E> {
    failures: Arc<Failures<E>>,
    /// The group's, which does not end before its members.
    node: *const Node,
    fails_fast: Option<&'static Location<'static>>,
    ran: bool,
}

// SAFETY: nodes are shared by design; the failures are Send.
unsafe impl<E: Send> Send for Member<E> {}

impl<E> Member<E> {
    fn run<R: MemberResult<E>>(mut self, f: impl FnOnce() -> R) {
        let result = catch_unwind(AssertUnwindSafe(f));
        self.ran = true;
        match result {
            Ok(result) => {
                if let Some(error) = result.into_failure() {
                    self.fail(TaskError::Failed(error));
                }
            }
            Err(payload) => self.fail(TaskError::Join(Failure::from(payload).into())),
        }
    }

    fn fail(&self, failure: TaskError<E>) {
        if self.failures.keep(failure)
            && let Some(place) = self.fails_fast
        {
            let cause = Cause::new(Reason::SiblingFailed, Some(place));
            // SAFETY: the caller is a member.
            unsafe { cancel_node(&*self.node, Some(cause)) };
        }
    }
}

impl<E> Drop for Member<E> {
    fn drop(&mut self) {
        if self.ran {
            return;
        }
        // SAFETY: its captures are dropped before a member ends.
        let node = unsafe { &*self.node };
        self.fail(TaskError::Join(if is_cancelled(node) {
            JoinError::NotStarted(Cancelled::new(cause_of(node)))
        } else {
            // As the runtime has told its hook for panics.
            JoinError::Panicked(Box::new("cygnet: there was no stack for a member of a group"))
        }));
    }
}

impl TaskGroup {
    /// A group without failures other than panics, linked to the innermost scope that is open in the calling task, or to the
    /// task. See [`TaskGroup`] for an example.
    ///
    /// Does not suspend. Costs two allocations and a record.
    ///
    /// # Panics
    /// Outside a task.
    #[expect(clippy::new_without_default, reason = "it works inside a task only")]
    #[track_caller]
    pub fn new() -> TaskGroup {
        TaskGroup::fallible()
    }

    /// A group without failures other than panics, of a runtime and of nobody else. From anywhere.
    ///
    /// The drop of the runtime cancels the members, and waits for them and for the group: join or drop that before, or on
    /// another thread. (In a struct, name the group before the runtime.)
    ///
    /// Does not suspend. Costs as [`TaskGroup::new`].
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let group = cygnet::TaskGroup::detached(&rt.handle()).unwrap();
    /// group.spawn(|| { /* .. */ });
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
    /// As [`TaskGroup::new`], also in what it costs, for members that may fail. See [`TaskGroup`] for an example. Does not
    /// suspend.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn fallible() -> TaskGroup<E> {
        let (worker, parent) = here("TaskGroup::new");
        let terms = terms(parent, Location::caller(), Traits::default(), None);
        // SAFETY: the running node is open.
        let made = unsafe { worker.spawn_external(worker.node.get(), terms, OnCancel::Wait) };
        TaskGroup::of(made)
    }

    /// As [`TaskGroup::detached`], also in what it costs, for members that may fail. Does not suspend.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let group = cygnet::TaskGroup::fallible_detached(&rt.handle()).unwrap();
    /// group.spawn(|| "x".parse::<u8>().map(drop));
    /// assert!(group.join().is_err());
    /// ```
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn fallible_detached(handle: &Handle) -> Result<TaskGroup<E>, SpawnError<()>> {
        let shared = handle.shared();
        if !shared.root.admit() {
            return Err(SpawnError(()));
        }
        let terms = outside_terms(Location::caller(), Traits::default(), None);
        Ok(TaskGroup::of(shared.spawn_external_root(terms, OnCancel::Wait)))
    }

    fn of((record, node): (std::ptr::NonNull<crate::retire::record::Record>, Outside<()>)) -> Self {
        // SAFETY: the handle's reference is ours.
        let task = Task::new(unsafe { Claim::new(record) });
        let failures = Arc::new(Failures { first: Mutex::new(None) });
        TaskGroup { node, task, failures, fails_fast: false }
    }

    /// Makes it a group that cancels its members when the first of them fails. Costs nothing, and does not suspend.
    pub fn fail_fast(self) -> TaskGroup<E> {
        TaskGroup { fails_fast: true, ..self }
    }

    /// A group below this one, from anywhere: this one ends after it, and a cancel of this one reaches it.
    ///
    /// Does not suspend. Costs as [`TaskGroup::new`].
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let server = cygnet::TaskGroup::detached(&rt.handle()).unwrap();
    /// let connection: cygnet::TaskGroup = server.child();
    /// connection.spawn(|| assert!(cygnet::park().is_err()));
    /// server.cancel("the server stops");
    /// drop(connection.join());
    /// server.join().unwrap();
    /// ```
    #[track_caller]
    pub fn child<C: Send + 'static>(&self) -> TaskGroup<C> {
        let terms = outside_terms(Location::caller(), Traits::default(), None);
        let shared = self.node.shared();
        let parent: *const Node = &raw const self.task.record().node;
        let here = Worker::current().filter(|worker| std::ptr::eq(worker.shared.get(), shared));
        // SAFETY: held open.
        TaskGroup::of(unsafe {
            match here {
                Some(worker) => worker.spawn_external(parent, terms, OnCancel::Wait),
                None => shared.spawn_external_below(parent, terms, OnCancel::Wait),
            }
        })
    }

    /// Spawns a member, from anywhere. A task of the group's runtime that calls this hands its task-locals down.
    ///
    /// Does not suspend. Costs as [`spawn`](crate::spawn()) in a task of the same runtime, and two locked instructions; as
    /// [`Handle::spawn`] elsewhere. See [`TaskGroup`] for an example.
    ///
    /// # Panics
    /// With some 134 million unfinished members.
    #[track_caller]
    pub fn spawn<F, R>(&self, f: F)
    where
        F: FnOnce() -> R + Send + 'static,
        R: MemberResult<E>,
    {
        self.spawn_with(TaskBuilder::default(), f);
    }

    /// As [`TaskGroup::spawn`], also in what it costs, with a name or a stack of its own size. Does not suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let group = cygnet::TaskGroup::new();
    /// group.spawn_with(cygnet::task().name("reader"), || ());
    /// group.join().unwrap();
    /// # });
    /// ```
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn spawn_with<F, R>(&self, task: TaskBuilder, f: F)
    where
        F: FnOnce() -> R + Send + 'static,
        R: MemberResult<E>,
    {
        let at = Location::caller();
        let node: *const Node = &raw const self.task.record().node;
        let member = Member {
            failures: Arc::clone(&self.failures),
            node,
            fails_fast: self.fails_fast.then_some(at),
            ran: false,
        };
        // The closure's captures go before the member.
        let parts = Parts { f, member };
        let run = move || parts.run();
        // SAFETY: 'static; the node is open until it is settled, by a join or a drop.
        unsafe { spawn_from_anywhere(self.node.shared(), node, run, (task, at), true) };
    }

    /// Waits until all members have ended.
    ///
    /// Suspends the calling task, or blocks a plain thread.
    ///
    /// # Errors
    /// The failure that came first, if need be the [`JoinError::NotStarted`] of a member that was cancelled before its
    /// start; [`JoinError::Cancelled`] if the calling task is cancelled: then so are the members, as
    /// with [`Task::join`].
    ///
    /// # Panics
    /// As [`Task::join`].
    pub fn join(self) -> Result<(), TaskError<E>> {
        let TaskGroup { node, task, failures, .. } = self;
        close(node);
        let joined = task.join();
        result(joined, &failures)
    }

    /// Cancels all members, and waits until they have ended, also if the calling task is cancelled.
    ///
    /// Suspends (structured), or blocks a plain thread. Costs as [`Task::cancel`].
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let group = cygnet::TaskGroup::new();
    /// group.spawn(|| assert!(cygnet::park().is_err()));
    /// group.cancel_and_join("the server stops").unwrap();
    /// # });
    /// ```
    ///
    /// A member that does so to its own group waits for itself, for ever.
    ///
    /// # Errors
    /// The failure that came first. That a member did not start because of this cancel is none.
    ///
    /// # Panics
    /// As [`Task::join`].
    #[track_caller]
    pub fn cancel_and_join(self, reason: impl Into<Reason>) -> Result<(), TaskError<E>> {
        self.cancel(reason);
        assert_may_wait();
        let TaskGroup { node, task, failures, .. } = self;
        close(node);
        let joined = task.await_end();
        match result(joined, &failures) {
            Err(failure) if is_consequence(&failure) => Ok(()),
            other => other,
        }
    }

    /// Cancels all members, and those that come later. See [`Task::cancel`], also for what it costs. Does not suspend.
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        self.task.cancel(reason);
    }

    /// A handle that does so from anywhere, and may outlive the group; it says when a cancel from above has come. Costs two
    /// locks, and a locked instruction for each further one. Does not suspend.
    pub fn cancel_handle(&self) -> CancelHandle {
        let node = &self.task.record().node;
        if !node.is_linked() {
            link(node);
        }
        self.task.cancel_handle()
    }

    /// Whether a member that is spawned now would not start any more. Does not suspend; some nanoseconds.
    pub fn is_cancelled(&self) -> bool {
        is_cancelled(&self.task.record().node)
    }
}

/// The closure of a member, in the order in which they are dropped.
struct Parts<F, E> {
    f: F,
    member: Member<E>,
}

impl<F: FnOnce() -> R, R: MemberResult<E>, E> Parts<F, E> {
    fn run(self) {
        let Parts { f, member } = self;
        member.run(f);
    }
}

/// No more members come from outside of it.
fn close(node: Outside<()>) {
    let settled = node.settle(Ok(()));
    debug_assert!(settled.is_ok(), "a cancel does not end it, and nobody else settles it");
}

fn result<E>(joined: Result<(), JoinError>, failures: &Failures<E>) -> Result<(), TaskError<E>> {
    let first = failures.first.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (first, joined) {
        (Some(failure), _) => Err(failure),
        (None, joined) => joined.map_err(TaskError::Join),
    }
}

impl<E> UnwindSafe for TaskGroup<E> {}
impl<E> RefUnwindSafe for TaskGroup<E> {}

impl<E> fmt::Debug for TaskGroup<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup").field("fails_fast", &self.fails_fast).finish_non_exhaustive()
    }
}
