//! Tasks that keep running although many of their calls have returned `Cancelled`.
//!
//! Each call that is refused because its task is cancelled is counted; no other call pays for
//! that. A task with [`MANY`] refusals is entered in a list of its runtime, with a reference. The
//! entry is removed at the first look after the task's end, or at the end of the runtime. So a
//! wait for the end of the runtime can name the tasks that delay it.

use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::SharedRef;
use crate::shim::Mutex;
use crate::shim::atomic::Ordering;
use crate::task::record::{Phase, Record};

/// Refused calls after which a task counts as unresponsive.
pub(crate) const MANY: u32 = 100;
/// Entries in the list at most.
const NAMED: usize = 64;

/// The unresponsive tasks of a runtime.
#[derive(Default)]
pub(crate) struct Unresponsive(Mutex<Vec<SharedRef>>);

impl Unresponsive {
    /// Calls `f` with each unresponsive task that has not ended.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Record)) {
        let mut entries = self.0.lock();
        entries.retain(|task| task.phase() != Phase::Finished);
        entries.iter().for_each(|task| f(task));
    }

    /// Drops all entries, at the end of the runtime.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Counts a call that was refused because the task that runs on `worker` is cancelled.
pub(crate) fn count_refusal(worker: &Worker) {
    let Some(task) = worker.task() else { return };
    let refusals = &task.node.cold_or_new().refusals;
    let before = refusals.load(Ordering::Relaxed);
    // Only the running task counts here, so no update is needed.
    refusals.store(before.saturating_add(1), Ordering::Relaxed);
    if before + 1 != MANY {
        return;
    }
    let mut entries = worker.shared().unresponsive.0.lock();
    entries.retain(|task| task.phase() != Phase::Finished);
    if entries.len() < NAMED {
        entries.push(SharedRef::new(task));
    }
}
