//! The ways to start a task.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::task::{Task, TaskId};
use crate::runtime::{here, local};
use crate::scheduler::life::spawn::{Lasting, Terms};
use crate::scheduler::spans::{Carried, carried, carry};
use crate::scheduler::wait::no_suspend::assert_may_suspend;
use crate::shim::time::Duration;
use crate::task::cause::Reason;
use crate::task::cold::ColdData;
use crate::task::record::Traits;
use crate::task::reference::TaskRef;
use std::marker::PhantomData;
use std::panic::Location;

/// The terms of a spawn from inside a task: a child inherits its parent's task-locals, and begins in
/// the present span.
#[inline]
pub(crate) fn terms(
    parent: TaskRef<'_>,
    at: &'static Location<'static>,
    traits: Traits,
    name: Option<Box<str>>,
) -> Terms {
    terms_with(at, traits, name, local::inherit(&parent), carried())
}

/// The terms of a spawn from outside a task, without anything that it inherits but the span.
pub(crate) fn terms_outside(at: &'static Location<'static>) -> Terms {
    terms_with(at, Traits::default(), None, None, carried())
}

/// The terms of a spawn with these task-locals and in this span.
#[inline(always)]
pub(crate) fn terms_with(
    at: &'static Location<'static>,
    traits: Traits,
    name: Option<Box<str>>,
    locals: local::Nesting,
    span: Option<Carried>,
) -> Terms {
    let has_cold = name.is_some() || locals.is_some() || span.is_some();
    let cold = if has_cold { boxed(name, locals, span) } else { None };
    Terms { spawned_at: at, traits, cold }
}

#[cold]
#[inline(never)]
fn boxed(
    name: Option<Box<str>>,
    locals: local::Nesting,
    span: Option<Carried>,
) -> Option<Box<ColdData>> {
    let mut cold = Box::new(ColdData::with(name, locals));
    carry(&mut cold, span);
    Some(cold)
}

/// Spawns a child of the calling task (or of the scope that is open in it).
///
/// The child may be started by any worker; once started it stays there until its end, so its code
/// never sees another thread: `Rc`, thread-locals and guards of std's locks on its stack are fine.
/// The parent ends after it. See [the contract](crate#the-thread-rule). (Items that pass through a
/// task per stage therefore balance worse than with [`pipeline()`](crate::pipeline()), where the
/// items move.)
///
/// Does not suspend. Costs a record from the worker's pool, no locked instruction, and no stack
/// before the child starts; more if another worker has asked for work. Captures and results that
/// take more than 4 KiB in sum give the task a larger stack.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// # rt.block_on(|| {
/// let child = cygnet::spawn(|| 6 * 7);
/// assert_eq!(child.join().unwrap(), 42);
/// # });
/// ```
///
/// What the closure captures and what it returns must be `Send`, as it may start on another thread:
///
/// ```compile_fail,E0277
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let shared = std::rc::Rc::new(7);
/// let child = cygnet::spawn(move || *shared); // `Rc<i32>` cannot be sent
/// # drop(child);
/// # });
/// ```
///
/// ```compile_fail,E0277
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let child = cygnet::spawn(|| std::rc::Rc::new(7)); // nor can the result
/// # drop(child);
/// # });
/// ```
///
/// And it may outlive the frame that spawns it:
///
/// ```compile_fail,E0373
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let local = 7;
/// let child = cygnet::spawn(|| local + 1); // borrows `local`; see `scope`
/// # drop(child);
/// # });
/// ```
///
/// # Panics
/// Outside a task (use [`Runtime::spawn`](crate::Runtime::spawn) or
/// [`Handle::spawn`](crate::Handle::spawn) there), or with some 134 million unfinished siblings.
#[inline]
#[track_caller]
pub fn spawn<F, T>(f: F) -> Task<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (worker, parent) = here("spawn");
    let terms = terms(parent, Location::caller(), Traits::default(), None);
    Task::new(worker.spawn(worker.running_node(), f, Lasting::new(), terms))
}

/// Spawns a child and starts it at once, on this worker and a stack of its own, before the call
/// returns: when the child waits for the first time, or has ended. Otherwise as [`spawn`].
///
/// For work that must have happened before the caller goes on, such as a registration by the child.
/// A join does not call the child in place, and no worker steals it. If there is no stack for the
/// child, or the thread is unwinding, this call spawns it like [`spawn`]. If the scope is
/// cancelled, the child never starts.
///
/// Suspends; the caller is as a rule the next to go on after the child. Costs as [`spawn`] and two
/// switches.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// # rt.block_on(|| {
/// let (tell, told) = std::sync::mpsc::channel();
/// let child = cygnet::spawn_now(move || {
///     tell.send("I have begun").unwrap();
///     cygnet::yield_now().unwrap();
///     tell.send("and go on").unwrap();
/// });
/// assert_eq!(told.try_recv(), Ok("I have begun"));
/// assert!(told.try_recv().is_err());
/// child.join().unwrap();
/// assert_eq!(told.try_recv(), Ok("and go on"));
/// # });
/// ```
///
/// # Panics
/// Same as [`spawn`], and inside [`no_suspend`](crate::no_suspend).
#[track_caller]
pub fn spawn_now<F, T>(f: F) -> Task<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (worker, parent) = here("spawn_now");
    assert_may_suspend();
    let terms = terms(parent, Location::caller(), Traits::default(), None);
    let (run, handle) = worker.new_task(worker.running_node(), f, Lasting::new(), terms);
    worker.start_now(parent, run);
    Task::new(handle)
}

/// Spawns a task that belongs to the runtime and not to the caller, which may end before it. It
/// inherits the caller's task-locals. Its handle is like any other: dropping it cancels, so detach
/// it to let it run.
///
/// Does not suspend. Costs as [`spawn`] and two locked instructions; a join never runs it in place.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let (done, end) = std::sync::mpsc::channel();
/// rt.block_on(|| cygnet::spawn_unscoped(move || done.send("later").unwrap()).detach());
/// assert_eq!(end.recv().unwrap(), "later");
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn spawn_unscoped<F, T>(f: F) -> Task<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (worker, parent) = here("spawn_unscoped");
    let terms = terms(parent, Location::caller(), Traits::default(), None);
    let root = worker.root_of_task();
    Task::new(worker.spawn(root, f, Lasting::new(), terms))
}

/// Spawns a child that never leaves this worker, neither before nor after its start. Neither it nor
/// its result need be `Send`.
///
/// Does not suspend. Costs as [`spawn`]. Local tasks start first in first out, after other fresh
/// ones.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// # rt.block_on(|| {
/// let count = std::rc::Rc::new(std::cell::Cell::new(0));
/// let counter = count.clone();
/// cygnet::spawn_local(move || counter.set(counter.get() + 1)).join().unwrap();
/// assert_eq!(count.get(), 1);
/// # });
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn spawn_local<F, T>(f: F) -> LocalTask<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    let (worker, parent) = here("spawn_local");
    let traits = Traits { local: true, ..Traits::default() };
    let terms = terms(parent, Location::caller(), traits, None);
    // SAFETY: `f` is `'static`. The task stays on this worker, as does its handle.
    let lasting = unsafe { Lasting::promised() };
    LocalTask::new(Task::new(worker.spawn(worker.running_node(), f, lasting, terms)))
}

/// The handle of a task that stays on its worker. Like [`Task`], but neither is it `Send` nor need
/// its result be; nor is it a future. See [`spawn_local`] for an example.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let local = cygnet::spawn_local(|| 7);
/// std::thread::spawn(move || local.is_finished()); // `LocalTask` cannot be sent
/// # });
/// ```
#[must_use = "dropping a LocalTask cancels it; call join or detach"]
pub struct LocalTask<T> {
    task: Task<T>,
    here: PhantomData<*const ()>,
}

impl<T> LocalTask<T> {
    /// Makes the handle of a task that stays on this worker.
    pub(crate) fn new(task: Task<T>) -> LocalTask<T> {
        LocalTask { task, here: PhantomData }
    }

    /// Waits for the task's end and returns its value. See [`Task::join`], also for when it
    /// suspends and what it costs.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let list = cygnet::spawn_local(|| std::rc::Rc::new([1, 2, 3])); // the result need not be `Send`
    /// assert_eq!(list.join().unwrap().len(), 3);
    /// # });
    /// ```
    ///
    /// # Errors
    /// Same as [`Task::join`].
    ///
    /// # Panics
    /// Same as [`Task::join`].
    #[cfg_attr(feature = "sim", track_caller)]
    pub fn join(self) -> Result<T, JoinError> {
        self.task.join()
    }

    /// Waits for the task's end and returns its value. A panic of the task goes on in the caller.
    /// See [`Task::value`], also for the errors, the panics and the cost.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let list = cygnet::spawn_local(|| std::rc::Rc::new([1, 2, 3]));
    /// assert_eq!(list.value().unwrap().len(), 3);
    /// # });
    /// ```
    #[track_caller]
    pub fn value(self) -> Result<T, Cancelled> {
        self.task.value()
    }

    /// Waits for the task's end, but not longer than a time, and returns its value. See
    /// [`Task::join_timeout`], also for the errors, the panics and the cost.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let mut task = cygnet::spawn_local(|| 7);
    /// assert_eq!(task.join_timeout(std::time::Duration::from_secs(60)).unwrap(), 7);
    /// # });
    /// ```
    #[track_caller]
    pub fn join_timeout(&mut self, time: Duration) -> Result<T, JoinError> {
        self.task.join_timeout(time)
    }

    /// Cancels the task and all its descendants. See [`Task::cancel`], also for what it costs. Does
    /// not suspend.
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        self.task.cancel(reason);
    }

    /// A handle that cancels the task and does nothing else. It may go to other threads. Costs a
    /// locked instruction. Does not suspend. See [`CancelHandle`].
    pub fn cancel_handle(&self) -> CancelHandle {
        self.task.cancel_handle()
    }

    /// Whether the task, with all its children, has ended. Does not suspend. One load.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let task = cygnet::spawn_local(|| ());
    /// while !task.is_finished() {
    ///     cygnet::yield_now().unwrap();
    /// }
    /// # task.join().unwrap();
    /// # });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Lets go of the handle; the task goes on. See [`Task::detach`], also for what it costs.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let (done, end) = std::sync::mpsc::channel();
    /// rt.block_on(|| cygnet::spawn_local(move || done.send(7).unwrap()).detach());
    /// assert_eq!(end.recv(), Ok(7));
    /// ```
    pub fn detach(self) {
        self.task.detach();
    }

    /// The task's identity. A load; does not suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let task = cygnet::spawn_local(|| cygnet::current_id().unwrap());
    /// let id = task.id();
    /// assert_eq!(task.join().unwrap(), id);
    /// # });
    /// ```
    pub fn id(&self) -> TaskId {
        self.task.id()
    }

    /// The name it was given, if any. Two loads; does not suspend.
    pub fn name(&self) -> Option<&str> {
        self.task.name()
    }
}

impl<T> std::fmt::Debug for LocalTask<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.task.fmt(f)
    }
}
