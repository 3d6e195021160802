//! The typed part of a record: first the closure, later the outcome.

use crate::retire::record_pool::class_of;
use crate::task::outcome::{Failure, Outcome, Payload, dispose_of, quietly};
use crate::task::record::Record;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// The type-erased operations of a record on its closure and its outcome.
pub(crate) struct Operations {
    /// Calls the closure and stores the outcome.
    pub(in crate::task) run: unsafe fn(NonNull<Record>),
    /// Drops the closure uncalled and stores the failure.
    pub(in crate::task) abandon: unsafe fn(NonNull<Record>, Failure),
    /// Drops the outcome; returns the payload of a panic.
    pub(in crate::task) drop_outcome: unsafe fn(NonNull<Record>) -> Option<Payload>,
    pub(in crate::task) outcome_offset: usize,
    pub(crate) layout: Layout,
    /// The layout's class in the pool.
    pub(crate) class: usize,
}

/// A record with room for the closure or the outcome.
#[repr(C)]
pub(in crate::task) struct Cell<F, T> {
    record: Record,
    payload: UnsafeCell<CellPayload<F, T>>,
}

pub(in crate::task) union CellPayload<F, T> {
    closure: ManuallyDrop<F>,
    outcome: ManuallyDrop<Outcome<T>>,
}

impl<F, T> Cell<F, T> {
    /// # Safety
    /// The memory is exclusively the caller's, large enough and aligned.
    #[inline(always)]
    pub(in crate::task) unsafe fn lay_out(
        memory: NonNull<u8>,
        record: Record,
        f: F,
    ) -> NonNull<Record> {
        let cell = memory.cast::<Cell<F, T>>();
        // Field by field: a whole cell is as large as the outcome, and a debug build would copy it
        // over the stack.
        // SAFETY: the memory is exclusively the caller's, large enough and aligned.
        unsafe {
            let payload = UnsafeCell::raw_get(&raw const (*cell.as_ptr()).payload);
            (&raw mut (*payload).closure).write(ManuallyDrop::new(f));
            (&raw mut (*cell.as_ptr()).record).write(record);
        }
        cell.cast()
    }

    unsafe fn payload<'a>(record: NonNull<Record>) -> &'a UnsafeCell<CellPayload<F, T>> {
        // SAFETY: the caller passes a record that `Record::new` made as a `Cell<F, T>`, alive.
        unsafe { &record.cast::<Self>().as_ref().payload }
    }

    unsafe fn store(record: NonNull<Record>, outcome: Outcome<T>) {
        // SAFETY: the caller has the claim, and has moved the closure out or dropped it, so the
        // overwrite loses nothing. No other thread reads the outcome before DONE.
        unsafe { (*Self::payload(record).get()).outcome = ManuallyDrop::new(outcome) };
    }

    /// Drops the closure uncalled and stores the failure: `why`, or the panic of the closure's
    /// destructor.
    ///
    /// # Safety
    /// The caller has claimed the task.
    unsafe fn store_uncalled(record: NonNull<Record>, why: Failure) {
        // SAFETY: the caller has claimed the task, so the closure is there and is moved out once.
        let closure = unsafe { ManuallyDrop::take(&mut (*Self::payload(record).get()).closure) };
        let failure = match quietly(|| drop(closure)) {
            None => why,
            Some(payload) => Failure::Panicked(payload),
        };
        // SAFETY: the closure has been moved out, and the caller has the claim.
        unsafe { Self::store(record, Err(failure)) };
    }

    unsafe fn drop_outcome(record: NonNull<Record>) -> Option<Payload> {
        // SAFETY: the caller owns the outcome of a task that has ended, and gives it up.
        dispose_of(unsafe { ManuallyDrop::take(&mut (*Self::payload(record).get()).outcome) })
    }
}

impl<F: FnOnce() -> T, T> Cell<F, T> {
    pub(in crate::task) const OPERATIONS: Operations = Operations {
        run: Self::run,
        abandon: Self::abandon,
        drop_outcome: Self::drop_outcome,
        outcome_offset: offset_of!(Cell<F, T>, payload),
        layout: Layout::new::<Cell<F, T>>(),
        class: class_of(Layout::new::<Cell<F, T>>()),
    };

    unsafe fn run(record: NonNull<Record>) {
        // SAFETY: the caller has claimed the task, so the closure is there and is moved out once.
        let closure = unsafe { ManuallyDrop::take(&mut (*Self::payload(record).get()).closure) };
        let outcome = catch_unwind(AssertUnwindSafe(closure)).map_err(Failure::from);
        // SAFETY: the closure has been moved out, and the caller has the claim.
        unsafe { Self::store(record, outcome) };
    }

    unsafe fn abandon(record: NonNull<Record>, why: Failure) {
        // SAFETY: the caller has claimed the task.
        unsafe { Self::store_uncalled(record, why) };
    }
}

/// Cells for a closure that returns an [`Outcome`].
impl<F: FnOnce() -> Outcome<T>, T> Cell<F, T> {
    pub(in crate::task) const FALLIBLE: Operations = Operations {
        run: Self::run_fallible,
        abandon: Self::abandon_fallible,
        drop_outcome: Self::drop_outcome,
        outcome_offset: offset_of!(Cell<F, T>, payload),
        layout: Layout::new::<Cell<F, T>>(),
        class: class_of(Layout::new::<Cell<F, T>>()),
    };

    unsafe fn run_fallible(record: NonNull<Record>) {
        // SAFETY: the caller has claimed the task, so the closure is there and is moved out once.
        let closure = unsafe { ManuallyDrop::take(&mut (*Self::payload(record).get()).closure) };
        let outcome = catch_unwind(AssertUnwindSafe(closure));
        let outcome = outcome.unwrap_or_else(|payload| Err(Failure::from(payload)));
        // SAFETY: the closure has been moved out, and the caller has the claim.
        unsafe { Self::store(record, outcome) };
    }

    unsafe fn abandon_fallible(record: NonNull<Record>, why: Failure) {
        // SAFETY: the caller has claimed the task.
        unsafe { Self::store_uncalled(record, why) };
    }
}

/// The layout of a record for a closure `F`.
pub(crate) const fn layout_of<F: FnOnce() -> T, T>() -> Layout {
    Layout::new::<Cell<F, T>>()
}

/// The layout of a record for a closure that returns an [`Outcome`].
pub(crate) const fn layout_of_fallible<F: FnOnce() -> Outcome<T>, T>() -> Layout {
    Layout::new::<Cell<F, T>>()
}

/// The closure type of an external task. It does not implement `FnOnce`, so no ordinary record can
/// be made with it.
pub(in crate::task) struct NoClosure;

pub(in crate::task) type External<T> = Cell<NoClosure, T>;

impl<T> External<T> {
    pub(in crate::task) const OPERATIONS: Operations = Operations {
        run: Self::run,
        abandon: Self::abandon,
        drop_outcome: Self::drop_outcome,
        outcome_offset: offset_of!(External<T>, payload),
        layout: Layout::new::<External<T>>(),
        class: class_of(Layout::new::<External<T>>()),
    };

    unsafe fn run(record: NonNull<Record>) {
        // SAFETY: the caller has claimed the task.
        let is_stored = unsafe { record.as_ref() }.stored.get();
        debug_assert!(is_stored, "an external task was started before its outcome was stored");
    }

    /// Stores the failure, unless an outcome has been stored.
    unsafe fn abandon(record: NonNull<Record>, why: Failure) {
        // SAFETY: the caller has claimed the task.
        if !unsafe { record.as_ref() }.stored.get() {
            // SAFETY: the caller has claimed the task, and no outcome is stored.
            unsafe { Self::settle(record, Err(why)) };
        }
    }

    unsafe fn settle(record: NonNull<Record>, outcome: Outcome<T>) {
        // SAFETY: there is no closure, and the caller has the record to itself: it has claimed the
        // task, or has cleared PARKED.
        unsafe {
            Self::store(record, outcome);
            record.as_ref().stored.set(true);
        }
    }
}

/// Stores the outcome of an external task.
///
/// # Safety
/// The record was made by [`Record::new_external`] with this `T`. The caller has cleared PARKED in
/// its wait word, and has not queued the task yet.
pub(crate) unsafe fn settle<T>(record: NonNull<Record>, outcome: Outcome<T>) {
    // SAFETY: the record is an external one of this `T`, and the caller has it to itself.
    unsafe { External::<T>::settle(record, outcome) };
}

/// The layout of an external record.
pub(crate) const fn layout_of_external<T>() -> Layout {
    Layout::new::<External<T>>()
}
