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

use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::life::scope_frame::task_of;
use crate::task::cause::{Cause, Reason};
use crate::task::children::origin_of;
use crate::task::cold::ColdData;
use crate::task::record::Record;
use crate::task::words::tree::{Node, NodeKind, Verdict};
use std::ptr;
use std::sync::Arc;

/// The cause of the cancel of `node`, which is cancelled and has not ended.
#[cold]
pub(crate) fn cause_of(node: &Node) -> Arc<Cause> {
    let mut at = node;
    // Usually `node` itself is marked. A task that will not start may not be, but then an ancestor
    // is.
    while at.verdict() != Verdict::Cancelled && at.kind != NodeKind::Root {
        // SAFETY: not a root, so it has a parent, which does not end before it.
        at = unsafe { &*at.parent };
    }
    cause_at(at)
}

/// The cause of the cancel of a node that has a mark of its own and has not ended, or of a root.
///
/// Several parties may cancel the node at the same time, each with a reason. A given reason is
/// recorded before the mark; other reasons are deduced. The first query records its result, so all
/// queries give the same answer (`ColdData::cause`).
fn cause_at(node: &Node) -> Arc<Cause> {
    if node.kind == NodeKind::Root {
        return Cause::shut_down();
    }
    decided(node.cold_or_new(), || {
        let origin = origin_of(node);
        if !ptr::eq(origin, node) {
            // SAFETY: a node that the cancel of an ancestor has reached ends before that ancestor.
            return cause_at(unsafe { &*origin });
        }
        if let Some(place) = ScopeFrame::place_of_limit(node) {
            return Cause::new(Reason::Deadline, Some(place));
        }
        // SAFETY: the node has not ended, and a task does not end before its nodes.
        let place = task_of(node).map(|task| unsafe { task.as_ref() }.spawned_at);
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
/// gets its reference later is served by [`make_known`](crate::scheduler::cancel::make_known),
/// which finds the mark and records the cause then.
///
/// # Safety
/// The origin has not ended.
pub(in crate::scheduler) unsafe fn write_cause_down(node: &Node, origin: *const Node) {
    // SAFETY: a node of kind Task is the start of its record.
    let is_known = |node: &Node| unsafe { (*ptr::from_ref(node).cast::<Record>()).is_known() };
    if node.kind == NodeKind::Task && is_known(node) {
        // SAFETY: the caller assures that the origin has not ended.
        unsafe { write_cause(node, origin) };
    }
}

/// Records the cause of a cancel that reaches `node`, if it is a task.
///
/// # Safety
/// The origin has not ended.
pub(in crate::scheduler) unsafe fn write_cause(node: &Node, origin: *const Node) {
    // The end of a scope records the cause itself (`hook::unhook_all`).
    if node.kind == NodeKind::Task {
        // SAFETY: the caller assures that the origin has not ended.
        let _ = node.cold_or_new().cause.set(cause_at(unsafe { &*origin }));
    }
}
