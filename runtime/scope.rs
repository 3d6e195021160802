//! Scopes: tasks that borrow from the frame that waits for them.

use crate::retire::nesting::Pin;
use crate::runtime::cancel::CancelHandle;
use crate::runtime::here;
use crate::runtime::lease::{ScopeLease, spawn_from_anywhere};
use crate::runtime::local;
use crate::runtime::scoped_task::ScopedTask;
use crate::runtime::spawn::terms_with;
use crate::runtime::task_builder::{Guarding, Seal, TaskBuilder, TaskPlace};
use crate::scheduler::cancel::cancel_node;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::life::spawn::Lasting;
use crate::scheduler::spans::carried;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::task::cause::{Cause, Reason};
use crate::task::outcome::drop_payload;
use crate::task::record::Traits;
use crate::task::reference::TaskRef;
use crate::task::words::tree::Node;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, RefUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// An open scope, in which tasks can be spawned that borrow from outside of it. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    frame: ScopeFrame,
    // Invariant in both, as std's.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

// A task in a scope may spawn siblings inside catch_unwind.
impl RefUnwindSafe for Scope<'_, '_> {}

debug! { impl Scope<'_, '_> { .. } }

/// Opens a scope: tasks spawned in it may borrow what lives outside, as it does not return before
/// all of them have ended. Like `std::thread::scope`, with tasks.
///
/// Tasks spawned with [`spawn`](crate::spawn()) inside `f` belong to the scope too.
///
/// A panic of `f` cancels nothing, nor does the drop of a task's handle: as with
/// `std::thread::scope`, the tasks run to their end, and then the panic goes on. (Outside a scope,
/// dropping a [`Task`](crate::Task) cancels it, because nothing else would wait for it.) In a
/// [`try_scope`](crate::try_scope) the first failure cancels the rest.
///
/// Suspends at its end, as a structured wait, if tasks are left. Tasks that still lie on top of
/// this worker's queue are called at once. Costs a node on the caller's frame: no allocation, and
/// no lock unless a task panics.
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
/// What is made inside `f` does not live long enough to be borrowed by a task, and neither the
/// scope nor its handles can leave:
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
/// With the panic of `f`; else with the first panic of a task that was not joined, or with the text
/// of [`NoStack`](crate::NoStack) if there was no stack for one; in all cases after all tasks have
/// ended. Outside a task.
#[track_caller]
pub fn scope<'env, F, R>(f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    scope_with(Wait::Anyone, f)
}

/// Which tasks may run on a worker while one of its tasks waits. See [`scope_with`] and
/// [`join_with`](crate::join_with).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wait {
    /// Any ready task.
    #[default]
    Anyone,
    /// Only what descends from the scope that waits.
    DescendantsOnly,
}

/// Opens a [`scope`], and says which tasks may run on this worker while the scope is open and its
/// task waits.
///
/// With [`Wait::DescendantsOnly`] the worker is *isolated* from the scope's opening to its end: it
/// starts and continues only tasks of the scope and their descendants. A worker on which such a
/// task has started is isolated until that task ends. So nothing that the scope waits for waits for
/// an outsider, and it is safe to hold a lock of std's, which belongs to the thread, over the
/// scope: no other task runs on this thread that could ask for the lock.
///
/// Outsiders that have started on an isolated worker wait until the scope ends. Outsiders that have
/// not started are given to other workers.
///
/// **Limit.** A task of the scope waits for ever if it waits for an outsider that has started on
/// the same worker, or is local to it. The same is true for an outsider that has not started while
/// all workers are isolated. A task that is started here by the `block_on` of another runtime's
/// task is an outsider, and so is a task of [`spawn_unscoped`](crate::spawn_unscoped). After 10 s
/// without work an isolated worker names on stderr the tasks that it keeps waiting.
///
/// Suspends like [`scope`]. Costs some 50 ns more than that, and as much for each task in it that
/// is started by a loop. A task spawned in it as migratable is not; a worker that has nothing to
/// run looks for tasks of the scope elsewhere, up to each 10 ms.
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
///                 // While this waits, none of the others runs here, where it would block the
///                 // thread for the lock.
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
/// Same as [`scope`].
#[track_caller]
pub fn scope_with<'env, F, R>(wait: Wait, f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let (worker, task) = here("scope");
    let _pin = Pin::innermost();
    let restricts = wait == Wait::DescendantsOnly;
    let frame = worker.frame_of_scope(task, None);
    let frame = if restricts { frame.isolating() } else { frame };
    let scope = Scope::new(frame);
    let outer = enter(worker, &scope.frame);
    if restricts {
        worker.isolate(&raw const scope.frame.node);
    }
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    await_children(&scope.frame);
    if restricts {
        let worker = Worker::current().expect("tasks run on workers");
        worker.end_isolation(&raw const scope.frame.node);
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

/// Leaves a scope without children, with what was run in it, or with the panic of that or of a
/// child.
pub(crate) fn leave<R>(
    frame: &ScopeFrame,
    outer: *const Node,
    result: std::thread::Result<R>,
) -> R {
    // First, so that what the end of the scope calls does not run in the scope.
    Worker::current().expect("tasks run on workers").node.set(outer);
    end(frame, result)
}

/// Ends a scope, as [`leave`] does, in which no task runs any more.
pub(super) fn end<R>(frame: &ScopeFrame, result: std::thread::Result<R>) -> R {
    frame.end();
    match (result, frame.take_panic()) {
        (Ok(value), None) => value,
        (Ok(value), Some(payload)) => {
            drop(value);
            resume_unwind(payload)
        }
        (Err(payload), second) => {
            second.into_iter().for_each(drop_payload);
            resume_unwind(payload)
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    pub(super) fn new(frame: ScopeFrame) -> Self {
        Scope { frame, scope: PhantomData, env: PhantomData }
    }

    pub(super) fn frame(&self) -> &ScopeFrame {
        &self.frame
    }

    /// Spawns a task that may borrow what outlives the scope.
    ///
    /// May be called by the scope's task, by tasks in the scope, and by other threads that borrow
    /// the scope. The handle may be dropped: the scope owns the task. Does not suspend. Costs as
    /// [`spawn`](crate::spawn()); on a thread that is not a worker of the runtime, as
    /// [`Handle::spawn`](crate::Handle::spawn). A [`TaskBuilder`] spawns a task here with a name or a stack size.
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
    /// With some 134 million unfinished siblings.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedTask<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: what it borrows outlives 'scope, and the call of `scope` does not return, nor
        // does 'scope end, before the frame's last child has ended.
        let lasting = unsafe { Lasting::promised() };
        // The frame is open: only its owner closes it, after the closure of the scope, and a child
        // that calls this, or waits for a thread that does, is counted in it.
        let here = self.task_here();
        let locals = here.and_then(|(_, parent)| local::inherit(&parent));
        let terms = terms_with(Location::caller(), Traits::default(), None, locals, carried());
        let worker = here.map(|(worker, _)| worker);
        ScopedTask::new(self.shared().spawn_from(worker, self.node(), f, lasting, terms))
    }

    /// Cancels all tasks in the scope, and the waits of the scope's own task inside it. Tasks that
    /// have not started never do; the others learn of the cancel from their present or next wait.
    /// The scope still waits for all of them. After the scope, its task is not cancelled.
    ///
    /// Does not suspend, and resumes nothing in place. Costs an allocation and, for each descendant
    /// that waits or has waited, some tens of nanoseconds.
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
        self.cancel_for(Cause::new(reason.into(), Some(Location::caller())));
    }

    pub(crate) fn cancel_for(&self, cause: Arc<Cause>) {
        cancel_node(&self.frame.node, Some(cause));
    }

    /// A handle that does so from anywhere, and may outlive the scope. Costs some tens of
    /// nanoseconds. See [`CancelHandle`].
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
        CancelHandle::of_scope(self.node())
    }

    /// A lease, which holds the scope open from anywhere, and spawns into it. See [`ScopeLease`].
    /// Does not suspend. Costs an allocation and a record.
    #[track_caller]
    pub fn lease(&self) -> ScopeLease {
        ScopeLease::new(self.shared(), self.node())
    }

    pub(crate) fn node(&self) -> LiveNode<'_> {
        self.frame.live_node()
    }

    /// The runtime of the scope.
    pub(crate) fn shared(&self) -> &Shared {
        self.frame.shared()
    }

    /// The worker and the task that the caller runs on and in, if they are of the scope's runtime.
    #[inline]
    fn task_here<'a>(&self) -> Option<(&'a Worker, TaskRef<'a>)> {
        let worker = self.shared().worker_here()?;
        Some((worker, worker.task()?))
    }
}

impl<'scope, F, T> TaskPlace<F> for &'scope Scope<'scope, '_>
where
    F: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    type Spawned = ScopedTask<'scope, T>;

    fn place<G: Guarding>(self, task: TaskBuilder<G>, f: F, _: Seal) -> ScopedTask<'scope, T> {
        // SAFETY: what it borrows outlives 'scope, which does not end before the frame's last
        // child.
        let task = unsafe {
            match self.task_here() {
                Some(here) => task.spawn_below(here, self.node(), f),
                None => {
                    task.refuse_now("a scope of another runtime or thread");
                    let task = spawn_from_anywhere(self.shared(), self.node(), task, f, false);
                    task.expect("it is not detached")
                }
            }
        };
        ScopedTask::new(task.into_claim())
    }
}
