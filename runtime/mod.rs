//! The public interface.
//!
//! | file | contents |
//! | --- | --- |
//! | `builder`, `handle`, `drop` | runtimes: built, referred to, ended |
//! | `spawn`, `task_builder` | starting a task |
//! | `task`, `scoped_task`, `claim` | the handles of tasks, and their claim to the outcome |
//! | `scope`, `thread_scope`, `try_scope`, `lease` | the nodes that tasks belong to |
//! | `promise`, `remote_child` | children without a closure, or elsewhere |
//! | `fork`, `combinators` | two closures in parallel; several tasks at once |
//! | `cancel`, `cancelled`, `hook` | cancelling, and being told of it |
//! | `park`, `future`, `select`, `blocking` | waits of a task |
//! | `time`, `time_async`, `interval` | sleeps and time limits |
//! | `local`, `metrics` | task-locals; counters |
//! | `errors`, `payload` | errors, and panics in them |

#[doc(hidden)]
#[path = "select.rs"]
pub mod __select;
mod blocking;
mod builder;
mod cancel;
mod cancelled;
mod claim;
mod combinators;
mod drop;
mod errors;
mod fork;
mod future;
mod handle;
mod hook;
mod interval;
pub(crate) mod lease;
pub(crate) mod local;
mod metrics;
mod park;
mod payload;
pub(crate) mod promise;
mod remote_child;
mod scope;
mod scoped_task;
pub(crate) mod spawn;
mod task;
pub(crate) mod task_builder;
mod thread_scope;
mod time;
mod time_async;
mod try_scope;

pub use blocking::{blocking, spawn_blocking};
pub use builder::{Builder, PanicReport, Runtime};
pub use cancel::{CancelHandle, cancel_handle, ignore_cancellation};
pub use cancelled::CancelledFuture;
pub use combinators::{TaskError, all, all_fail_fast, any};
pub use errors::{BuildError, Cancelled, JoinError, NoStack, SpawnError};
pub use fork::{join, join_with};
pub use future::{wait, wait_in};
pub use handle::Handle;
pub use hook::{CancelHook, HookGuard, on_cancel};
pub use interval::{Interval, IntervalTick, MissedTicks, interval, interval_at};
pub use lease::{ScopeLease, lease};
pub use local::TaskLocal;
pub use metrics::{Metrics, UnresponsiveTask, WorkerMetrics};
pub use park::{
    Unparker, YieldTo, checkpoint, current_id, current_worker, is_cancelled, park, unparker,
    yield_now, yield_to,
};
pub use payload::PanicPayload;
pub use promise::{Promise, promise};
pub use remote_child::ChildOn;
pub use scope::{Scope, Wait, scope, scope_with};
pub use scoped_task::ScopedTask;
pub use spawn::{LocalTask, spawn, spawn_local, spawn_now, spawn_unscoped};
pub use task::{Task, TaskId};
pub use task_builder::{TaskBuilder, TaskPlace, ThisWorker, task};
pub use time::{Late, deadline, shield, sleep, sleep_until, timeout, try_timeout};
pub use time_async::{
    RuntimeEnded, Sleep, Timeout, TimeoutError, sleep_async, sleep_until_async, timeout_async,
};
pub use try_scope::{TryScope, TryTask, try_scope};

pub use crate::scheduler::blocking::BlockingMetrics;
pub use crate::scheduler::wait::no_suspend::no_suspend;
pub use crate::task::cause::Reason;

use crate::scheduler::worker::Worker;
use crate::task::reference::TaskRef;

/// The worker and the task that the caller runs on and in.
///
/// # Panics
/// Outside a task.
#[inline]
#[track_caller]
pub(crate) fn here<'a>(what: &str) -> (&'a Worker, TaskRef<'a>) {
    match Worker::current().and_then(|w| Some((w, w.task()?))) {
        Some(here) => here,
        None => outside(what),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside(what: &str) -> ! {
    panic!(
        "cygnet: {what} was called outside a task; call it inside Runtime::block_on or inside a \
         spawned task"
    )
}
