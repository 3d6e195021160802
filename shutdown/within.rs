//! A shutdown that takes no longer than a given time: stop, wait, cancel what is left, wait, and report.

use super::joined::Work;
use super::node::visit;
use super::node_ref::NodeRef;
use super::report::GuardReport;
use super::stop::ForEnd;
use super::{Swansong, stop};
use crate::runtime::CancelHandle;
use crate::runtime::{Late, shield};
use crate::scheduler::wait::waiters::{Manner, enter_and};
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::time::{Duration, Instant, now};
use crate::sync::after;
use crate::task::cause::{Cause, Reason};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// What a shutdown has come to: see [`Swansong::shut_down_within`] and [`Runtime::shutdown`](crate::Runtime::shutdown). Displayed it is a text
/// for a log.
#[derive(Clone, Debug)]
pub struct ShutdownReport {
    limit: Limit,
    /// The guards that there were when the time was over.
    late: GuardReport,
    cancelled: usize,
    took: Duration,
    after: Duration,
    left: usize,
    given_up: bool,
}

/// What has become of the time limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limit {
    Kept,
    /// The time was over: of this shutdown, or of another one of the same Swansong.
    Over,
    /// That of a shutdown of a Swansong above was.
    OverAbove,
}

impl ShutdownReport {
    /// Whether all guards were gone in time, and nothing had to be cancelled.
    ///
    /// Returns `false` also if another shutdown, of the same [`Swansong`] or of one above it, has run out of its time and has cancelled something.
    /// A shutdown of a Swansong below does not count here.
    #[must_use]
    pub fn is_in_time(&self) -> bool {
        self.limit == Limit::Kept
    }

    /// How many guards there were when the time was over: the time of this shutdown, or, if all guards went within it, that of an earlier shutdown
    /// of the same Swansong that has cancelled something.
    #[must_use]
    pub fn guards_in_time_over(&self) -> usize {
        self.late.guard_count()
    }

    /// Which guards these were. Tasks that were started by `spawn_guarded` are always named; of other guards the places are known if the root
    /// was made by [`Swansong::with_guard_report`], or is that of a runtime with [`Builder::guard_report`](crate::Builder::guard_report).
    #[must_use]
    pub fn late(&self) -> &GuardReport {
        &self.late
    }

    /// How many scopes and tasks were cancelled when the time was over. If another shutdown of the same Swansong was out of time before, those that
    /// it has cancelled count too, with those that came later and were cancelled at once.
    #[must_use]
    pub fn cancelled(&self) -> usize {
        self.cancelled
    }

    /// How long it took, from the stop to the end, or until it was given up.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }

    /// How much of that was after the time was over: so long the last guard remained.
    #[must_use]
    pub fn took_after_time(&self) -> Duration {
        self.after
    }

    /// Whether the wait was given up: somebody has taken no notice of its cancellation for longer than he was given.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// How many guards were left at the end. None, unless it was given up, or some have come later.
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
                    "all guards were gone in time; what is left without one was given up after {took:.1?}"
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
                    "after {within:.1?} a shutdown of one above had cancelled what was left"
                )?;
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

/// The moment when the time of a shutdown was over, kept in its node and in all nodes below.
pub(super) struct TimeOver {
    cause: Arc<Cause>,
    /// Whose shutdown that was: the address of the node.
    of: usize,
    when: Instant,
    /// The guards that there were then.
    late: GuardReport,
    /// How many scopes and tasks have been cancelled by it, those that came later included.
    cancelled: AtomicUsize,
}

impl TimeOver {
    /// Cancels what has come later.
    pub(super) fn cancel(&self, handle: &CancelHandle) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
        handle.pass_on(Arc::clone(&self.cause));
    }

    /// How many have been cancelled by it.
    // Relaxed: whoever ends because it was cancelled has been counted before, and orders that before what is seen of its end.
    fn cancelled(&self) -> usize {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// A shutdown under way.
pub(crate) struct Shutdown {
    swansong: Swansong,
    start: Instant,
    /// When the time was over, and what was there then.
    late: Option<(Instant, GuardReport)>,
    cancelled: usize,
    /// Another shutdown, of this node or one above, was out of time before.
    earlier: Option<Arc<TimeOver>>,
}

impl Shutdown {
    /// Stops, and waits until all is complete or the time is over. A cancelled task does not wait.
    #[track_caller]
    pub(crate) fn begin(swansong: Swansong, grace: Duration) -> Shutdown {
        let start = now();
        stop(&swansong.node);
        let in_time = is_complete_until(&swansong.node, after(grace));
        let late = (!in_time)
            .then(|| (now(), swansong.guard_report()))
            // The last guard may have gone meanwhile. A count alone does not tell: a guard may be handed on behind it.
            .filter(|(_, late)| !late.is_empty() || !swansong.state().is_complete());
        // Who cancels says so here first, and so before what is cancelled can be complete.
        let earlier = swansong.node.lock().over.clone();
        Shutdown { swansong, start, late, cancelled: 0, earlier }
    }

    /// Cancels the scopes and tasks that are left, and those that come later.
    pub(crate) fn cancel(&mut self, place: &'static Location<'static>) {
        let Some((when, late)) = &self.late else { return };
        let cause = Cause::new(Reason::GraceOver, Some(place));
        let over = Arc::new(TimeOver {
            cause: Arc::clone(&cause),
            of: self.swansong.node.as_ptr().addr(),
            when: *when,
            late: late.clone(),
            cancelled: AtomicUsize::new(0),
        });
        let mut handles: Vec<CancelHandle> = Vec::new();
        visit(&self.swansong.node, |_, state| {
            state.over.get_or_insert_with(|| Arc::clone(&over));
            handles.extend(state.work.as_deref().map(|Work { cancel, .. }| cancel.clone()));
        });
        handles.retain(|handle| !handle.is_cancelled());
        self.cancelled = handles.len();
        // Before any of them can end by it: see `TimeOver::cancelled`.
        over.cancelled.fetch_add(handles.len(), Ordering::Relaxed);
        for handle in handles {
            handle.pass_on(Arc::clone(&cause));
        }
    }

    /// Waits until all is complete: for so long, if a time is given. Whether it has become so.
    #[track_caller]
    pub(crate) fn wait(&self, patience: Option<Duration>) -> bool {
        match patience {
            // A guard that comes after the completion is not waited for.
            _ if self.late.is_none() => true,
            None => {
                self.swansong.shut_down().block();
                true
            }
            // Maybe the caller is cancelled by this very shutdown: it waits all the same.
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
        let earlier = self.earlier.filter(|over| over.cancelled() > 0);
        let of_this = |over: &&Arc<TimeOver>| over.of == self.swansong.node.as_ptr().addr();
        let same = earlier.as_ref().filter(of_this);
        let limit = match (&self.late, &earlier) {
            (None, None) => Limit::Kept,
            (None, Some(_)) if same.is_none() => Limit::OverAbove,
            _ => Limit::Over,
        };
        let late = self.late.or_else(|| {
            let late = same.map_or_else(GuardReport::empty, |over| over.late.clone());
            Some((earlier.as_ref()?.when.max(self.start), late))
        });
        let after = late.as_ref().map_or(Duration::ZERO, |(over, _)| end.duration_since(*over));
        ShutdownReport {
            limit,
            late: late.map_or_else(GuardReport::empty, |(_, late)| late),
            cancelled: self.cancelled + same.map_or(0, |over| over.cancelled()),
            took: end.duration_since(self.start),
            after,
            left,
            given_up,
        }
    }
}

/// Waits for the completion; false if it has not come in time, or the calling task is cancelled.
#[track_caller]
fn is_complete_until(node: &NodeRef, until: Option<Instant>) -> bool {
    node.word.look().is_complete()
        || enter_and(&ForEnd(&**node), 0, Manner::Until(until), None).is_ok()
}

impl Swansong {
    /// [Shuts down](Swansong::shut_down), waits until all guards are gone, and when the time is over cancels what is left: all
    /// [scopes](Swansong::scope) and [guarded tasks](Swansong::spawn_guarded) of this and of all below it, with
    /// [`Reason::GraceOver`]. Then it waits for the guards without limit, as a scope does. The report says what was late.
    ///
    /// A scope or a guarded task that comes when the time is over is cancelled at once, also one of a child that is made then.
    ///
    /// A guard that nobody can be cancelled for is waited for: one of a plain thread, or of a task that takes no notice, or of the caller
    /// itself, for ever. [`shut_down_within_at_most`](Swansong::shut_down_within_at_most) gives up.
    ///
    /// Suspends: a task parks, a plain thread blocks. If the calling task is cancelled the time is over at once, and the rest follows.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// rt.block_on(|| {
    ///     let swansong = Swansong::new();
    ///     let good = swansong.spawn_guarded(|| "finished");
    ///     let stuck = swansong.spawn_guarded(|| cygnet::park());
    ///     let report = swansong.shut_down_within(Duration::from_secs(1));
    ///     assert_eq!(good.join().unwrap(), "finished");
    ///     assert!(!matches!(stuck.join(), Ok(Ok(()))));
    ///     assert_eq!((report.guards_in_time_over(), report.cancelled()), (1, 1));
    ///     assert_eq!(report.late().entries()[0].location().file(), file!());
    /// });
    /// ```
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), and on a worker's thread between tasks, if it would have to wait.
    #[track_caller]
    pub fn shut_down_within(&self, grace: Duration) -> ShutdownReport {
        self.shut_down_and_cancel(grace, None, Location::caller())
    }

    /// The same, and gives up when so much time has passed after the cancel: the report says how many guards were [left](ShutdownReport::left).
    ///
    /// # Panics
    /// As `shut_down_within`.
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
        let mut shutdown = Shutdown::begin(self.clone(), grace);
        shutdown.cancel(place);
        let complete = shutdown.wait(patience);
        shutdown.report(!complete)
    }
}
