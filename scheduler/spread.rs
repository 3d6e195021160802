//! Spreading starts, so that pinning does not cost balance.
//!
//! A started task stays on its worker. Where tasks wait before they compute, whoever starts them decides
//! who computes later: a worker that starts a thousand in the time that another takes to wake up has them
//! all. So a worker does not start a task on a new coroutine if it has [`SLACK`] more unfinished ones
//! than another worker has; it **stands back**: it offers its fresh tasks in public, wakes somebody, and
//! does nothing but look for ready ones, as long as the other makes progress. If nobody does for
//! [`PATIENCE`] (they compute, or the machine has no processor for them) it tolerates the imbalance, and
//! twice as much the next time. Where ready tasks keep it from standing back at all, a fresh one is started
//! at each second of their turns.
//!
//! Tasks that run to their end without waiting take no new coroutine, and know nothing of this. The
//! numbers of others are read without order: they are advice.

use crate::scheduler::pick::BATCH;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::spin_loop;
use crate::shim::thread;
use crate::shim::time::{Duration, Instant, now};
use std::cell::Cell;

/// So many coroutines more than another has are no matter.
const SLACK: u32 = 32;
/// How long a worker that stands back waits for the others to start one.
const PATIENCE: Duration = Duration::from_micros(100);
/// How long before it lets others have the processor at each turn.
const POLITE: Duration = Duration::from_micros(2);

/// What a worker remembers of all this.
pub(crate) struct Spread {
    /// Up to so many coroutines nothing is compared.
    allowed: Cell<u32>,
    /// How much imbalance is tolerated the next time.
    step: Cell<u32>,
    standing_back: Cell<bool>,
    /// Of the last time that it stood back, if another one then took what it had not started, and when that was.
    robbed: Cell<Option<(Standstill, Instant)>>,
}

impl Spread {
    pub(crate) fn new() -> Spread {
        Spread {
            allowed: Cell::new(SLACK),
            step: Cell::new(SLACK),
            standing_back: Cell::new(false),
            robbed: Cell::new(None),
        }
    }
}

impl Worker {
    /// Whether a fresh task may be started here on a new coroutine. If not, the worker soon comes to its
    /// main coroutine, and stands back.
    #[inline]
    pub(crate) fn may_start(&self) -> bool {
        self.live() <= self.spread.allowed.get() || self.compare()
    }

    /// As `may_start`, for the turn that fresh tasks have between ready ones. True also if the worker
    /// should have stood back since their last turn and has not come to it.
    pub(crate) fn may_start_in_turn(&self) -> bool {
        let kept_waiting = self.spread.standing_back.get();
        self.may_start() || kept_waiting
    }

    #[cold]
    #[inline(never)]
    fn compare(&self) -> bool {
        let shared = self.shared();
        if shared.workers() == 1 {
            self.spread.allowed.set(u32::MAX);
            return true;
        }
        // Local tasks cannot be started elsewhere; and other rules hold where stacks are short.
        if !self.local.borrow().is_empty()
            || self.exhausted.get()
            || shared.pressure.load(Ordering::Relaxed)
            || shared.is_closing()
        {
            return true;
        }
        let level = self.least().saturating_add(SLACK);
        let fair = self.live() <= level;
        if fair {
            self.spread.allowed.set(level);
            self.spread.step.set(SLACK);
            self.spread.robbed.set(None);
        }
        self.spread.standing_back.set(!fair);
        fair
    }

    /// The number of coroutines of the other worker that has fewest.
    fn least(&self) -> u32 {
        let me = self.remote.index;
        let others = self.shared().remotes().filter(|remote| remote.index != me);
        others.map(|remote| remote.live.load(Ordering::Relaxed)).min().unwrap_or(u32::MAX)
    }

    /// Stands back, if this worker has found that it should. On its main coroutine, and not among the
    /// searchers. False if it has not.
    pub(crate) fn stand_back(&self) -> bool {
        if !self.spread.standing_back.replace(false) {
            return false;
        }
        let shared = self.shared();
        let start = now();
        let mut standstill = self.standstill(start);
        loop {
            if self.deque.is_empty() && !self.remote.front.is_empty() {
                self.remote.front.hand_over(1, BATCH, |record| self.publish(record));
                shared.idle.notify(shared, true);
            }
            let (time, now_least) = (now(), self.least());
            if self.has_ready() || shared.is_stopping() {
                return true;
            }
            if !self.has_fresh() {
                self.spread.robbed.set(Some((standstill, time)));
                return true;
            }
            if self.live() <= now_least.saturating_add(SLACK / 2) {
                return true;
            }
            if standstill.lasts(now_least, time) >= PATIENCE {
                self.tolerate();
                return true;
            }
            if time - start >= POLITE { thread::yield_now() } else { spin_loop() }
        }
    }

    /// Goes on with that of the last time, if what this worker had then was stolen a moment ago: maybe by one that stands back, too, from
    /// which it has been stolen back. Else none of them would ever have stood back for long enough.
    fn standstill(&self, time: Instant) -> Standstill {
        match self.spread.robbed.take() {
            // The time between does not count.
            Some((standstill, last)) if time - last < PATIENCE => {
                Standstill { since: time - (last - standstill.since), ..standstill }
            }
            _ => Standstill { least: self.least(), since: time },
        }
    }

    fn tolerate(&self) {
        let step = self.spread.step.get();
        self.spread.allowed.set(self.live().saturating_add(step));
        self.spread.step.set(step.saturating_mul(2));
    }
}

/// For how long the others have not caught up.
struct Standstill {
    /// What the one with fewest has had at most.
    least: u32,
    since: Instant,
}

impl Standstill {
    /// Those that come and go are no progress, which would have no end.
    fn lasts(&mut self, least: u32, time: Instant) -> Duration {
        if least > self.least {
            *self = Standstill { least, since: time };
        }
        time - self.since
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn coming_and_going_is_a_standstill_and_catching_up_is_none() {
        let start = now();
        let at = |us| start + Duration::from_micros(us);
        let mut standstill = Standstill { least: 1, since: start };
        for us in 1..=100 {
            let lasts = standstill.lasts(1 + (us % 2) as u32, at(us));
            // The first that comes is one more than there were.
            assert_eq!(lasts, Duration::from_micros(us - 1));
        }
        assert_eq!(standstill.lasts(3, at(101)), Duration::ZERO);
        assert_eq!(standstill.lasts(2, at(104)), Duration::from_micros(3));
    }
}
