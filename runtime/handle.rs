//! A handle to a runtime, for code that does not own the runtime.

use crate::runtime::errors::{Cancelled, JoinError, SpawnError};
use crate::runtime::metrics::Metrics;
use crate::runtime::spawn::{terms, terms_outside};
use crate::runtime::task::Task;
use crate::runtime::task_builder::{Guarding, Seal, TaskBuilder, TaskPlace, task};
use crate::scheduler::life::complete::ParentLives;
use crate::scheduler::life::spawn::Lasting;
use crate::scheduler::wait::no_suspend::{
    assert_may_suspend, assert_may_wait, refuse_between_tasks,
};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::HandleRef;
use crate::scheduler::worker::shared::Shared;
use crate::task::cause::Reason;
use crate::task::record::{Origin, Traits};
use crate::task::words::wait::WaitKind;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;

/// Spawns tasks on a runtime from anywhere. Does not keep it going: when the runtime is dropped its
/// tasks end, and spawning returns an error. Cloning costs one locked instruction.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let handle = rt.handle();
/// let thread = std::thread::spawn(move || handle.block_on(|| 6 * 7));
/// assert_eq!(thread.join().unwrap(), 42);
/// ```
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

// Between any two steps that could panic the runtime behind it is in order.
unwind_safe! { impl Handle }

debug! { impl Handle as this { workers: this.shared.workers(), .. } }

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Handle {
        Handle { shared }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn shared_arc(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The runtime that the calling thread is a worker of. (The closure of
    /// [`blocking`](crate::blocking()) runs on a thread that is not.)
    ///
    /// Does not suspend. One locked instruction.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let task = rt.block_on(|| cygnet::Handle::current().spawn(|| 42).unwrap());
    /// assert_eq!(task.join().unwrap(), 42);
    /// ```
    ///
    /// # Panics
    /// On any other thread.
    #[track_caller]
    pub fn current() -> Handle {
        match Handle::try_current() {
            Some(handle) => handle,
            None => panic!(
                "cygnet: Handle::current was called outside a runtime; pass a Handle in, or call it \
                 inside Runtime::block_on or a task"
            ),
        }
    }

    /// The runtime that the calling thread is a worker of, if it is. Does not suspend. One locked
    /// instruction.
    ///
    /// ```
    /// assert!(cygnet::Handle::try_current().is_none());
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// assert!(rt.block_on(|| cygnet::Handle::try_current().is_some()));
    /// ```
    pub fn try_current() -> Option<Handle> {
        let shared = Worker::current()?.shared.get();
        // SAFETY: the pointer came from an Arc that the worker's thread holds.
        Some(Handle { shared: unsafe { Shared::kept(shared) } })
    }

    /// Spawns a task that belongs to the runtime, from any thread: a child of the root, which
    /// inherits no task-locals. Inside a task [`spawn`](crate::spawn()) is cheaper.
    ///
    /// Does not suspend. Costs an allocation, a handful of locked instructions, and a system call
    /// if a worker must be woken.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let task = rt.handle().spawn(|| "done").unwrap();
    /// assert_eq!(task.join().unwrap(), "done");
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] with `f`, if the runtime has ended or is ending.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> Result<Task<T>, SpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.place(task(), f, Seal)
    }

    /// Spawns a task that starts on the worker with this index and stays there: for what belongs to
    /// a worker's thread or core, such as its part of a sharded table. Otherwise like
    /// [`spawn`](Handle::spawn), also in cost.
    ///
    /// The task waits for that worker even if others are idle; [`spawn`](Handle::spawn) spreads.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let task = rt.handle().spawn_on(1, cygnet::current_worker).unwrap();
    /// assert_eq!(task.join().unwrap(), Some(1));
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] with `f`, if the runtime has ended or is ending.
    ///
    /// # Panics
    /// If there is no such worker.
    #[track_caller]
    pub fn spawn_on<F, T>(&self, worker: usize, f: F) -> Result<Task<T>, SpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let workers = self.workers();
        assert!(
            worker < workers,
            "cygnet: spawn_on got the worker {worker}, but the workers are 0 to {}",
            workers - 1
        );
        let Some(child) = self.shared.admit() else { return Err(SpawnError(f)) };
        let terms = terms_outside(Location::caller());
        Ok(Task::new(self.shared.spawn_root_on(worker, child, f, Lasting::new(), terms)))
    }

    /// Calls `f` with each worker's index, on that worker, and returns the values in their order:
    /// to set up or to collect what each worker's thread has for itself. `f` may borrow from the
    /// caller, because the wait is never cut short.
    ///
    /// Suspends (structured) until each worker has ended its call. A worker that computes begins
    /// its call afterwards. So does a worker that is blocked, because its thread unwinds or is
    /// inside [`no_suspend`](crate::no_suspend), and one in a scope of
    /// [`Wait::DescendantsOnly`](crate::Wait): a task or thread for which such a worker waits must
    /// not broadcast, or both wait for ever. The same holds for a join of
    /// [`spawn_on`](Handle::spawn_on).
    ///
    /// Costs as much as a `spawn_on` and a join for each worker.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let base = 10;
    /// assert_eq!(rt.handle().broadcast(|worker| base + worker), [10, 11]);
    /// ```
    ///
    /// # Panics
    /// With the first panic of `f`, after all calls have ended. If the runtime has ended or is
    /// ending. If called by a task: inside `no_suspend`, in a scope of `Wait::DescendantsOnly`, and
    /// while the thread unwinds, where the panic ends the process. With the text of
    /// [`NoStack`](crate::NoStack) if the kernel refuses memory for the stack of a call.
    #[track_caller]
    pub fn broadcast<F, T>(&self, f: F) -> Vec<T>
    where
        F: Fn(usize) -> T + Sync,
        T: Send,
    {
        if let Some(worker) = self.shared.worker_here()
            && worker.task().is_some()
        {
            assert_may_suspend();
            assert!(
                !crate::shim::panicking() && !worker.isolations.any(),
                "cygnet: broadcast was called while its thread unwinds, or in a scope that lets \
                 only its descendants run; call it outside"
            );
        } else if assert_may_wait().is_err() {
            refuse_between_tasks();
        }
        let at = Location::caller();
        // All are admitted before the first is spawned: the admission may panic, or be refused.
        let admitted: Option<Vec<_>> = (0..self.workers()).map(|_| self.shared.admit()).collect();
        let Some(children) = admitted else { ended("broadcast") };
        self.shared.remotes().for_each(|remote| remote.sleeper.assert_reachable());
        let claims: Vec<_> = children
            .into_iter()
            .enumerate()
            .map(|(worker, child)| {
                let (f, terms) = (&f, terms_outside(at));
                // SAFETY: the structured waits below outlast the tasks, as nothing unwinds before.
                let lasting = unsafe { Lasting::promised() };
                self.shared.spawn_root_on(worker, child, move || f(worker), lasting, terms)
            })
            .collect();
        let join = |claim: HandleRef<T>| claim.join(WaitKind::Structured, ParentLives::UNKNOWN);
        // All are waited for before any is looked at.
        let joined: Vec<_> = claims.into_iter().map(join).collect();
        joined.into_iter().map(|joined| value_of_call("broadcast", joined)).collect()
    }

    /// Runs `f` as a task and waits for its end. See
    /// [`Runtime::block_on`](crate::Runtime::block_on), also for when it suspends and what it
    /// costs.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let handle = rt.handle();
    /// let words = vec!["a", "b"];
    /// assert_eq!(handle.block_on(|| words.concat()), "ab");
    /// ```
    ///
    /// # Panics
    /// With the panic of `f`; if the runtime has ended or is ending; inside
    /// [`no_suspend`](crate::no_suspend), if called by a task; with the text of
    /// [`NoStack`](crate::NoStack) if the kernel refuses memory for the stack of `f`.
    #[track_caller]
    pub fn block_on<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        value_of_call("block_on", self.try_block_on(f))
    }

    /// Like [`Handle::block_on`], but returns the panic of `f`, or the end of the runtime, as an
    /// error. See [`Runtime::try_block_on`](crate::Runtime::try_block_on).
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let handle = rt.handle();
    /// drop(rt);
    /// assert!(matches!(handle.try_block_on(|| 7), Err(cygnet::JoinError::NotStarted(_))));
    /// ```
    ///
    /// # Errors
    /// Same as [`Runtime::try_block_on`](crate::Runtime::try_block_on).
    #[track_caller]
    pub fn try_block_on<F, T>(&self, f: F) -> Result<T, JoinError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let at = Location::caller();
        let inside = self.shared.worker_here().and_then(|w| Some((w, w.task()?)));
        let claim = match inside {
            // Within this runtime: a child of the calling task, which is likely to be run in place.
            Some((worker, task)) => {
                assert_may_suspend();
                let traits = Traits { origin: Origin::Called, ..Traits::default() };
                let terms = terms(task, at, traits, None);
                // SAFETY: the structured wait below outlasts the child.
                let lasting = unsafe { Lasting::promised() };
                worker.spawn(worker.running_node(), f, lasting, terms)
            }
            _ => {
                if assert_may_wait().is_err() {
                    return Err(JoinError::NotStarted(Cancelled::here()));
                }
                let Some(child) = self.shared.admit() else {
                    return Err(JoinError::NotStarted(Cancelled::by_the_end()));
                };
                let terms = terms_outside(at);
                // SAFETY: the structured wait below outlasts the task.
                self.shared.spawn_root(child, f, unsafe { Lasting::promised() }, terms)
            }
        };
        claim.join(WaitKind::Structured, ParentLives::UNKNOWN)
    }

    /// The number of workers. Does not suspend. Costs a load.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// assert_eq!(rt.block_on(|| cygnet::Handle::current().workers()), 2);
    /// ```
    pub fn workers(&self) -> usize {
        self.shared.workers()
    }

    /// What the workers have counted so far. See [`Runtime::metrics`](crate::Runtime::metrics).
    pub fn metrics(&self) -> Metrics {
        Metrics::read(&self.shared)
    }
}

/// The value of a task that stands for a call.
#[track_caller]
fn value_of_call<T>(name: &str, joined: Result<T, JoinError>) -> T {
    match joined {
        Ok(value) => value,
        Err(JoinError::Panicked(payload)) => resume_unwind(payload.into_inner()),
        Err(JoinError::NoStack(error)) => panic!("{error}"),
        Err(JoinError::Unwound(cancelled)) => cancelled.unwind_or_panic(),
        Err(JoinError::NotStarted(why)) if *why.reason() == Reason::Unwinding => {
            // There is no value to return, though this panic ends the process.
            refuse_between_tasks()
        }
        Err(_) => ended(name),
    }
}

#[track_caller]
pub(super) fn ended(name: &str) -> ! {
    panic!("cygnet: {name} was called on a runtime that has ended or is ending")
}

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> TaskPlace<F> for &Handle {
    type Spawned = Result<Task<T>, SpawnError<F>>;

    fn place<G: Guarding>(self, task: TaskBuilder<G>, f: F, _: Seal) -> Self::Spawned {
        task.refuse_now("a runtime");
        let Some(child) = self.shared.admit() else { return Err(SpawnError(f)) };
        let f = task.hold(f);
        let (terms, guard) = task.into_terms(None);
        // SAFETY: the closure is `'static`.
        let lasting = unsafe { Lasting::promised() };
        let task = Task::new(self.shared.spawn_root(child, f, lasting, terms));
        guard.belongs_to(&task);
        Ok(task)
    }
}
