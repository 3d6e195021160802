//! Scopes: tasks that borrow from the frame that waits for them.

use crate::retire::cause::{Cause, Reason};
use crate::retire::chain::Pin;
use crate::retire::record::drop_payload;
use crate::retire::tree::Node;
use crate::retire::wait::WaitKind;
use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::here;
use crate::runtime::spawn::{TaskBuilder, terms};
use crate::runtime::task::{Claim, TaskId, is_running_task};
use crate::scheduler::cancel::{cancel, cancel_node};
use crate::scheduler::no_suspend::{assert_may_suspend, assert_may_wait};
use crate::scheduler::scope::ScopeFrame;
use crate::scheduler::spawn::Terms;
use crate::scheduler::worker::Worker;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{
    AssertUnwindSafe, Location, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind,
};

/// An open scope, in which tasks can be spawned that borrow from outside of it. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    frame: ScopeFrame,
    // Invariant in both, as std's.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

// A task in a scope may spawn siblings inside catch_unwind.
impl RefUnwindSafe for Scope<'_, '_> {}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope { .. }")
    }
}

/// Opens a scope: tasks spawned in it may borrow what lives outside, as it does not return before
/// all of them have ended. As `std::thread::scope`, with tasks.
///
/// Tasks spawned with [`spawn`](crate::spawn()) inside `f` belong to the scope too.
///
/// Suspends at its end (structured) if tasks are left; those that still lie on top of this worker's
/// queue are called there and then. Costs a node on the caller's frame: no allocation, and no lock
/// unless a task panics.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut numbers = [3, 1, 2];
/// rt.block_on(|| {
///     let (left, right) = numbers.split_at_mut(1);
///     cygnet::scope(|s| {
///         s.spawn(|| left[0] *= 10);
///         s.spawn(|| right.iter_mut().for_each(|n| *n *= 100));
///     });
/// });
/// assert_eq!(numbers, [30, 100, 200]);
/// ```
///
/// What is made inside `f` does not live long enough to be borrowed by a task, and neither the scope
/// nor its handles can leave:
///
/// ```compile_fail,E0373
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// cygnet::scope(|s| {
///     let inner = 7;
///     s.spawn(|| inner + 1); // borrows `inner`, which goes before the scope ends
/// });
/// # });
/// ```
///
/// ```compile_fail
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let escaped = cygnet::scope(|s| s.spawn(|| 7)); // the handle borrows from the scope
/// # drop(escaped);
/// # });
/// ```
///
/// ```compile_fail,E0521
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let mut escaped = None;
/// cygnet::scope(|s| escaped = Some(s));
/// # });
/// ```
///
/// # Panics
/// With the panic of `f`; else with the first panic of a task that was not joined, or with the text of
/// [`NoStack`](crate::NoStack) if there was no stack for one; in all cases after all tasks have ended.
/// Outside a task.
#[track_caller]
pub fn scope<'env, F, R>(f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    scope_with(Wait::Anyone, f)
}

/// Who may run on a worker while a task of it waits. See [`scope_with`] and
/// [`join_with`](crate::join_with).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wait {
    /// Whoever is ready.
    #[default]
    Anyone,
    /// Only what descends from the scope that waits.
    DescendantsOnly,
}

/// As [`scope`], and says who may run on this worker while the scope is open and its task waits.
///
/// With [`Wait::DescendantsOnly`] the worker starts and continues nothing but tasks of the scope, and their
/// children, from the scope's opening to its end. So does every other worker, as long as such a task is
/// started and unfinished on it. So nothing that the scope waits for waits for a stranger, and it is safe to
/// hold a lock of std's, which belongs to the thread, over the scope: nobody else runs on this thread who
/// could ask for it.
///
/// Strangers who are at home on such a worker wait until the scope ends; those that have not started are
/// given to other workers.
///
/// **Limit.** A task of the scope that waits for a stranger who is at home on the same worker (or is local
/// to it), or for one that has not started while all workers run nothing but tasks of such scopes, waits for
/// ever. What another runtime's task starts here on its behalf, by `block_on`, is a stranger. After 10 s without anything to do the worker says on stderr whom it keeps
/// waiting. Tasks spawned with [`spawn_unscoped`](crate::spawn_unscoped) are strangers.
///
/// Suspends as [`scope`]. Costs some 50 ns more than that, and as much for each task in it that is started
/// by a loop. A task spawned in it as migratable is not; a worker that has nothing to run looks for tasks of
/// the scope elsewhere, up to each 10 ms.
///
/// ```
/// use cygnet::Wait;
/// use std::sync::Mutex;
///
/// let log = Mutex::new(Vec::new());
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         for task in 0..10 {
///             s.spawn(|| {
///                 let mut log = log.lock().unwrap();
///                 // While this waits, none of the others runs here and blocks the thread for the lock.
///                 let sum = cygnet::scope_with(Wait::DescendantsOnly, |s| {
///                     let part = s.spawn(|| (0..1000u64).sum::<u64>());
///                     part.join().unwrap()
///                 });
///                 log.push(sum);
///             });
///         }
///     });
/// });
/// assert_eq!(log.into_inner().unwrap(), [499_500; 10]);
/// ```
///
/// # Panics
/// As [`scope`].
#[track_caller]
pub fn scope_with<'env, F, R>(wait: Wait, f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let (worker, task) = here("scope");
    let _pin = Pin::innermost();
    let restricts = wait == Wait::DescendantsOnly;
    let frame = ScopeFrame::new(worker, task, None);
    let frame = if restricts { frame.restricting() } else { frame };
    let scope = Scope { frame, scope: PhantomData, env: PhantomData };
    let outer = enter(worker, &scope.frame);
    if restricts {
        worker.restrict(&raw const scope.frame.node);
    }
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    await_children(&scope.frame);
    if restricts {
        let worker = Worker::current().expect("tasks run on workers");
        worker.lift(&raw const scope.frame.node);
    }
    leave(&scope.frame, outer, result)
}

/// Makes a scope the innermost node of the task that runs; the one that was.
pub(crate) fn enter(worker: &Worker, frame: &ScopeFrame) -> *const Node {
    worker.node.replace(&raw const frame.node)
}

/// Closes a scope, and waits for its last child.
pub(crate) fn await_children(frame: &ScopeFrame) {
    Worker::current().expect("tasks run on workers").await_children(frame);
}

/// Leaves a scope without children, with what was run in it, or with the panic of that or of a child.
pub(crate) fn leave<R>(
    frame: &ScopeFrame,
    outer: *const Node,
    result: std::thread::Result<R>,
) -> R {
    frame.end();
    Worker::current().expect("tasks run on workers").node.set(outer);
    match (result, frame.take_panic()) {
        (Ok(value), None) => value,
        (Ok(value), Some(payload)) => {
            drop(value);
            resume_unwind(payload)
        }
        (Err(payload), second) => {
            if let Some(second) = second {
                drop_payload(second);
            }
            resume_unwind(payload)
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a task that may borrow what outlives the scope.
    ///
    /// May be called by the scope's task and by tasks in the scope. The handle may be dropped: the
    /// scope owns the task. Costs as [`spawn`](crate::spawn()). Does not suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let text = String::from("a b c");
    /// let words = cygnet::scope(|s| {
    ///     let count = s.spawn(|| text.split(' ').count());
    ///     count.join().unwrap()
    /// });
    /// assert_eq!(words, 3);
    /// # });
    /// ```
    ///
    /// # Panics
    /// Outside a task.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedTask<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (worker, terms) = self.terms(TaskBuilder::default());
        self.spawn_child(worker, terms, f)
    }

    /// As [`Scope::spawn`], also in what it costs, with a name or a stack of its own size. Does not
    /// suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// cygnet::scope(|s| {
    ///     let deep = s.spawn_with(cygnet::task().stack_size(1 << 20).unwrap(), || [0u8; 200_000].len());
    ///     assert_eq!(deep.join().unwrap(), 200_000);
    /// });
    /// # });
    /// ```
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn spawn_with<F, T>(&'scope self, task: TaskBuilder, f: F) -> ScopedTask<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (worker, terms) = self.terms(task);
        self.spawn_child(worker, terms, f)
    }

    /// As [`Scope::spawn`], and starts the task at once: see [`spawn_now`](crate::spawn_now), also for what it costs
    /// and when it suspends.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let mut begun = false;
    /// cygnet::scope(|s| {
    ///     let child = s.spawn_now(|| begun = true);
    ///     assert!(child.is_finished());
    /// });
    /// assert!(begun);
    /// # });
    /// ```
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn spawn_now<F, T>(&'scope self, f: F) -> ScopedTask<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (worker, terms) = self.terms(TaskBuilder::default());
        assert_may_suspend();
        // SAFETY: as in `spawn_child`.
        let record = unsafe { worker.new_task(&raw const self.frame.node, f, terms) };
        // SAFETY: the handle's reference is ours.
        let claim = unsafe { Claim::new(record) };
        worker.start_now(worker.task().expect("tasks run on workers"), record);
        ScopedTask { claim: Some(claim), scope: PhantomData }
    }

    /// Cancels all tasks in the scope, and what its own task does in it: those that have not started never do,
    /// and the others are told by their present or next wait. The scope still waits for all of them. What its task
    /// does after the scope is not cancelled.
    ///
    /// Does not suspend, and resumes nothing in place. Costs an allocation and, for each descendant that waits or
    /// has waited, some tens of nanoseconds.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let found = cygnet::scope(|s| {
    ///     let searches = [7u64, 8, 9].map(|seed| {
    ///         s.spawn(move || (0u64..).find(|n| cygnet::checkpoint().is_err() || n * seed == 56))
    ///     });
    ///     let [_, second, _] = searches;
    ///     let found = second.join().unwrap();
    ///     s.cancel("one is enough");
    ///     found
    /// });
    /// assert_eq!(found, Some(7));
    /// assert!(cygnet::checkpoint().is_ok());
    /// # });
    /// ```
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        let cause = Cause::new(reason.into(), Some(Location::caller()));
        // SAFETY: the scope does not end as long as somebody has a reference to it.
        unsafe { cancel_node(&self.frame.node, Some(cause)) };
    }

    /// A handle that does so from anywhere, and may outlive the scope. Costs some tens of nanoseconds. See
    /// [`CancelHandle`].
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let handle = cygnet::scope(|s| {
    ///     let handle = s.cancel_handle();
    ///     let task = s.spawn(|| cygnet::park());
    ///     handle.clone().cancel("the menu was left");
    ///     assert!(task.join().is_err());
    ///     handle
    /// });
    /// handle.cancel("too late: nothing happens");
    /// assert!(cygnet::checkpoint().is_ok());
    /// # });
    /// ```
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::of_scope(&self.frame.node)
    }

    #[inline(always)]
    #[track_caller]
    fn terms<'a>(&self, task: TaskBuilder) -> (&'a Worker, Terms) {
        let (worker, parent) = here("Scope::spawn");
        assert!(
            self.frame.is_of(worker),
            "cygnet: Scope::spawn was called by a task of another runtime than the scope's"
        );
        let (traits, name) = task.into_parts();
        (worker, terms(parent, Location::caller(), traits, name))
    }

    #[inline(always)]
    fn spawn_child<F, T>(&'scope self, worker: &Worker, terms: Terms, f: F) -> ScopedTask<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: what it borrows outlives 'scope, and the call of `scope` does not return, nor does
        // 'scope end, before the frame's last child has ended. The frame is open: only its
        // own task closes it, after `f`, and a child that calls this is counted in it.
        let record = unsafe { worker.spawn(&raw const self.frame.node, f, terms) };
        // SAFETY: the handle's reference is ours.
        ScopedTask { claim: Some(unsafe { Claim::new(record) }), scope: PhantomData }
    }
}

/// The handle of a task in a scope. Dropping it does nothing: the scope waits for the task, and a
/// panic in it surfaces from [`scope`]. See [`Scope::spawn`] for an example.
pub struct ScopedTask<'scope, T> {
    claim: Option<Claim<T>>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedTask<'_, T> {
    /// Waits for the task's end and returns its value. See [`Task::join`](crate::Task::join), also
    /// for when it suspends and what it costs.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// # rt.block_on(|| {
    /// let name = String::from("cygnet");
    /// let length = cygnet::scope(|s| s.spawn(|| name.len()).join());
    /// assert_eq!(length.unwrap(), 6);
    /// # });
    /// ```
    ///
    /// # Errors
    /// As there; if the calling task is cancelled, the joined one is cancelled too, and the scope
    /// still waits for it.
    ///
    /// # Panics
    /// As there.
    pub fn join(mut self) -> Result<T, JoinError> {
        let claim = self.claim.take().expect("present until the task is joined");
        claim.join(WaitKind::Grant, not_joined)
    }

    /// Cancels the task and all its descendants. See [`Task::cancel`](crate::Task::cancel), also for what it
    /// costs. Does not suspend.
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        let claim = self.claim.as_ref().expect("present until the task is joined");
        cancel(claim.record(), Some(Cause::new(reason.into(), Some(Location::caller()))));
    }

    /// A handle that cancels the task and does nothing else; it may outlive the scope. Costs a locked
    /// instruction. Does not suspend. See [`CancelHandle`].
    pub fn cancel_handle(&self) -> CancelHandle {
        let claim = self.claim.as_ref().expect("present until the task is joined");
        CancelHandle::of_task(claim.pointer())
    }

    /// Whether the task, with all its children, has ended. Does not suspend. One load.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// cygnet::scope(|s| {
    ///     let task = s.spawn(|| ());
    ///     while !task.is_finished() {
    ///         cygnet::yield_now().unwrap();
    ///     }
    /// });
    /// # });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.record().join.is_done())
    }

    /// The task's identity: what [`current_id`](crate::current_id) says inside of it. A load; does not
    /// suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// cygnet::scope(|s| {
    ///     let task = s.spawn(|| cygnet::current_id().unwrap());
    ///     let id = task.id();
    ///     assert_eq!(task.join().unwrap(), id);
    /// });
    /// # });
    /// ```
    pub fn id(&self) -> TaskId {
        TaskId(self.claim.as_ref().expect("present until the task is joined").record().id())
    }

    /// The name it was given, if any, by [`Scope::spawn_with`]. Two loads; does not suspend.
    pub fn name(&self) -> Option<&str> {
        self.claim.as_ref().and_then(|claim| claim.record().name())
    }
}

/// What a `ScopedTask` makes of a join that was cut short.
#[cold]
fn not_joined<T>(claim: Claim<T>) -> Result<T, JoinError> {
    if is_running_task(claim.pointer()) {
        claim.let_go(true);
        return Err(JoinError::OwnEnd);
    }
    cancel(claim.record(), Cancelled::passed_on());
    claim.let_go(true);
    assert_may_wait();
    Err(JoinError::Cancelled(Cancelled::here()))
}

impl<T> Unpin for ScopedTask<'_, T> {}
impl<T> UnwindSafe for ScopedTask<'_, T> {}
impl<T> RefUnwindSafe for ScopedTask<'_, T> {}

impl<T> Drop for ScopedTask<'_, T> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            claim.let_go(true);
        }
    }
}

impl<T> fmt::Debug for ScopedTask<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedTask").field("finished", &self.is_finished()).finish()
    }
}
