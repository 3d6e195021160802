//! The last reference to a record goes, and its memory goes home.

use crate::retire::queue::RetireQueue;
use crate::retire::record_pool;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::task::record::Record;
use std::ptr::{self, NonNull};

/// Releases `n` references from anywhere.
///
/// # Safety
/// The references are the caller's, and the outcome is gone if these are the last.
pub(crate) unsafe fn release(record: NonNull<Record>, n: u32) {
    // SAFETY: alive by the references.
    let task = unsafe { record.as_ref() };
    if !task.release(n) {
        return;
    }
    let custodian = task.place.load(Ordering::Relaxed);
    // SAFETY: no reference is left.
    let layout = unsafe { Record::end(record) }.layout;
    let custodian: *mut RetireQueue = ptr::with_exposed_provenance_mut(custodian);
    let worker = Worker::current();
    match (NonNull::new(custodian), worker) {
        (Some(queue), Some(worker)) if queue == worker.retired() => {
            // SAFETY: this worker owns the queue.
            unsafe { queue.as_ref().returned_at_home() };
            // SAFETY: the memory of an ended record.
            unsafe { worker.memory.records.put(record.cast(), layout) };
        }
        // SAFETY: the task ended in this queue's custody, and has not come back before.
        (Some(queue), _) => unsafe { RetireQueue::retire(queue, record.cast(), layout) },
        // Never ran, never queued.
        // SAFETY: the memory of an ended record.
        (None, _) => unsafe { record_pool::free(record.cast(), layout) },
    }
}

/// Ends a record without cold data all of whose references are the caller's, on a worker.
///
/// # Safety
/// That, and the outcome is gone.
#[inline(always)]
pub(crate) unsafe fn free_bare(worker: &Worker, record: NonNull<Record>) {
    // SAFETY: passed on.
    let operations = unsafe { Record::end_bare(record) };
    // SAFETY: the memory of an ended record.
    unsafe {
        worker.memory.records.put_classed(record.cast(), operations.class, || operations.layout);
    }
}

/// What an item holds; a fresh task is claimed, a stale entry released.
pub(in crate::scheduler) fn claimed(item: Item) -> Option<Runnable> {
    let runnable = item.open();
    if let Runnable::Fresh(record) = runnable
        // SAFETY: the item holds a reference.
        && !unsafe { record.as_ref() }.claim()
    {
        // SAFETY: the item's reference, given up.
        unsafe { release(record, 1) };
        return None;
    }
    Some(runnable)
}
