//! The interface between loops and the scheduler. Besides [`join`](crate::join()), the rest of
//! `par` uses nothing of the scheduler directly.

use crate::retire::nesting::Pin;
use crate::runtime::{Cancelled, here};
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::worker::Worker;
use crate::task::words::tree::Node;

/// The task that called a loop, as seen by parts of the loop that run on other workers.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    /// The node that the task is in.
    node: &'a Node,
}

/// Calls `run` with the calling task and the number of workers of its runtime.
///
/// If the call is made inside a bare coroutine, that coroutine cannot suspend before `run` returns:
/// another task could continue it after the calling task has ended.
#[inline]
#[track_caller]
pub(super) fn with_caller<R>(
    what: &str,
    run: impl for<'a> FnOnce(Caller<'a>, usize) -> R,
) -> Result<R, Cancelled> {
    let _pin = Pin::innermost();
    let (node, workers) = enter(what)?;
    // SAFETY: the node belongs to the running task or to a scope on its stack. `run` takes any
    // lifetime, so it cannot keep the `Caller` beyond this call. This frame is on the task's stack,
    // or on the stack of a bare coroutine that the task has resumed and that is pinned. In both
    // cases the task ends after this frame.
    let caller = Caller { node: unsafe { &*node } };
    Ok(run(caller, workers))
}

/// Returns the node of the calling task and the number of workers of its runtime.
#[inline(never)]
#[track_caller]
fn enter(what: &str) -> Result<(*const Node, usize), Cancelled> {
    let (worker, _) = here(what);
    if crate::runtime::is_cancelled() {
        return Err(Cancelled::here());
    }
    Ok((worker.node.get(), worker.shared().workers()))
}

impl Caller<'_> {
    /// Checks in with the scheduler and returns `true` if the loop has nothing to react to. That is
    /// the usual case, and costs a few loads.
    #[inline]
    pub(super) fn all_quiet(self) -> bool {
        Worker::current().is_some_and(|worker| {
            // Unconditionally: a loop that cannot fork any more leaves a request for work
            // unanswered.
            let is_due = worker.check_in();
            !(is_due || worker.remote.private.is_requested() || self.is_cancelled())
        })
    }

    /// Returns whether the loop must end early because its caller is cancelled.
    #[inline]
    pub(super) fn is_cancelled(self) -> bool {
        // SAFETY: the node does not end before the `Caller`: see `with_caller`.
        is_cancelled(unsafe { LiveNode::new(self.node) })
    }
}

/// Returns whether another worker has asked this one for work.
#[inline]
pub(super) fn is_requested() -> bool {
    // A request for work is always left in the queue of fresh tasks, too.
    Worker::current().is_some_and(|worker| worker.remote.private.is_requested())
}

/// Answers a request for work with tasks that are ready on this worker, if there are any.
#[cold]
#[inline(never)]
pub(super) fn serve() {
    if let Some(worker) = Worker::current()
        && worker.remote.has_private()
    {
        worker.serve_requests();
    }
}

/// Lets the ready tasks of this worker run. Returns `true` if it has suspended, `false` if there
/// were none or if a suspension is forbidden here.
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
    // The caller checks for cancellation in any case.
    let _ = worker.yield_now(task);
}

/// Returns whether half of the stack is left.
#[cold]
#[inline(never)]
pub(super) fn has_room() -> bool {
    Worker::current().is_some_and(|worker| worker.fiber().has_room())
}

/// A value that differs between workers and stays the same while a part of a loop runs on one.
#[inline]
pub(super) fn worker_addr() -> usize {
    Worker::current().map_or(0, |worker| std::ptr::from_ref(worker).addr())
}
