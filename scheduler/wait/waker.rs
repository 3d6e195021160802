//! Wakers for tasks that poll futures.
//!
//! A waker holds a reference to the task's record, as an `Unparker` does, and nothing else of the
//! task. It can be cloned, sent, kept and used without limit, even after the end of the task.
//! `task/words/wait.rs` describes the effect of a wake.

use crate::scheduler::wait::resume::resume;
use crate::scheduler::worker::release::release;
use crate::task::record::Record;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// Makes a waker for a task that has not ended.
pub(crate) fn waker_of(task: NonNull<Record>) -> Waker {
    // SAFETY: the task has not ended, so its record is alive.
    unsafe { task.as_ref() }.add_reference();
    // SAFETY: the waker owns the reference made above. The functions meet the contract of
    // `RawWaker`: records are shared by design, and may be used and released on any thread.
    unsafe { Waker::from_raw(RawWaker::new(task.as_ptr().cast_const().cast(), &FUNCTIONS)) }
}

static FUNCTIONS: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop);

fn record_of(data: *const ()) -> NonNull<Record> {
    NonNull::new(data.cast_mut().cast()).expect("a waker points to a record")
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the reference of the cloned waker keeps the record alive.
    unsafe { record_of(data).as_ref() }.add_reference();
    RawWaker::new(data, &FUNCTIONS)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: `data` belongs to a waker, which still has its reference.
    unsafe { wake_by_ref(data) };
    // SAFETY: the call consumes the waker, and with it the reference, which is not used again.
    unsafe { drop(data) };
}

unsafe fn wake_by_ref(data: *const ()) {
    let record = record_of(data);
    // SAFETY: the waker's reference keeps the record alive.
    if unsafe { record.as_ref() }.wait.wake() {
        resume(record.as_ptr());
    }
}

unsafe fn drop(data: *const ()) {
    // SAFETY: the waker gives up its reference. It is the last one only if the handle has
    // disposed of the outcome.
    unsafe { release(record_of(data), 1) };
}
