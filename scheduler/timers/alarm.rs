//! The timer of a future.
//!
//! The timer lies in the future, which is pinned. The first poll sets it in the wheel of a worker
//! of the future's runtime: of the worker that polls, or, on a foreign thread, of one by turns. It
//! stays in that wheel, wherever the future is polled later, until it fires, is reset or is
//! dropped. A later poll exchanges the waker. All of this happens under the wheel's lock, so
//! nothing touches a timer after it was taken out. The timer of a forgotten future stays in the
//! wheel, in memory that is never used for anything else. The future keeps the shared state of the
//! workers, so the wheel is there as long as anything may be entered in it.
//!
//! **No wake-up is lost.** A future is ready when the clock says so, whichever thread looks.
//! Before that, a poll leaves its waker in a timer that is set. Firing or closing the wheel takes
//! the waker out together with the timer, and calls it when the lock is free. So a poll finds the
//! timer set, and its waker counts, or finds the timer out, and sets it anew.
//!
//! **The end of the runtime** closes the wheels when no task is left. It calls the wakers of the
//! timers that are still set; their next poll finds the wheel closed, under its lock, and gives
//! up.

use super::tick::Tick;
use super::timer::{Action, Timer};
use crate::scheduler::life::complete::wake_future;
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;
use crate::shim::time::{Instant, now};
use crate::shim::{Arc, Cell};
use crate::task::outcome::drop_quietly;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The runtime has ended, so no worker looks at the clock any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended;

/// A point in time that a future waits for.
pub(crate) struct Alarm {
    timer: Timer,
    shared: Arc<Shared>,
    /// None if it never comes.
    at: std::cell::Cell<Option<Instant>>,
    /// The worker where the timer was set, if it was. The timer may have fired since.
    wheel: std::cell::Cell<Option<usize>>,
    /// The alarm was ready, or its result is not wanted any more.
    over: std::cell::Cell<bool>,
    _pinned: PhantomPinned,
}

// SAFETY: a timer in a wheel is touched only under the wheel's lock, and wakers are Send.
unsafe impl Send for Alarm {}
// SAFETY: fields that a shared reference reads change only through a pinned mutable reference.
unsafe impl Sync for Alarm {}

impl Alarm {
    pub(crate) fn new(shared: Arc<Shared>, at: Option<Instant>) -> Alarm {
        Alarm {
            timer: Timer::new(Tick::NEVER, Action::Call(Cell::new(None))),
            shared,
            at: std::cell::Cell::new(at),
            wheel: std::cell::Cell::new(None),
            over: std::cell::Cell::new(false),
            _pinned: PhantomPinned,
        }
    }

    /// When the alarm is due, if ever.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.at.get()
    }

    /// Whether the alarm is due.
    pub(crate) fn is_due(&self) -> bool {
        self.at.get().is_some_and(|at| at <= now())
    }

    /// Sets another time, as if the alarm were new.
    pub(crate) fn reset(self: Pin<&mut Self>, at: Option<Instant>) {
        self.take_out();
        self.at.set(at);
        self.over.set(false);
    }

    /// Ends the alarm, because its result is not wanted any more.
    pub(crate) fn end(self: Pin<&mut Self>) {
        self.take_out();
        self.over.set(true);
    }

    /// Checks that the alarm may be polled.
    ///
    /// # Panics
    /// If the alarm has been ready, or was ended.
    pub(crate) fn assert_asked_for(&self) {
        assert!(!self.over.get(), "cygnet: a future was polled after its end");
    }

    /// Returns `Ready` when the time has come, or if the runtime has ended.
    ///
    /// # Panics
    /// If the alarm has been ready, or was ended.
    pub(crate) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        self.assert_asked_for();
        let result = if self.is_due() {
            Ok(())
        } else {
            // Cloning and dropping a waker is foreign code, so both happen without the lock.
            let waker = cx.waker().clone();
            let Err(ended) = self.as_ref().set(waker) else { return Poll::Pending };
            Err(ended)
        };
        self.end();
        Poll::Ready(result)
    }

    /// Makes sure that the waker is called when the time has come.
    fn set(self: Pin<&Self>, mut waker: Waker) -> Result<(), Ended> {
        let this = self.get_ref();
        if let Some(index) = this.wheel.get() {
            match this.shared.remote(index).timers.renew(&this.timer, waker) {
                Ok(before) => {
                    drop_quietly(before);
                    return Ok(());
                }
                Err(ours) => waker = ours,
            }
        }
        this.timer.entry.set_at(this.at.get().map_or(Tick::NEVER, Tick::not_before).0);
        // SAFETY: the timer is pinned with the alarm.
        let timer = unsafe { self.map_unchecked(|this| &this.timer) };
        let index = this.shared.set_alarm(timer, waker).map_err(|waker| {
            drop_quietly(waker);
            Ended
        })?;
        this.wheel.set(Some(index));
        Ok(())
    }

    /// Takes the timer out of the wheel, if it is in one.
    fn take_out(&self) {
        if let Some(index) = self.wheel.take() {
            drop_quietly(self.shared.remote(index).timers.take_back(&self.timer));
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.take_out();
    }
}

impl Shared {
    /// Sets the timer of a future: on the calling worker, or from outside on one by turns. Returns
    /// the index of that worker, or the waker if the runtime has ended.
    fn set_alarm(&self, timer: Pin<&Timer>, waker: Waker) -> Result<usize, Waker> {
        let here = self.worker_here();
        let index = match here {
            Some(worker) => worker.remote.index,
            None => self.next_wheel.fetch_add(1, Ordering::Relaxed) % self.workers(),
        };
        let first = self.remote(index).timers.admit(timer, waker)?;
        self.timekeeper.note_timers_of(index);
        if first {
            let due = Tick(timer.entry.at());
            match here {
                Some(_) => self.timekeeper.ensure(&self.idle, self, due),
                None => {
                    let timers = &self.remote(index).timers;
                    self.timekeeper.ensure_from_outside(&self.idle, self, index, timers, due);
                }
            }
        }
        Ok(index)
    }

    /// Closes the wheels and wakes the futures that still have timers there. For when no task is
    /// left.
    pub(crate) fn close_timers(&self) {
        for remote in self.remotes() {
            remote.timers.close().into_iter().for_each(wake_future);
        }
    }
}
