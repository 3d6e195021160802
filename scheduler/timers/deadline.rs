//! Deadlines of scopes, as `timeout` opens them.

use super::limit::Limit;
use super::tick::Tick;
use super::timer::{Action, Timer, Timers};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::worker::Worker;
use std::pin::Pin;
use std::ptr::NonNull;

impl Limit {
    /// Sets the timer, unless an outer limit of the same task comes first in any case.
    ///
    /// # Safety
    /// The frame of the scope stays where it is until `end` has been called.
    pub(crate) unsafe fn begin(self: Pin<&Limit>, worker: &Worker, scope: &ScopeFrame) {
        match scope.live_node().parent().map_or(Above::Nothing, limit_above) {
            Above::Limit { limit: outer, of_the_task } => {
                self.ignorant.set(outer.ignorant.get());
                if outer.first.get() <= self.at {
                    self.outer.set(Some(NonNull::from(outer)));
                    self.first.set(outer.first.get());
                }
                if of_the_task && outer.sure.get() <= self.at {
                    return self.sure.set(outer.sure.get());
                }
            }
            // Another task may stop ignoring while this scope is open; the task itself cannot.
            Above::Ignored { of_the_task } => self.ignorant.set(!of_the_task),
            Above::TooFar => self.ignorant.set(true),
            Above::Nothing => {}
        }
        // SAFETY: the scope does not end before `end` has taken the timer out.
        let node = unsafe { LiveNode::new(&raw const scope.node) };
        let timer = || Timer::new(self.at, Action::Cancel(node));
        // SAFETY: the timer is in the limit, which is pinned, and is not taken out of the cell.
        let timer = unsafe { self.map_unchecked(|limit| limit.timer.get_or_init(timer)) };
        worker.set_timer(timer);
    }

    /// Fires the overdue timers of this limit and of the outer ones. Returns whether any limit was
    /// overdue.
    fn fire(&self, now: Tick) -> bool {
        let mut any = false;
        let mut next = (self.first.get() <= now).then_some(self);
        while let Some(limit) = next {
            if limit.at <= now {
                any = true;
                if let Some(timers) = limit.timer.get().and_then(Timer::timers) {
                    timers.fire(now);
                }
            }
            next = limit.outer();
        }
        any
    }

    /// Takes the timer out. Returns whether it had fired.
    pub(crate) fn end(&self) -> bool {
        self.timer.get().is_some_and(|timer| !timer.unset())
    }
}

/// The result of a search for a limit.
enum Above<'a> {
    /// The nearest limit, and whether its scope belongs to the task where the search began.
    Limit {
        limit: &'a Limit,
        of_the_task: bool,
    },
    Nothing,
    /// A node on the way ignores cancellation at present, and so every limit above it.
    Ignored {
        of_the_task: bool,
    },
    /// No limit within `LOOK` nodes.
    TooFar,
}

/// Nodes that a search for a limit visits at most.
const LOOK: usize = 16;

/// Searches for the limit of `node`, or of the nearest node above it that has one.
fn limit_above(node: LiveNode<'_>) -> Above<'_> {
    let mut at = node;
    let mut of_the_task = true;
    for _ in 0..LOOK {
        if !at.is_timed() {
            return Above::Nothing;
        }
        // A node that ignores cancellation is not interrupted from above either.
        if at.word().is_ignoring() {
            return Above::Ignored { of_the_task };
        }
        match at.scope().map(ScopeFrame::limit) {
            Some(Some(limit)) => return Above::Limit { limit, of_the_task },
            Some(None) => {}
            None => of_the_task = false,
        }
        // A root is not timed.
        let Some(parent) = at.parent() else { return Above::Nothing };
        at = parent;
    }
    Above::TooFar
}

/// Fires the overdue deadlines that may concern a timed node which is not known to be cancelled.
/// Returns whether there were any.
#[cold]
#[inline(never)]
pub(crate) fn fire_if_overdue(node: LiveNode<'_>) -> bool {
    let now = Tick::now();
    match limit_above(node) {
        Above::Nothing | Above::Ignored { .. } => false,
        Above::Limit { limit, .. } => {
            // Both are fired: the overdue limits that are known may be ignored.
            limit.fire(now) | (limit.ignorant.get() && fire_all(now))
        }
        Above::TooFar => fire_all(now),
    }
}

/// Fires the overdue timers of all workers. Returns whether there were any.
fn fire_all(now: Tick) -> bool {
    let Some(worker) = Worker::current() else { return false };
    let overdue = |timers: &&Timers| timers.next() <= now;
    let mut any = false;
    for timers in worker.shared().remotes().map(|remote| &remote.timers).filter(overdue) {
        timers.fire(now);
        any = true;
    }
    any
}
