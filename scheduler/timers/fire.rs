//! Timers are set and fired.

use super::tick::{NEVER, Tick};
use super::timer::{Action, Timer, Timers};
use crate::scheduler::cancel::{Woken, mark_overdue};
use crate::scheduler::life::complete::wake_future;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::task::children::Children;
use crate::task::words::tree::Node;
use std::pin::Pin;
use std::ptr::NonNull;

/// So many are fired before others may have the lock.
const BATCH: usize = 64;

impl Timers {
    /// Fires what is due. From anywhere.
    pub(crate) fn fire(&self, now: Tick) {
        if self.next() > now {
            return;
        }
        let woken = Woken::default();
        let mut wakers = Vec::new();
        loop {
            // Those below them are cancelled without the lock.
            let mut overdue: Vec<(NonNull<Children>, *const Node)> = Vec::new();
            let mut wheel = self.wheel();
            let done = wheel.advance(now.0, BATCH, |entry| {
                // SAFETY: entries are their timers, which are there as long as we have the lock.
                let timer = unsafe { entry.cast::<Timer>().as_ref() };
                match &timer.action {
                    // SAFETY: so is what they act on.
                    Action::Wake(task) => unsafe { woken.grant(*task) },
                    Action::Cancel(node) => {
                        // SAFETY: as above.
                        let node = unsafe { node.as_ref() };
                        overdue.extend(mark_overdue(node, &woken));
                    }
                    // SAFETY: as above.
                    Action::Expire(task, over) => unsafe { woken.expire(*task, over.as_ref()) },
                    Action::Call(waker) => wakers.extend(waker.replace(None)),
                }
            });
            self.next.store(wheel.next().unwrap_or(NEVER), Ordering::Relaxed);
            drop(wheel);
            woken.queue();
            for (children, origin) in overdue {
                // SAFETY: marked above, and the handle is ours.
                unsafe { woken.walk(children, origin) };
            }
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
    ///
    /// # Safety
    /// As for [`Timers::set`].
    pub(crate) unsafe fn set_timer(&self, timer: Pin<&Timer>) {
        // SAFETY: passed on.
        if unsafe { self.remote.timers.set(timer) } {
            let shared = self.shared();
            shared.watch.ensure(&shared.idle, shared, Tick(timer.entry.at()));
        }
    }

    /// Looks at the clock now and then, and fires what is due on this worker. For one whose wheel may not be
    /// empty.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_clock(&self) {
        /// Between two looks, if decisions come fast.
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
        // One that is set from now on says so again.
        if timers.next() == Tick::NEVER && timers.stop_clock() {
            return;
        }
        let slow = now.0.saturating_sub(before) > 1;
        timers.clock.store(if slow { 1 } else { SELDOM }, Ordering::Relaxed);
    }
}
