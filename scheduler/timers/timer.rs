//! A timer, and the timers that were set on one worker. The page of the parent module has the
//! protocol.

use super::tick::{NEVER, Tick};
use super::wheel::{Entry, Timed, Wheel};
use crate::scheduler::life::live_node::LiveNode;
use crate::shim::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::shim::{Cell, Mutex};
use crate::task::reference::WaiterRef;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::Waker;

/// What a timer does.
pub(crate) enum Action {
    /// Grants the wait of a task.
    Wake(Cell<Option<WaiterRef>>),
    /// Cancels a scope that has a deadline.
    Cancel(LiveNode<'static>),
    /// Records that the time of one wait of a task is over, and interrupts that wait.
    Expire(WaiterRef, AtomicBool),
    /// Wakes a future.
    Call(Cell<Option<Waker>>),
}

/// A point in time, and an action that is due then. Its drop takes it out of the wheel.
pub(crate) struct Timer {
    pub(super) entry: Entry,
    pub(super) action: Action,
    /// Where the timer was last set. It may have fired since. The owner of the timer writes it.
    /// Other threads read it only in the timer of a scope: when a descendant, a lease or a promise
    /// asks whether it is cancelled (`Limit::fire`). This is no race: the owner writes before the
    /// first child of the scope exists, and again when the last one has ended. Leases and promises
    /// count as children.
    set_on: std::cell::Cell<Option<NonNull<Timers>>>,
    _pinned: PhantomPinned,
}

impl Timed for Timer {
    fn entry(&self) -> &Entry {
        &self.entry
    }
}

impl Timer {
    pub(crate) fn new(at: Tick, action: Action) -> Timer {
        let set_on = std::cell::Cell::new(None);
        Timer { entry: Entry::new(at.0), action, set_on, _pinned: PhantomPinned }
    }

    /// The timers among which this one was last set.
    pub(super) fn timers(&self) -> Option<&Timers> {
        // SAFETY: a worker does not end before the tasks that are at home there. A migratable task
        // leaves its timer where it was set, on a worker of the same runtime. A future keeps the
        // shared state of the workers, and takes its timer out before it lets go of that.
        self.set_on.get().map(|timers| unsafe { timers.as_ref() })
    }

    /// Takes the timer out. Returns `false` if it has fired, or was not set. Either way, neither
    /// the timer nor what it acts on is touched on its behalf after this.
    pub(crate) fn unset(&self) -> bool {
        let is_out = self.timers().is_some_and(|timers| timers.wheel.lock().remove(self));
        self.set_on.set(None);
        is_out
    }

    /// The flag that says that the time of a wait is over.
    pub(crate) fn over(&self) -> &AtomicBool {
        match &self.action {
            Action::Expire(_, over) => over,
            _ => unreachable!("of a wait"),
        }
    }

    /// Exchanges the waker of a future's timer. Called under the lock, or while the timer is in no
    /// wheel.
    pub(super) fn exchange(&self, waker: Option<Waker>) -> Option<Waker> {
        match &self.action {
            Action::Call(before) => before.replace(waker),
            _ => unreachable!("of a future"),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.unset();
    }
}

/// The timers that were set on one worker.
pub(crate) struct Timers {
    pub(super) wheel: Mutex<Wheel<Timer>>,
    /// Nothing is due before this tick.
    pub(super) next: AtomicU64,
    /// Decisions until the worker looks at the clock; 0 if it need not look. Only the worker sets
    /// it to 0, under the lock.
    pub(super) clock: AtomicU32,
    /// The worker rests, and gets up when something is due.
    pub(super) rests: AtomicBool,
    /// No more timers of futures are admitted. Guarded by the lock.
    pub(super) closed: AtomicBool,
}

// SAFETY: the timers that the wheel points to are used only under its lock.
unsafe impl Send for Timers {}
// SAFETY: the timers that the wheel points to are used only under its lock.
unsafe impl Sync for Timers {}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            wheel: Mutex::new(Wheel::new()),
            next: AtomicU64::new(NEVER),
            clock: AtomicU32::new(0),
            rests: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// A tick before which nothing is due.
    #[inline]
    pub(crate) fn next(&self) -> Tick {
        Tick(self.next.load(Ordering::Relaxed))
    }

    /// Whether the worker has to look at the clock.
    #[inline(always)]
    pub(crate) fn want_looks(&self) -> bool {
        self.clock.load(Ordering::Relaxed) != 0
    }

    /// The number of timers that are set.
    pub(crate) fn len(&self) -> usize {
        self.wheel.lock().len()
    }

    /// Sets a timer. Returns `true` if it is due before all others.
    pub(super) fn set(&self, timer: Pin<&Timer>) -> bool {
        self.enter(&mut self.wheel.lock(), timer)
    }

    fn enter(&self, wheel: &mut Wheel<Timer>, timer: Pin<&Timer>) -> bool {
        let before = timer.set_on.replace(Some(NonNull::from(self)));
        let is_elsewhere = before.is_some_and(|timers| timers != NonNull::from(self));
        assert!(!is_elsewhere && !timer.entry.is_in(), "a timer is set twice");
        let at = timer.entry.at();
        // SAFETY: the timer is in no wheel, and is pinned. Its drop takes it out of this wheel.
        unsafe { wheel.insert(timer.get_ref()) };
        let first = at < self.next.load(Ordering::Relaxed);
        if first {
            self.next.store(at, Ordering::Relaxed);
        }
        if !self.want_looks() {
            self.clock.store(1, Ordering::Relaxed);
        }
        first
    }

    /// Puts `clock` to zero if no timer is set. Returns whether that is so.
    pub(super) fn stop_clock(&self) -> bool {
        self.if_none(|| self.clock.store(0, Ordering::Relaxed))
    }

    /// Calls `f` if no timer is set, and while none can be. Returns whether that is so.
    pub(super) fn if_none(&self, f: impl FnOnce()) -> bool {
        let _wheel = self.wheel.lock();
        let none = self.next() == Tick::NEVER;
        if none {
            f();
        }
        none
    }

    /// Brings `next` up to date, and returns it.
    pub(super) fn update_next(&self) -> Tick {
        let wheel = self.wheel.lock();
        let next = wheel.next().unwrap_or(NEVER);
        self.next.store(next, Ordering::Relaxed);
        Tick(next)
    }

    /// Whether a foreign thread has set a timer that is due before the worker, which has lain
    /// down, gets up. Called after a fence.
    pub(super) fn is_due_before(&self, up_at: Tick) -> bool {
        // MUTANT(timers.rest.own): false
        self.next() < up_at
    }

    /// Ends a rest of the worker. Workers that rest from now on have to see to the timers of this
    /// one too, if it becomes busy.
    pub(in crate::scheduler) fn end_rest(&self) {
        self.rests.store(false, Ordering::Relaxed);
        // The fence comes before the worker checks whether it has timers. A timer that a foreign
        // thread sets from now on is left to other workers.
        // MUTANT(timers.up.fence): skip
        fence(Ordering::SeqCst);
    }

    /// Sets the timer of a future, which is in no wheel. Returns whether it is due before all
    /// others, or gives the waker back if the wheel is closed.
    pub(super) fn admit(&self, timer: Pin<&Timer>, waker: Waker) -> Result<bool, Waker> {
        let mut wheel = self.wheel.lock();
        // MUTANT(alarm.admit.closed): false
        if self.closed.load(Ordering::Relaxed) {
            return Err(waker);
        }
        let before = timer.exchange(Some(waker));
        debug_assert!(before.is_none(), "one that is out has no waker");
        Ok(self.enter(&mut wheel, timer))
    }

    /// Gives a future's timer another waker, and returns the previous one. Gives `waker` back if
    /// the timer is in no wheel.
    pub(super) fn renew(&self, timer: &Timer, waker: Waker) -> Result<Option<Waker>, Waker> {
        let _wheel = self.wheel.lock();
        // MUTANT(alarm.renew.look): true
        if timer.entry.is_in() {
            return Ok(timer.exchange(Some(waker)));
        }
        timer.set_on.set(None);
        Err(waker)
    }

    /// Takes a future's timer out if it is set, and returns its waker.
    pub(super) fn take_back(&self, timer: &Timer) -> Option<Waker> {
        let mut wheel = self.wheel.lock();
        timer.set_on.set(None);
        if wheel.remove(timer) { timer.exchange(None) } else { None }
    }

    /// Closes the wheel to timers of futures, and returns the wakers of the remaining timers. No
    /// timer of a task is left.
    pub(super) fn close(&self) -> Vec<Waker> {
        let mut wheel = self.wheel.lock();
        self.closed.store(true, Ordering::Relaxed);
        let mut wakers = Vec::new();
        wheel.clear(|timer| wakers.extend(timer.exchange(None)));
        self.next.store(NEVER, Ordering::Relaxed);
        wakers
    }
}
