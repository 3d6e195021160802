//! Deadlines of scopes: what a `timeout` opens.

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
    /// The frame of the scope, and this, stay where they are until `end` has been called.
    pub(crate) unsafe fn begin(&self, worker: &Worker, scope: &ScopeFrame) {
        // SAFETY: the parent of a scope does not end before it.
        match limit_above(unsafe { &*scope.node.parent }) {
            Above::Limit { limit, of_the_task } => {
                // SAFETY: that of a scope that has not ended.
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
            // Another task does not ignore for ever.
            Above::Ignored { of_the_task } => self.ignorant.set(!of_the_task),
            Above::TooFar => self.ignorant.set(true),
            Above::Nothing => {}
        }
        let action = Action::Cancel(NonNull::from(&scope.node));
        let timers: *const Timers = &worker.remote.timers;
        let (timer, _) = self.timer.get_or_init(|| (Timer::new(self.at, action), timers));
        // SAFETY: it stays in its place by contract.
        unsafe { worker.set_timer(Pin::new_unchecked(timer)) };
    }

    /// Fires what is overdue of this and the outer ones; whether there was any.
    fn fire(&self, now: Tick) -> bool {
        let mut any = false;
        let mut next = (self.first.get() <= now).then_some(NonNull::from(self));
        // SAFETY: those of outer scopes end later.
        while let Some(limit) = next.map(|limit| unsafe { limit.as_ref() }) {
            if limit.at <= now {
                any = true;
                if let Some((_, timers)) = limit.timer.get() {
                    // SAFETY: as in `end`.
                    unsafe { &**timers }.fire(now);
                }
            }
            next = limit.outer.get();
        }
        any
    }

    /// Takes the timer out. Whether it had fired.
    pub(crate) fn end(&self) -> bool {
        self.timer.get().is_some_and(|(timer, timers)| {
            // SAFETY: a worker does not end before the tasks at home there; a migratable one leaves its timer
            // where it was, on a worker of the same runtime.
            !unsafe { &**timers }.unset(timer)
        })
    }
}

/// What a look for a limit has found.
enum Above {
    /// The nearest, and whether its scope is one of the task where the look has begun.
    Limit {
        limit: NonNull<Limit>,
        of_the_task: bool,
    },
    Nothing,
    /// What is further up is ignored at present.
    Ignored {
        of_the_task: bool,
    },
    /// Nothing so near.
    TooFar,
}

/// So many nodes up a look for a limit goes.
const LOOK: usize = 16;

/// The limit of `node`, or of the nearest node above it that has one.
fn limit_above(node: &Node) -> Above {
    let mut at = node;
    let mut of_the_task = true;
    for _ in 0..LOOK {
        if !at.is_timed() {
            return Above::Nothing;
        }
        // What is ignored, with all above, interrupts nobody.
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
        // SAFETY: a root has no limit; others have a parent, which does not end before them.
        at = unsafe { &*at.parent };
    }
    Above::TooFar
}

/// For a node below a limit that is not known to be cancelled: fires what is overdue; true if that may have
/// concerned the node.
#[cold]
#[inline(never)]
pub(crate) fn fire_if_overdue(node: &Node) -> bool {
    let now = Tick::now();
    match limit_above(node) {
        Above::Nothing | Above::Ignored { .. } => false,
        Above::Limit { limit, .. } => {
            // SAFETY: that of a scope that has not ended.
            let limit = unsafe { limit.as_ref() };
            // Both: those that are overdue may be ignored.
            limit.fire(now) | (limit.ignorant.get() && fire_all(now))
        }
        Above::TooFar => fire_all(now),
    }
}

/// Fires what is overdue on any worker; whether there was anything.
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
