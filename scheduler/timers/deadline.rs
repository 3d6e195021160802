//! Deadlines of scopes, as `timeout` opens them.

use super::limit::Limit;
use super::tick::Tick;
use super::timer::{Action, Timer, Timers};
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::worker::Worker;
use crate::task::words::tree::{Node, NodeKind};
use std::pin::Pin;
use std::ptr::{self, NonNull};

impl Limit {
    /// Sets the timer, unless an outer limit of the same task comes first in any case.
    ///
    /// # Safety
    /// The frame of the scope and this limit stay where they are until `end` has been called.
    pub(crate) unsafe fn begin(&self, worker: &Worker, scope: &ScopeFrame) {
        // SAFETY: the parent of a scope does not end before it.
        match limit_above(unsafe { &*scope.node.parent }) {
            Above::Limit { limit, of_the_task } => {
                // SAFETY: the limit of a scope that has not ended.
                let outer = unsafe { limit.as_ref() };
                self.ignorant.set(outer.ignorant.get());
                if outer.first.get() <= self.at {
                    self.outer.set(Some(limit));
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
        let action = Action::Cancel(NonNull::from(&scope.node));
        let timers: *const Timers = &worker.remote.timers;
        let (timer, _) = self.timer.get_or_init(|| (Timer::new(self.at, action), timers));
        // SAFETY: the limit stays in place, and its scope is there, until `end` has taken the
        // timer out.
        unsafe { worker.set_timer(Pin::new_unchecked(timer)) };
    }

    /// Fires the overdue timers of this limit and of the outer ones. Returns whether any limit was
    /// overdue.
    fn fire(&self, now: Tick) -> bool {
        let mut any = false;
        let mut next = (self.first.get() <= now).then_some(NonNull::from(self));
        // SAFETY: outer scopes end later, and their limits with them.
        while let Some(limit) = next.map(|limit| unsafe { limit.as_ref() }) {
            if limit.at <= now {
                any = true;
                if let Some((_, timers)) = limit.timer.get() {
                    // SAFETY: the wheel is there, for the reason given in `end`.
                    unsafe { &**timers }.fire(now);
                }
            }
            next = limit.outer.get();
        }
        any
    }

    /// Takes the timer out. Returns whether it had fired.
    pub(crate) fn end(&self) -> bool {
        self.timer.get().is_some_and(|(timer, timers)| {
            // SAFETY: a worker does not end before the tasks that are at home there. A migratable
            // task leaves its timer where it was set, on a worker of the same runtime.
            !unsafe { &**timers }.unset(timer)
        })
    }
}

/// The result of a search for a limit.
enum Above {
    /// The nearest limit, and whether its scope belongs to the task where the search began.
    Limit {
        limit: NonNull<Limit>,
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
fn limit_above(node: &Node) -> Above {
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
        match at.kind {
            NodeKind::Scope => {
                // SAFETY: a node of kind Scope is the start of its frame, which has not ended.
                let frame = unsafe { &*ptr::from_ref(at).cast::<ScopeFrame>() };
                if let Some(limit) = frame.limit {
                    return Above::Limit { limit, of_the_task };
                }
            }
            _ => of_the_task = false,
        }
        // SAFETY: a root is not timed; other nodes have a parent, which does not end before them.
        at = unsafe { &*at.parent };
    }
    Above::TooFar
}

/// Fires the overdue deadlines that may concern a timed node which is not known to be cancelled.
/// Returns whether there were any.
#[cold]
#[inline(never)]
pub(crate) fn fire_if_overdue(node: &Node) -> bool {
    let now = Tick::now();
    match limit_above(node) {
        Above::Nothing | Above::Ignored { .. } => false,
        Above::Limit { limit, .. } => {
            // SAFETY: the limit of a scope that has not ended.
            let limit = unsafe { limit.as_ref() };
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
