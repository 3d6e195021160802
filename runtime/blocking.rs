//! Blocking calls, moved to a pool of threads of their own.

use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::runtime::spawn::terms;
use crate::runtime::task::Task;
use crate::scheduler::blocking::Job;
use crate::scheduler::cancel::link;
use crate::scheduler::life::spawn::Lasting;
use crate::scheduler::spans::carrying;
use crate::scheduler::wait::end::await_end_anywhere;
use crate::scheduler::wait::no_suspend::assert_may_suspend;
use crate::scheduler::worker::Worker;
use crate::task::cause::Cause;
use crate::task::cell::Decides;
use crate::task::outcome::Failure;
use crate::task::record::Traits;
use crate::task::words::wait::WaitKind;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;

/// Runs `f`, which may block, on a separate thread. Meanwhile the calling task waits and its worker
/// runs other tasks. `f` may borrow: it always runs, even if the task is cancelled or the runtime
/// ends while `f` is queued, and the call returns when `f` has ended.
///
/// `f` does not run inside the task, so [`current_id`](crate::current_id), [`park`](crate::park)
/// and task-locals are not available to it. [`is_cancelled`](crate::is_cancelled) returns whether
/// the task is cancelled, and a long call should check it now and then. In all other respects `f`
/// is on a plain thread: primitives of [`sync`](crate::sync) and
/// [`Handle::block_on`](crate::Handle::block_on) block that thread. Called on a plain thread,
/// `blocking` calls `f` in place.
///
/// # Threads
///
/// A runtime starts a thread if no thread is idle, up to
/// [`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads) (256). Further calls
/// wait in a FIFO queue. If the system refuses a new thread, the call waits for one of the existing
/// threads; if there are none, the worker calls `f` and is blocked by it.
///
/// A thread ends after 5 s without a call
/// ([`Builder::blocking_keep_alive`](crate::Builder::blocking_keep_alive)), or with its runtime;
/// dropping the runtime waits for it. Its name is
/// [`Builder::thread_name`](crate::Builder::thread_name) with `-blocking` appended. It has std's
/// default stack size (2 MiB, or `RUST_MIN_STACK`) and runs none of the builder's thread hooks.
/// [`Metrics::blocking`](crate::Metrics::blocking) counts the threads.
///
/// Calls that wait for later calls, directly or through tasks, need one thread each at the same
/// time: with fewer threads they deadlock.
///
/// # Cost
///
/// Suspends (structured). Costs an allocation, a hand-over to another thread and back, and the
/// start of a thread if none is idle.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let text = rt.block_on(|| cygnet::blocking(|| std::fs::read_to_string("Cargo.toml")));
/// assert!(text.is_ok());
/// ```
///
/// # Panics
/// With the panic of `f`; inside [`no_suspend`](crate::no_suspend), if called by a task.
#[track_caller]
pub fn blocking<F, R>(f: F) -> R
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    if Worker::current().is_none() {
        return f();
    }
    match run_elsewhere(f, WaitKind::Structured) {
        Ok(result) => result,
        Err(_) => unreachable!("a structured wait was cut short"),
    }
}

/// Spawns a task to run a closure that may block. The closure runs on a separate thread, under the
/// conditions that [`blocking`] describes.
///
/// The task is a child of the caller. If it is cancelled, alone or with an ancestor, before a
/// thread has started `f`, it ends at once with
/// [`JoinError::NotStarted`](crate::JoinError::NotStarted), and its worker drops `f`. Once started,
/// `f` runs to its end. The parent waits for it, its value is the task's value, and
/// [`is_cancelled`](crate::is_cancelled) tells `f` about a cancellation.
///
/// Does not suspend. Costs as much as [`spawn`](crate::spawn()) and [`blocking`] together,
/// including a coroutine.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let nap = cygnet::spawn_blocking(|| std::thread::sleep(std::time::Duration::from_millis(1)));
/// let sum: u32 = (1..=10).sum(); // meanwhile, on this worker
/// nap.join().unwrap();
/// # assert_eq!(sum, 55);
/// # });
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn spawn_blocking<F, T>(f: F) -> Task<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (worker, parent) = here("spawn_blocking");
    let terms = terms(parent, Location::caller(), Traits::default(), None);
    let body = Decides(move || run_elsewhere(f, WaitKind::Grant).map_err(Failure::NotStarted));
    Task::new(worker.spawn(worker.running_node(), body, Lasting::new(), terms))
}

/// Runs `f` on a pool thread and waits for its end. If `kind` allows it and the wait is cut short
/// before a thread has started `f`, drops `f` and returns the cause.
#[track_caller]
fn run_elsewhere<F, R>(f: F, kind: WaitKind) -> Result<R, Arc<Cause>>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let (worker, _) = here("blocking");
    // The job lives on this frame, so nothing between its submission and its end may unwind.
    assert_may_suspend();
    let pool = &worker.shared().blocking;
    let node = worker.running_node();
    if !node.is_linked() {
        // Linking lets `f` see an ancestor's cancellation in this node's word.
        link(node);
    }
    let mut slot = None;
    let f = carrying(f);
    let job = Job::new(node.pointer(), || slot = Some(f()));
    // SAFETY: this frame keeps the job in place until it is done or taken back.
    if let Some(ticket) = unsafe { pool.submit(&job) } {
        if await_end_anywhere(&job.end, kind).is_err()
            && let Some(cause) = Cancelled::passed_on()
            && pool.take_back(ticket)
        {
            // Dropped before the result is made: if the destructor of `f` panics, the compiler
            // would leak a result made earlier.
            drop(job);
            return Err(cause);
        }
        let waited = await_end_anywhere(&job.end, WaitKind::Structured);
        debug_assert!(waited.is_ok(), "a structured wait was cut short");
    }
    if let Some(payload) = job.into_panic() {
        resume_unwind(payload);
    }
    Ok(slot.expect("a job that ended without a panic has stored its value"))
}
