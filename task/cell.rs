//! The typed part of a record: first the body, later the outcome.

use crate::retire::record_pool::Shape;
use crate::task::outcome::{Failure, Outcome, Payload, dispose_of, quietly};
use crate::task::record::Record;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
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
    /// The shape of the record's memory.
    pub(in crate::task) shape: Shape,
}

/// What a task does to come to its outcome.
pub(crate) trait Body<T> {
    /// Calls the closure and returns the outcome. `None` if the outcome was stored before.
    fn call(self) -> Option<Outcome<T>>;
}

/// A closure that returns the value.
impl<F: FnOnce() -> T, T> Body<T> for F {
    #[inline(always)]
    fn call(self) -> Option<Outcome<T>> {
        Some(catch_unwind(AssertUnwindSafe(self)).map_err(Failure::from))
    }
}

/// A closure that returns the outcome, and so can say itself why it gives no value.
pub(crate) struct Decides<F>(pub(crate) F);

impl<F: FnOnce() -> Outcome<T>, T> Body<T> for Decides<F> {
    fn call(self) -> Option<Outcome<T>> {
        let outcome = catch_unwind(AssertUnwindSafe(self.0));
        Some(outcome.unwrap_or_else(|payload| Err(Failure::from(payload))))
    }
}

/// No closure: the outcome of an external task comes from outside, before the task starts.
pub(crate) struct External;

impl<T> Body<T> for External {
    fn call(self) -> Option<Outcome<T>> {
        None
    }
}

/// A record with room for the body or the outcome.
#[repr(C)]
pub(in crate::task) struct Cell<B, T> {
    record: Record,
    payload: UnsafeCell<CellPayload<B, T>>,
}

pub(in crate::task) union CellPayload<B, T> {
    body: ManuallyDrop<B>,
    outcome: ManuallyDrop<Outcome<T>>,
}

impl<B: Body<T>, T> Cell<B, T> {
    pub(in crate::task) const OPERATIONS: Operations = Operations {
        run: Self::run,
        abandon: Self::abandon,
        drop_outcome: Self::drop_outcome,
        outcome_offset: offset_of!(Cell<B, T>, payload),
        shape: Shape::of(Layout::new::<Cell<B, T>>()),
    };

    /// # Safety
    /// The memory is exclusively the caller's, large enough and aligned.
    #[inline(always)]
    pub(in crate::task) unsafe fn lay_out(
        memory: NonNull<u8>,
        record: Record,
        body: B,
    ) -> NonNull<Record> {
        let cell = memory.cast::<Cell<B, T>>();
        // Field by field: a whole cell is as large as the outcome, and a debug build would copy it
        // over the stack.
        // SAFETY: the memory is exclusively the caller's, large enough and aligned.
        unsafe {
            let payload = UnsafeCell::raw_get(&raw const (*cell.as_ptr()).payload);
            (&raw mut (*payload).body).write(ManuallyDrop::new(body));
            (&raw mut (*cell.as_ptr()).record).write(record);
        }
        cell.cast()
    }

    /// # Safety
    /// The caller has claimed the task, and calls this or `abandon` once.
    unsafe fn run(record: NonNull<Record>) {
        // By contract the body is there, and the caller's.
        let (body, place) = Full::<B, T>(record, PhantomData).take_body();
        if let Some(outcome) = body.call() {
            place.store(outcome);
        }
    }

    /// Drops the body uncalled and stores the failure: `why`, or the panic of the body's
    /// destructor. Does nothing if the outcome of an external task has been stored.
    ///
    /// # Safety
    /// The caller has claimed the task, and calls this or `run` once.
    unsafe fn abandon(record: NonNull<Record>, why: Failure) {
        // SAFETY: the caller has claimed the task, so its record is alive.
        if unsafe { record.as_ref() }.stored.get() {
            return;
        }
        // No outcome is stored, so the body is there. By contract it is the caller's.
        let (body, place) = Full::<B, T>(record, PhantomData).take_body();
        let failure = match quietly(|| drop(body)) {
            None => why,
            Some(payload) => Failure::Panicked(payload),
        };
        place.store(Err(failure));
    }

    /// # Safety
    /// The caller owns the outcome of a task that has ended, and gives it up.
    unsafe fn drop_outcome(record: NonNull<Record>) -> Option<Payload> {
        // SAFETY: the outcome is there, and the caller's.
        dispose_of(unsafe { ManuallyDrop::take(&mut (*payload::<B, T>(record)).outcome) })
    }
}

/// The payload of a record that was made as a cell of these types, and is alive.
fn payload<B, T>(record: NonNull<Record>) -> *mut CellPayload<B, T> {
    let payload = record.as_ptr().wrapping_byte_add(offset_of!(Cell<B, T>, payload));
    UnsafeCell::raw_get(payload.cast_const().cast())
}

/// The record of a claimed task, a cell of these types, with its body. It is the holder's to move
/// out.
struct Full<B, T>(NonNull<Record>, PhantomData<(B, T)>);

impl<B, T> Full<B, T> {
    #[inline(always)]
    fn take_body(self) -> (B, Empty<B, T>) {
        // SAFETY: the body is there and the holder's, who gives it up here.
        let body = unsafe { ManuallyDrop::take(&mut (*payload::<B, T>(self.0)).body) };
        (body, Empty(self.0, PhantomData))
    }
}

/// The record of a claimed task, a cell of these types, without body and outcome.
struct Empty<B, T>(NonNull<Record>, PhantomData<(B, T)>);

impl<B, T> Empty<B, T> {
    #[inline(always)]
    fn store(self, outcome: Outcome<T>) {
        // SAFETY: there is nothing that the store could overwrite. The holder has the claim, and no
        // other thread reads the outcome before DONE.
        unsafe { (*payload::<B, T>(self.0)).outcome = ManuallyDrop::new(outcome) };
    }
}

/// Stores the outcome of an external task.
///
/// # Safety
/// The record was made with the body [`External`] and this `T`. The caller has cleared PARKED in
/// its wait word, and has not queued the task yet.
pub(crate) unsafe fn settle<T>(record: NonNull<Record>, outcome: Outcome<T>) {
    // There is no closure, and the caller has the record to itself.
    Empty::<External, T>(record, PhantomData).store(outcome);
    // SAFETY: the task has not been queued, so its record is alive.
    unsafe { record.as_ref() }.stored.set(true);
}

/// The layout of a record for a body `B`.
pub(crate) const fn layout_of<B: Body<T>, T>() -> Layout {
    Layout::new::<Cell<B, T>>()
}
