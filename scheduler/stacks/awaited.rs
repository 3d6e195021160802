//! Finds the waits for the end of a fresh task, or of a task or scope above it.

use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::stacks::ledger::ExtraFor;
use crate::task::record::Record;
use crate::task::reference::RunRef;
use crate::task::words::join::Registered;
use crate::task::words::tree::NodeKind;
use std::ptr;

/// The waits for the end of a task.
#[derive(Default)]
pub(super) struct Awaited {
    /// Whether anything waits, be it a task, a thread or a future.
    pub(super) any: bool,
    /// The wait of the nearest ancestor that waits for the end of a scope, in a join, or for a
    /// future that has polled one of the tasks below it.
    pub(super) nearest: Option<ExtraFor>,
    /// All other waits, up to the nearest ancestor, but those of threads on their own.
    pub(super) others: Vec<ExtraFor>,
}

impl Awaited {
    /// Collects the waits for the end of a fresh task that is in the caller's hand.
    pub(super) fn of(task: &RunRef) -> Awaited {
        let mut found = Awaited::default();
        // Of each task that has been joined: the joiner, null for a thread, and the task's id. The
        // joiner is compared and not followed, as it may be gone a moment later.
        let mut joined: Vec<(*const Record, u64)> = Vec::new();
        let mut polled = false;
        for node in LiveNode::from(task).and_above() {
            let Some(owner) = node.task() else { break };
            let polls = polled && owner.wait.is_polling();
            let joins = joined.iter().any(|(joiner, _)| owner.is(*joiner));
            if polls || joins || node.kind == NodeKind::Scope && node.is_waiting() {
                found.nearest = Some(ExtraFor::WaitOf(owner.id()));
                polled &= !polls;
                joined.retain(|(joiner, _)| !owner.is(*joiner));
                break;
            }
            if node.kind == NodeKind::Task {
                let registered = owner.join.registered();
                found.any |= registered != Registered::Nobody;
                match registered {
                    Registered::Task(joiner) => joined.push((joiner, owner.id())),
                    Registered::PoolThread => joined.push((ptr::null(), owner.id())),
                    Registered::Waker => polled = true,
                    Registered::Thread | Registered::Nobody => {}
                }
                let sent_by = owner.cold().and_then(|cold| cold.sent_by);
                found.others.extend(sent_by.map(|id| ExtraFor::WaitOf(id.get())));
            }
        }
        found.others.extend(joined.into_iter().map(|(_, id)| ExtraFor::EndOf(id)));
        found.others.extend(polled.then_some(ExtraFor::Futures));
        found.any |= found.nearest.is_some() || !found.others.is_empty();
        found
    }
}
