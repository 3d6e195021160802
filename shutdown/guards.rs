//! The guards of a node and of all nodes below it: counted, and reported.

use super::node::{Node, State};
use super::node_ref::NodeRef;
use super::report::{GuardReport, GuardReportEntry, Origin};
use crate::shim::time::now;
use std::collections::BTreeMap;
use std::panic::Location;

/// Returns the number of guards of a node and of all nodes below it.
pub(super) fn count_guards(node: &NodeRef) -> u64 {
    let mut sum = 0u64;
    visit(node, |node, state| sum = sum.saturating_add(node.own_guards(state)));
    sum
}

impl GuardReport {
    /// Makes a report of a node and of all nodes below it.
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
            match of_task {
                Some(origin) if count > 0 => add(origin, count),
                None if node.reports => state.places.values().for_each(|origin| add(origin, 1)),
                _ => unknown += count,
            }
        });
        let mut entries: Vec<_> = places.into_values().collect();
        entries.sort_by(|a, b| b.oldest.cmp(&a.oldest).then_with(|| a.place.cmp(b.place)));
        GuardReport { entries, unknown }
    }
}

/// Calls `f` for a node and for all nodes below it, each under its lock.
pub(super) fn visit(node: &NodeRef, mut f: impl FnMut(&Node, &mut State)) {
    let mut todo = vec![node.clone()];
    while let Some(node) = todo.pop() {
        let mut state = node.state.lock();
        f(&node, &mut state);
        todo.extend(state.children.iter().map(|child| NodeRef::clone(child)));
    }
}
