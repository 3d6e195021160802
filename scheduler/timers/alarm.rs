//! The timer of a future.
//!
//! It lies in the future, which is pinned, and is set in the wheel of one of the workers of its runtime when the future is
//! polled first: of the one that polls it, or, on a foreign thread, of one by turns. There it stays, wherever the
//! future goes meanwhile, until it fires, is reset, or is dropped; a poll gives it another waker. All of that is under the wheel's
//! lock; so after it was taken out nobody touches it, and one whose future was forgotten is entered for ever, in memory that is
//! never used for anything else. The wheel is there as long as anything may be entered: the future keeps what the workers
//! share.
//!
//! **No call is lost.** A future is ready when the clock says so, whoever has looked at it last. Before that it leaves its
//! waker in a timer that is set. Who fires or closes the wheel takes the waker out together with the timer, and calls it when the
//! lock is free; so a poll finds the timer set, and its waker counts, or finds it out, and sets it anew.
//!
//! **The end of the runtime** closes the wheels, when no task is left: whoever has a timer there is called, and a poll finds the
//! wheel closed, under its lock, and gives up.

use super::tick::Tick;
use super::timer::{Action, Timer};
use crate::scheduler::life::complete::wake_future;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;
use crate::shim::time::{Instant, now};
use crate::shim::{Arc, Cell};
use crate::task::outcome::{drop_payload, quietly};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

/// Nobody looks at the clock any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended;

/// See the module's documentation.
pub(crate) struct Alarm {
    timer: Timer,
    shared: Arc<Shared>,
    /// None: it never comes.
    at: std::cell::Cell<Option<Instant>>,
    /// In whose wheel the timer was set, if it was; it may have fired since.
    wheel: std::cell::Cell<Option<usize>>,
    /// It was ready, or is not asked for any more.
    over: std::cell::Cell<bool>,
    _pinned: PhantomPinned,
}

// SAFETY: the timer is touched under the lock of the wheel that it is in, and a waker may be sent.
unsafe impl Send for Alarm {}
// SAFETY: what a shared reference reads is changed through a pinned mutable one alone.
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

    /// When it comes, if ever.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.at.get()
    }

    /// Whether the time has come.
    pub(crate) fn is_due(&self) -> bool {
        self.at.get().is_some_and(|at| at <= now())
    }

    /// Gives it another time, as if it were new.
    pub(crate) fn reset(self: Pin<&mut Self>, at: Option<Instant>) {
        self.take_out();
        self.at.set(at);
        self.over.set(false);
    }

    /// It is not asked for any more.
    pub(crate) fn end(self: Pin<&mut Self>) {
        self.take_out();
        self.over.set(true);
    }

    /// # Panics
    /// After its end.
    pub(crate) fn assert_asked_for(&self) {
        assert!(!self.over.get(), "cygnet: a future was polled after its end");
    }

    /// Ready when the time has come.
    ///
    /// # Panics
    /// After its end.
    pub(crate) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        self.assert_asked_for();
        let result = if self.is_due() {
            Ok(())
        } else {
            // A foreign function, as that which drops one: without the lock.
            let waker = cx.waker().clone();
            match self.as_ref().set(waker) {
                Ok(()) => return Poll::Pending,
                Err(ended) => Err(ended),
            }
        };
        self.end();
        Poll::Ready(result)
    }

    /// Sees to it that the waker is called when the time has come.
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
        // SAFETY: pinned with the whole.
        let timer = unsafe { self.map_unchecked(|this| &this.timer) };
        // SAFETY: it is in no wheel, and its drop takes it out.
        match unsafe { this.shared.set_alarm(timer, waker) } {
            Ok(index) => {
                this.wheel.set(Some(index));
                Ok(())
            }
            Err(waker) => {
                drop_quietly(Some(waker));
                Err(Ended)
            }
        }
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

/// A panic of its destructor goes no further: what is ready would be lost on its way.
fn drop_quietly(waker: Option<Waker>) {
    if let Some(payload) = quietly(|| drop(waker)) {
        drop_payload(payload);
    }
}

impl Shared {
    /// Sets the timer of a future on the worker that calls, or from outside on one by turns: which it is. Gives the waker back
    /// if the runtime has ended.
    ///
    /// # Safety
    /// As for [`Timers::admit`](super::timer::Timers::admit).
    unsafe fn set_alarm(&self, timer: Pin<&Timer>, waker: Waker) -> Result<usize, Waker> {
        let here = Worker::current().filter(|worker| ptr::eq(worker.shared.get(), self));
        let index = match here {
            Some(worker) => worker.remote.index,
            None => self.next_wheel.fetch_add(1, Ordering::Relaxed) % self.workers(),
        };
        // SAFETY: passed on.
        if unsafe { self.remote(index).timers.admit(timer, waker) }? {
            let due = Tick(timer.entry.at());
            match here {
                Some(_) => self.watch.ensure(&self.idle, self, due),
                None => {
                    let timers = &self.remote(index).timers;
                    self.watch.ensure_from_outside(&self.idle, self, index, timers, due);
                }
            }
        }
        Ok(index)
    }

    /// No task is left, and nobody looks at the clock any more.
    pub(crate) fn close_timers(&self) {
        for remote in self.remotes() {
            remote.timers.close().into_iter().for_each(wake_future);
        }
    }
}
