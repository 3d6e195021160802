//! Tasks that keep running although many of their calls have returned `Cancelled`.
//!
//! Each call that is refused because its task is cancelled is counted; no other call pays for
//! that. A task with [`MANY`] refusals is entered in a list of its runtime, with a reference. The
//! entry is removed at the first look after the task's end, or at the end of the runtime. So a
//! wait for the end of the runtime can name the tasks that delay it.

use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::release;
use crate::shim::atomic::Ordering;
use crate::shim::{Mutex, MutexGuard};
use crate::task::record::{Phase, Record};
use std::ptr::NonNull;
use std::sync::PoisonError;

/// Refused calls after which a task counts as unresponsive.
pub(crate) const MANY: u32 = 100;
/// Entries in the list at most.
const NAMED: usize = 64;

/// The unresponsive tasks of a runtime.
pub(crate) struct Unresponsive(Mutex<Vec<Entry>>);

/// A counted reference.
struct Entry(NonNull<Record>);

// SAFETY: records are shared by design.
unsafe impl Send for Entry {}

impl Entry {
    fn task(&self) -> &Record {
        // SAFETY: alive by our reference.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: the reference is ours; it is the last one only if the handle has disposed of the
        // outcome.
        unsafe { release(self.0, 1) };
    }
}

impl Unresponsive {
    pub(crate) fn new() -> Unresponsive {
        Unresponsive(Mutex::new(Vec::new()))
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with each unresponsive task that has not ended.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Record)) {
        let mut entries = self.entries();
        entries.retain(|entry| entry.task().phase() != Phase::Finished);
        entries.iter().for_each(|entry| f(entry.task()));
    }

    /// Drops all entries, at the end of the runtime.
    pub(crate) fn clear(&self) {
        self.entries().clear();
    }
}

/// Counts a call that was refused because the task that runs on `worker` is cancelled.
pub(crate) fn count_refusal(worker: &Worker) {
    let Some(record) = worker.task() else { return };
    // SAFETY: the running task has not ended.
    let task = unsafe { record.as_ref() };
    let refusals = &task.node.cold_or_new().refusals;
    let before = refusals.load(Ordering::Relaxed);
    // Only the running task counts here, so no update is needed.
    refusals.store(before.saturating_add(1), Ordering::Relaxed);
    if before + 1 != MANY {
        return;
    }
    let mut entries = worker.shared().unresponsive.entries();
    entries.retain(|entry| entry.task().phase() != Phase::Finished);
    if entries.len() < NAMED {
        task.add_reference();
        entries.push(Entry(record));
    }
}
