//! A shutdown with a time limit: stop, wait, cancel the remaining work, wait, and report.

use super::guards::visit;
use super::node_ref::NodeRef;
use super::report::GuardReport;
use super::waiting::{END, Wait};
use super::work::{TimeOver, Work};
use super::{ShutdownCompletion, Swansong, stop};
use crate::runtime::{CancelHandle, Late, shield};
use crate::scheduler::wait::waiters::WaitMode;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::time::{Duration, Instant, now};
use crate::sync::after;
use crate::task::cause::{Cause, Reason};
use std::fmt;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The result of [`Swansong::shut_down_within`] or [`Runtime::shutdown`](crate::Runtime::shutdown).
/// Its `Display` output is a text for a log.
#[derive(Clone, Debug)]
pub struct ShutdownReport {
    limit: Limit,
    /// The guards that existed when the time was over.
    late: GuardReport,
    cancelled: usize,
    took: Duration,
    after: Duration,
    left: usize,
    given_up: bool,
}

/// Whether the time limit was kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limit {
    Kept,
    /// The time of this shutdown was over, or that of another shutdown of the same `Swansong`.
    Over,
    /// The time of a shutdown of an ancestor was over.
    OverAbove,
    /// Nothing was stopped or waited for.
    Refused,
}

impl ShutdownReport {
    /// The report of a shutdown of a runtime by one of its own tasks.
    pub(super) fn refused(swansong: &Swansong) -> ShutdownReport {
        ShutdownReport {
            limit: Limit::Refused,
            late: GuardReport::empty(),
            cancelled: 0,
            took: Duration::ZERO,
            after: Duration::ZERO,
            left: swansong.guard_count(),
            given_up: true,
        }
    }

    /// Returns whether all guards were gone in time, and nothing had to be cancelled.
    ///
    /// Also returns `false` if another shutdown, of the same [`Swansong`] or of an ancestor, ran
    /// out of time and cancelled something. Shutdowns of descendants do not count.
    #[must_use]
    pub fn is_in_time(&self) -> bool {
        self.limit == Limit::Kept
    }

    /// Returns the number of guards that existed when the time was over. If all guards went in time
    /// but an earlier shutdown of the same `Swansong` had cancelled something, this is the number
    /// at the end of that shutdown's time.
    #[must_use]
    pub fn guards_in_time_over(&self) -> usize {
        self.late.guard_count()
    }

    /// Returns the guards that [`guards_in_time_over`](ShutdownReport::guards_in_time_over) counts.
    /// Tasks with a [`TaskBuilder::guard`](crate::TaskBuilder::guard) are always named. The places
    /// of other guards are known if the root was made by [`Swansong::with_guard_report`], or
    /// belongs to a runtime with [`Builder::guard_report`](crate::Builder::guard_report).
    #[must_use]
    pub fn late(&self) -> &GuardReport {
        &self.late
    }

    /// Returns the number of scopes and tasks that were cancelled when the time was over. This
    /// includes work that an earlier shutdown of the same `Swansong` cancelled when its time was
    /// over, and later work that was cancelled at once because of that.
    #[must_use]
    pub fn cancelled(&self) -> usize {
        self.cancelled
    }

    /// Returns the time from the stop to the end, or until the wait was given up.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Returns the part of [`took`](ShutdownReport::took) after the time was over.
    #[must_use]
    pub fn took_after_time(&self) -> Duration {
        self.after
    }

    /// Returns whether the wait was given up, because work ignored its cancellation for longer than
    /// the given patience, or because the shutdown of a runtime was called by one of its own tasks.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Returns the number of guards at the end: 0, unless the wait was given up or guards were made
    /// later.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShutdownReport { limit, late, cancelled, took, after, left, .. } = self;
        let within = took.saturating_sub(*after);
        match limit {
            Limit::Kept if self.given_up => {
                return write!(
                    f,
                    "all guards were gone in time; tasks without a guard were given up after {took:.1?}"
                );
            }
            Limit::Kept => return write!(f, "all was finished in {took:.1?}"),
            Limit::Over => {
                write!(f, "when the time was over, after {within:.1?}: {late}")?;
                write!(f, "\n{cancelled} scopes and tasks were cancelled")?;
            }
            Limit::OverAbove => {
                write!(
                    f,
                    "after {within:.1?} a shutdown of an ancestor had cancelled the remaining work"
                )?;
            }
            Limit::Refused => {
                return write!(
                    f,
                    "not shut down, as one of the runtime's own tasks has called this"
                );
            }
        }
        match left {
            0 if self.given_up => write!(f, "; given up {after:.1?} later"),
            0 => write!(f, "; all was over {after:.1?} later"),
            1 => write!(f, "; 1 guard was still there {after:.1?} later"),
            _ => write!(f, "; {left} guards were still there {after:.1?} later"),
        }
    }
}

/// A shutdown in progress.
pub(crate) struct Shutdown {
    swansong: Swansong,
    start: Instant,
    /// The end of the time, if not all guards went in time.
    over: Option<Arc<TimeOver>>,
    cancelled: usize,
    /// The end of the time of an earlier shutdown, of this node or of an ancestor.
    earlier: Option<Arc<TimeOver>>,
}

impl Shutdown {
    /// Stops, and waits until the node is complete or the time is over. A cancelled task does not
    /// wait, but one that unwinds does. When the time is over, cancels the remaining scopes and
    /// tasks, and has later ones cancelled at once.
    #[track_caller]
    pub(crate) fn begin(
        swansong: Swansong,
        grace: Duration,
        place: &'static Location<'static>,
    ) -> Shutdown {
        let start = now();
        stop(&swansong.node);
        let in_time = is_complete_until(&swansong.node, after(grace));
        Shutdown::waited(swansong, start, in_time, place)
    }

    /// After the wait: unless the node was complete in time, cancels what remains.
    fn waited(
        swansong: Swansong,
        start: Instant,
        in_time: bool,
        place: &'static Location<'static>,
    ) -> Shutdown {
        let late = (!in_time)
            .then(|| (now(), swansong.guard_report()))
            // The last guard may have gone since. An empty report does not prove it, as a guard may
            // have moved from node to node behind the visit.
            .filter(|(_, late)| !late.is_empty() || !swansong.state().is_complete());
        let mut shutdown = Shutdown::of(swansong, start);
        if let Some((when, late)) = late {
            shutdown.cancel(when, late, place);
        }
        shutdown
    }

    /// A shutdown that has cancelled nothing yet.
    fn of(swansong: Swansong, start: Instant) -> Shutdown {
        // A shutdown records this before it cancels, and so before its cancels can complete the
        // node.
        let earlier = swansong.node.state.lock().over.clone();
        Shutdown { swansong, start, over: None, cancelled: 0, earlier }
    }

    fn cancel(&mut self, when: Instant, late: GuardReport, place: &'static Location<'static>) {
        let cause = Cause::new(Reason::GraceOver, Some(place));
        let (of, cancelled) = (self.swansong.node.addr(), AtomicUsize::new(0));
        let over = Arc::new(TimeOver { cause: Arc::clone(&cause), of, when, late, cancelled });
        let mut handles: Vec<CancelHandle> = Vec::new();
        visit(&self.swansong.node, |_, state| {
            state.over.get_or_insert_with(|| Arc::clone(&over));
            handles.extend(state.work.as_deref().map(|Work { cancel, .. }| cancel.clone()));
        });
        handles.retain(|handle| !handle.is_cancelled());
        self.cancelled = handles.len();
        // Counted before the cancels, as `TimeOver::cancelled` requires.
        over.cancelled.fetch_add(handles.len(), Ordering::Relaxed);
        for handle in handles {
            handle.pass_on(Arc::clone(&cause));
        }
        self.over = Some(over);
    }

    /// Waits for the completion, for `patience` at most. Returns whether it came.
    #[track_caller]
    pub(crate) fn wait(&self, patience: Option<Duration>) -> bool {
        match patience {
            // All guards went in time. Guards that were made after the completion are not waited
            // for.
            _ if self.over.is_none() => true,
            None => {
                self.swansong.shut_down().block();
                true
            }
            // This very shutdown may have cancelled the calling task, which waits all the same.
            Some(time) if crate::current_id().is_some() => {
                shield(time, || is_complete_until(&self.swansong.node, None))
                    .unwrap_or_else(Late::into_inner)
            }
            Some(time) => is_complete_until(&self.swansong.node, after(time)),
        }
    }

    pub(crate) fn report(self, given_up: bool) -> ShutdownReport {
        let end = now();
        let left =
            if self.swansong.state().is_complete() { 0 } else { self.swansong.guard_count() };
        let earlier = self.earlier.as_ref().filter(|over| over.cancelled() > 0);
        let same = earlier.filter(|over| over.of == self.swansong.node.addr());
        let limit = match (&self.over, earlier) {
            (None, None) => Limit::Kept,
            (None, Some(_)) if same.is_none() => Limit::OverAbove,
            _ => Limit::Over,
        };
        let over = self.over.as_ref();
        let when = over.or(earlier).map(|over| over.when.max(self.start));
        ShutdownReport {
            limit,
            late: over.or(same).map_or_else(GuardReport::empty, |over| over.late.clone()),
            cancelled: self.cancelled + same.map_or(0, |over| over.cancelled()),
            took: end.duration_since(self.start),
            after: when.map_or(Duration::ZERO, |when| end.duration_since(when)),
            left,
            given_up,
        }
    }
}

/// Waits for the completion. Returns `false` if the time is over first, or if the calling task is
/// cancelled. If the calling thread unwinds, it waits all the same, and blocks: an answer before
/// the time would have the work in progress cancelled, or given up, too early.
#[track_caller]
fn is_complete_until(node: &NodeRef, until: Option<Instant>) -> bool {
    Wait::<END>::new(node).block(WaitMode::Blocking(until))
}

impl Swansong {
    /// [Shuts down](Swansong::shut_down), waits for the guards, and cancels the remaining work when
    /// the time is over.
    ///
    /// The cancel has [`Reason::GraceOver`]. It reaches all [scopes](Swansong::scope) and [guarded
    /// tasks](crate::TaskBuilder::guard) of this and of its descendants, including any that are
    /// added later. After the cancel, this waits for the guards without limit, as a scope does. The
    /// report names the guards that were late.
    ///
    /// The cancel does not end every guard: not one of a plain thread, of a task that ignores the
    /// cancel, or of the caller itself. This waits for such a guard for ever;
    /// [`shut_down_within_at_most`](Swansong::shut_down_within_at_most) gives up.
    ///
    /// Suspends: a task parks, a plain thread blocks.
    ///
    /// # Cancellation
    /// If the calling task is cancelled, the time is over at once: the remaining work is cancelled,
    /// and this waits for it. In a destructor that runs because the task panics, this waits as
    /// long as it does elsewhere, and blocks the worker. Meanwhile the worker runs only descendants
    /// of the task which no other worker can run. They may delay the end.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// rt.block_on(|| {
    ///     let swansong = Swansong::new();
    ///     let good = cygnet::task().guard(&swansong).spawn(|| "finished");
    ///     let stuck = cygnet::task().guard(&swansong).spawn(|| cygnet::park());
    ///     let report = swansong.shut_down_within(Duration::from_secs(1));
    ///     assert_eq!(good.join().unwrap(), "finished");
    ///     assert!(!matches!(stuck.join(), Ok(Ok(()))));
    ///     assert_eq!((report.guards_in_time_over(), report.cancelled()), (1, 1));
    ///     assert_eq!(report.late().entries()[0].location().file(), file!());
    /// });
    /// ```
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn shut_down_within(&self, grace: Duration) -> ShutdownReport {
        self.shut_down_and_cancel(grace, None, Location::caller())
    }

    /// [Shuts down](Swansong::shut_down), and cancels the remaining work at once, without a wait:
    /// for the second request to stop. A [`shut_down_within`](Swansong::shut_down_within) that
    /// waits elsewhere goes on when the last guard has gone, or when its own time is over.
    ///
    /// Does not suspend. Costs as much as [`guard_report`](Swansong::guard_report), and a cancel
    /// for each scope and task.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let swansong = Swansong::new();
    /// let stuck = cygnet::task().guard(&swansong).spawn_in(&rt, cygnet::park);
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| swansong.shut_down_within(Duration::from_secs(3600)));
    ///     swansong.shut_down_now().block();
    /// });
    /// assert!(!matches!(stuck.join(), Ok(Ok(()))));
    /// ```
    #[track_caller]
    pub fn shut_down_now(&self) -> ShutdownCompletion {
        let completion = self.shut_down();
        if !self.state().is_complete() {
            let mut shutdown = Shutdown::of(self.clone(), now());
            shutdown.cancel(now(), self.guard_report(), Location::caller());
        }
        completion
    }

    /// Shuts down like [`shut_down_within`](Swansong::shut_down_within), as a future for any
    /// executor. The stop has happened when this returns. The time is over when `over` is ready:
    /// pass a sleep of the executor, or [`Handle::sleep_async`](crate::Handle::sleep_async), or any
    /// other event.
    ///
    /// If the future is dropped, the stop stands, and what `over` was to cancel is not cancelled.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    /// use std::time::Duration;
    ///
    /// # let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # tokio.block_on(async {
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let swansong = Swansong::new();
    /// let stuck = cygnet::task().guard(&swansong).spawn_in(&rt, cygnet::park);
    /// let grace = tokio::time::sleep(Duration::from_millis(1));
    /// let report = swansong.shut_down_until(grace).await;
    /// assert_eq!((report.guards_in_time_over(), report.left()), (1, 0));
    /// assert!(!matches!(stuck.await, Ok(Ok(()))));
    /// # });
    /// ```
    #[track_caller]
    pub fn shut_down_until<F>(&self, over: F) -> impl Future<Output = ShutdownReport> + use<F>
    where
        F: Future<Output = ()>,
    {
        let (place, start, swansong) = (Location::caller(), now(), self.clone());
        let mut completion = swansong.shut_down();
        async move {
            let mut over = pin!(over);
            let in_time = poll_fn(|cx| match pin!(&mut completion).poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => over.as_mut().poll(cx).map(|()| false),
            });
            let shutdown = Shutdown::waited(swansong, start, in_time.await, place);
            // Guards that were made after the completion are not waited for.
            if shutdown.over.is_some() {
                completion.await;
            }
            shutdown.report(false)
        }
    }

    /// Shuts down like [`shut_down_within`](Swansong::shut_down_within), but gives up when
    /// `patience` has passed since the cancel. The report has the number of guards that were
    /// [left](ShutdownReport::left).
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn shut_down_within_at_most(&self, grace: Duration, patience: Duration) -> ShutdownReport {
        self.shut_down_and_cancel(grace, Some(patience), Location::caller())
    }

    #[track_caller]
    fn shut_down_and_cancel(
        &self,
        grace: Duration,
        patience: Option<Duration>,
        place: &'static Location<'static>,
    ) -> ShutdownReport {
        let shutdown = Shutdown::begin(self.clone(), grace, place);
        let complete = shutdown.wait(patience);
        shutdown.report(!complete)
    }
}
