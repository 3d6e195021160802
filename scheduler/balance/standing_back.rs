//! The state of a worker that stands back.

use crate::scheduler::balance::habits::Class;
use crate::shim::time::{Duration, Instant, now};
use std::cell::Cell;

/// Tolerated imbalance, in unfinished fibers.
pub(super) const SLACK: u32 = 32;

/// The state that a worker keeps for standing back.
#[derive(Default)]
pub(crate) struct StandingBack {
    /// The number of fibers up to which nothing is compared.
    pub(super) allowed: Cell<u32>,
    /// The imbalance to tolerate the next time.
    pub(super) step: Cell<u32>,
    /// The excess of this worker, if it is to stand back.
    pub(super) excess: Cell<Option<Excess>>,
    /// When the worker first found an excess, since it stood back last.
    pub(super) since: Cell<Option<Instant>>,
    /// The last wait for progress, and when it was interrupted: another worker took the tasks that
    /// this one had not started, or a task of this one was woken.
    pub(super) interrupted: Cell<Option<(NoProgress, Instant)>>,
}

/// The things of which a worker has more than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Excess {
    /// Too many fibers.
    Fibers,
    /// Too many tasks of one class (crowd.rs).
    Class(Class),
}

impl StandingBack {
    pub(crate) fn new() -> StandingBack {
        StandingBack {
            allowed: Cell::new(SLACK),
            step: Cell::new(SLACK),
            ..StandingBack::default()
        }
    }

    /// Notes that the worker should stand back from a class.
    pub(crate) fn stand_back_for(&self, class: Class) {
        self.excess.set(Some(Excess::Class(class)));
        if self.since.get().is_none() {
            self.since.set(Some(now()));
        }
    }

    /// Notes that a task has been begun although the worker should have stood back.
    pub(crate) fn begins_in_turn(&self) {
        self.since.set(None);
    }
}

/// How long the others have made no progress, while this worker stands back.
pub(super) struct NoProgress {
    pub(super) excess: Excess,
    /// The greatest progress of the others.
    pub(super) most: u32,
    pub(super) since: Instant,
}

impl NoProgress {
    /// Returns how long there has been no progress. A number below the greatest so far does not
    /// count: tasks that come and go would extend the wait for ever.
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
    fn tasks_that_come_and_go_do_not_count_as_progress() {
        let start = now();
        let at = |us| start + Duration::from_micros(us);
        let mut no_progress = NoProgress { excess: Excess::Fibers, most: 1, since: start };
        for us in 1..=100 {
            let lasts = no_progress.lasts(1 + (us % 2) as u32, at(us));
            // The first task that comes exceeds the initial number by one.
            assert_eq!(lasts, Duration::from_micros(us - 1));
        }
        assert_eq!(no_progress.lasts(3, at(101)), Duration::ZERO);
        assert_eq!(no_progress.lasts(2, at(104)), Duration::from_micros(3));
    }
}
