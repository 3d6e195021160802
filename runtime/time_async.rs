//! Time for futures: sleeping and time limits on any executor, told by a runtime's workers.

use crate::runtime::handle::Handle;
use crate::scheduler::timers::{Alarm, Ended};
use crate::shim::time::{Duration, Instant, now};
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is ready when a time has passed, told by the runtime of the calling task. The time begins with this
/// call.
///
/// For futures inside of a task, where something is waited for together with them: [`wait`](crate::wait()). A task that
/// just sleeps calls [`sleep`](crate::sleep()), which costs less. The future may be sent elsewhere, and be polled by any
/// executor. For one that is made elsewhere: [`Handle::sleep_async`].
///
/// Does not suspend. A time that no clock can tell the end of is for ever. See [`Sleep`], also for what it costs.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let start = Instant::now();
/// let slept = cygnet::wait(async {
///     cygnet::sleep_async(Duration::from_millis(2)).await
/// });
/// assert_eq!(slept, Ok(Ok(())));
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # });
/// ```
///
/// # Panics
/// On a thread that is not a runtime's.
#[track_caller]
pub fn sleep_async(time: Duration) -> Sleep {
    here("sleep_async").sleep_async(time)
}

/// As [`sleep_async`], until a certain moment. One that has passed makes it ready at once. See there, also for what it
/// costs.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let end_of_frame = Instant::now() + Duration::from_millis(2);
/// cygnet::wait(cygnet::sleep_until_async(end_of_frame)).unwrap().unwrap();
/// assert!(Instant::now() >= end_of_frame);
/// # });
/// ```
///
/// # Panics
/// As there.
#[track_caller]
pub fn sleep_until_async(moment: Instant) -> Sleep {
    here("sleep_until_async").sleep_until_async(moment)
}

/// A future that is ready when `future` is, with its output, or when a time has passed, with an error. The time is told
/// by the runtime of the calling task, and begins with this call. On other threads: [`Handle::timeout_async`].
///
/// For futures. What code does that is not async, however deep, is bounded by [`timeout`](crate::timeout()).
///
/// Does not suspend. See [`Timeout`], also for what it costs.
///
/// ```
/// use cygnet::TimeoutError;
/// use std::time::Duration;
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let in_time = cygnet::timeout_async(Duration::from_secs(60), async { "done" });
/// assert_eq!(cygnet::wait(in_time).unwrap(), Ok("done"));
///
/// let late = cygnet::timeout_async(Duration::from_millis(2), std::future::pending::<()>());
/// assert_eq!(cygnet::wait(late).unwrap(), Err(TimeoutError::Elapsed));
/// # });
/// ```
///
/// # Panics
/// On a thread that is not a runtime's.
#[track_caller]
pub fn timeout_async<F: IntoFuture>(time: Duration, future: F) -> Timeout<F::IntoFuture> {
    here("timeout_async").timeout_async(time, future)
}

/// The runtime of the calling thread.
#[track_caller]
pub(super) fn here(what: &str) -> Handle {
    match Handle::try_current() {
        Some(handle) => handle,
        None => panic!(
            "cygnet: {what} was called outside a runtime; call it inside Runtime::block_on or a task, or use \
             Handle::{what}"
        ),
    }
}

impl Handle {
    /// As [`sleep_async`], from anywhere: a future for any executor, whose time this runtime tells.
    ///
    /// Does not suspend.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let start = Instant::now();
    /// let sleep = rt.handle().sleep_async(Duration::from_millis(2));
    /// // A plain thread, as the smallest of all executors.
    /// assert_eq!(cygnet::wait(sleep), Ok(Ok(())));
    /// assert!(start.elapsed() >= Duration::from_millis(2));
    /// ```
    pub fn sleep_async(&self, time: Duration) -> Sleep {
        self.sleep_to(now().checked_add(time))
    }

    /// As [`sleep_until_async`], from anywhere.
    ///
    /// Does not suspend.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let past = rt.handle().sleep_until_async(std::time::Instant::now());
    /// assert_eq!(cygnet::wait(past), Ok(Ok(())));
    /// ```
    pub fn sleep_until_async(&self, moment: Instant) -> Sleep {
        self.sleep_to(Some(moment))
    }

    pub(super) fn sleep_to(&self, at: Option<Instant>) -> Sleep {
        Sleep { alarm: Alarm::new(self.shared_arc(), at) }
    }

    /// As [`timeout_async`], from anywhere.
    ///
    /// Does not suspend.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let event = cygnet::sync::Event::new();
    /// let late = rt.handle().timeout_async(Duration::from_millis(2), event.wait_async());
    /// assert_eq!(cygnet::wait(late).unwrap(), Err(cygnet::TimeoutError::Elapsed));
    /// ```
    pub fn timeout_async<F: IntoFuture>(
        &self,
        time: Duration,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        let alarm = Alarm::new(self.shared_arc(), now().checked_add(time));
        Timeout { future: Some(future.into_future()), alarm }
    }
}

/// The future of [`sleep_async`] and its like.
///
/// It is not ready before its time has come, and as a rule less than a tenth of a millisecond after that it is woken, if
/// one of the runtime's workers has nothing else to do. Somebody has to look at the clock: where every worker is in a
/// long computation, nobody does before the first of them comes to its end or [waits](crate::yield_now()).
///
/// The runtime does not wait for it. If it ends first the future is ready at once, with [`RuntimeEnded`], however far its
/// time is.
///
/// Its timer is set when it is polled first, and dropping it takes the timer out. One that is forgotten leaks its place
/// there, and what the runtime's workers share. A lock that nobody else uses as a rule for the first poll, for each later one,
/// and for the end; no allocation. On a thread that is not a worker's, the first poll may have to wake one.
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    alarm: Alarm,
}

impl Sleep {
    fn alarm(self: Pin<&mut Self>) -> Pin<&mut Alarm> {
        // SAFETY: pinned with the whole.
        unsafe { self.map_unchecked_mut(|this| &mut this.alarm) }
    }

    /// When its time has come; none if never.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let moment = Instant::now();
    /// assert_eq!(rt.handle().sleep_until_async(moment).deadline(), Some(moment));
    /// assert_eq!(rt.handle().sleep_async(Duration::MAX).deadline(), None);
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.alarm.at()
    }

    /// Whether its time has come. A look at the clock.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// assert!(rt.handle().sleep_until_async(std::time::Instant::now()).is_elapsed());
    /// assert!(!rt.handle().sleep_async(std::time::Duration::MAX).is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        self.alarm.is_due()
    }

    /// Gives it another time, in whatever state it is: also one that was ready can be polled again. Poll it after that: the
    /// waker of an earlier poll is gone.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let mut sleep = Box::pin(rt.handle().sleep_async(Duration::MAX));
    /// for _heartbeat in 0..3 {
    ///     sleep.as_mut().reset(Instant::now() + Duration::from_millis(1));
    ///     assert_eq!(cygnet::wait(sleep.as_mut()), Ok(Ok(())));
    /// }
    /// ```
    pub fn reset(self: Pin<&mut Self>, moment: Instant) {
        self.alarm().reset(Some(moment));
    }
}

impl Future for Sleep {
    /// [`RuntimeEnded`] if the runtime has ended before its time.
    type Output = Result<(), RuntimeEnded>;

    /// # Panics
    /// If polled after it was ready, unless it was reset.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), RuntimeEnded>> {
        self.alarm().poll(cx).map_err(|Ended| RuntimeEnded)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline()).finish_non_exhaustive()
    }
}

/// The future of [`timeout_async`].
///
/// At each poll the inner future has the first word: if it is ready its output counts, whatever the time is. If it is not,
/// and the time is up, it is dropped before the error is given. One whose output was given is dropped with this. The
/// costs are those of a [`Sleep`].
///
/// ```
/// // A server of another executor has things computed, and does not wait for ever.
/// async fn answer(workers: cygnet::Handle) -> Option<u64> {
///     let sum = workers.spawn(|| (1..=100u64).sum()).ok()?;
///     let limit = std::time::Duration::from_secs(60);
///     // If the time is up the task is dropped, and so cancelled.
///     workers.timeout_async(limit, sum).await.ok()?.ok()
/// }
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// assert_eq!(cygnet::wait(answer(rt.handle())), Ok(Some(5_050)));
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Timeout<F> {
    /// None when the time was up.
    future: Option<F>,
    alarm: Alarm,
}

impl<F: Future> Future for Timeout<F> {
    /// The inner one's, if it came in time.
    type Output = Result<F::Output, TimeoutError>;

    /// # Panics
    /// With the panic of the inner future. If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: neither part is moved.
        let Timeout { future, alarm } = unsafe { self.get_unchecked_mut() };
        // SAFETY: pinned with the whole.
        let mut future = unsafe { Pin::new_unchecked(future) };
        // SAFETY: as above.
        let mut alarm = unsafe { Pin::new_unchecked(alarm) };
        alarm.assert_asked_for();
        let inner = future.as_mut().as_pin_mut().expect("it is dropped at the end");
        if let Poll::Ready(output) = inner.poll(cx) {
            alarm.end();
            return Poll::Ready(Ok(output));
        }
        let Poll::Ready(result) = alarm.as_mut().poll(cx) else { return Poll::Pending };
        future.set(None);
        Poll::Ready(Err(match result {
            Ok(()) => TimeoutError::Elapsed,
            Err(Ended) => TimeoutError::RuntimeEnded(RuntimeEnded),
        }))
    }
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("deadline", &self.alarm.at()).finish_non_exhaustive()
    }
}

/// The runtime that was to tell the time has ended before.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let sleep = rt.handle().sleep_async(std::time::Duration::MAX);
/// drop(rt);
/// assert_eq!(cygnet::wait(sleep), Ok(Err(cygnet::RuntimeEnded)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuntimeEnded;

impl fmt::Display for RuntimeEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime that tells the time has ended")
    }
}

impl Error for RuntimeEnded {}

/// Why a [`Timeout`] has given no output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimeoutError {
    /// The time was up before the future was ready.
    Elapsed,
    /// Nobody tells the time any more, and the future was not ready.
    RuntimeEnded(RuntimeEnded),
}

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeoutError::Elapsed => f.write_str("the time was up before the future was ready"),
            TimeoutError::RuntimeEnded(ended) => ended.fmt(f),
        }
    }
}

impl Error for TimeoutError {}

impl From<RuntimeEnded> for TimeoutError {
    fn from(ended: RuntimeEnded) -> TimeoutError {
        TimeoutError::RuntimeEnded(ended)
    }
}
