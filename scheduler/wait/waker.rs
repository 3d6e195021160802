//! Wakers for tasks that poll futures.
//!
//! A waker holds a reference to the task's record, as an `Unparker` does, and nothing else of the
//! task. It can be cloned, sent, kept and used without limit, even after the end of the task.
//! `task/words/wait.rs` describes the effect of a wake.

use crate::scheduler::wait::resume::resume;
use crate::scheduler::worker::release::SharedRef;
use crate::task::reference::TaskRef;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// Makes a waker for a task that has not ended.
pub(crate) fn waker_of(task: TaskRef<'_>) -> Waker {
    // SAFETY: the waker owns the reference. The functions meet the contract of `RawWaker`: records
    // are shared by design, and may be used and released on any thread.
    unsafe { Waker::from_raw(raw(SharedRef::new(task))) }
}

static FUNCTIONS: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

fn raw(task: SharedRef) -> RawWaker {
    RawWaker::new(task.into_pointer().as_ptr().cast_const().cast(), &FUNCTIONS)
}

/// The reference of the waker with this data.
///
/// # Safety
/// `data` belongs to a waker that has its reference, which must not be dropped twice.
unsafe fn reference_of(data: *const ()) -> SharedRef {
    let record = NonNull::new(data.cast_mut().cast()).expect("a waker points to a record");
    // SAFETY: `raw` gave the reference up for this pointer.
    unsafe { SharedRef::from_pointer(record) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the cloned waker keeps its reference.
    raw(SharedRef::clone(&ManuallyDrop::new(unsafe { reference_of(data) })))
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the call consumes the waker, and with it the reference.
    let task = unsafe { reference_of(data) };
    task.task().wake().into_iter().for_each(resume);
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker keeps its reference.
    let task = ManuallyDrop::new(unsafe { reference_of(data) });
    task.task().wake().into_iter().for_each(resume);
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker gives up its reference.
    drop(unsafe { reference_of(data) });
}
