//! Sections in which a task must not be suspended.

use crate::retire::nesting::Pin;
use crate::scheduler::spans;
use crate::scheduler::wait::interrupted::Interrupted;
use crate::scheduler::worker::Worker;
use crate::shim::thread_local;
use crate::task::outcome::{drop_payload, quietly};
use std::cell::Cell;
use std::ptr;

thread_local! {
    /// The number of sections that a plain thread is in. A worker has a count of its own, because
    /// the compiler might keep the address of a thread-local across a suspension of a task that
    /// changes threads.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Calls `f` with the count of the present thread. A task inside a section never leaves its
/// thread, so the count need not travel with the task.
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

/// Calls `f`, and turns every suspension of the calling task inside it into a panic.
///
/// For code that must keep its thread: callbacks of an interface that keeps per-thread state for
/// the extent of the callback (scoped thread-locals, interpreter locks), and initialisers of
/// thread-locals. Calls that need not wait (a join of a task that has ended, an unpark) are
/// allowed. Sections nest. A bare coroutine cannot be suspended inside a section that its own
/// body has begun. It can be suspended inside a section that its resumer has begun.
///
/// The end of a [`scope`](crate::scope()) inside the section does not panic; it blocks the
/// worker. Tasks of the scope that have not started are called on this thread, inside the
/// section, so their own waits panic. The started ones run on other workers as usual. The thread
/// runs nothing else until the scope has ended. Tasks that the caller has spawned before the
/// section are not called in it. If the scope waits for one of them indirectly (say, for a lease
/// that is dropped only after a join of that task), another worker must be free to run it.
///
/// In a destructor that runs during unwinding, a wait does not panic, since a second panic would
/// abort the process. Waits return [`Cancelled`](crate::Cancelled) then, as in any unwinding, and
/// structured waits block the worker, as the end of a scope does.
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
/// # Panics
/// If `f` panics. A call inside `f` that would suspend the task panics.
pub fn no_suspend<R>(f: impl FnOnce() -> R) -> R {
    let _pin = Pin::innermost();
    with_depth(|depth| depth.set(depth.get() + 1));
    let _section = Section;
    f()
}

/// Calls foreign code, which must not wait. The task that runs on this worker, if there is one,
/// has nothing to do with that code. A panic is not propagated: the panic hook has reported it.
pub(crate) fn call_foreign(f: impl FnOnce()) {
    let call = || quietly(|| no_suspend(f)).into_iter().for_each(drop_payload);
    match Worker::current() {
        Some(worker) => in_nobodys_name_on(worker, call),
        None => call(),
    }
}

/// As [`call_foreign`], for the subscriber of the spans that are entered on this thread.
#[cfg(feature = "tracing")]
pub(crate) fn call_foreign_in_its_spans(f: impl FnOnce()) {
    let call = || quietly(|| no_suspend(f)).into_iter().for_each(drop_payload);
    match Worker::current() {
        Some(worker) => without_node(worker, call),
        None => call(),
    }
}

pub(crate) fn in_nobodys_name_on(worker: &Worker, f: impl FnOnce()) {
    let spans = spans::leave();
    without_node(worker, f);
    spans.enter_again();
}

fn without_node(worker: &Worker, f: impl FnOnce()) {
    let outer = worker.node.replace(ptr::null());
    f();
    worker.node.set(outer);
}

/// Panics if the caller is in a section that forbids suspension. Does nothing during unwinding,
/// where a second panic would abort the process. Nothing suspends there in any case: an
/// interruptible wait is cut short, and a structured one blocks the worker.
#[inline]
#[track_caller]
pub(crate) fn assert_may_suspend() {
    if is_forbidden() {
        refuse_to_suspend();
    }
}

/// Panics, except during unwinding. For a caller that is in a section or unwinds.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse_to_suspend() {
    if !crate::shim::panicking() {
        panic!("cygnet: a task would be suspended inside no_suspend")
    }
}

/// Panics if the caller must not wait: in a section that forbids suspension, or on a worker's
/// thread between tasks, where a wait would block all tasks that are at home there.
///
/// # Errors
/// If the worker is between tasks and its thread unwinds, where a second panic would abort the
/// process. The caller then does not wait. In a task the call returns `Ok` during unwinding, and
/// the wait itself is cut short or blocks the worker.
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

/// Panics because of a wait between tasks. For calls that have no error to return.
#[cold]
#[track_caller]
pub(crate) fn refuse_between_tasks() -> ! {
    panic!(
        "cygnet: a wait on a worker's thread outside of its tasks (in a hook, a waker, or the destructor of \
         a result that nobody takes) would block all tasks of that worker"
    )
}

/// Returns whether the caller is in a section that forbids suspension.
#[inline]
pub(crate) fn is_forbidden() -> bool {
    with_depth(|depth| depth.get() > 0)
}
