//! Tasks as wakers of the futures that they poll.
//!
//! A waker holds a reference to the task's record, as an `Unparker` does, and nothing else of the task: it can be cloned,
//! sent, kept and used for as long as anybody likes. What it does is in `task/words/wait.rs`.

use crate::scheduler::wait::resume::resume;
use crate::scheduler::worker::release::release;
use crate::task::record::Record;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// A waker of a task that has not ended.
pub(crate) fn waker_of(task: NonNull<Record>) -> Waker {
    // SAFETY: it has not ended.
    unsafe { task.as_ref() }.add_reference();
    // SAFETY: the reference is the waker's, and the functions keep to the contract of wakers: the record is shared by
    // design, and may be used and released on any thread.
    unsafe { Waker::from_raw(RawWaker::new(task.as_ptr().cast_const().cast(), &FUNCTIONS)) }
}

static FUNCTIONS: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop);

fn record_of(data: *const ()) -> NonNull<Record> {
    NonNull::new(data.cast_mut().cast()).expect("made of one that is not null")
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned has a reference.
    unsafe { record_of(data).as_ref() }.add_reference();
    RawWaker::new(data, &FUNCTIONS)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: passed on.
    unsafe { wake_by_ref(data) };
    // SAFETY: passed on.
    unsafe { drop(data) };
}

unsafe fn wake_by_ref(data: *const ()) {
    let record = record_of(data);
    // SAFETY: the waker has a reference.
    if unsafe { record.as_ref() }.wait.wake() {
        resume(record.as_ptr());
    }
}

unsafe fn drop(data: *const ()) {
    // SAFETY: the waker's reference; it is the last only if the handle has disposed of the outcome.
    unsafe { release(record_of(data), 1) };
}
