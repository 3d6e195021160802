//! The builder of a task, and the places where it can spawn the task.

use crate::retire::stack::StackClass;
use crate::runtime::errors::BuildError;
use crate::runtime::spawn::{LocalTask, terms_with};
use crate::runtime::task::Task;
use crate::runtime::{here, local};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::spawn::{Lasting, Terms, fit};
use crate::scheduler::spans::carried;
use crate::scheduler::wait::no_suspend::assert_may_suspend;
use crate::scheduler::worker::Worker;
use crate::task::record::Traits;
use crate::task::reference::TaskRef;
use std::panic::Location;

/// A task to be spawned, with a name, a stack of its own size, or in another way than usual. Made
/// by [`task()`].
///
/// [`spawn`](TaskBuilder::spawn) makes the task a child of the caller, and
/// [`spawn_in`](TaskBuilder::spawn_in) spawns it in a scope, a group or a runtime. The parameter
/// `G` is the shutdown guard that the task holds: see [`guard`](TaskBuilder::guard).
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let deep = cygnet::task().name("parser").stack_size(1 << 20).unwrap().spawn(|| "done");
/// assert_eq!(deep.name(), Some("parser"));
/// assert_eq!(deep.join().unwrap(), "done");
/// # });
/// ```
#[derive(Default)]
#[must_use = "nothing runs before spawn"]
pub struct TaskBuilder<G = ()> {
    name: Option<Box<str>>,
    traits: Traits,
    now: bool,
    unscoped: bool,
    guard: G,
}

debug! { impl<G> TaskBuilder<G> as this { name: this.name, .. } }

/// Begins a task with settings of its own. See [`TaskBuilder`] for an example. Costs nothing, and
/// works anywhere; does not suspend.
pub fn task() -> TaskBuilder {
    TaskBuilder::default()
}

/// The guard of a task to be spawned, or `()` if the task holds none. (This module is private, so
/// users can neither name nor implement this trait.)
pub trait Guarding: Sized {
    /// What the task holds until its closure has ended.
    type Held: Send + 'static;

    /// Whether the guard wants to learn of the task.
    const WANTS_TASK: bool;

    fn hold(&self) -> Self::Held;

    /// Tells the guard of the task, which may have ended.
    fn belongs_to<T>(self, task: &Task<T>);
}

impl Guarding for () {
    type Held = ();

    const WANTS_TASK: bool = false;

    fn hold(&self) {}

    fn belongs_to<T>(self, _: &Task<T>) {}
}

/// Seals [`TaskPlace`], as users cannot name this type.
pub struct Seal;

/// A place where a [`TaskBuilder`] can spawn a task from a closure of type `F`. Sealed.
///
/// | place | parent of the task |
/// | --- | --- |
/// | [`&Scope`](crate::Scope) | the scope |
/// | [`&Handle`](crate::Handle), [`&Runtime`](crate::Runtime) | the root of the runtime |
/// | [`&ScopeLease`](crate::ScopeLease) | the scope that the lease keeps open |
/// | [`&TaskGroup`](crate::TaskGroup) | the group, which keeps the result |
/// | [`ChildOn`](crate::ChildOn) | the caller; the task runs on another runtime |
/// | [`ThisWorker`] | the caller; the task never leaves the worker |
#[diagnostic::on_unimplemented(
    message = "a task cannot be spawned in `{Self}` from this closure",
    note = "except in `ThisWorker`, the closure and its result must be `Send`; except in a scope, \
            both must be `'static`"
)]
pub trait TaskPlace<F>: Sized {
    /// What the caller gets: a handle of the task, as a rule.
    type Spawned;

    #[doc(hidden)]
    #[track_caller]
    fn place<G: Guarding>(self, task: TaskBuilder<G>, f: F, _: Seal) -> Self::Spawned;
}

/// The place of a task that never leaves the worker of its spawner: see
/// [`spawn_local`](crate::spawn_local), also for what the spawn costs.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let list = std::rc::Rc::new([1, 2, 3]);
/// let sum = cygnet::task()
///     .name("sum")
///     .spawn_in(cygnet::ThisWorker, move || list.iter().sum::<i32>());
/// assert_eq!(sum.name(), Some("sum"));
/// assert_eq!(sum.join().unwrap(), 6);
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThisWorker;

impl<F: FnOnce() -> T + 'static, T: 'static> TaskPlace<F> for ThisWorker {
    type Spawned = LocalTask<T>;

    fn place<G: Guarding>(self, mut task: TaskBuilder<G>, f: F, _: Seal) -> LocalTask<T> {
        task.refuse_now("ThisWorker");
        assert!(
            !task.traits.migratable,
            "cygnet: a migratable task was spawned in ThisWorker, which it could not leave; leave \
             out migratable() or the place"
        );
        task.traits.local = true;
        let here = here("TaskBuilder::spawn_in");
        // SAFETY: `f` is `'static`, and both the task and its handle stay on this worker.
        LocalTask::new(unsafe { task.spawn_below(here, here.0.running_node(), f) })
    }
}

impl TaskBuilder {
    /// Lets the task hold a guard.
    pub(crate) fn with_guard<G>(self, guard: G) -> TaskBuilder<G> {
        let TaskBuilder { name, traits, now, unscoped, guard: () } = self;
        TaskBuilder { name, traits, now, unscoped, guard }
    }
}

setters! {
    impl<G> TaskBuilder<G>;

    /// Names the task, for reports (of a stack overflow, of a panic). Costs an allocation at the
    /// spawn.
    pub fn name(name: impl Into<String>) => Some(name.into().into_boxed_str());

    /// Starts the task at once, before the spawn returns: see [`spawn_now`](crate::spawn_now), also
    /// for what it costs. The spawn then suspends. Only for a child of the caller, or in a
    /// [`Scope`](crate::Scope). Inside a scope of [`Wait::DescendantsOnly`](crate::Wait), a task
    /// that is spawned in a scope around that one waits in a queue like any other.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let mut begun = false;
    /// cygnet::scope(|s| {
    ///     let child = cygnet::task().now().spawn_in(s, || begun = true);
    ///     assert!(child.is_finished());
    /// });
    /// assert!(begun);
    /// # });
    /// ```
    pub fn now() => true;

    /// Makes the task a child of the runtime and not of the caller, which may end before it: see
    /// [`spawn_unscoped`](crate::spawn_unscoped), also for what it costs. Only for
    /// [`spawn`](TaskBuilder::spawn).
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let log = cygnet::task().name("log").unscoped().spawn(|| 7);
    /// assert_eq!(log.name(), Some("log"));
    /// assert_eq!(log.join().unwrap(), 7);
    /// # });
    /// ```
    pub fn unscoped() => true;
}

impl<G> TaskBuilder<G> {
    /// Asks for a stack of at least `bytes`, 16 KiB to 1 GiB, rounded up to a power of two. Only
    /// the pages that the task touches take memory. Such a task is never run in place by a join.
    ///
    /// # Errors
    /// [`BuildError::StackSize`] if that is out of bounds.
    ///
    /// ```
    /// let error = cygnet::task().stack_size(100).unwrap_err();
    /// assert!(error.to_string().contains("stack_size"));
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Result<TaskBuilder<G>, BuildError> {
        self.traits.stack_class = StackClass::for_size(bytes)?.to_byte();
        Ok(self)
    }

    /// Lets the task change workers (threads) whenever it waits.
    ///
    /// Started or not, any worker may take it when it is ready, so one that waits often is balanced
    /// better than a pinned one. A yield leaves it where it is. The spawn costs as much as that of
    /// any other task. The task always takes a coroutine of its own, is never run in place by a
    /// join, and each wake passes through a public queue.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// // SAFETY: the task holds one integer over the suspension.
    /// let task = unsafe { cygnet::task().migratable() }.spawn(|| {
    ///     let n = 41;
    ///     cygnet::yield_now().unwrap();
    ///     n + 1
    /// });
    /// assert_eq!(task.join().unwrap(), 42);
    /// # });
    /// ```
    ///
    /// # Safety
    /// Nothing that the spawned task holds over a suspension may be tied to a thread: neither
    /// values that are not `Send` (guards of std's locks, `Rc`, a [`LocalTask`], whose join
    /// suspends) nor references into thread-locals, including what a compiler may keep of a
    /// thread-local's address across a call that suspends.
    pub unsafe fn migratable(mut self) -> TaskBuilder<G> {
        self.traits.migratable = true;
        self
    }
}

impl<G: Guarding> TaskBuilder<G> {
    /// Spawns the task as a child of the caller. See [`spawn()`](crate::spawn()), also for what it
    /// costs, and [`TaskBuilder`] for an example. Does not suspend, except with
    /// [`now`](TaskBuilder::now).
    ///
    /// # Panics
    /// Same as [`spawn()`](crate::spawn()), and with [`now`](TaskBuilder::now) same as
    /// [`spawn_now`](crate::spawn_now). If [`now`](TaskBuilder::now) was combined with
    /// [`unscoped`](TaskBuilder::unscoped) or [`migratable`](TaskBuilder::migratable). If the task
    /// is migratable and the thread is panicking.
    #[inline]
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.assert_modes();
        let here = here("TaskBuilder::spawn");
        let parent = match self.unscoped {
            true => here.0.root_of_task(),
            false => here.0.running_node(),
        };
        // SAFETY: `f` is `'static`.
        unsafe { self.spawn_below(here, parent, f) }
    }

    /// Spawns the task in `place`: see [`TaskPlace`] for the places and what the call returns. Does
    /// not suspend, except with [`now`](TaskBuilder::now). Costs as much as a spawn without a
    /// builder there.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let index = cygnet::task().name("index").spawn_in(&rt.handle(), || 7).unwrap();
    /// assert_eq!(index.name(), Some("index"));
    /// assert_eq!(index.join().unwrap(), 7);
    ///
    /// let text = String::from("a b c");
    /// rt.block_on(|| {
    ///     cygnet::scope(|s| {
    ///         let large = cygnet::task().stack_size(1 << 20).unwrap();
    ///         let count = large.spawn_in(s, || text.split(' ').count());
    ///         assert_eq!(count.join().unwrap(), 3);
    ///     });
    ///     let lease = cygnet::lease();
    ///     let late = cygnet::task().name("late").spawn_in(&lease, || 7);
    ///     assert_eq!(late.join().unwrap(), 7);
    ///     let group = cygnet::TaskGroup::new();
    ///     cygnet::task().name("reader").spawn_in(&group, || ());
    ///     group.join().unwrap();
    /// });
    /// ```
    ///
    /// # Panics
    /// With [`unscoped`](TaskBuilder::unscoped). With [`now`](TaskBuilder::now), except in a scope.
    /// In [`ThisWorker`] with [`migratable`](TaskBuilder::migratable). If the task is migratable,
    /// and is to start at once or the thread is panicking. In a scope, [`ChildOn`](crate::ChildOn)
    /// and [`ThisWorker`]: outside a task. With some 134 million unfinished siblings.
    #[track_caller]
    pub fn spawn_in<P, F>(self, place: P, f: F) -> P::Spawned
    where
        P: TaskPlace<F>,
    {
        assert!(
            !self.unscoped,
            "cygnet: an unscoped task was spawned in a place, which would be its parent; leave out \
             unscoped(), or call spawn instead of spawn_in"
        );
        self.assert_modes();
        place.place(self, f, Seal)
    }

    /// Checks what does not depend on the place.
    #[inline]
    #[track_caller]
    fn assert_modes(&self) {
        assert!(
            !(self.now && self.unscoped),
            "cygnet: an unscoped task was to start at once, but only a child of the caller or of a \
             scope can; leave out now() or unscoped()"
        );
        assert!(
            !(self.now && self.traits.migratable),
            "cygnet: a migratable task was to start at once on the worker of its spawner; leave out \
             now() or migratable()"
        );
        assert!(
            !(self.traits.migratable && crate::shim::panicking()),
            "cygnet: a migratable task was spawned while the thread is panicking; leave out \
             migratable() there"
        );
    }

    /// Checks that the task need not start at once, where that cannot be.
    #[track_caller]
    pub(crate) fn refuse_now(&self, place: &str) {
        assert!(
            !self.now,
            "cygnet: a task was to start at once in {place}, but only a child of the caller or of \
             a scope can; leave out now()"
        );
    }

    /// Asks for a larger stack if a closure or a result of these types needs it.
    pub(crate) fn fitting<F, T>(mut self, usual: StackClass) -> TaskBuilder<G> {
        fit::<F, T>(&mut self.traits, usual);
        self
    }

    /// Returns the closure, with the guard that is held while it exists and runs.
    pub(crate) fn hold<F: FnOnce() -> T, T>(&self, f: F) -> impl FnOnce() -> T + use<F, T, G> {
        // Dropped in this order, also if the closure is never called.
        let held = (f, self.guard.hold());
        move || {
            let (f, _held) = held;
            f()
        }
    }

    /// The terms of a spawn, by a task of the same runtime or from outside, and the guard.
    #[inline]
    #[track_caller]
    pub(crate) fn into_terms(self, task: Option<TaskRef<'_>>) -> (Terms, G) {
        let locals = task.and_then(|task| local::inherit(&task));
        (terms_with(Location::caller(), self.traits, self.name, locals, carried()), self.guard)
    }

    /// Spawns the task below `parent`, from the running task.
    ///
    /// # Safety
    /// What `f` and `T` borrow outlives the new task. If they are not Send, the task is local.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn spawn_below<F: FnOnce() -> T, T>(
        self,
        (worker, task): (&Worker, TaskRef<'_>),
        parent: LiveNode<'_>,
        f: F,
    ) -> Task<T> {
        let now = self.now;
        if now {
            assert_may_suspend();
        }
        let f = self.hold(f);
        let (terms, guard) = self.into_terms(Some(task));
        // SAFETY: the caller guarantees the borrows, and the guard is `'static`.
        let lasting = unsafe { Lasting::promised() };
        if !now {
            let handle = Task::new(worker.spawn(parent, f, lasting, terms));
            guard.belongs_to(&handle);
            return handle;
        }
        let (run, handle) = worker.new_task(parent, f, lasting, terms);
        let handle = Task::new(handle);
        guard.belongs_to(&handle);
        worker.start_now(task, run);
        handle
    }
}
