//! Time for futures: sleeping and time limits on any executor, driven by a runtime's workers.

use crate::runtime::handle::Handle;
use crate::scheduler::timers::{Alarm, Ended};
use crate::shim::time::{Duration, Instant, now};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Returns a future that is ready when a time has passed. The time starts with this call, and the
/// runtime of the calling thread keeps it.
///
/// For a sleep among other futures, inside [`wait`](crate::wait()). A task that only sleeps should
/// call [`sleep`](crate::sleep()), which costs less. The future may be sent elsewhere and polled by
/// any executor. Outside a runtime, use [`Handle::sleep_async`].
///
/// Does not suspend. A time that overflows the clock never passes. See [`Sleep`] for the costs.
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
/// On a thread that is not a worker of a runtime.
#[track_caller]
pub fn sleep_async(time: Duration) -> Sleep {
    here("sleep_async").sleep_async(time)
}

/// Returns a future that is ready at a given moment; if the moment has passed, it is ready at once.
/// See [`Sleep`] for the costs. Does not suspend.
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
/// On a thread that is not a worker of a runtime.
#[track_caller]
pub fn sleep_until_async(moment: Instant) -> Sleep {
    here("sleep_until_async").sleep_until_async(moment)
}

/// Returns a future that is ready with the output of `future`, or with an error when a time has
/// passed. The time starts with this call, and the runtime of the calling thread keeps it. Outside
/// a runtime, use [`Handle::timeout_async`].
///
/// For futures. [`timeout`](crate::timeout()) limits the time of code that is not async, at any
/// call depth.
///
/// Does not suspend. See [`Timeout`] for the costs.
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
/// On a thread that is not a worker of a runtime.
#[track_caller]
pub fn timeout_async<F: IntoFuture>(time: Duration, future: F) -> Timeout<F::IntoFuture> {
    here("timeout_async").timeout_async(time, future)
}

/// The runtime of the calling thread, for the function named `what`.
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
    /// Returns a future like that of [`sleep_async`], for this handle's runtime. May be called
    /// anywhere.
    ///
    /// Does not suspend.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let start = Instant::now();
    /// let sleep = rt.handle().sleep_async(Duration::from_millis(2));
    /// // A plain thread is an executor too.
    /// assert_eq!(cygnet::wait(sleep), Ok(Ok(())));
    /// assert!(start.elapsed() >= Duration::from_millis(2));
    /// ```
    pub fn sleep_async(&self, time: Duration) -> Sleep {
        self.sleep_to(now().checked_add(time))
    }

    /// Returns a future like that of [`sleep_until_async`], for this handle's runtime. May be
    /// called anywhere.
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

    /// Returns a future like that of [`timeout_async`], for this handle's runtime. May be called
    /// anywhere.
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

/// A future that is ready when its time has come. Made by [`sleep_async`], [`sleep_until_async`]
/// and the methods of [`Handle`].
///
/// The future is never ready early. If a worker of the runtime has nothing else to do, its task is
/// woken less than a tenth of a millisecond late as a rule. If all workers are in long
/// computations, no worker looks at the clock until one of them finishes its computation or
/// [waits](crate::yield_now()).
///
/// The runtime does not wait for the future. If the runtime ends first, the future is ready at once
/// with [`RuntimeEnded`].
///
/// The first poll sets a timer, and dropping the future removes it. A forgotten future leaks its
/// entry among the timers and the state that the runtime's workers share. The first poll, each
/// later poll and the end cost one lock each, which is uncontended as a rule. Nothing is allocated.
/// A first poll on a thread that is not a worker's may have to wake a worker.
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    alarm: Alarm,
}

impl Sleep {
    fn alarm(self: Pin<&mut Self>) -> Pin<&mut Alarm> {
        // SAFETY: the alarm is structurally pinned: no method moves it out of a pinned `Sleep`.
        unsafe { self.map_unchecked_mut(|this| &mut this.alarm) }
    }

    /// The moment at which the future is ready, or `None` if it never is.
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

    /// Returns whether the moment has come. Costs a reading of the clock.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// assert!(rt.handle().sleep_until_async(std::time::Instant::now()).is_elapsed());
    /// assert!(!rt.handle().sleep_async(std::time::Duration::MAX).is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        self.alarm.is_due()
    }

    /// Sets another moment. A future that was ready can be polled again. The waker of an earlier
    /// poll is dropped, so poll the future after the reset.
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
    /// [`RuntimeEnded`] if the runtime ended before the moment came.
    type Output = Result<(), RuntimeEnded>;

    /// # Panics
    /// If polled again after it was ready, unless it was reset.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), RuntimeEnded>> {
        self.alarm().poll(cx).map_err(|Ended| RuntimeEnded)
    }
}

debug! { impl Sleep as this { deadline: this.deadline(), .. } }

/// The future of [`timeout_async`].
///
/// Each poll polls the inner future first. If that is ready, its output counts, whatever the time
/// is. If it is not and the time is up, it is dropped before the error is returned. An inner future
/// that was ready is dropped together with this future. The costs are those of a [`Sleep`].
///
/// ```
/// // A server on another executor waits for a computation, with a time limit.
/// async fn answer(workers: cygnet::Handle) -> Option<u64> {
///     let sum = workers.spawn(|| (1..=100u64).sum()).ok()?;
///     let limit = std::time::Duration::from_secs(60);
///     // When the time is up, the task is dropped, which cancels it.
///     workers.timeout_async(limit, sum).await.ok()?.ok()
/// }
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// assert_eq!(cygnet::wait(answer(rt.handle())), Ok(Some(5_050)));
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Timeout<F> {
    /// `None` once the time was up.
    future: Option<F>,
    alarm: Alarm,
}

impl<F: Future> Future for Timeout<F> {
    /// The output of the inner future, if it came in time.
    type Output = Result<F::Output, TimeoutError>;

    /// # Panics
    /// With the panic of the inner future. If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: neither field is moved: both are pinned again below.
        let Timeout { future, alarm } = unsafe { self.get_unchecked_mut() };
        // SAFETY: the field is structurally pinned: it is only dropped in place.
        let mut future = unsafe { Pin::new_unchecked(future) };
        // SAFETY: the field is structurally pinned: nothing moves the alarm.
        let mut alarm = unsafe { Pin::new_unchecked(alarm) };
        alarm.assert_asked_for();
        let inner = future.as_mut().as_pin_mut().expect("a finished Timeout is not polled");
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

debug! { impl<F> Timeout<F> as this { deadline: this.alarm.at(), .. } }

/// The error of a [`Sleep`]: its runtime ended before the moment came.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let sleep = rt.handle().sleep_async(std::time::Duration::MAX);
/// drop(rt);
/// assert_eq!(cygnet::wait(sleep), Ok(Err(cygnet::RuntimeEnded)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuntimeEnded;

error! { impl RuntimeEnded: |_, f| f.write_str("the runtime that keeps the time has ended") }

/// Why a [`Timeout`] returned no output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimeoutError {
    /// The time was up before the future was ready.
    Elapsed,
    /// The runtime, which kept the time, ended before the future was ready.
    RuntimeEnded(RuntimeEnded),
}

error! {
    impl TimeoutError: |this, f| match this {
        TimeoutError::Elapsed => f.write_str("the time was up before the future was ready"),
        TimeoutError::RuntimeEnded(ended) => ended.fmt(f),
    }
}

impl From<RuntimeEnded> for TimeoutError {
    fn from(ended: RuntimeEnded) -> TimeoutError {
        TimeoutError::RuntimeEnded(ended)
    }
}
