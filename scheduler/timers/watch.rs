//! Who sees to the timers of workers that are busy. The module above says why nobody is forgotten.

use super::{NEVER, Tick, Timers};
use crate::scheduler::steal::idle::{Idle, Rest, Sleepers};
use crate::scheduler::worker::Worker;
use crate::shim::atomic::{AtomicU64, Ordering, fence};
use crate::shim::time::Duration;
use std::ptr;

/// Which worker watches the timers of those that are awake, and until when it rests at the most: a tick, with the
/// worker's index in the lower bits; [`NOBODY`] if there is none.
pub(crate) struct Watch(AtomicU64);

const NOBODY: u64 = u64::MAX;
const INDEX_BITS: u32 = 12;
const _: () = assert!(crate::scheduler::MAX_WORKERS <= 1 << INDEX_BITS);

fn word(until: Tick, index: usize) -> u64 {
    // Some 29,000 years fit.
    until.0.min(NOBODY >> (INDEX_BITS + 1)) << INDEX_BITS | index as u64
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch(AtomicU64::new(NOBODY))
    }

    /// Sees to it that somebody looks at the timers of a worker that is awake when one is `due`, if anybody
    /// sleeps. After that was made known.
    pub(super) fn ensure(&self, idle: &Idle, sleepers: &impl Sleepers, due: Tick) {
        // MUTANT(watch.ensure.fence): skip
        fence(Ordering::SeqCst);
        if self.until() > due && idle.anyone_asleep() {
            idle.wake_one(sleepers, false);
        }
    }

    /// The same where the timer was set from outside on worker `index`, which may rest.
    pub(super) fn ensure_from_outside(
        &self,
        idle: &Idle,
        sleepers: &impl Sleepers,
        index: usize,
        timers: &Timers,
        due: Tick,
    ) {
        // A fence comes first.
        let roused = idle.notify_worker(sleepers, index);
        // Who rests plans anew; else it may be busy.
        // MUTANT(timers.outside.busy): false
        if !(roused && timers.rests.load(Ordering::Relaxed)) {
            self.ensure(idle, sleepers, due);
        }
    }

    /// Until when somebody watches.
    pub(super) fn until(&self) -> Tick {
        Tick(self.0.load(Ordering::Relaxed) >> INDEX_BITS)
    }

    /// Makes worker `index` the one that watches, until `due`, unless another one rests no longer than that;
    /// whether it does.
    pub(super) fn begin(&self, index: usize, due: Tick) -> bool {
        let mine = word(due, index);
        let claim = |word: u64| (word > mine || is_of(word, index)).then_some(mine);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok()
    }

    /// Whether something is due on a worker that is awake before who has lain down gets up, and nobody else sees to it. After a fence.
    pub(super) fn misses(&self, elsewhere: Tick, up_at: Tick) -> bool {
        // MUTANT(timers.rest.elsewhere): false
        elsewhere < up_at && elsewhere < self.until()
    }

    /// Worker `index` watches no longer. It looks then for what was set meanwhile by one who relied on it.
    pub(super) fn hand_over(&self, index: usize) {
        self.end(index);
        // MUTANT(watch.hand_over.fence): skip
        fence(Ordering::SeqCst);
    }

    fn end(&self, index: usize) {
        let leave = |word: u64| is_of(word, index).then_some(NOBODY);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave);
    }
}

fn is_of(word: u64, index: usize) -> bool {
    word != NOBODY && word & ((1 << INDEX_BITS) - 1) == index as u64
}

impl Timers {
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
}

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
        if ptr::eq(self.current.get(), self.main.get()) {
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
        if self.watches.replace(watches) && !watches {
            self.shared().watch.end(index);
        }
        let until = if watches { own.min(elsewhere) } else { own };
        self.up_at.set(until.0);
        timers.rests.store(true, Ordering::Relaxed);
        if until == Tick(NEVER) { rest } else { rest.at_most(until.time_left()) }
    }

    /// Whether something is due earlier than planned. After the worker has announced that it rests, and a fence.
    pub(crate) fn must_plan_anew(&self) -> bool {
        let up_at = Tick(self.up_at.get());
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
        if self.watches.replace(false) {
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
