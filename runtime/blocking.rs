//! Calls that block their thread, moved to threads that are there for it.

use crate::retire::wait::WaitKind;
use crate::runtime::here;
use crate::runtime::spawn::spawn;
use crate::runtime::task::Task;
use crate::scheduler::blocking::Job;
use std::panic::resume_unwind;

/// Runs `f`, which may block, on a thread of its own while the calling task waits and its worker
/// goes on with others. `f` may borrow: the call returns when it has ended, and is not cut short.
///
/// `f` does not run inside the task: [`current_id`](crate::current_id), [`park`](crate::park) and
/// task-locals are not there. On a plain thread `f` is called right there.
///
/// Suspends (structured). Costs an allocation and a hand-over to another thread and back, and the
/// start of a thread if none is idle: up to 256 for each runtime, which end after five seconds
/// without work.
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
    if crate::scheduler::worker::Worker::current().is_none() {
        return f();
    }
    let (worker, _) = here("blocking");
    crate::scheduler::no_suspend::assert_may_suspend();
    let mut slot = None;
    let job = Job::new(|| slot = Some(f()));
    // SAFETY: the job is not left before it is done: the wait is structured.
    unsafe { worker.shared().blocking.submit(&job) };
    let waited = crate::scheduler::wait::await_end_anywhere(&job.end, WaitKind::Structured);
    debug_assert!(waited.is_ok(), "a structured wait was cut short");
    if let Some(payload) = job.into_panic() {
        resume_unwind(payload);
    }
    slot.expect("the job has run to its end")
}

/// Spawns a task whose closure may block. It runs on a thread of its own, as with [`blocking`].
///
/// Short for `spawn(|| blocking(f))`: the task is a child of the caller, and a cancellation before
/// its start prevents the call of `f`. Does not suspend. Costs what the two cost, a coroutine
/// included.
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
    spawn(move || blocking(f))
}
