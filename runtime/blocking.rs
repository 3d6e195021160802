//! Calls that block their thread, moved to threads that are there for it.

use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::runtime::spawn::terms;
use crate::runtime::task::{Claim, Task};
use crate::scheduler::blocking::Job;
use crate::scheduler::cancel::link;
use crate::scheduler::wait::no_suspend::assert_may_suspend;
use crate::scheduler::wait::park::await_end_anywhere;
use crate::scheduler::worker::Worker;
use crate::task::cause::Cause;
use crate::task::outcome::Failure;
use crate::task::record::Traits;
use crate::task::words::wait::WaitKind;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;

/// Runs `f`, which may block, on a thread of its own while the calling task waits and its worker
/// goes on with others. `f` may borrow: it is run in any case, also if the task is cancelled, or the
/// runtime ends, while it is queued for a thread, and the call returns when it has ended.
///
/// `f` does not run inside the task: [`current_id`](crate::current_id), [`park`](crate::park) and
/// task-locals are not there. [`is_cancelled`](crate::is_cancelled) says whether the task is cancelled; what
/// blocks for long should ask it now and then. Otherwise `f` is on a plain thread, where primitives of
/// [`sync`](crate::sync) and [`Handle::block_on`](crate::Handle::block_on) block it. On a plain thread `f` is called right there.
///
/// # Threads
///
/// A runtime starts a thread for a call that finds no idle one, up to
/// [`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads) (256). More calls wait in a queue, first in first out. If the system refuses a
/// thread, a call waits for one of those that there are; if there is none, `f` is called by the worker, which is
/// blocked by it. A thread ends after 5 s without a call
/// ([`Builder::blocking_keep_alive`](crate::Builder::blocking_keep_alive)), and with its runtime, whose drop waits for it. It is called
/// after [`Builder::thread_name`](crate::Builder::thread_name), with `-blocking` behind it, has the stack that std gives to threads
/// (2 MiB, or `RUST_MIN_STACK`), and calls none of the builder's thread hooks. [`Metrics::blocking`](crate::Metrics::blocking) counts them.
///
/// Calls that wait for later ones, directly or through tasks that make some, need a thread each at the same time: with fewer threads
/// they wait for ever.
///
/// Suspends (structured). Costs an allocation and a hand-over to another thread and back, and the start of a
/// thread if none is idle.
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
        Err(_) => unreachable!("it is taken back from a wait that may be cut short only"),
    }
}

/// Spawns a task whose closure may block. It runs on a thread of its own, as with [`blocking`], which
/// says where, and what holds for `f` there.
///
/// The task is a child of the caller. If it is cancelled, itself or with an ancestor, before a thread has begun with `f`,
/// it ends at once with [`JoinError::NotStarted`](crate::JoinError::NotStarted), and its worker drops `f`. After that `f` runs
/// to its end, which the parent waits for, and the value is that of the task;
/// [`is_cancelled`](crate::is_cancelled) tells `f` of it.
///
/// Does not suspend. Costs what [`spawn`](crate::spawn()) and [`blocking`] cost, a coroutine included.
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
    let body = move || run_elsewhere(f, WaitKind::Grant).map_err(Failure::NotStarted);
    // SAFETY: 'static; the running node is open.
    let record = unsafe { worker.spawn_fallible(worker.node.get(), body, terms) };
    // SAFETY: the handle's reference is ours.
    Task::new(unsafe { Claim::new(record) })
}

/// Runs `f` on a pool thread and waits for its end. If that wait is of a kind that may be cut short, and is while no thread has
/// begun with `f`, then `f` is dropped here, and the cause is the answer.
#[track_caller]
fn run_elsewhere<F, R>(f: F, kind: WaitKind) -> Result<R, Arc<Cause>>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let (worker, _) = here("blocking");
    // Nothing from the submission to the end may unwind: the job lies on this frame.
    assert_may_suspend();
    let pool = &worker.shared().blocking;
    let node = worker.node.get();
    // SAFETY: that of the running task, or of a scope on its stack.
    let waiting = unsafe { &*node };
    if !waiting.is_linked() {
        // So that whatever comes from above is seen in its word, by `f`.
        link(waiting);
    }
    let mut slot = None;
    let job = Job::new(node, || slot = Some(f()));
    // SAFETY: the job is not left before it is done or taken back.
    if let Some(ticket) = unsafe { pool.submit(&job) } {
        if await_end_anywhere(&job.end, kind).is_err()
            && let Some(cause) = Cancelled::passed_on()
            && pool.take_back(ticket)
        {
            // Here, not after the answer is made: if the destructor of `f` panics, the compiler would leak that.
            drop(job);
            return Err(cause);
        }
        let waited = await_end_anywhere(&job.end, WaitKind::Structured);
        debug_assert!(waited.is_ok(), "a structured wait was cut short");
    }
    if let Some(payload) = job.into_panic() {
        resume_unwind(payload);
    }
    Ok(slot.expect("the job has run to its end"))
}
