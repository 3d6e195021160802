//! Setting and firing timers.

use super::tick::{NEVER, Tick};
use super::timer::{Action, Timer, Timers};
use crate::scheduler::cancel::{Delivery, Woken, expire};
use crate::scheduler::life::complete::wake_future;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::task::reference::WaiterRef;
use std::pin::Pin;

/// Timers fired before the lock is released for other threads.
const BATCH: usize = 64;

impl Timers {
    /// Fires the timers that are due. May be called on any thread.
    pub(crate) fn fire(&self, now: Tick) {
        if self.next() > now {
            return;
        }
        let woken = Woken::default();
        let mut wakers = Vec::new();
        loop {
            // The nodes below overdue scopes are cancelled after the lock is released.
            let mut overdue: Vec<Delivery<'static>> = Vec::new();
            let mut wheel = self.wheel.lock();
            let done = wheel.advance(now.0, BATCH, |timer| match &timer.action {
                Action::Wake(task) => woken.add(task.take().and_then(WaiterRef::grant)),
                Action::Cancel(node) => overdue.extend(Delivery::cancel_overdue(*node, &woken)),
                Action::Expire(task, over) => woken.add(expire(task.task(), over)),
                Action::Call(waker) => wakers.extend(waker.replace(None)),
            });
            self.next.store(wheel.next().unwrap_or(NEVER), Ordering::Relaxed);
            drop(wheel);
            woken.queue();
            overdue.into_iter().for_each(|delivery| woken.walk(delivery));
            if done {
                break;
            }
        }
        if let Some(worker) = Worker::current()
            && (woken.has_hooks() || !wakers.is_empty())
        {
            worker.leave_clock_to_others();
        }
        woken.finish();
        wakers.into_iter().for_each(wake_future);
    }
}

impl Worker {
    /// Sets a timer on this worker.
    pub(crate) fn set_timer(&self, timer: Pin<&Timer>) {
        let shared = self.shared();
        let first = self.remote.timers.set(timer);
        shared.timekeeper.note_timers_of(self.remote.index);
        if first {
            shared.timekeeper.ensure(&shared.idle, shared, Tick(timer.entry.at()));
        }
    }

    /// Looks at the clock at every eighth call, or at every call if calls are slow, and fires what
    /// is due on this worker. For a worker with a wheel that may not be empty.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_clock(&self) {
        /// Calls between two looks, while calls come fast.
        const SELDOM: u32 = 8;
        let timers = &self.remote.timers;
        let left = timers.clock.load(Ordering::Relaxed);
        if left > 1 {
            timers.clock.store(left - 1, Ordering::Relaxed);
            return;
        }
        let (now, before) = (Tick::now(), self.clockwork.looked.get());
        self.clockwork.looked.set(now.0);
        if timers.next() <= now {
            timers.fire(now);
        }
        // A timer that is set from now on raises `clock` again.
        if timers.next() == Tick::NEVER && timers.stop_clock() {
            return;
        }
        let slow = now.0.saturating_sub(before) > 1;
        timers.clock.store(if slow { 1 } else { SELDOM }, Ordering::Relaxed);
    }
}
