//! Why a task or a scope is cancelled: how the cause is decided, and where it is recorded.
//!
//! **Several parties may cancel the same node**, by handles and from above, each for its own
//! reason. `ColdData::cause`, which is written once, decides which reason counts. A canceller with
//! a reason writes it there before its mark. If nothing is there at the first query, the query
//! writes what it finds out (`decided`). The origin of a mark (`Children`) says only what such a
//! query should write.
//!
//! The cause of a task that may have ended can be told only from its cold data. So a walk writes
//! the cause there before it marks the node, if parties other than the task have a reference to
//! it. A task that hands out a reference later looks for a mark after that, in an order that the
//! lock of its parent's list decides (`make_known`).

use crate::scheduler::life::live_node::{LiveNode, task_of};
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::task::cause::{Cause, Reason};
use crate::task::cold::ColdData;
use crate::task::words::tree::{Node, NodeKind, Verdict};
use std::sync::Arc;

/// The cause of the cancel of `node`, which is cancelled.
#[cold]
pub(crate) fn cause_of(node: LiveNode<'_>) -> Arc<Cause> {
    // Usually `node` itself is marked. A task that will not start may not be, but then an ancestor
    // is.
    cause_at(node.up_to(|at| at.verdict() == Verdict::Cancelled))
}

/// The cause of the cancel of a node that has a mark of its own, or of a root.
///
/// Several parties may cancel the node at the same time, each with a reason. A given reason is
/// recorded before the mark; other reasons are deduced. The first query records its result, so all
/// queries give the same answer (`ColdData::cause`).
fn cause_at(node: LiveNode<'_>) -> Arc<Cause> {
    if node.kind == NodeKind::Root {
        return Cause::shut_down();
    }
    decided(node.cold_or_new(), || {
        let origin = node.origin();
        if !origin.is(node.pointer()) {
            return cause_at(origin);
        }
        if let Some(limit) = node.scope().and_then(ScopeFrame::limit) {
            return Cause::new(Reason::Deadline, Some(limit.place));
        }
        let place = node.task().map(|task| task.spawned_at);
        Cause::new(Reason::HandleDropped, place)
    })
}

/// The recorded cause. If there is none, records what `found` returns.
pub(in crate::scheduler) fn decided(
    cold: &ColdData,
    found: impl FnOnce() -> Arc<Cause>,
) -> Arc<Cause> {
    let cause = match cold.cause.get() {
        Some(cause) => cause,
        None => {
            // Another thread may be faster.
            // MUTANT(cancel.cause.first): first return found()
            let _ = cold.cause.set(found());
            cold.cause.get().expect("set by one of the two")
        }
    };
    Arc::clone(cause)
}

/// Records the cause of a cancel that reaches `node`, if parties other than the task have a
/// reference to it now: they may ask after the end of the node and of its ancestors. A party that
/// gets its reference later is covered by [`make_known`](crate::scheduler::cancel::make_known),
/// which finds the mark and records the cause then.
pub(super) fn write_cause_down(node: &Node, origin: LiveNode<'_>) {
    if node.kind == NodeKind::Task && task_of(node).is_some_and(|task| task.is_known()) {
        write_cause(node, origin);
    }
}

/// Records the cause of a cancel that reaches `node`, if it is a task.
pub(super) fn write_cause(node: &Node, origin: LiveNode<'_>) {
    // The end of a scope records the cause itself (`hook::unhook_all`).
    if node.kind == NodeKind::Task {
        let _ = node.cold_or_new().cause.set(cause_at(origin));
    }
}
