//! Time: sleeping, and calls whose time is bounded.

use crate::retire::chain::Pin;
use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::runtime::scope::{await_children, enter, leave};
use crate::runtime::suspend::yield_now;
use crate::scheduler::cancel::cancel_node;
use crate::scheduler::timers::limit::Limit;
use crate::scheduler::timers::tick::Tick;
use crate::shim::time::{Duration, Instant, now};
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;

/// Lets the calling task sleep for a time; its worker goes on with others.
///
/// It does not return before the time has passed, unless it is cancelled, and as a rule less than a tenth of a
/// millisecond after that, if the worker has nothing else to do. A time of zero is a
/// [`yield_now`](crate::yield_now()), one that no clock can tell the end of is for ever.
///
/// Suspends. Costs two locks that nobody else uses as a rule, however many tasks sleep; no allocation.
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
/// [`Cancelled`] if the task is cancelled, at once; also while the thread is panicking, when nothing may suspend.
///
/// # Panics
/// Outside a task, and inside [`no_suspend`](crate::no_suspend).
#[track_caller]
pub fn sleep(time: Duration) -> Result<(), Cancelled> {
    sleep_to(now().checked_add(time))
}

/// As [`sleep`], until a certain moment; a past one is a [`yield_now`](crate::yield_now()).
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let mut next = Instant::now();
/// for _frame in 0..3 {
///     // .. what is done at each ..
///     next += Duration::from_millis(1);
///     cygnet::sleep_until(next).unwrap();
/// }
/// # });
/// ```
///
/// # Errors
/// As there.
///
/// # Panics
/// As there.
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

/// Calls `f`, and cancels what is done in it when its time is up: the calling task as long as it is in `f`, and all
/// tasks that were spawned there. As [`scope`](crate::scope()), it returns when all of those have ended.
///
/// Nothing is thrown away: the value of `f` is returned in any case, and if it came too late, as an error that
/// holds it. What `f` does about a wait that was cut short, and that says [`Reason::Deadline`](crate::Reason), is
/// its own affair. What comes after the call is not cancelled.
///
/// Somebody has to look at the clock: where every worker's thread is blocked, or computes and does not ask, nobody does,
/// and what is to be told when the time is up (a task elsewhere, an [`on_cancel`](crate::on_cancel()) hook) is told later.
///
/// Deadlines are inherited: of those around a wait the nearest counts. A time of zero has passed before `f` begins,
/// which is called all the same; one that no clock can tell the end of never passes. A task that computes sees
/// that its time is up by [`checkpoint`](crate::checkpoint()) or [`is_cancelled`](crate::is_cancelled()), also if
/// there is no other worker to tell it.
///
/// Runs `f` in place. Suspends at its end (structured) if tasks are left. Costs a scope, two locks that nobody else
/// uses as a rule, and two looks at the clock.
///
/// ```
/// use std::time::Duration;
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let in_time = cygnet::timeout(Duration::from_secs(60), || "done");
/// assert_eq!(in_time.unwrap(), "done");
///
/// // An answer that improves as long as there is time.
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
/// [`Late`] with the value of `f` if the time was up before `f`, and the last task spawned in it, had ended.
///
/// # Panics
/// With the panic of `f`, or of a task that was spawned in it and not joined, after all have ended. Outside a task.
#[track_caller]
pub fn timeout<R>(time: Duration, f: impl FnOnce() -> R) -> Result<R, Late<R>> {
    deadline_at(now().checked_add(time), f)
}

/// As [`timeout`], until a certain moment. See there, also for when it suspends and what it costs.
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
/// As there.
///
/// # Panics
/// As there.
#[track_caller]
pub fn deadline<R>(moment: Instant, f: impl FnOnce() -> R) -> Result<R, Late<R>> {
    deadline_at(Some(moment), f)
}

#[track_caller]
fn deadline_at<R>(moment: Option<Instant>, f: impl FnOnce() -> R) -> Result<R, Late<R>> {
    let place = Location::caller();
    let (worker, task) = here("timeout");
    let _pin = Pin::innermost();
    let limit = moment.map(|moment| Limit::new(Tick::not_before(moment), place));
    let frame = worker.frame_of_scope(task, limit.as_ref().map(NonNull::from));
    let outer = enter(worker, &frame);
    if let Some(limit) = &limit {
        if moment.is_some_and(|moment| moment <= now()) {
            // SAFETY: the caller runs in it.
            unsafe { cancel_node(&frame.node, None) };
        } else {
            // SAFETY: both stay in this frame, and it ends below.
            unsafe { limit.begin(worker, &frame) };
        }
    }
    let result = catch_unwind(AssertUnwindSafe(f));
    await_children(&frame);
    let fired = limit.as_ref().is_some_and(Limit::end);
    let late = fired || moment.is_some_and(|moment| moment <= now());
    let value = leave(&frame, outer, result);
    if late { Err(Late(value)) } else { Ok(value) }
}

/// Calls `f` and lets nothing from outside interrupt it, also if the task is cancelled already: for what has to be
/// put in order and must wait for that. For `time` at the most, as in a [`timeout`].
///
/// What is spawned in `f` is not cancelled from outside either. As a [`scope`](crate::scope()), it returns when all
/// of that has ended.
///
/// While the thread is unwinding nothing suspends, in a shield no more than elsewhere: catch the panic, or
/// use [`Cancelled::unwind`] further up.
///
/// Runs `f` in place. Suspends at its end (structured) if tasks are left. Costs two scopes and what a timeout does.
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
/// As [`timeout`].
///
/// # Panics
/// As [`timeout`].
#[track_caller]
pub fn shield<R>(time: Duration, f: impl FnOnce() -> R) -> Result<R, Late<R>> {
    let (worker, task) = here("shield");
    let _pin = Pin::innermost();
    let frame = worker.frame_of_scope(task, None);
    let fresh = frame.node.word().ignore();
    debug_assert!(fresh, "nobody knows it yet");
    let outer = enter(worker, &frame);
    let result = catch_unwind(AssertUnwindSafe(|| timeout(time, f)));
    await_children(&frame);
    leave(&frame, outer, result)
}

/// A value that came after its time was up. See [`timeout`].
pub struct Late<R>(R);

impl<R> Late<R> {
    /// The value.
    pub fn into_inner(self) -> R {
        self.0
    }
}

impl<R> fmt::Debug for Late<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Late(..)")
    }
}

impl<R> fmt::Display for Late<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time was up before it had ended")
    }
}

impl<R> std::error::Error for Late<R> {}
