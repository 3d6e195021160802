//! Reports of guards: where and when they were made, and by which task.

use crate::TaskId;
use crate::shim::time::{Duration, Instant, now};
use std::fmt;
use std::panic::Location;

/// The record of a guard, kept in its node under the lock.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) place: &'static Location<'static>,
    pub(super) made: Instant,
    pub(super) task: Option<TaskId>,
}

impl Origin {
    pub(super) fn new(place: &'static Location<'static>, task: Option<TaskId>) -> Origin {
        Origin { place, made: now(), task }
    }
}

/// The guards below a [`Swansong`](super::Swansong) at some moment, by the places where they were
/// made. See [`Swansong::guard_report`](super::Swansong::guard_report).
///
/// The `Display` output is a text for a log, with a line per place, the oldest first.
#[derive(Clone, Debug)]
pub struct GuardReport {
    pub(super) entries: Vec<GuardReportEntry>,
    /// The number of guards from unknown places.
    pub(super) unknown: usize,
}

/// The guards that were made at one place.
#[derive(Clone, Copy, Debug)]
pub struct GuardReportEntry {
    pub(super) place: &'static Location<'static>,
    pub(super) count: usize,
    pub(super) oldest: Duration,
    /// The task that made the oldest guard.
    pub(super) task: Option<TaskId>,
}

impl GuardReport {
    pub(super) fn empty() -> GuardReport {
        GuardReport { entries: Vec::new(), unknown: 0 }
    }

    /// Returns the number of guards.
    #[must_use]
    pub fn guard_count(&self) -> usize {
        self.entries.iter().map(GuardReportEntry::count).sum::<usize>() + self.unknown
    }

    /// Returns whether there were no guards.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.guard_count() == 0
    }

    /// Returns an entry for each known place, the oldest first.
    ///
    /// Tasks that were started by [`TaskBuilder::guard`](crate::TaskBuilder::guard) are always
    /// included. Other guards are included if the root was made by
    /// [`Swansong::with_guard_report`](super::Swansong::with_guard_report), or belongs to a runtime
    /// with [`Builder::guard_report`](crate::Builder::guard_report).
    #[must_use]
    pub fn entries(&self) -> &[GuardReportEntry] {
        &self.entries
    }

    /// Iterates over the entries.
    pub fn iter(&self) -> std::slice::Iter<'_, GuardReportEntry> {
        self.entries.iter()
    }
}

impl GuardReportEntry {
    /// Returns the place where the guards were made. The place of a clone is that of the first
    /// guard.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.place
    }

    /// Returns the number of guards from this place.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the age of the oldest guard. Always `Some`.
    #[must_use]
    pub fn oldest_age(&self) -> Option<Duration> {
        Some(self.oldest)
    }

    /// Returns the task that made the oldest guard, if a task did.
    #[must_use]
    pub fn oldest_task(&self) -> Option<TaskId> {
        self.task
    }
}

impl IntoIterator for GuardReport {
    type Item = GuardReportEntry;
    type IntoIter = std::vec::IntoIter<GuardReportEntry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a GuardReport {
    type Item = &'a GuardReportEntry;
    type IntoIter = std::slice::Iter<'a, GuardReportEntry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl fmt::Display for GuardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.guard_count();
        match count {
            0 => return f.write_str("no guard is left"),
            1 => f.write_str("1 guard is left")?,
            _ => write!(f, "{count} guards are left")?,
        }
        self.entries.iter().try_for_each(|entry| write!(f, "\n{entry}"))?;
        match self.unknown {
            0 => Ok(()),
            some => write!(
                f,
                "\n{some} from unknown places (Swansong::with_guard_report and \
                 Builder::guard_report keep them)"
            ),
        }
    }
}

impl fmt::Display for GuardReportEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}, the oldest for {:.1?}", self.count, self.place, self.oldest)?;
        match self.task {
            Some(task) => write!(f, " by task {task}"),
            None => Ok(()),
        }
    }
}
