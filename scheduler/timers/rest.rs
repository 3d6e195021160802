//! How a worker with timers rests, and becomes busy again.

use super::tick::{NEVER, Tick};
use super::timer::Timers;
use crate::scheduler::steal::idle::Rest;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::time::Duration;
use std::ptr;

impl Worker {
    /// The timers of the other workers that are awake, and may be busy.
    fn unattended(&self) -> impl Iterator<Item = &Timers> {
        let (shared, me) = (self.shared(), self.remote.index);
        let others = shared.timekeeper.timed().filter(move |worker| *worker != me);
        let all = others.map(|worker| &shared.remote(worker).timers);
        all.filter(|timers| !timers.rests.load(Ordering::Relaxed))
    }

    /// A tick before which none of the unattended timers is due.
    fn first_unattended(&self) -> Tick {
        self.unattended().map(Timers::next).min().unwrap_or(Tick(NEVER))
    }

    /// Fires what is overdue here and on other workers that may be busy. Calls `prepare` before
    /// that, if anything is overdue.
    pub(crate) fn fire_overdue(&self, prepare: impl FnOnce()) {
        let next = self.remote.timers.next().min(self.first_unattended());
        if next == Tick::NEVER {
            return;
        }
        let now = Tick::now();
        if next <= now {
            prepare();
            let all = [&self.remote.timers].into_iter().chain(self.unattended());
            all.for_each(|timers| timers.fire(now));
        }
    }

    /// Passes the duty for timers to other workers, because foreign code is about to be called here
    /// and may take its time. Inside a fiber the worker has done so already, when it became busy.
    pub(super) fn leave_clock_to_others(&self) {
        if ptr::eq(self.fibers.running.get(), self.fibers.main.get()) {
            self.tell_of_next();
            self.hand_timekeeping_over();
        }
    }

    /// The time until the next timer is due, here or on a worker that may be busy. A worker that
    /// rests without a timekeeper, and without being one, rests no longer than this.
    pub(crate) fn time_to_next(&self) -> Option<Duration> {
        let next = self.remote.timers.next().min(self.first_unattended());
        (next < Tick(NEVER)).then(|| next.time_left())
    }

    /// Shortens a rest so that the worker is up when a timer is due: its own or, if it is the
    /// timekeeper, that of another worker.
    pub(crate) fn plan_rest(&self, rest: Rest) -> Rest {
        let timers = &self.remote.timers;
        let own = if timers.next() < Tick(NEVER) { timers.update_next() } else { Tick(NEVER) };
        let index = self.remote.index;
        if own == Tick(NEVER) {
            self.shared().timekeeper.note_no_timers_of(index, timers);
        }
        let elsewhere = self.first_unattended();
        let keeps = elsewhere < Tick(NEVER) && self.shared().timekeeper.begin(index, elsewhere);
        if self.clockwork.keeps_time.replace(keeps) && !keeps {
            self.shared().timekeeper.end(index);
        }
        let until = if keeps { own.min(elsewhere) } else { own };
        self.clockwork.up_at.set(until.0);
        timers.rests.store(true, Ordering::Relaxed);
        if until == Tick(NEVER) { rest } else { rest.at_most(until.time_left()) }
    }

    /// Whether a timer is due earlier than planned. Called after the worker has announced its
    /// rest, and after a fence.
    pub(crate) fn must_plan_anew(&self) -> bool {
        let up_at = Tick(self.clockwork.up_at.get());
        self.remote.timers.is_due_before(up_at)
            || self.shared().timekeeper.misses(self.first_unattended(), up_at)
    }

    /// Makes sure that a resting worker, if there is one, sees to the timers. Called when this
    /// worker becomes busy and has timers, has been the timekeeper, or has searched.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_timekeeping_over(&self) {
        let shared = self.shared();
        let mut due = self.remote.timers.next();
        if self.clockwork.keeps_time.replace(false) {
            shared.timekeeper.hand_over(self.remote.index);
            // Timers that were set meanwhile, here or elsewhere, in reliance on this worker.
            due = due.min(self.remote.timers.next());
            if shared.idle.anyone_asleep() {
                due = due.min(self.first_unattended());
            }
        }
        if due < Tick(NEVER) {
            shared.timekeeper.ensure(&shared.idle, shared, due);
        }
    }
}
