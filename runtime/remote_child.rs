//! Children that run on another runtime.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::SpawnError;
use crate::runtime::handle::Handle;
use crate::runtime::here;
use crate::runtime::local;
use crate::runtime::promise::external_child;
use crate::runtime::scope::scope;
use crate::runtime::task::Task;
use crate::runtime::task_builder::{Guarding, Seal, TaskBuilder, TaskPlace};
use crate::scheduler::cancel::hook::Body;
use crate::scheduler::life::external::{OnCancel, Outside, hang};
use crate::scheduler::life::spawn::{Lasting, fit};
use crate::task::cause::Cause;
use crate::task::cold::ColdData;
use crate::task::outcome::{Failure, drop_payload, drop_quietly, quietly};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Cancels the task on the other runtime when the child is cancelled.
struct Forward(CancelHandle);

impl Body for Forward {
    fn on_cancel(self: Box<Self>, cause: Arc<Cause>) {
        self.0.pass_on(cause);
    }
}

/// The closure that runs on the other runtime. The child ends when `outside` is settled, or dropped
/// if the closure never runs: after the other fields.
struct Away<F, T> {
    f: F,
    locals: local::Nesting,
    outside: Outside<T>,
}

impl<F: FnOnce() -> T, T> Away<F, T> {
    fn run(self) {
        let Away { f, locals, outside } = self;
        local::rebind(locals);
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
                drop_quietly(value);
                Err(Failure::from(payload))
            }
        };
        quietly(|| local::rebind(None)).into_iter().for_each(drop_payload);
        let settled = outside.settle(outcome);
        debug_assert!(
            settled.is_ok(),
            "a child was settled before its closure ended on the other runtime"
        );
    }
}

/// The place of a child of the calling task (or of its open scope) that runs on the runtime of a
/// [`Handle`].
///
/// It is a child like any other. Its parent ends after it and after all tasks that it spawns there.
/// A cancellation of the parent, or of the [`Task`], reaches it with its reason. Its captures have
/// been dropped when its end becomes visible. It inherits the task-locals. It is also cancelled if
/// the runtime that it runs on ends.
///
/// For keeping two pools apart: one for short response times, one for long computations.
///
/// The spawn does not suspend. It costs as much as [`Handle::spawn`] and a
/// [`promise`](crate::promise()) together. It returns [`SpawnError`] with the closure if the
/// handle's runtime has ended or is ending. If the runtime ends later, but before the task starts,
/// joining the task returns [`JoinError::Abandoned`](crate::JoinError::Abandoned). The spawn panics
/// outside a task.
///
/// ```
/// use cygnet::{ChildOn, task};
///
/// let computing = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let serving = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let pool = computing.handle();
/// let sum = serving.block_on(|| {
///     let sum = task().spawn_in(ChildOn(&pool), || (1..=1000u64).sum::<u64>()).unwrap();
///     sum.join().unwrap()
/// });
/// assert_eq!(sum, 500_500);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ChildOn<'a>(
    /// The runtime that the child runs on.
    pub &'a Handle,
);

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> TaskPlace<F> for ChildOn<'_> {
    type Spawned = Result<Task<T>, SpawnError<F>>;

    fn place<G: Guarding>(self, task: TaskBuilder<G>, f: F, _: Seal) -> Self::Spawned {
        task.refuse_now("another runtime");
        let (_, parent) = here("TaskBuilder::spawn_in");
        let shared = self.0.shared();
        let Some(there) = shared.admit() else { return Err(SpawnError(f)) };
        let f = task.hold(f);
        let (mut its_terms, guard) = task.into_terms(Some(parent));
        let cold = its_terms.cold.get_or_insert_with(|| Box::new(ColdData::new()));
        cold.sent_by = NonZero::new(parent.id());
        let (name, locals) = (cold.name.clone(), cold.locals.get_mut().take());
        let (child, outside) = external_child("TaskBuilder::spawn_in", OnCancel::Tell, name);
        guard.belongs_to(&child);
        let away = Away { f, locals, outside };
        // The closure of `away` returns nothing, but the value is made on its stack.
        fit::<F, T>(&mut its_terms.traits, shared.config.stack_class);
        let body = move || away.run();
        // SAFETY: the closure is `'static`.
        let lasting = unsafe { Lasting::promised() };
        let there = Task::new(shared.spawn_root(there, body, lasting, its_terms));
        hang(child.record(), Box::new(Forward(there.cancel_handle()))).keep();
        there.detach();
        Ok(child)
    }
}
