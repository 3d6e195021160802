//! Tasks that go on although they are told again and again that they are cancelled.
//!
//! Each call that is refused because its task is cancelled is counted there, off the path of all others. A task that has
//! come to [`MANY`] is entered in the books of its runtime, with a reference, until it ends and somebody looks, or the
//! runtime ends. So whoever waits for the end of the runtime can be told whom it waits for.

use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::release;
use crate::shim::atomic::Ordering;
use crate::shim::{Mutex, MutexGuard};
use crate::task::record::{Phase, Record};
use std::ptr::NonNull;
use std::sync::PoisonError;

/// A task that has been told so often pays no attention.
pub(crate) const MANY: u32 = 100;
/// More than these are not named.
const NAMED: usize = 64;

/// See the module's documentation.
pub(crate) struct Unresponsive(Mutex<Vec<Entry>>);

/// A counted reference.
struct Entry(NonNull<Record>);

// SAFETY: records are shared by design.
unsafe impl Send for Entry {}

impl Entry {
    fn task(&self) -> &Record {
        // SAFETY: our reference.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: ours; it is the last only if the handle has disposed of the outcome.
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

    /// Calls `f` with each that has not ended.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Record)) {
        let mut entries = self.entries();
        entries.retain(|entry| entry.task().phase() != Phase::Finished);
        entries.iter().for_each(|entry| f(entry.task()));
    }

    /// At the end of the runtime.
    pub(crate) fn clear(&self) {
        self.entries().clear();
    }
}

/// Counts that a call of the task that runs on `worker` was refused, as it is cancelled.
pub(crate) fn count_refusal(worker: &Worker) {
    let Some(record) = worker.task() else { return };
    // SAFETY: the running task.
    let task = unsafe { record.as_ref() };
    let refusals = &task.node.cold_or_new().refusals;
    let before = refusals.load(Ordering::Relaxed);
    // Nobody else counts in this task.
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
