//! Which guards there are: where they were made, when, and by which task.

use super::node::visit;
use super::node_ref::NodeRef;
use crate::TaskId;
use crate::shim::time::{Duration, Instant, now};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

/// What is kept of a guard, in its node, under the lock.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) place: &'static Location<'static>,
    pub(super) made: Instant,
    pub(super) task: Option<TaskId>,
}

/// The guards of a node that keeps their places, by a number that each of them has.
#[derive(Default)]
pub(super) struct Registry {
    guards: BTreeMap<u64, Origin>,
    last: u64,
}

impl Registry {
    /// The guard's number; never 0.
    pub(super) fn add(&mut self, place: &'static Location<'static>) -> u64 {
        self.last += 1;
        self.guards.insert(self.last, Origin { place, made: now(), task: crate::current_id() });
        self.last
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.guards.remove(&number);
    }
}

/// The guards that there are in the subtree of a [`Swansong`](super::Swansong) at some moment, by the places where they were made: see
/// [`Swansong::guard_report`](super::Swansong::guard_report).
///
/// Displayed it is a text for a log, a line for each place, the oldest first.
#[derive(Clone, Debug)]
pub struct GuardReport {
    entries: Vec<GuardReportEntry>,
    /// Those of which no place is known.
    unknown: usize,
}

/// The guards that were made at one place.
#[derive(Clone, Copy, Debug)]
pub struct GuardReportEntry {
    place: &'static Location<'static>,
    count: usize,
    oldest: Duration,
    /// Which task has made the oldest.
    task: Option<TaskId>,
}

impl GuardReport {
    pub(super) fn empty() -> GuardReport {
        GuardReport { entries: Vec::new(), unknown: 0 }
    }

    /// Of a node and all below it.
    pub(super) fn new(node: &NodeRef) -> GuardReport {
        let (now, mut unknown) = (now(), 0);
        let mut places: BTreeMap<&'static Location<'static>, GuardReportEntry> = BTreeMap::new();
        let mut add = |origin: &Origin, count: usize| {
            let (place, task) = (origin.place, origin.task);
            let oldest = now.saturating_duration_since(origin.made);
            let new = GuardReportEntry { place, count: 0, oldest, task };
            let entry = places.entry(place).or_insert(new);
            let count = entry.count + count;
            if oldest > entry.oldest {
                *entry = new;
            }
            entry.count = count;
        };
        visit(node, |node, state| {
            let count = usize::try_from(node.own_guards(state)).unwrap_or(usize::MAX);
            let of_task = state.work.as_ref().and_then(|work| work.origin.as_ref());
            match (of_task, &state.registry) {
                (Some(origin), _) if count > 0 => add(origin, count),
                (None, Some(registry)) => {
                    registry.guards.values().for_each(|origin| add(origin, 1));
                }
                _ => unknown += count,
            }
        });
        let mut entries: Vec<_> = places.into_values().collect();
        entries.sort_by(|a, b| b.oldest.cmp(&a.oldest).then_with(|| a.place.cmp(b.place)));
        GuardReport { entries, unknown }
    }

    /// How many guards there were.
    #[must_use]
    pub fn guard_count(&self) -> usize {
        self.entries.iter().map(GuardReportEntry::count).sum::<usize>() + self.unknown
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.guard_count() == 0
    }

    /// One for each place, the oldest first. Tasks that were started by [`spawn_guarded`](super::Swansong::spawn_guarded) are
    /// always there, other guards if the root was made by [`Swansong::with_guard_report`](super::Swansong::with_guard_report), or is that of a
    /// runtime with [`Builder::guard_report`](crate::Builder::guard_report).
    #[must_use]
    pub fn entries(&self) -> &[GuardReportEntry] {
        &self.entries
    }

    /// The entries, one after the other.
    pub fn iter(&self) -> std::slice::Iter<'_, GuardReportEntry> {
        self.entries.iter()
    }
}

impl GuardReportEntry {
    /// Where they were made; of one that was cloned, where the first one was.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.place
    }

    /// How many of them there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How long the oldest of them has been there. Always known.
    #[must_use]
    pub fn oldest_age(&self) -> Option<Duration> {
        Some(self.oldest)
    }

    /// The task that has made the oldest of them, if it was one.
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
