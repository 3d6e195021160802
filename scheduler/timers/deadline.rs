//! Deadlines of scopes: what a `timeout` opens.

use super::{Action, Tick, Timer, Timers};
use crate::retire::tree::{Node, NodeKind};
use crate::scheduler::scope::ScopeFrame;
use crate::scheduler::worker::Worker;
use std::cell::{Cell, OnceCell};
use std::panic::Location;
use std::pin::Pin;
use std::ptr::{self, NonNull};

/// When the time of a scope is up. On the frame of the call that has opened it.
pub(crate) struct Limit {
    at: Tick,
    pub(crate) place: &'static Location<'static>,
    /// The timer, and the wheel where it was set.
    timer: OnceCell<(Timer, *const Timers)>,
    /// Without a timer: an outer limit that comes first.
    outer: Cell<Option<NonNull<Limit>>>,
}

impl Limit {
    pub(crate) fn new(at: Tick, place: &'static Location<'static>) -> Limit {
        Limit { at, place, timer: OnceCell::new(), outer: Cell::new(None) }
    }

    /// Sets the timer, unless an outer limit comes first in any case.
    ///
    /// # Safety
    /// The frame of the scope, and this, stay where they are until `end` has been called.
    pub(crate) unsafe fn begin(&self, worker: &Worker, scope: &ScopeFrame) {
        // SAFETY: the parent of a scope does not end before it.
        let outer = limit_above(unsafe { &*scope.node.parent });
        if let Above::Limit(outer) = outer
            // SAFETY: that of a scope that has not ended.
            && unsafe { outer.as_ref() }.first().at <= self.at
        {
            self.outer.set(Some(outer));
            return;
        }
        let action = Action::Cancel(NonNull::from(&scope.node));
        let timers: *const Timers = &worker.remote.timers;
        let (timer, _) = self.timer.get_or_init(|| (Timer::new(self.at, action), timers));
        // SAFETY: it stays in its place by contract.
        unsafe { worker.set_timer(Pin::new_unchecked(timer)) };
    }

    /// This one, or the outer one that comes first.
    fn first(&self) -> &Limit {
        let mut limit = self;
        // SAFETY: those of outer scopes end later.
        while let Some(outer) = limit.outer.get().map(|outer| unsafe { outer.as_ref() }) {
            limit = outer;
        }
        limit
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
    Limit(NonNull<Limit>),
    Nothing,
    /// Nothing so near.
    TooFar,
}

/// So many nodes up a look for a limit goes.
const LOOK: usize = 16;

/// The limit of `node`, or of the nearest node above it that has one.
fn limit_above(node: &Node) -> Above {
    let mut at = node;
    for _ in 0..LOOK {
        // What is ignored, with all above, interrupts nobody.
        if !at.is_timed() || at.word().is_ignoring() {
            return Above::Nothing;
        }
        if at.kind == NodeKind::Scope {
            // SAFETY: a node of kind Scope is the start of its frame, which has not ended.
            let frame = unsafe { &*ptr::from_ref(at).cast::<ScopeFrame>() };
            if let Some(limit) = frame.limit {
                return Above::Limit(limit);
            }
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
        Above::Nothing => false,
        Above::Limit(limit) => {
            // SAFETY: that of a scope that has not ended.
            let limit = unsafe { limit.as_ref() }.first();
            if limit.at > now {
                return false;
            }
            if let Some((_, timers)) = limit.timer.get() {
                // SAFETY: as in `Limit::end`.
                unsafe { &**timers }.fire(now);
            }
            true
        }
        Above::TooFar => {
            let Some(worker) = Worker::current() else { return false };
            let overdue = |timers: &&Timers| timers.next() <= now;
            let mut any = false;
            for timers in worker.shared().remotes().map(|remote| &remote.timers).filter(overdue) {
                timers.fire(now);
                any = true;
            }
            any
        }
    }
}
