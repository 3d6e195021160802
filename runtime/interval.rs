//! Intervals: ticks at regular times.

use crate::runtime::errors::Cancelled;
use crate::runtime::future::wait;
use crate::runtime::handle::Handle;
use crate::runtime::time::sleep_to;
use crate::runtime::time_async::{RuntimeEnded, Sleep, here};
use crate::scheduler::worker::Worker;
use crate::shim::time::{Duration, Instant, now};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Returns an interval with the first tick at once, followed by one tick each `period`. Outside a
/// runtime, use [`Handle::interval`].
///
/// Does not suspend; [`Interval::tick`] does.
///
/// ```
/// use std::time::Duration;
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| -> Result<(), cygnet::Cancelled> {
/// let period = Duration::from_millis(1);
/// let mut frames = cygnet::interval(period);
/// let first = frames.tick()?; // due at once
/// let second = frames.tick()?;
/// assert_eq!(second, first + period);
/// # Ok(())
/// # }).unwrap();
/// ```
///
/// # Panics
/// If `period` is zero. On a thread that is not a worker of a runtime.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    here("interval").interval(period)
}

/// Returns an interval with the first tick at `start`, followed by one tick each `period`. Outside
/// a runtime, use [`Handle::interval_at`].
///
/// Does not suspend.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let start = Instant::now() + Duration::from_millis(1);
/// let mut ticks = cygnet::interval_at(start, Duration::from_millis(2));
/// assert_eq!(ticks.tick(), Ok(start));
/// assert_eq!(ticks.tick(), Ok(start + Duration::from_millis(2)));
/// # });
/// ```
///
/// # Panics
/// If `period` is zero. On a thread that is not a worker of a runtime.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    here("interval_at").interval_at(start, period)
}

impl Handle {
    /// Returns an interval like that of [`interval`](crate::interval()), for this handle's runtime.
    /// May be called anywhere, and tasks, threads and futures can wait for the ticks.
    ///
    /// Does not suspend.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let mut ticks = rt.handle().interval(std::time::Duration::from_millis(1));
    /// let first = ticks.tick().unwrap(); // a plain thread blocks
    /// assert_eq!(ticks.tick(), Ok(first + ticks.period()));
    /// ```
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(now(), period)
    }

    /// Returns an interval like that of [`interval_at`](crate::interval_at()), which has an
    /// example, for this handle's runtime. May be called anywhere.
    ///
    /// Does not suspend.
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        assert!(period > Duration::ZERO, "cygnet: an interval needs a period longer than zero");
        Interval {
            handle: self.clone(),
            next: Some(start),
            period,
            missed_ticks: MissedTicks::default(),
        }
    }
}

/// How an [`Interval`] continues after a tick was taken late, because its consumer was busy or no
/// worker had looked at the clock.
///
/// With a period of 10 and the first tick at 0, the consumer is late once and takes the tick due at
/// 20 only at 37:
///
/// ```text
///  Burst   0  10  20                37 (due 20) 30     40     50     60
///  Delay   0  10  20                37 (due 20)     47     57     67
///  Skip    0  10  20                37 (due 20)  40     50     60
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum MissedTicks {
    /// The missed ticks follow at once, one after the other, until there have been as many ticks as
    /// periods.
    #[default]
    Burst,
    /// The next tick is due one period after the late one was taken, and later ticks follow from
    /// there. A tick is late if it is taken more than 5 ms (or more than a period, if that is
    /// shorter) after it was due, so ticks that are taken in time do not drift.
    Delay,
    /// The missed ticks are skipped: the next tick is the first one still in the future.
    Skip,
}

/// The delay after which `MissedTicks::Delay` counts a tick as late, unless the period is shorter.
const LATE: Duration = Duration::from_millis(5);

impl MissedTicks {
    /// Returns when the next tick is due, if the last one was due at `due` and taken at `at`.
    /// `None` means never.
    fn next(self, due: Instant, at: Instant, period: Duration) -> Option<Instant> {
        let late = at.saturating_duration_since(due);
        let from_due = || due.checked_add(period);
        match self {
            MissedTicks::Burst => from_due(),
            MissedTicks::Delay if late > LATE.min(period) => at.checked_add(period),
            MissedTicks::Delay => from_due(),
            MissedTicks::Skip => {
                let since = late.as_nanos() % period.as_nanos();
                // Less than `period`, so the seconds fit.
                let since =
                    Duration::new((since / 1_000_000_000) as u64, (since % 1_000_000_000) as u32);
                at.max(due).checked_add(period - since)
            }
        }
    }
}

/// Ticks at regular times. Made by [`interval`], [`interval_at`] and the methods of [`Handle`].
///
/// A tick's value is the moment at which it was due. Ticks follow the clock and not the time at
/// which they are taken, so they do not drift. [`MissedTicks`] says how to continue after missed
/// ticks. A wait that is cancelled, or dropped as a future, does not use up its tick.
///
/// A timer is set only while there is a wait for a tick.
///
/// ```
/// use std::time::Duration;
///
/// // Reports at each tick, until the task is cancelled.
/// fn report(mut each: cygnet::Interval, mut report: impl FnMut()) -> cygnet::Cancelled {
///     loop {
///         match each.tick() {
///             Ok(_due) => report(),
///             Err(cancelled) => return cancelled,
///         }
///     }
/// }
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let each = rt.handle().interval(Duration::from_millis(1));
/// let (tell, told) = std::sync::mpsc::channel();
/// let task = rt.spawn(move || report(each, move || tell.send(()).unwrap()));
/// for _ in 0..3 {
///     told.recv().unwrap();
/// }
/// task.cancel("enough");
/// assert_eq!(task.join().unwrap().reason().to_string(), "enough");
/// ```
pub struct Interval {
    handle: Handle,
    /// When the next tick is due. `None` means never.
    next: Option<Instant>,
    period: Duration,
    missed_ticks: MissedTicks,
}

impl Interval {
    /// Waits for the next tick and returns when it was due. If the tick is already due, other tasks
    /// run before this returns.
    ///
    /// Suspends the calling task, or blocks a plain thread. In a task, costs as much as a
    /// [`sleep`](crate::sleep()).
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled, even if the tick is due; the tick is left
    /// for the next call. On a plain thread, if the runtime ends before the tick is due.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend); on a worker's thread between tasks, if the tick is
    /// not due.
    #[track_caller]
    pub fn tick(&mut self) -> Result<Instant, Cancelled> {
        if Worker::current().is_some_and(|worker| worker.task().is_some()) {
            sleep_to(self.next)?;
            return Ok(self.take());
        }
        wait(self.tick_async())?.map_err(|RuntimeEnded| Cancelled::by_the_end())
    }

    /// Returns a future that waits for the next tick, on any executor. Dropping the future before
    /// it is ready does not use up the tick.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let mut ticks = rt.handle().interval(Duration::from_millis(1));
    /// let last = cygnet::wait(async {
    ///     ticks.tick_async().await?;
    ///     ticks.tick_async().await
    /// });
    /// assert!(last.unwrap().is_ok());
    /// ```
    pub fn tick_async(&mut self) -> IntervalTick<'_> {
        let sleep = self.handle.sleep_to(self.next);
        IntervalTick { interval: self, sleep }
    }

    /// Takes the tick, which is due.
    fn take(&mut self) -> Instant {
        let due = self.next.expect("a tick that never comes is not taken");
        self.next = self.missed_ticks.next(due, now(), self.period);
        due
    }

    /// Restarts the interval: the next tick is due one period from now.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let mut ticks = rt.handle().interval(std::time::Duration::from_secs(60));
    /// ticks.reset();
    /// assert!(ticks.next_tick().unwrap() > std::time::Instant::now());
    /// ```
    pub fn reset(&mut self) {
        self.next = now().checked_add(self.period);
    }

    /// Restarts the interval: the next tick is due at the given moment.
    pub fn reset_at(&mut self, moment: Instant) {
        self.next = Some(moment);
    }

    /// Returns when the next tick is due, or `None` if that overflows the clock, so that the tick
    /// never comes.
    pub fn next_tick(&self) -> Option<Instant> {
        self.next
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// How the interval continues after a tick was taken late.
    pub fn missed_ticks(&self) -> MissedTicks {
        self.missed_ticks
    }

    /// Sets how to continue after a tick was taken late. The default is [`MissedTicks::Burst`].
    ///
    /// ```
    /// use cygnet::MissedTicks;
    /// use std::time::{Duration, Instant};
    ///
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let hour = Duration::from_secs(3600);
    /// let start = Instant::now();
    /// let mut ticks = cygnet::interval_at(start, hour);
    /// ticks.set_missed_ticks(MissedTicks::Skip);
    /// assert_eq!(ticks.tick(), Ok(start));
    /// assert_eq!(ticks.next_tick(), Some(start + hour));
    /// # });
    /// ```
    pub fn set_missed_ticks(&mut self, missed_ticks: MissedTicks) {
        self.missed_ticks = missed_ticks;
    }
}

debug! {
    impl Interval as this {
        next_tick: this.next,
        period: this.period,
        missed_ticks: this.missed_ticks,
        ..
    }
}

/// The future of [`Interval::tick_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct IntervalTick<'a> {
    interval: &'a mut Interval,
    sleep: Sleep,
}

impl Future for IntervalTick<'_> {
    /// When the tick was due, or [`RuntimeEnded`] if the runtime ended before that.
    type Output = Result<Instant, RuntimeEnded>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Instant, RuntimeEnded>> {
        // SAFETY: the sleep is not moved, and the interval is a plain reference, which need not be
        // pinned.
        let IntervalTick { interval, sleep } = unsafe { self.get_unchecked_mut() };
        // SAFETY: the sleep is structurally pinned: nothing moves it out of a pinned
        // `IntervalTick`.
        let sleep = unsafe { Pin::new_unchecked(sleep) };
        sleep.poll(cx).map_ok(|()| interval.take())
    }
}

debug! { impl IntervalTick<'_> as this { due: this.sleep.deadline(), .. } }

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);

    /// When the four ticks are due that follow a tick which was due at 20 ms and taken at `at` ms,
    /// if they are all taken in time.
    fn after(missed: MissedTicks, at: u64) -> Vec<u64> {
        let zero = now();
        let (mut due, mut taken) =
            (zero + Duration::from_millis(20), zero + Duration::from_millis(at));
        (0..4)
            .map(|_| {
                due = missed.next(due, taken, PERIOD).unwrap();
                taken = taken.max(due);
                (due - zero).as_millis() as u64
            })
            .collect()
    }

    #[test]
    fn missed_ticks_burst_are_delayed_or_are_skipped() {
        assert_eq!(after(MissedTicks::Burst, 37), [30, 40, 50, 60]);
        assert_eq!(after(MissedTicks::Delay, 37), [47, 57, 67, 77]);
        assert_eq!(after(MissedTicks::Skip, 37), [40, 50, 60, 70]);
        // Taken exactly when a later tick is due.
        assert_eq!(after(MissedTicks::Skip, 40), [50, 60, 70, 80]);
    }

    #[test]
    fn ticks_taken_in_time_do_not_drift() {
        for missed in [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip] {
            assert_eq!(after(missed, 20), [30, 40, 50, 60]);
            assert_eq!(after(missed, 24), [30, 40, 50, 60]);
        }
        assert_eq!(after(MissedTicks::Delay, 26), [36, 46, 56, 66]);
    }

    #[test]
    fn a_tick_beyond_the_clock_never_comes() {
        for missed in [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip] {
            let (zero, late) = (now(), now() + PERIOD);
            assert_eq!(missed.next(zero, late, Duration::MAX), None);
        }
    }
}
