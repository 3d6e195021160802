//! What a worker remembers of how it stands back.

use crate::scheduler::balance::habits::Class;
use crate::shim::time::{Duration, Instant, now};
use std::cell::Cell;

/// So many coroutines more than another has are no matter.
pub(super) const SLACK: u32 = 32;

/// What a worker remembers of all this.
pub(crate) struct Spread {
    /// Up to so many coroutines nothing is compared.
    pub(super) allowed: Cell<u32>,
    /// How much imbalance is tolerated the next time.
    pub(super) step: Cell<u32>,
    /// Of what it has too many, if it is to stand back.
    pub(super) excess: Cell<Option<Excess>>,
    /// When it found that first, since it stood back last.
    pub(super) since: Cell<Option<Instant>>,
    /// Of the last time that it stood back, if another one then took what it had not started, or a task of its own was
    /// woken, and when that was.
    pub(super) interrupted: Cell<Option<(Standstill, Instant)>>,
}

/// Of what a worker has more than others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Excess {
    /// Of coroutines.
    Fibers,
    /// Of tasks of one class (crowd.rs).
    Class(Class),
}

impl Spread {
    pub(crate) fn new() -> Spread {
        Spread {
            allowed: Cell::new(SLACK),
            step: Cell::new(SLACK),
            excess: Cell::new(None),
            since: Cell::new(None),
            interrupted: Cell::new(None),
        }
    }

    /// The worker is to stand back from one class.
    pub(crate) fn stand_back_for(&self, class: Class) {
        self.excess.set(Some(Excess::Class(class)));
        if self.since.get().is_none() {
            self.since.set(Some(now()));
        }
    }

    /// A task has been begun although the worker should have stood back.
    pub(crate) fn begins_in_turn(&self) {
        self.since.set(None);
    }
}

/// For how long the others have not caught up.
pub(super) struct Standstill {
    pub(super) excess: Excess,
    /// Their greatest progress.
    pub(super) most: u32,
    pub(super) since: Instant,
}

impl Standstill {
    /// Those that come and go are no progress, which would have no end.
    pub(super) fn lasts(&mut self, progress: u32, time: Instant) -> Duration {
        if progress > self.most {
            (self.most, self.since) = (progress, time);
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
        let mut standstill = Standstill { excess: Excess::Fibers, most: 1, since: start };
        for us in 1..=100 {
            let lasts = standstill.lasts(1 + (us % 2) as u32, at(us));
            // The first that comes is one more than there were.
            assert_eq!(lasts, Duration::from_micros(us - 1));
        }
        assert_eq!(standstill.lasts(3, at(101)), Duration::ZERO);
        assert_eq!(standstill.lasts(2, at(104)), Duration::from_micros(3));
    }
}
