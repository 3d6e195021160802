//! Time for tasks: sleeping, deadlines, and shielding from cancellation.

use crate::retire::nesting::Pin;
use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::runtime::park::yield_now;
use crate::runtime::scope::{await_children, enter, leave};
use crate::scheduler::cancel::cancel_node;
use crate::scheduler::timers::limit::Limit;
use crate::scheduler::timers::tick::Tick;
use crate::shim::time::{Duration, Instant, now};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::pin;
use std::ptr::NonNull;

/// Suspends the calling task for a time, while its worker runs other tasks.
///
/// Does not return before the time has passed, unless the task is cancelled. If the worker has
/// nothing else to do, the task resumes less than a tenth of a millisecond late as a rule. A time
/// of zero is a [`yield_now`](crate::yield_now()). A time that overflows the clock never passes.
///
/// Suspends. Costs three locks that are uncontended as a rule, however many tasks sleep. Does not
/// allocate.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let start = Instant::now();
/// cygnet::sleep(Duration::from_millis(2)).unwrap();
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # });
/// ```
///
/// # Errors
/// [`Cancelled`], at once, if the task is cancelled; also while the thread is panicking, when
/// nothing may suspend.
///
/// # Panics
/// Outside a task, and inside [`no_suspend`](crate::no_suspend).
#[track_caller]
pub fn sleep(time: Duration) -> Result<(), Cancelled> {
    sleep_to(now().checked_add(time))
}

/// Suspends the calling task until a moment. A moment in the past is a
/// [`yield_now`](crate::yield_now()). Costs as much as [`sleep`].
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let mut next = Instant::now();
/// for _frame in 0..3 {
///     // .. draw a frame ..
///     next += Duration::from_millis(1);
///     cygnet::sleep_until(next).unwrap();
/// }
/// # });
/// ```
///
/// # Errors
/// [`Cancelled`], as for [`sleep`].
///
/// # Panics
/// Outside a task, and inside [`no_suspend`](crate::no_suspend).
#[track_caller]
pub fn sleep_until(moment: Instant) -> Result<(), Cancelled> {
    sleep_to(Some(moment))
}

#[track_caller]
pub(super) fn sleep_to(moment: Option<Instant>) -> Result<(), Cancelled> {
    if moment.is_some_and(|moment| moment <= now()) {
        return yield_now();
    }
    let (worker, task) = here("sleep");
    let tick = moment.map_or(Tick::NEVER, Tick::not_before);
    worker.sleep(task, tick).map_err(|_| Cancelled::here())
}

/// Calls `f` with a time limit. When the time is up, everything in the call is cancelled: the
/// calling task for as long as it is in `f`, and all tasks spawned in `f`. Like a
/// [`scope`](crate::scope()), returns when all of these tasks have ended.
///
/// The value of `f` is never lost: if it comes too late, it is returned inside the error. `f`
/// decides what to do about a wait that the deadline cut short; its error says
/// [`Reason::Deadline`](crate::Reason). Code after the call is not cancelled.
///
/// Deadlines are inherited, and the nearest one around a wait applies. A time of zero has passed
/// before `f` is called, and `f` is called all the same. A time that overflows the clock never
/// passes.
///
/// A task that computes learns of its deadline from [`checkpoint`](crate::checkpoint()) and
/// [`is_cancelled`](crate::is_cancelled()), even if there is no other worker. Anything else that
/// the deadline cancels (a task elsewhere, an [`on_cancel`](crate::on_cancel()) hook) is notified
/// only when a worker looks at the clock, so late if every worker's thread is blocked or computes
/// without checking.
///
/// Runs `f` in place. Suspends at its end (structured) if tasks are left. Costs a scope, two locks
/// that are uncontended as a rule, and two readings of the clock.
///
/// ```
/// use std::time::Duration;
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let in_time = cygnet::timeout(Duration::from_secs(60), || "done");
/// assert_eq!(in_time.unwrap(), "done");
///
/// // An answer that improves while there is time.
/// let late = cygnet::timeout(Duration::from_millis(2), || {
///     let mut steps = 0u64;
///     loop {
///         steps += 1; // .. a better answer ..
///         if cygnet::checkpoint().is_err() {
///             return steps;
///         }
///     }
/// });
/// assert!(late.unwrap_err().into_inner() > 0);
/// # });
/// ```
///
/// # Errors
/// [`Late`], with the value of `f`, if the time was up before `f` and the last task spawned in it
/// had ended.
///
/// # Panics
/// With the panic of `f`, or of a task that was spawned in `f` and not joined, after all of these
/// tasks have ended. Outside a task.
#[track_caller]
pub fn timeout<R>(time: Duration, f: impl FnOnce() -> R) -> Result<R, Late<R>> {
    deadline_at(now().checked_add(time), f)
}

/// Calls `f` with a time limit like [`timeout`], and returns its result.
///
/// When the time is up, the waits of `f` return [`Cancelled`] with
/// [`Reason::Deadline`](crate::Reason), and `f` passes that on with `?`. What `f` returns counts,
/// however late it comes: a value is still a value. To turn a late value away, use `timeout`.
///
/// Suspends and costs as [`timeout`] does.
///
/// ```
/// use cygnet::{Cancelled, Reason, sleep, try_timeout};
/// use std::time::Duration;
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let slow = || -> Result<&str, Cancelled> {
///     sleep(Duration::from_secs(60))?;
///     Ok("done")
/// };
/// let cancelled = try_timeout(Duration::from_millis(2), slow).unwrap_err();
/// assert_eq!(*cancelled.reason(), Reason::Deadline);
/// # });
/// ```
///
/// # Errors
/// The error of `f`.
///
/// # Panics
/// As [`timeout`] does.
#[track_caller]
pub fn try_timeout<T, E>(time: Duration, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    timeout(time, f).unwrap_or_else(Late::into_inner)
}

/// Calls `f` with a time limit like [`timeout`], which ends at a given moment. Suspends and costs
/// as [`timeout`] does.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let end_of_frame = Instant::now() + Duration::from_millis(2);
/// let slept = cygnet::deadline(end_of_frame, || cygnet::sleep(Duration::from_secs(60)));
/// let cancelled = slept.unwrap_err().into_inner().unwrap_err();
/// assert_eq!(*cancelled.reason(), cygnet::Reason::Deadline);
/// # });
/// ```
///
/// # Errors
/// [`Late`], as for [`timeout`].
///
/// # Panics
/// As [`timeout`] does.
#[track_caller]
pub fn deadline<R>(moment: Instant, f: impl FnOnce() -> R) -> Result<R, Late<R>> {
    deadline_at(Some(moment), f)
}

#[track_caller]
fn deadline_at<R>(moment: Option<Instant>, f: impl FnOnce() -> R) -> Result<R, Late<R>> {
    let place = Location::caller();
    let (worker, task) = here("timeout");
    let _pin = Pin::innermost();
    let limit = pin!(moment.map(|moment| Limit::new(Tick::not_before(moment), place)));
    let limit = limit.as_ref().as_pin_ref();
    let frame = worker.frame_of_scope(task, limit.map(|limit| NonNull::from(limit.get_ref())));
    let outer = enter(worker, &frame);
    if let Some(limit) = limit {
        if moment.is_some_and(|moment| moment <= now()) {
            cancel_node(&frame.node, None);
        } else {
            // SAFETY: the frame stays in this stack frame, and `Limit::end` is called below.
            unsafe { limit.begin(worker, &frame) };
        }
    }
    let result = catch_unwind(AssertUnwindSafe(f));
    await_children(&frame);
    let fired = limit.is_some_and(|limit| limit.end());
    let late = fired || moment.is_some_and(|moment| moment <= now());
    let value = leave(&frame, outer, result);
    if late { Err(Late(value)) } else { Ok(value) }
}

/// Calls `f` shielded from outside cancellation, even if the task is already cancelled. For
/// clean-up that must wait. The shield lasts for at most `time`, as in a [`timeout`].
///
/// Tasks spawned in `f` are not cancelled from outside either. Like a [`scope`](crate::scope()),
/// returns when all of them have ended.
///
/// A shield does not help while the thread is unwinding, because nothing suspends then. Catch the
/// panic first, or use [`Cancelled::unwind`] further up.
///
/// Runs `f` in place. Suspends at its end (structured) if tasks are left. Costs two scopes and as
/// much as a [`timeout`].
///
/// ```
/// use std::time::Duration;
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// cygnet::cancel_handle().cancel("enough");
/// assert!(cygnet::sleep(Duration::from_millis(1)).is_err());
/// let tidied = cygnet::shield(Duration::from_secs(5), || {
///     cygnet::sleep(Duration::from_millis(1)) // .. says goodbye to a server ..
/// });
/// assert_eq!(tidied.unwrap(), Ok(()));
/// # });
/// ```
///
/// # Errors
/// [`Late`], as for [`timeout`].
///
/// # Panics
/// As [`timeout`] does.
#[track_caller]
pub fn shield<R>(time: Duration, f: impl FnOnce() -> R) -> Result<R, Late<R>> {
    let (worker, task) = here("shield");
    let _pin = Pin::innermost();
    let frame = worker.frame_of_scope(task, None);
    let fresh = frame.node.word().ignore();
    debug_assert!(fresh, "a new scope was already cancelled or ignoring");
    let outer = enter(worker, &frame);
    let result = catch_unwind(AssertUnwindSafe(|| timeout(time, f)));
    await_children(&frame);
    leave(&frame, outer, result)
}

/// A value that came after its time was up: the error of [`timeout`], [`deadline`] and [`shield`].
pub struct Late<R>(R);

impl<R> Late<R> {
    /// Returns the value.
    pub fn into_inner(self) -> R {
        self.0
    }
}

error! { impl<R> Late(..): "the call ended after its time limit" }
