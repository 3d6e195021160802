//! What a loop asks of the scheduler: everything, and nothing elsewhere in `par`, but for
//! [`join`](crate::join()) itself.

use crate::retire::chain::Pin;
use crate::runtime::Cancelled;
use crate::runtime::here;
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::worker::Worker;
use crate::task::words::tree::Node;

/// The task that called a loop, as it is seen by those parts of the loop that run elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    /// The node that it is in.
    node: &'a Node,
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
        let (worker, _) = here(what);
        // SAFETY: that of the running task, or of a scope on its stack, which does not end before the call.
        let caller = Caller { node: unsafe { &*worker.node.get() } };
        if caller.is_cancelled() {
            return Err(Cancelled::here());
        }
        Ok((caller, worker.shared().workers()))
    }

    /// Checks in, and returns `true` if nothing has happened that the loop must react to: the usual case, in
    /// a few loads.
    #[inline]
    pub(super) fn all_quiet(self) -> bool {
        Worker::current().is_some_and(|worker| {
            // In any case: a loop that cannot fork any more leaves a request for work unanswered.
            let is_due = worker.check_in();
            !(is_due || worker.remote.front.wants_attention() || self.is_cancelled())
        })
    }

    /// Whether the loop is to end early, as its caller is cancelled.
    #[inline]
    pub(super) fn is_cancelled(self) -> bool {
        is_cancelled(self.node)
    }
}

/// Whether somebody wants a part of what this worker has to do.
#[inline]
pub(super) fn is_hungry() -> bool {
    // Whoever asks does so in the front, too.
    Worker::current().is_some_and(|worker| worker.remote.front.wants_attention())
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

/// Lets the ready tasks of this worker run, if there are any. Suspends then, and returns `true`.
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
