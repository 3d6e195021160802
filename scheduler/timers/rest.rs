//! A worker with timers rests, and becomes busy again.

use super::tick::{NEVER, Tick};
use super::timer::Timers;
use crate::scheduler::steal::idle::Rest;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::time::Duration;
use std::ptr;

impl Worker {
    /// The timers of the other workers that do not see to them themselves.
    fn unattended(&self) -> impl Iterator<Item = &Timers> {
        let others = self.shared().remotes().filter(|remote| remote.number != self.number());
        others.map(|remote| &remote.timers).filter(|timers| !timers.rests.load(Ordering::Relaxed))
    }

    /// When the first of them is due.
    fn first_unattended(&self) -> Tick {
        self.unattended().map(Timers::next).min().unwrap_or(Tick(NEVER))
    }

    /// Fires what is overdue here, and on workers that may be busy. After `prepare`, if there is anything.
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

    /// Foreign code is to be called here, which may take its time: nothing is left to this worker. One that is in a coroutine
    /// has been busy before.
    pub(super) fn leave_clock_to_others(&self) {
        if ptr::eq(self.fibers.running.get(), self.fibers.main.get()) {
            self.tell_of_next();
            self.hand_watch_over();
        }
    }

    /// How long it is until the next timer here, or on a worker that may be busy, is due. For one that rests without
    /// being watched or watching, and looks every now and then: no longer than this.
    pub(crate) fn time_to_next(&self) -> Option<Duration> {
        let next = self.remote.timers.next().min(self.first_unattended());
        (next < Tick(NEVER)).then(|| next.time_left())
    }

    /// How this worker rests, so that it is up when something is due: on itself, or, if it watches, elsewhere.
    pub(crate) fn plan_rest(&self, rest: Rest) -> Rest {
        let timers = &self.remote.timers;
        let own = if timers.next() < Tick(NEVER) { timers.settle() } else { Tick(NEVER) };
        let index = self.remote.index;
        let elsewhere = self.first_unattended();
        let watches = elsewhere < Tick(NEVER) && self.shared().watch.begin(index, elsewhere);
        if self.clockwork.watches.replace(watches) && !watches {
            self.shared().watch.end(index);
        }
        let until = if watches { own.min(elsewhere) } else { own };
        self.clockwork.up_at.set(until.0);
        timers.rests.store(true, Ordering::Relaxed);
        if until == Tick(NEVER) { rest } else { rest.at_most(until.time_left()) }
    }

    /// Whether something is due earlier than planned. After the worker has announced that it rests, and a fence.
    pub(crate) fn must_plan_anew(&self) -> bool {
        let up_at = Tick(self.clockwork.up_at.get());
        self.remote.timers.is_due_before(up_at)
            || self.shared().watch.misses(self.first_unattended(), up_at)
    }

    /// After a rest: whoever rests from now on has to watch this one too, if it becomes busy.
    pub(crate) fn end_rest(&self) {
        self.remote.timers.end_rest();
    }

    /// The worker becomes busy, and has timers, or has watched those of others, or has searched: somebody else has to
    /// see to them, if anybody rests.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_watch_over(&self) {
        let shared = self.shared();
        let mut due = self.remote.timers.next();
        if self.clockwork.watches.replace(false) {
            shared.watch.hand_over(self.remote.index);
            // What was set meanwhile by one who relied on us, here or elsewhere.
            due = due.min(self.remote.timers.next());
            if shared.idle.anyone_asleep() {
                due = due.min(self.first_unattended());
            }
        }
        if due < Tick(NEVER) {
            shared.watch.ensure(&shared.idle, shared, due);
        }
    }
}
