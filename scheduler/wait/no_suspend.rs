//! Sections in which a task must not be suspended.

use crate::retire::nesting::Pin;
use crate::scheduler::wait::interrupted::Interrupted;
use crate::scheduler::worker::Worker;
use crate::shim::thread_local;
use std::cell::Cell;

thread_local! {
    /// How many such sections a plain thread is in. A worker counts its own: the compiler might keep
    /// the address of a thread-local over a suspension of a task that changes threads.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The count of the present thread. A task inside a section never leaves its thread, so the count need
/// not travel with tasks.
fn with_depth<R>(f: impl FnOnce(&Cell<u32>) -> R) -> R {
    match Worker::current() {
        Some(worker) => f(&worker.forbidden),
        None => DEPTH.with(f),
    }
}

struct Section;

impl Drop for Section {
    fn drop(&mut self) {
        with_depth(|depth| depth.set(depth.get() - 1));
    }
}

/// Calls `f`, and turns every suspension of the calling task below it into a panic.
///
/// For code that must not lose its thread half-way: callbacks of an interface that keeps per-thread
/// state for their extent (scoped thread-locals, interpreter locks), initialisers of thread-locals.
/// Calls that do not have to wait (a join of a task that has ended, an unpark) are allowed. Sections
/// nest. A bare coroutine cannot be suspended in the middle of one that its body has begun, but inside of its
/// resumer's.
///
/// The end of a [`scope`](crate::scope()) inside is no panic: it holds the worker. Tasks of the scope
/// that nobody has started are called there, inside the section, so their own waits panic; the others
/// run on other workers as usual, and meanwhile this thread runs nothing else, or is blocked. What the task has spawned
/// before the section is not called in it: if the scope waits for one of those by a detour (a lease that somebody gives up who has joined it), another
/// worker must be there to run it.
///
/// Works on any thread. Does not suspend. Costs an increment and a decrement.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     let caught = std::panic::catch_unwind(|| cygnet::no_suspend(|| cygnet::yield_now()));
///     assert!(caught.is_err());
///     assert!(cygnet::yield_now().is_ok());
/// });
/// ```
///
/// In a destructor that runs because the thread panics no wait panics, as that would end the process: it returns what it returns in any unwinding
/// ([`Cancelled`](crate::Cancelled)), and what is waited for without fail holds the worker, as the end of a scope does.
///
/// # Panics
/// As `f` does. A call below it that would suspend panics.
pub fn no_suspend<R>(f: impl FnOnce() -> R) -> R {
    let _pin = Pin::innermost();
    with_depth(|depth| depth.set(depth.get() + 1));
    let _section = Section;
    f()
}

/// Panics if the caller is in a section that forbids suspension. Not in the middle of an unwinding, where a second panic would end the
/// process: there nothing suspends in any case. A wait that may be cut short is, and any other holds the worker.
#[inline]
#[track_caller]
pub(crate) fn assert_may_suspend() {
    if is_forbidden() {
        refuse_to_suspend();
    }
}

/// For who is in such a section, or in the middle of an unwinding.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse_to_suspend() {
    if !crate::shim::panicking() {
        panic!("cygnet: a task would be suspended inside no_suspend")
    }
}

/// Panics if the caller would wait where it must not: in a section that forbids suspension, or on a worker's
/// thread between tasks, which would block all those that are at home there.
///
/// # Errors
/// Between tasks in the middle of an unwinding, where a second panic would end the process: the caller does not wait. (In a task it
/// goes on: as above, its wait sees to that itself.)
#[inline]
#[track_caller]
pub(crate) fn assert_may_wait() -> Result<(), Interrupted> {
    if let Some(worker) = Worker::current() {
        if worker.task().is_none() {
            return Err(turn_away());
        }
        assert_may_suspend();
    }
    Ok(())
}

#[cold]
#[track_caller]
fn turn_away() -> Interrupted {
    if !crate::shim::panicking() {
        refuse_between_tasks();
    }
    Interrupted
}

/// For what has no other answer to a wait between tasks.
#[cold]
#[track_caller]
pub(crate) fn refuse_between_tasks() -> ! {
    panic!(
        "cygnet: a wait on a worker's thread outside of its tasks (in a hook, a waker, or the destructor of \
         a result that nobody takes) would block all tasks of that worker"
    )
}

/// Whether the caller is in a section that forbids suspension.
#[inline]
pub(crate) fn is_forbidden() -> bool {
    with_depth(|depth| depth.get() > 0)
}
