//! Ticks, one after another.

use crate::runtime::errors::Cancelled;
use crate::runtime::future::wait;
use crate::runtime::handle::Handle;
use crate::runtime::time::sleep_to;
use crate::runtime::time_async::{RuntimeEnded, Sleep, here};
use crate::scheduler::worker::Worker;
use crate::shim::time::{Duration, Instant, now};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A tick at once, and then one each `period`. On a thread that is not a runtime's: [`Handle::interval`].
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
/// let first = frames.tick()?; // at once
/// let second = frames.tick()?;
/// assert_eq!(second, first + period);
/// # Ok(())
/// # }).unwrap();
/// ```
///
/// # Panics
/// If the period is no time at all. On a thread that is not a runtime's.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    here("interval").interval(period)
}

/// A tick at `start`, and then one each `period`. On a thread that is not a runtime's: [`Handle::interval_at`].
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
/// As [`interval`].
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    here("interval_at").interval_at(start, period)
}

impl Handle {
    /// As [`interval`](crate::interval()), from anywhere: its ticks can be waited for by tasks, threads and futures.
    ///
    /// Does not suspend.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let mut ticks = rt.handle().interval(std::time::Duration::from_millis(1));
    /// let first = ticks.tick().unwrap(); // of a plain thread, which blocks
    /// assert_eq!(ticks.tick(), Ok(first + ticks.period()));
    /// ```
    ///
    /// # Panics
    /// If the period is no time at all.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(now(), period)
    }

    /// As [`interval_at`](crate::interval_at()), from anywhere.
    ///
    /// Does not suspend. For an example see there.
    ///
    /// # Panics
    /// As [`Handle::interval`].
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        assert!(period > Duration::ZERO, "cygnet: the period of an interval is no time at all");
        Interval {
            handle: self.clone(),
            next: Some(start),
            period,
            missed_ticks: MissedTicks::default(),
        }
    }
}

/// How an [`Interval`] goes on when a tick was taken late: because who takes them had something else to do, or because
/// nobody had looked at the clock.
///
/// With a period of 10, ticks from 0 on, and one that was taken late, at 37:
///
/// ```text
///  Burst   0  10  20                37 (due 20) 30     40     50     60
///  Delay   0  10  20                37 (due 20)     47     57     67
///  Skip    0  10  20                37 (due 20)  40     50     60
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum MissedTicks {
    /// Those that were missed come at once, one after the other, until it has caught up: as many ticks as periods.
    #[default]
    Burst,
    /// The next one comes a period after the late one was taken, and those after it likewise. Late is what is taken more
    /// than 5 ms, or a period if that is less, after it was due: so it does not drift as long as ticks are taken in time.
    Delay,
    /// Those that were missed are left out: the next one comes when the next one that was not missed is due.
    Skip,
}

/// What is later than that is late, if the period is not shorter.
const LATE: Duration = Duration::from_millis(5);

impl MissedTicks {
    /// When the tick comes that is after the one which was `due`, and was taken `at` that time; none if never.
    fn next(self, due: Instant, at: Instant, period: Duration) -> Option<Instant> {
        let late = at.saturating_duration_since(due);
        let from_due = || due.checked_add(period);
        match self {
            MissedTicks::Burst => from_due(),
            MissedTicks::Delay if late > LATE.min(period) => at.checked_add(period),
            MissedTicks::Delay => from_due(),
            MissedTicks::Skip => {
                let since = late.as_nanos() % period.as_nanos();
                // Less than a period, of which a `Duration` has been.
                let since =
                    Duration::new((since / 1_000_000_000) as u64, (since % 1_000_000_000) as u32);
                at.max(due).checked_add(period - since)
            }
        }
    }
}

/// Ticks at regular times, made by [`interval`] and its like.
///
/// A tick is the moment at which it was due: they are counted by the clock, not by when they are taken, so they do not drift.
/// What becomes of those that were missed says [`MissedTicks`]. A wait for one that is cancelled, or dropped as a
/// future, has not used it up.
///
/// Nothing is set as long as nobody waits for a tick.
///
/// ```
/// use std::time::Duration;
///
/// // Once in a while, until the task is cancelled.
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
    /// When the next tick is due; none if never.
    next: Option<Instant>,
    period: Duration,
    missed_ticks: MissedTicks,
}

impl Interval {
    /// Waits for the next tick: when it was due. One that is due already is taken after others have had a turn.
    ///
    /// Suspends; a plain thread blocks. In a task it costs what a [`sleep`](crate::sleep()) does.
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled, also if the tick is due; it is there for whoever calls next. On a
    /// plain thread if the runtime ends before it is due.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), and on a worker's thread between tasks if it is not due.
    #[track_caller]
    pub fn tick(&mut self) -> Result<Instant, Cancelled> {
        if Worker::current().is_some_and(|worker| worker.task().is_some()) {
            sleep_to(self.next)?;
            return Ok(self.take());
        }
        match wait(self.tick_async())? {
            Ok(due) => Ok(due),
            Err(RuntimeEnded) => Err(Cancelled::by_the_end()),
        }
    }

    /// The same wait as a future, for any executor. One that is dropped before it was ready has not used the tick up.
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

    /// Takes the tick that is due.
    fn take(&mut self) -> Instant {
        let due = self.next.expect("it has come");
        self.next = self.missed_ticks.next(due, now(), self.period);
        due
    }

    /// The next tick comes a period from now, and the others after it.
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

    /// The next tick comes at that moment, and the others after it.
    pub fn reset_at(&mut self, moment: Instant) {
        self.next = Some(moment);
    }

    /// When the next tick is due; none if a clock cannot tell, and so never.
    pub fn next_tick(&self) -> Option<Instant> {
        self.next
    }

    /// The time from one tick to the next.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// How it goes on when a tick was taken late.
    pub fn missed_ticks(&self) -> MissedTicks {
        self.missed_ticks
    }

    /// Says how to go on when a tick was taken late. [`MissedTicks::Burst`] if nothing is said.
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

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next_tick", &self.next)
            .field("period", &self.period)
            .field("missed_ticks", &self.missed_ticks)
            .finish_non_exhaustive()
    }
}

/// The future of [`Interval::tick_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct IntervalTick<'a> {
    interval: &'a mut Interval,
    sleep: Sleep,
}

impl Future for IntervalTick<'_> {
    /// When the tick was due. [`RuntimeEnded`] if the runtime has ended before.
    type Output = Result<Instant, RuntimeEnded>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Instant, RuntimeEnded>> {
        // SAFETY: the sleep is not moved; the interval is only borrowed here.
        let IntervalTick { interval, sleep } = unsafe { self.get_unchecked_mut() };
        // SAFETY: pinned with the whole.
        let sleep = unsafe { Pin::new_unchecked(sleep) };
        sleep.poll(cx).map_ok(|()| interval.take())
    }
}

impl fmt::Debug for IntervalTick<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntervalTick").field("due", &self.sleep.deadline()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);

    /// The ticks that come next after one that was due at 20 ms and taken `at`, if all of them are taken in time.
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
    fn what_was_missed_comes_at_once_or_late_or_not_at_all() {
        assert_eq!(after(MissedTicks::Burst, 37), [30, 40, 50, 60]);
        assert_eq!(after(MissedTicks::Delay, 37), [47, 57, 67, 77]);
        assert_eq!(after(MissedTicks::Skip, 37), [40, 50, 60, 70]);
        // Due at the very moment.
        assert_eq!(after(MissedTicks::Skip, 40), [50, 60, 70, 80]);
    }

    #[test]
    fn ticks_that_are_taken_in_time_do_not_drift() {
        for missed in [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip] {
            assert_eq!(after(missed, 20), [30, 40, 50, 60]);
            assert_eq!(after(missed, 24), [30, 40, 50, 60]);
        }
        assert_eq!(after(MissedTicks::Delay, 26), [36, 46, 56, 66]);
    }

    #[test]
    fn what_no_clock_can_tell_never_comes() {
        for missed in [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip] {
            let (zero, late) = (now(), now() + PERIOD);
            assert_eq!(missed.next(zero, late, Duration::MAX), None);
        }
    }
}
