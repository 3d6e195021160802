//! Counted references to records. The last one to go brings the memory of the record home.

use crate::retire::queue::RetireQueue;
use crate::retire::record_pool;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::wait::no_suspend::call_foreign;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::task::cold::ColdData;
use crate::task::outcome::Outcome;
use crate::task::record::Record;
use crate::task::reference::{Ready, RunRef, TaskRef};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// A counted reference to a record, which keeps nothing else of the task. May be used and dropped
/// on any thread, even after the end of the task.
#[derive(PartialEq, Eq)]
pub(crate) struct SharedRef(NonNull<Record>);

// SAFETY: records are shared by design, and the reference gives no access to the task's types.
unsafe impl Send for SharedRef {}
// SAFETY: records are shared by design, and the reference gives no access to the task's types.
unsafe impl Sync for SharedRef {}

impl SharedRef {
    /// Adds a reference.
    pub(crate) fn new(task: TaskRef<'_>) -> SharedRef {
        task.add_reference();
        SharedRef(task.pointer())
    }

    /// Makes a reference out of one that is counted already.
    ///
    /// # Safety
    /// The caller gives up a reference to the record. If it is the last one, the outcome is gone.
    pub(crate) unsafe fn from_pointer(record: NonNull<Record>) -> SharedRef {
        SharedRef(record)
    }

    pub(crate) fn into_pointer(self) -> NonNull<Record> {
        ManuallyDrop::new(self).0
    }

    #[inline(always)]
    pub(crate) fn task(&self) -> TaskRef<'_> {
        // SAFETY: the reference keeps the record alive.
        unsafe { TaskRef::new(self.0) }
    }
}

impl Deref for SharedRef {
    type Target = Record;

    #[inline(always)]
    fn deref(&self) -> &Record {
        self.task().get()
    }
}

impl Clone for SharedRef {
    fn clone(&self) -> SharedRef {
        SharedRef::new(self.task())
    }
}

impl Drop for SharedRef {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and goes. It is the last one only if the handle and the
        // run reference have gone, and with them the outcome.
        unsafe { release(self.0, 1) };
    }
}

/// The reference of a task's handle, and the right to take the outcome, which is a `T`. Every kind
/// of handle is built on one. Its drop releases the reference alone: whoever drops it has taken the
/// outcome, or left it to the end of the task.
pub(crate) struct HandleRef<T> {
    record: SharedRef,
    outcome: PhantomData<T>,
}

// SAFETY: the outcome may move to another thread through the handle, which `T: Send` allows.
unsafe impl<T: Send> Send for HandleRef<T> {}
// SAFETY: a shared handle gives no access to a `T`.
unsafe impl<T: Send> Sync for HandleRef<T> {}

impl<T> HandleRef<T> {
    /// # Safety
    /// The record was made for a `T`, with a reference for its handle, which becomes this one.
    #[inline(always)]
    pub(crate) unsafe fn new(record: NonNull<Record>) -> HandleRef<T> {
        HandleRef { record: SharedRef(record), outcome: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn task(&self) -> TaskRef<'_> {
        self.record.task()
    }

    /// Moves the outcome out.
    ///
    /// # Safety
    /// The task has ended, and its outcome was neither taken nor dropped. It is not read again.
    #[inline(always)]
    pub(crate) unsafe fn read_outcome(&self) -> Outcome<T> {
        // SAFETY: the record was made for a `T`, and the contract is the caller's.
        unsafe { Record::take_outcome(self.record.0) }
    }

    /// Frees the record of a task that ended on this worker and has no cold data, with the run
    /// reference and this one, which are the only ones.
    ///
    /// # Safety
    /// The two are the only references, there is no cold data, and the outcome has been taken.
    #[inline(always)]
    pub(crate) unsafe fn free_bare(self, worker: &Worker, run: RunRef) {
        let (record, _) = (run.into_pointer(), ManuallyDrop::new(self));
        // SAFETY: no other reference exists, and the outcome is gone, by contract.
        worker.memory.records.put(unsafe { Record::end_bare(record) });
    }
}

impl<T> Deref for HandleRef<T> {
    type Target = Record;

    #[inline(always)]
    fn deref(&self) -> &Record {
        self.task().get()
    }
}

/// Ends the cold data of a record whose last reference is gone, which may be in the middle of what
/// a worker does. Destructors of users' types that run here must neither wait nor unwind.
///
/// # Safety
/// As for [`ColdData::end`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn end_cold(cold: NonNull<ColdData>) {
    // SAFETY: the caller keeps the contract of `ColdData::end`.
    call_foreign(|| unsafe { ColdData::end(cold) });
}

/// Releases `n` references, on any thread.
///
/// # Safety
/// The references are the caller's. If they are the last, the outcome has been taken or dropped.
pub(in crate::scheduler) unsafe fn release(record: NonNull<Record>, n: u32) {
    // SAFETY: alive by the references.
    let task = unsafe { record.as_ref() };
    if !task.release(n) {
        return;
    }
    let custodian = task.place.load(Ordering::Relaxed);
    // SAFETY: no reference is left, and `end_cold` asks for what `ColdData::end` does.
    let memory = unsafe { Record::end(record, end_cold) };
    let custodian: *mut RetireQueue = ptr::with_exposed_provenance_mut(custodian);
    let worker = Worker::current();
    match (NonNull::new(custodian), worker) {
        (Some(queue), Some(worker)) if queue == worker.remote.retired => {
            worker.retired().returned_at_home();
            worker.memory.records.put(memory);
        }
        // SAFETY: the task ended in this queue's custody, and has not come back before.
        (Some(queue), _) => unsafe { RetireQueue::retire(queue, memory) },
        // This task never ran and was never queued.
        (None, _) => record_pool::free(memory),
    }
}

/// The entry of a queue for a fresh task that is not claimed. If the task is claimed elsewhere, the
/// entry goes stale, and keeps its reference.
pub(in crate::scheduler) fn queued(run: RunRef) -> SharedRef {
    SharedRef(run.into_pointer())
}

/// Claims the fresh task of a queue's entry. Gives a stale entry back.
#[inline(always)]
pub(in crate::scheduler) fn claim(entry: SharedRef) -> Result<RunRef, SharedRef> {
    if !entry.claim() {
        return Err(entry);
    }
    // SAFETY: whoever claims a fresh task has its run reference, be it the entry's or another one.
    Ok(unsafe { RunRef::new(entry.into_pointer()) })
}

/// Opens an item: claims a fresh task, and releases a stale entry.
pub(in crate::scheduler) fn claimed(item: Item) -> Option<Runnable> {
    match item.into_parts() {
        // SAFETY: the item was made of a ready task.
        (record, true) => Some(Runnable::Started(unsafe { Ready::new(record) })),
        (record, false) => claim(SharedRef(record)).ok().map(Runnable::Fresh),
    }
}
