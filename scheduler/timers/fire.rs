//! Setting and firing timers.

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
            let mut overdue: Vec<(NonNull<Children>, *const Node)> = Vec::new();
            let mut wheel = self.wheel();
            let done = wheel.advance(now.0, BATCH, |entry| {
                // SAFETY: an entry is the start of its timer, which is not freed while we have the
                // lock.
                let timer = unsafe { entry.cast::<Timer>().as_ref() };
                match &timer.action {
                    // SAFETY: the task takes its timer out under this lock before it leaves the
                    // wait.
                    Action::Wake(task) => unsafe { woken.grant(*task) },
                    Action::Cancel(node) => {
                        // SAFETY: the owner takes the timer out under this lock before the scope
                        // ends.
                        let node = unsafe { node.as_ref() };
                        overdue.extend(mark_overdue(node, &woken));
                    }
                    // SAFETY: the task takes its timer out under this lock before it leaves the
                    // frame of the wait.
                    Action::Expire(task, over) => unsafe { woken.expire(*task, over.as_ref()) },
                    Action::Call(waker) => wakers.extend(waker.replace(None)),
                }
            });
            self.next.store(wheel.next().unwrap_or(NEVER), Ordering::Relaxed);
            drop(wheel);
            woken.queue();
            for (children, origin) in overdue {
                // SAFETY: the node was marked above, and the handle is ours.
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
        // SAFETY: the contract is that of `set`.
        if unsafe { self.remote.timers.set(timer) } {
            let shared = self.shared();
            shared.watch.ensure(&shared.idle, shared, Tick(timer.entry.at()));
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
