//! Releases references to records. With the last one, the memory of the record goes home.

use crate::retire::queue::RetireQueue;
use crate::retire::record_pool;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::task::record::Record;
use std::ptr::{self, NonNull};

/// Releases `n` references, on any thread.
///
/// # Safety
/// The references are the caller's. If they are the last, the outcome has been taken or dropped.
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
            // SAFETY: this worker owns the queue, which lives as long as the worker.
            unsafe { queue.as_ref().returned_at_home() };
            // SAFETY: the memory of an ended record.
            unsafe { worker.memory.records.put(record.cast(), layout) };
        }
        // SAFETY: the task ended in this queue's custody, and has not come back before.
        (Some(queue), _) => unsafe { RetireQueue::retire(queue, record.cast(), layout) },
        // This task never ran and was never queued.
        // SAFETY: the memory of an ended record.
        (None, _) => unsafe { record_pool::free(record.cast(), layout) },
    }
}

/// Ends a record that has no cold data, on a worker. All its references are the caller's.
///
/// # Safety
/// All references are the caller's, there is no cold data, and the outcome has been taken or
/// dropped.
#[inline(always)]
pub(crate) unsafe fn free_bare(worker: &Worker, record: NonNull<Record>) {
    // SAFETY: no reference but the caller's exists, and the outcome is gone, by contract.
    let operations = unsafe { Record::end_bare(record) };
    // SAFETY: the memory of an ended record.
    unsafe {
        worker.memory.records.put_classed(record.cast(), operations.class, || operations.layout);
    }
}

/// Opens an item: claims a fresh task, and releases a stale entry.
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
