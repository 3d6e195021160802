//! References to task records, as types.
//!
//! A record lives as long as any reference to it (see [`record`](super::record)). Each of these
//! types says why its holder may follow the pointer, so the code that has one need not.
//!
//! | type | what its holder has |
//! | --- | --- |
//! | [`TaskRef`] | nothing: a reference of another party outlives the borrow |
//! | [`RunRef`] | the run reference: the task is the holder's to start and to end, or to queue |
//! | [`WaiterRef`] | the task does not leave its wait before the holder grants it |
//! | [`Ready`] | a started task, woken, or a fresh one on its way to its worker; the holder's alone |
//!
//! Two more are counted and released by their destructors, which need a worker: `SharedRef` and
//! `HandleRef` (scheduler/worker/release.rs).
//!
//! A run reference that is dropped is a task that never ends, so debug builds panic. The other
//! three have no destructor.

use crate::shim::atomic::Ordering;
use crate::task::outcome::{Failure, Payload};
use crate::task::record::Record;
use std::hint::cold_path;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

/// A record that is alive for `'a`. Other than a `&'a Record`, it may be followed to the closure
/// and the outcome, which lie behind the record.
#[derive(Clone, Copy)]
pub(crate) struct TaskRef<'a>(NonNull<Record>, PhantomData<&'a Record>);

impl<'a> TaskRef<'a> {
    /// # Safety
    /// The record is alive for `'a`, and the pointer may be followed to the whole of its cell.
    #[inline(always)]
    pub(crate) unsafe fn new(record: NonNull<Record>) -> TaskRef<'a> {
        TaskRef(record, PhantomData)
    }

    #[inline(always)]
    pub(crate) fn pointer(self) -> NonNull<Record> {
        self.0
    }

    #[inline(always)]
    pub(crate) fn get(self) -> &'a Record {
        // SAFETY: the record is alive for 'a, as `new` was told.
        unsafe { self.0.as_ref() }
    }

    /// Drops the outcome. Returns the payload if the outcome is a panic, or if its destructor
    /// panics.
    ///
    /// # Safety
    /// The outcome is there and the caller's, and is gone afterwards.
    pub(crate) unsafe fn drop_outcome(self) -> Option<Payload> {
        // SAFETY: the operations are those of this record's cell, and the outcome is the caller's.
        unsafe { (self.operations.drop_outcome)(self.0) }
    }

    /// Ends a park of the task, or leaves a token for the next one.
    #[must_use]
    pub(crate) fn unpark(self) -> Option<Ready> {
        self.wait.unpark().then_some(Ready(self.0))
    }

    /// Wakes the task as a waker does.
    #[must_use]
    pub(crate) fn wake(self) -> Option<Ready> {
        self.wait.wake().then_some(Ready(self.0))
    }

    /// Cuts a wait of the task short, if it may be.
    #[must_use]
    pub(crate) fn interrupt(self) -> Option<Ready> {
        self.wait.interrupt().then_some(Ready(self.0))
    }

    /// Takes an external task out of its wait before its start.
    #[must_use]
    pub(crate) fn take_from_outside(self) -> Option<Ready> {
        self.wait.take_from_outside().then_some(Ready(self.0))
    }

    /// Returns whether `task` is this task. The pointer is compared, not followed.
    #[inline(always)]
    pub(crate) fn is(self, task: *const Record) -> bool {
        self.0.as_ptr().cast_const() == task
    }
}

impl Deref for TaskRef<'_> {
    type Target = Record;

    #[inline(always)]
    fn deref(&self) -> &Record {
        self.get()
    }
}

impl PartialEq for TaskRef<'_> {
    fn eq(&self, other: &TaskRef<'_>) -> bool {
        self.0 == other.0
    }
}

/// Defines an owned reference: a pointer that is followed safely and taken apart by value.
macro_rules! owned {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[must_use]
        pub(crate) struct $name(NonNull<Record>);

        impl $name {
            #[inline(always)]
            pub(crate) fn task(&self) -> TaskRef<'_> {
                TaskRef(self.0, PhantomData)
            }

            /// Gives the reference up for its pointer, from which a new one can be made.
            #[inline(always)]
            pub(crate) fn into_pointer(self) -> NonNull<Record> {
                ManuallyDrop::new(self).0
            }
        }

        impl Deref for $name {
            type Target = Record;

            #[inline(always)]
            fn deref(&self) -> &Record {
                self.task().get()
            }
        }
    };
}

owned! {
    /// The run reference of a task: see the module's documentation.
    RunRef
}

impl RunRef {
    /// # Safety
    /// The caller has the run reference, and gives it up.
    #[inline(always)]
    pub(crate) unsafe fn new(record: NonNull<Record>) -> RunRef {
        RunRef(record)
    }

    /// Calls the closure and stores the outcome. Never unwinds.
    ///
    /// # Safety
    /// The task is claimed, and neither this nor `abandon` was called before.
    #[inline]
    pub(crate) unsafe fn run(&self) {
        // SAFETY: the operations are those of this record's cell, and the task is ours to run.
        unsafe { (self.operations.run)(self.0) }
    }

    /// Drops the closure uncalled, and stores `why` as the outcome.
    ///
    /// # Safety
    /// The task is claimed, and neither this nor `run` was called before.
    #[inline(always)]
    pub(crate) unsafe fn abandon(&self, why: Failure) {
        // SAFETY: the operations are those of this record's cell, and the task is ours to run.
        unsafe { (self.operations.abandon)(self.0, why) }
    }
}

#[cfg(all(debug_assertions, not(loom)))]
impl Drop for RunRef {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the run reference of task {} was lost", self.id());
    }
}

owned! {
    /// A registered waiter: see the module's documentation.
    WaiterRef
}

impl WaiterRef {
    /// Registers a task that waits, or is about to.
    ///
    /// # Safety
    /// The task does not leave the wait before this reference has been granted or dropped.
    #[inline(always)]
    pub(crate) unsafe fn new(task: TaskRef<'_>) -> WaiterRef {
        WaiterRef(task.0)
    }

    /// Makes a waiter out of a pointer of [`into_pointer`](WaiterRef::into_pointer).
    ///
    /// # Safety
    /// The waiter whose pointer this is has been given up.
    pub(crate) unsafe fn from_pointer(record: NonNull<Record>) -> WaiterRef {
        WaiterRef(record)
    }

    /// Grants the wait. Returns the task if the caller is to queue it.
    #[inline(always)]
    pub(crate) fn grant(self) -> Option<Ready> {
        self.wait.grant().then_some(Ready(self.0))
    }
}

owned! {
    /// A task to be queued or continued, whose PARKED bit the holder has cleared: see the module's
    /// documentation.
    Ready
}

impl Ready {
    /// # Safety
    /// The task has been started and has not ended. Its wait is over, or it has yielded, and the
    /// caller alone may continue it. Or the reference is one of [`to_start`](Ready::to_start).
    #[inline(always)]
    pub(crate) unsafe fn new(record: NonNull<Record>) -> Ready {
        Ready(record)
    }

    /// A task that was just made, on its way to the worker that is to start it.
    pub(crate) fn to_start(run: RunRef) -> Ready {
        Ready(run.into_pointer())
    }

    /// Returns the run reference if the task is on its way to be started: it has no place yet.
    #[inline(always)]
    pub(crate) fn into_fresh(self) -> Result<RunRef, Ready> {
        if self.place.load(Ordering::Relaxed) == 0 {
            cold_path();
            Ok(RunRef(self.into_pointer()))
        } else {
            Err(self)
        }
    }
}
