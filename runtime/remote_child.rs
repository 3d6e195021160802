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

/// Cancels the task on the other runtime when the child is cancelled.
struct Forward(CancelHandle);

impl Body for Forward {
    fn on_cancel(self: Box<Self>, cause: Arc<Cause>) {
        self.0.pass_on(cause);
    }

    fn on_cleanup(self: Box<Self>) {}
}

/// The closure that runs on the other runtime. If it never runs, the fields are dropped in this
/// order, the captures first.
struct Away<F, T> {
    f: F,
    outside: Outside<T>,
}

impl<F: FnOnce() -> T, T> Away<F, T> {
    fn run(self) {
        let Away { f, outside } = self;
        // Passed by reference: as the result of nested calls, the value would be copied by each of
        // them in a debug build.
        let mut value = None;
        // The scope makes the closure's own children end before the task's end becomes visible.
        let ended = catch_unwind(AssertUnwindSafe(|| scope(|_| value = Some(f()))));
        let outcome = match (ended, value) {
            (Ok(()), Some(value)) => Ok(value),
            (Ok(()), None) => unreachable!("a closure that returned has stored its value"),
            (Err(payload), value) => {
                // A child of the closure has panicked.
                if let Some(second) = quietly(|| drop(value)) {
                    drop_payload(second);
                }
                Err(Failure::from(payload))
            }
        };
        let settled = outside.settle(outcome);
        debug_assert!(
            settled.is_ok(),
            "a child was settled before its closure ended on the other runtime"
        );
    }
}

impl Handle {
    /// Spawns a child of the calling task (or of its open scope) that runs on this handle's
    /// runtime.
    ///
    /// It is a child like any other. Its parent ends after it and after all tasks that it spawns
    /// there. A cancellation of the parent, or of the [`Task`], reaches it with its reason. Its
    /// captures have been dropped when its end becomes visible. It inherits the task-locals. It is
    /// also cancelled if the runtime that it runs on ends.
    ///
    /// For keeping two pools apart: one for short response times, one for long computations.
    ///
    /// Does not suspend. Costs as much as [`Handle::spawn`] and a [`promise`](crate::promise())
    /// together.
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
    /// [`SpawnError`] with `f`, if this handle's runtime has ended or is ending. If it ends later,
    /// but before the task starts, joining the task returns
    /// [`JoinError::Abandoned`](crate::JoinError::Abandoned).
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

    /// Spawns a child like [`Handle::spawn_child`], with a name or a stack size of its own. Does
    /// not suspend. Costs as much as [`Handle::spawn_child`].
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
    /// [`SpawnError`] with `f`, as for [`Handle::spawn_child`].
    ///
    /// # Panics
    /// Outside a task.
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
        // The closure returns nothing, but the value is made on its stack.
        fit::<Away<F, T>, T>(&mut its_terms, shared.config.stack_class);
        let terms = outside_terms(at, Traits::default(), None);
        // SAFETY: the running task keeps its current node open.
        let (record, outside) =
            unsafe { worker.spawn_external(worker.node.get(), terms, OnCancel::Tell) };
        // SAFETY: the spawn returned the handle's reference, which is ours.
        let child = Task::new(unsafe { Claim::new(record) });
        let away = Away { f, outside };
        // SAFETY: the closure is `'static`, and the root has admitted the task above.
        let there = unsafe { shared.spawn_root(move || away.run(), its_terms) };
        // SAFETY: the spawn returned the handle's reference, which is ours.
        let there: Task<()> = Task::new(unsafe { Claim::new(there) });
        hang(child.record(), Box::new(Forward(there.cancel_handle()))).keep();
        there.detach();
        Ok(child)
    }
}
