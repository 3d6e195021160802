//! What a loop asks of the scheduler: everything, and nothing elsewhere in `par`, but for
//! [`join`](crate::join()) itself.

use crate::retire::chain::Pin;
use crate::retire::record::Record;
use crate::retire::wait::WaitWord;
use crate::runtime::errors::Cancelled;
use crate::runtime::fork;
use crate::runtime::here;
use crate::runtime::suspend::is_cancelled;
use crate::scheduler::no_suspend::is_forbidden;
use crate::scheduler::worker::Worker;

/// The task that called a loop, as it is seen by those parts of the loop that run elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    wait: &'a WaitWord,
    /// It was called by another task, in a join, or forked by it, and shares its cancellation.
    called: bool,
}

/// Calls a loop with the calling task and the number of workers of its runtime.
///
/// A bare coroutine that the call is made in cannot suspend before its end: it could be continued by another
/// task, after the calling one has ended.
#[inline]
#[track_caller]
pub(super) fn with_caller<R>(
    what: &str,
    run: impl for<'a> FnOnce(Caller<'a>, usize) -> R,
) -> Result<R, Cancelled> {
    let _pin = Pin::innermost();
    // SAFETY: the caller is gone when this returns, as its lifetime is any one for `run`. This frame is on the
    // task's stack, or on that of a bare coroutine that the task has resumed and that is pinned; either
    // way the task does not end before it.
    let (caller, workers) = unsafe { Caller::here(what) }?;
    Ok(run(caller, workers))
}

impl Caller<'_> {
    /// The calling task, and the number of workers of its runtime.
    ///
    /// # Safety
    /// The caller is not used after the task's end.
    #[inline(never)]
    #[track_caller]
    unsafe fn here<'a>(what: &str) -> Result<(Caller<'a>, usize), Cancelled> {
        let (worker, task) = here(what);
        // SAFETY: the running task; its record is there until it has ended, and so long it is used.
        let task: &'a Record = unsafe { task.as_ref() };
        let caller = Caller { wait: &task.wait, called: task.has_caller() };
        if caller.is_cancelled() {
            return Err(Cancelled::new());
        }
        Ok((caller, worker.shared().workers()))
    }

    /// Whether nothing has happened that the loop must react to: the usual case, in a few loads.
    #[inline]
    pub(super) fn all_quiet(self) -> bool {
        Worker::current().is_some_and(|worker| {
            !(worker.remote.front.wants_attention() || worker.has_ready() || self.is_cut(worker))
        }) && !self.called
    }

    /// Whether the loop is to end early: its caller is cancelled, or their runtime ends.
    #[inline]
    pub(super) fn is_cancelled(self) -> bool {
        Worker::current().is_some_and(|worker| self.is_cut(worker)) || self.called && is_cancelled()
    }

    #[inline]
    fn is_cut(self, worker: &Worker) -> bool {
        self.wait.is_cancelled() || worker.shared().is_closing()
    }
}

/// Whether somebody wants a part of what this worker has to do.
#[inline]
pub(super) fn is_hungry() -> bool {
    fork::is_hungry()
}

/// Serves who is hungry from what lies ready already, if anything does.
#[cold]
#[inline(never)]
pub(super) fn serve() {
    if let Some(worker) = Worker::current()
        && worker.remote.has_private()
    {
        worker.attend();
    }
}

/// Lets the ready coroutines of this worker run, if there are any; true if they may have. Suspends then.
#[inline]
pub(super) fn let_others() -> bool {
    match Worker::current() {
        Some(worker) if worker.has_ready() && !is_forbidden() => {
            give_way();
            true
        }
        _ => false,
    }
}

#[cold]
#[inline(never)]
fn give_way() {
    let (worker, task) = here("par");
    // A cancellation is what the caller looks for in any case.
    let _ = worker.yield_now(task);
}

/// Whether half of the stack is left.
#[cold]
#[inline(never)]
pub(super) fn has_room() -> bool {
    Worker::current().is_some_and(|worker| worker.strand().has_room())
}

/// Something that differs between workers, and stays the same while one is in a part of a loop.
#[inline]
pub(super) fn place() -> usize {
    Worker::current().map_or(0, |worker| std::ptr::from_ref(worker).addr())
}
