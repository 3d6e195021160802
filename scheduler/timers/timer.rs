//! A timer, and the timers that were set on one worker. The module above has the protocol.

use super::tick::{NEVER, Tick};
use super::wheel::{Entry, Wheel};
use crate::shim::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::shim::{Cell, Mutex, MutexGuard};
use crate::task::record::Record;
use crate::task::words::tree::Node;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::PoisonError;
use std::task::Waker;

/// What a timer does.
pub(crate) enum Action {
    /// Grants the wait of a task.
    Wake(NonNull<Record>),
    /// Cancels a scope that has a deadline.
    Cancel(NonNull<Node>),
    /// Says that the time of one wait of a task is over, and cuts it short.
    Expire(NonNull<Record>, NonNull<AtomicBool>),
    /// Wakes a future.
    Call(Cell<Option<Waker>>),
}

/// See the module's documentation.
#[repr(C)]
pub(crate) struct Timer {
    /// First, so that an entry is its timer.
    pub(super) entry: Entry,
    pub(super) action: Action,
}

impl Timer {
    pub(crate) fn new(at: Tick, action: Action) -> Timer {
        Timer { entry: Entry::new(at.0), action }
    }

    /// Exchanges the waker of a future. Under the lock, or for one that is in no wheel.
    pub(super) fn exchange(&self, waker: Option<Waker>) -> Option<Waker> {
        match &self.action {
            Action::Call(before) => before.replace(waker),
            _ => unreachable!("of a future"),
        }
    }
}

/// The timers that were set on one worker.
pub(crate) struct Timers {
    pub(super) wheel: Mutex<Wheel>,
    /// Nothing is due before this tick.
    pub(super) next: AtomicU64,
    /// How many decisions until their worker looks at the clock; 0 if it need not. Set to 0 by the worker alone, under the
    /// lock.
    pub(super) clock: AtomicU32,
    /// Their worker rests, and gets up when something is due.
    pub(super) rests: AtomicBool,
    /// No future's timer is set any more. Under the lock.
    pub(super) closed: AtomicBool,
}

// SAFETY: what the wheel points to is used under its lock alone.
unsafe impl Send for Timers {}
// SAFETY: as above.
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

    pub(super) fn wheel(&self) -> MutexGuard<'_, Wheel> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is due before this.
    #[inline]
    pub(crate) fn next(&self) -> Tick {
        Tick(self.next.load(Ordering::Relaxed))
    }

    /// Whether their worker has to look at the clock.
    #[inline(always)]
    pub(crate) fn want_looks(&self) -> bool {
        self.clock.load(Ordering::Relaxed) != 0
    }

    /// How many are set.
    pub(crate) fn len(&self) -> usize {
        self.wheel().len()
    }

    /// Sets a timer; true if it is due before all others.
    ///
    /// # Safety
    /// It is not set, and what it acts on is there, until `unset` has been called for it.
    pub(super) unsafe fn set(&self, timer: Pin<&Timer>) -> bool {
        // SAFETY: passed on.
        unsafe { self.enter(&mut self.wheel(), timer) }
    }

    /// # Safety
    /// As for `set`.
    unsafe fn enter(&self, wheel: &mut Wheel, timer: Pin<&Timer>) -> bool {
        let entry = NonNull::from(timer.get_ref()).cast::<Entry>();
        let at = timer.entry.at();
        // SAFETY: passed on.
        unsafe { wheel.insert(entry) };
        let first = at < self.next.load(Ordering::Relaxed);
        if first {
            self.next.store(at, Ordering::Relaxed);
        }
        if !self.want_looks() {
            self.clock.store(1, Ordering::Relaxed);
        }
        first
    }

    /// Takes a timer out; false if it has fired. Nobody touches it any more, or what it acts on on its behalf.
    pub(crate) fn unset(&self, timer: &Timer) -> bool {
        // SAFETY: it was set here, or has fired.
        unsafe { self.wheel().remove(&timer.entry) }
    }

    /// The worker need not look at the clock any more, if nothing is set; whether it is so.
    pub(super) fn stop_clock(&self) -> bool {
        let _wheel = self.wheel();
        let empty = self.next() == Tick::NEVER;
        if empty {
            self.clock.store(0, Ordering::Relaxed);
        }
        empty
    }

    /// Brings `next` up to date; what it is then.
    pub(super) fn settle(&self) -> Tick {
        let wheel = self.wheel();
        let next = wheel.next().unwrap_or(NEVER);
        self.next.store(next, Ordering::Relaxed);
        Tick(next)
    }

    /// Whether a foreign thread has set a timer that is due before its worker, which has lain down, gets up. After a fence.
    pub(super) fn is_due_before(&self, up_at: Tick) -> bool {
        // MUTANT(timers.rest.own): false
        self.next() < up_at
    }

    pub(super) fn end_rest(&self) {
        self.rests.store(false, Ordering::Relaxed);
        // Before the worker looks whether it has timers: what a foreign thread sets from now on is left to others.
        // MUTANT(timers.up.fence): skip
        fence(Ordering::SeqCst);
    }

    /// Sets the timer of a future, which is in no wheel: whether it is due before all others. Gives the waker back if the
    /// wheel is closed.
    ///
    /// # Safety
    /// As for `set`; it is taken back before it goes.
    pub(super) unsafe fn admit(&self, timer: Pin<&Timer>, waker: Waker) -> Result<bool, Waker> {
        let mut wheel = self.wheel();
        // MUTANT(alarm.admit.closed): false
        if self.closed.load(Ordering::Relaxed) {
            return Err(waker);
        }
        let before = timer.exchange(Some(waker));
        debug_assert!(before.is_none(), "one that is out has no waker");
        // SAFETY: passed on.
        Ok(unsafe { self.enter(&mut wheel, timer) })
    }

    /// Gives the timer of a future another waker: that from before. Gives it back if the timer is out.
    pub(super) fn renew(&self, timer: &Timer, waker: Waker) -> Result<Option<Waker>, Waker> {
        let _wheel = self.wheel();
        // MUTANT(alarm.renew.look): true
        if timer.entry.is_in() { Ok(timer.exchange(Some(waker))) } else { Err(waker) }
    }

    /// Takes the timer of a future out, if it is in: its waker.
    pub(super) fn take_back(&self, timer: &Timer) -> Option<Waker> {
        let mut wheel = self.wheel();
        // SAFETY: it was set here, or is out.
        if unsafe { wheel.remove(&timer.entry) } { timer.exchange(None) } else { None }
    }

    /// Takes out the timers that are left, and lets none in any more. Those of tasks are gone. Whom to call.
    pub(super) fn close(&self) -> Vec<Waker> {
        let mut wheel = self.wheel();
        self.closed.store(true, Ordering::Relaxed);
        let mut wakers = Vec::new();
        wheel.clear(|entry| {
            // SAFETY: entries are their timers, which are there as long as we have the lock.
            let timer = unsafe { entry.cast::<Timer>().as_ref() };
            wakers.extend(timer.exchange(None));
        });
        self.next.store(NEVER, Ordering::Relaxed);
        wakers
    }
}
