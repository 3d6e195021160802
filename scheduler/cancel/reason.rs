//! Why a task or a scope is cancelled: who decides it, and where it is written down.
//!
//! **Several may cancel the same node**, by handles and from above, each for a reason of its own. One place decides which of these is the
//! reason: `ColdData::cause`, which is written once: by a canceller before his mark, or, if there is nothing when somebody asks, by who
//! asks first (`decided`). The origin of a mark (`Children`) says no more than what to write down there.
//!
//! Why a task was cancelled that may have ended can only be told by what is written down in its cold data. A walk writes it there, before
//! it marks the node, if others than the task have a reference; and a task that makes itself known to others looks for a mark when
//! it has done so, in an order that the lock of its parent's list decides (`make_known`).

use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::life::scope_frame::task_of;
use crate::task::cause::{Cause, Reason};
use crate::task::children::origin_of;
use crate::task::cold::ColdData;
use crate::task::record::Record;
use crate::task::words::tree::{Node, NodeKind, Verdict};
use std::ptr;
use std::sync::Arc;

/// Why `node`, which has not ended and is cancelled, is so.
#[cold]
pub(crate) fn cause_of(node: &Node) -> Arc<Cause> {
    let mut at = node;
    // Mostly `node` has been told. One that will not start may not have been, but the one above it.
    while at.verdict() != Verdict::Cancelled && at.kind != NodeKind::Root {
        // SAFETY: as in `is_cancelled_above`.
        at = unsafe { &*at.parent };
    }
    cause_at(at)
}

/// Why a node is cancelled that has its own mark, and has not ended; or a root.
///
/// Several may cancel it at the same time, each with a reason: one that is given is written down before the mark, others can be told
/// from the rest. Whoever looks first writes down what he finds, so all are told the same (`ColdData::cause`).
fn cause_at(node: &Node) -> Arc<Cause> {
    if node.kind == NodeKind::Root {
        return Cause::shut_down();
    }
    decided(node.cold_or_new(), || {
        let origin = origin_of(node);
        if !ptr::eq(origin, node) {
            // SAFETY: a node that has been reached by the cancel of an ancestor ends before it.
            return cause_at(unsafe { &*origin });
        }
        if let Some(place) = ScopeFrame::place_of_limit(node) {
            return Cause::new(Reason::Deadline, Some(place));
        }
        // SAFETY: it has not ended.
        let place = task_of(node).map(|task| unsafe { task.as_ref() }.spawned_at);
        Cause::new(Reason::HandleDropped, place)
    })
}

/// The reason that is written down, or, if there is none, what `found` finds.
pub(in crate::scheduler) fn decided(
    cold: &ColdData,
    found: impl FnOnce() -> Arc<Cause>,
) -> Arc<Cause> {
    let cause = match cold.cause.get() {
        Some(cause) => cause,
        None => {
            // Another may be faster.
            // MUTANT(cancel.cause.first): first return found()
            let _ = cold.cause.set(found());
            cold.cause.get().expect("set by one of the two")
        }
    };
    Arc::clone(cause)
}

/// So that those can be told who see the node after its end, and that of its ancestors: others than the task itself, if there are any
/// now; those to whom it makes itself known later find the mark, and write it down then ([`make_known`](crate::scheduler::cancel::make_known)).
///
/// # Safety
/// The origin has not ended.
pub(in crate::scheduler) unsafe fn write_cause_down(node: &Node, origin: *const Node) {
    // SAFETY: a node of kind Task is the start of its record.
    let is_known = |node: &Node| unsafe { (*ptr::from_ref(node).cast::<Record>()).is_known() };
    if node.kind == NodeKind::Task && is_known(node) {
        // SAFETY: passed on.
        unsafe { write_cause(node, origin) };
    }
}

/// The same whoever there is.
///
/// # Safety
/// The origin has not ended.
pub(in crate::scheduler) unsafe fn write_cause(node: &Node, origin: *const Node) {
    // Who ends a scope does so.
    if node.kind == NodeKind::Task {
        // SAFETY: passed on.
        let _ = node.cold_or_new().cause.set(cause_at(unsafe { &*origin }));
    }
}
