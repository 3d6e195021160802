//! Children that run on another runtime.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::SpawnError;
use crate::runtime::handle::Handle;
use crate::runtime::here;
use crate::runtime::scope::scope;
use crate::runtime::spawn::{TaskBuilder, outside_terms, terms};
use crate::runtime::task::{Claim, Task};
use crate::scheduler::cancel::hook::Body;
use crate::scheduler::life::external::{OnCancel, Outside, hang};
use crate::scheduler::life::spawn::fit;
use crate::task::cause::Cause;
use crate::task::outcome::{Failure, drop_payload, quietly};
use crate::task::record::Traits;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

/// Cancels what runs there when the child is cancelled here.
struct Forward(CancelHandle);

impl Body for Forward {
    fn on_cancel(self: Box<Self>, cause: Arc<Cause>) {
        self.0.pass_on(cause);
    }

    fn on_cleanup(self: Box<Self>) {}
}

/// What runs there. One that never does is dropped in this order: first what was captured.
struct Away<F, T> {
    f: F,
    outside: Outside<T>,
}

impl<F: FnOnce() -> T, T> Away<F, T> {
    fn run(self) {
        let Away { f, outside } = self;
        // Not as the result of all these calls, each of which would copy it in a debug build.
        let mut value = None;
        // Its own children end before it can be seen to have.
        let ended = catch_unwind(AssertUnwindSafe(|| scope(|_| value = Some(f()))));
        let outcome = match (ended, value) {
            (Ok(()), Some(value)) => Ok(value),
            (Ok(()), None) => unreachable!("the closure has returned"),
            (Err(payload), value) => {
                // One of its children has panicked.
                if let Some(second) = quietly(|| drop(value)) {
                    drop_payload(second);
                }
                Err(Failure::from(payload))
            }
        };
        let settled = outside.settle(outcome);
        debug_assert!(settled.is_ok(), "a cancel does not end it, and nobody else settles it");
    }
}

impl Handle {
    /// Spawns a child of the calling task (or of the scope that is open in it) that runs on the runtime of this handle.
    ///
    /// It is a child as any other: its parent ends after it, and after all that it spawns there; a cancel of the parent, or
    /// of the [`Task`], reaches it with its reason, and what it has captured is gone before its end is seen. It inherits
    /// the task-locals. It is cancelled, too, if the runtime that it runs on ends.
    ///
    /// For two pools that are to be kept apart: one for what must answer soon, another for what computes for long.
    ///
    /// Does not suspend. Costs as [`Handle::spawn`] and a [`promise`](crate::promise()).
    ///
    /// ```
    /// let computing = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let serving = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let pool = computing.handle();
    /// let sum = serving.block_on(|| {
    ///     let sum = pool.spawn_child(|| (1..=1000u64).sum::<u64>()).unwrap();
    ///     sum.join().unwrap()
    /// });
    /// assert_eq!(sum, 500_500);
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] with `f`, if that runtime has ended or is ending. If it ends later, but before the start, the join
    /// returns [`JoinError::Abandoned`](crate::JoinError::Abandoned).
    ///
    /// # Panics
    /// Outside a task.
    #[track_caller]
    pub fn spawn_child<F, T>(&self, f: F) -> Result<Task<T>, SpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_child_with(TaskBuilder::default(), f)
    }

    /// As [`Handle::spawn_child`], also in what it costs, with a name or a stack of its own size. Does not suspend.
    ///
    /// ```
    /// let there = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let here = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let pool = there.handle();
    /// here.block_on(|| {
    ///     let deep = cygnet::task().stack_size(1 << 20).unwrap();
    ///     let child = pool.spawn_child_with(deep, || [0u8; 200_000].len()).unwrap();
    ///     assert_eq!(child.join().unwrap(), 200_000);
    /// });
    /// ```
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn spawn_child_with<F, T>(&self, task: TaskBuilder, f: F) -> Result<Task<T>, SpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let at = Location::caller();
        let (worker, parent) = here("Handle::spawn_child");
        let shared = self.shared();
        if !shared.root.admit() {
            return Err(SpawnError(f));
        }
        let (traits, name) = task.into_parts();
        let mut its_terms = terms(parent, at, traits, name);
        // Its closure returns nothing, but the value comes about on its stack.
        fit::<Away<F, T>, T>(&mut its_terms, shared.config.stack_class);
        let terms = outside_terms(at, Traits::default(), None);
        // SAFETY: the running node is open.
        let (record, outside) =
            unsafe { worker.spawn_external(worker.node.get(), terms, OnCancel::Tell) };
        // SAFETY: the handle's reference is ours.
        let child = Task::new(unsafe { Claim::new(record) });
        let away = Away { f, outside };
        // SAFETY: 'static; admitted above.
        let there = unsafe { shared.spawn_root(move || away.run(), its_terms) };
        // SAFETY: the handle's reference is ours.
        let there: Task<()> = Task::new(unsafe { Claim::new(there) });
        hang(child.record(), Box::new(Forward(there.cancel_handle()))).keep();
        there.detach();
        Ok(child)
    }
}
