//! A shutdown that takes no longer than a given time: stop, wait, cancel what is left, wait, and report.

use super::joined::Work;
use super::node::visit;
use super::node_ref::NodeRef;
use super::report::GuardReport;
use super::stop::ForEnd;
use super::{Swansong, stop};
use crate::retire::cause::{Cause, Reason};
use crate::runtime::cancel::CancelHandle;
use crate::runtime::sync::after;
use crate::runtime::time::{Late, shield};
use crate::scheduler::waiters::{Manner, enter_and};
use crate::shim::time::{Duration, Instant, now};
use std::fmt;
use std::panic::Location;

/// What a shutdown has come to: see [`Swansong::shut_down_within`] and [`Runtime::shutdown`](crate::Runtime::shutdown). Displayed it is a text
/// for a log.
#[derive(Clone, Debug)]
pub struct ShutdownReport {
    /// When the time was over.
    late: GuardReport,
    cancelled: usize,
    took: Duration,
    after: Duration,
    left: usize,
    given_up: bool,
}

impl ShutdownReport {
    /// Whether all guards were gone in time, and nothing had to be cancelled.
    #[must_use]
    pub fn is_in_time(&self) -> bool {
        self.late.is_empty()
    }

    /// How many guards there were when the time was over.
    #[must_use]
    pub fn guards_in_time_over(&self) -> usize {
        self.late.guard_count()
    }

    /// Which guards these were. Tasks that were started by `spawn_guarded` are always named; of other guards the places are known if the root
    /// was made by [`Swansong::with_guard_report`].
    #[must_use]
    pub fn late(&self) -> &GuardReport {
        &self.late
    }

    /// How many scopes and tasks were told of their cancellation then.
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
        let ShutdownReport { late, cancelled, took, after, left, .. } = self;
        if self.is_in_time() {
            return match self.given_up {
                false => write!(f, "all was finished in {took:.1?}"),
                true => write!(
                    f,
                    "all guards were gone in time; what is left without one was given up after {took:.1?}"
                ),
            };
        }
        write!(f, "when the time was over, after {:.1?}: {late}", took.saturating_sub(*after))?;
        write!(f, "\n{cancelled} scopes and tasks were cancelled")?;
        match left {
            0 if self.given_up => write!(f, "; given up {after:.1?} later"),
            0 => write!(f, "; all was over {after:.1?} later"),
            1 => write!(f, "; 1 guard was still there {after:.1?} later"),
            _ => write!(f, "; {left} guards were still there {after:.1?} later"),
        }
    }
}

/// A shutdown under way.
pub(crate) struct Shutdown {
    swansong: Swansong,
    start: Instant,
    /// When the time was over, and what was there then.
    late: Option<(Instant, GuardReport)>,
    cancelled: usize,
}

impl Shutdown {
    /// Stops, and waits until all is complete or the time is over. A cancelled task does not wait.
    #[track_caller]
    pub(crate) fn begin(swansong: Swansong, grace: Duration) -> Shutdown {
        let start = now();
        stop(&swansong.node);
        let in_time = is_complete_until(&swansong.node, after(grace));
        let late = (!in_time).then(|| (now(), swansong.guard_report()));
        Shutdown { swansong, start, late, cancelled: 0 }
    }

    /// Cancels the scopes and tasks that are left, and those that come later.
    pub(crate) fn cancel(&mut self, place: &'static Location<'static>) {
        if self.late.is_none() {
            return;
        }
        let cause = Cause::new(Reason::GraceOver, Some(place));
        let mut handles: Vec<CancelHandle> = Vec::new();
        visit(&self.swansong.node, |_, state| {
            state.over.get_or_insert_with(|| std::sync::Arc::clone(&cause));
            handles.extend(state.work.as_deref().map(|Work { cancel, .. }| cancel.clone()));
        });
        for handle in handles.iter().filter(|handle| !handle.is_cancelled()) {
            handle.pass_on(std::sync::Arc::clone(&cause));
            self.cancelled += 1;
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
        let after =
            self.late.as_ref().map_or(Duration::ZERO, |(over, _)| end.duration_since(*over));
        ShutdownReport {
            late: self.late.map_or_else(GuardReport::empty, |(_, late)| late),
            cancelled: self.cancelled,
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
