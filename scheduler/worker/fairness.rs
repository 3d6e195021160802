//! Turns: no task that is ready, or fresh, waits for ever behind others.

use crate::scheduler::run_loop::check_ins::CheckIns;
use std::cell::Cell;

/// Scheduling decisions between two that serve those first who come last.
const PERIOD: u32 = 60;

/// Who is served when a task gives way unasked: the two kinds take turns, so that neither keeps the other
/// waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// The ready ones.
    Ready,
    /// One of the fresh ones that come last, at the next switch.
    Neglected,
    /// The ready ones again, after a neglected one.
    ReadyAgain,
}

/// Whose turn it is on a worker.
pub(crate) struct Fairness {
    /// Decisions until those who come last are owed a turn.
    tick: Cell<u32>,
    /// Whose turn it is among those who come last.
    pub(crate) turn: Cell<u32>,
    /// Whose turn it is when a task that could go on for ever gives way.
    pub(crate) next_turn: Cell<Turn>,
    pub(crate) check_ins: CheckIns,
    /// Times that a task would have given way unasked.
    pub(crate) offers: Cell<u32>,
}

impl Fairness {
    pub(crate) fn new() -> Fairness {
        Fairness {
            tick: Cell::new(PERIOD),
            turn: Cell::new(0),
            next_turn: Cell::new(Turn::Ready),
            check_ins: CheckIns::new(),
            offers: Cell::new(0),
        }
    }

    /// Counts a scheduling decision; true if those who come last are owed a turn. It stays true until
    /// they have had it: were it a matter of one moment, two places that count in step could always
    /// leave it to each other.
    #[inline(always)]
    pub(crate) fn tick(&self) -> bool {
        let left = self.tick.get();
        if left > 0 {
            self.tick.set(left - 1);
        }
        left == 0
    }

    /// Whether a turn is owed, without counting a decision.
    pub(crate) fn is_owed(&self) -> bool {
        self.tick.get() == 0
    }

    /// Those who come last have their turn now.
    pub(crate) fn serve(&self) {
        self.tick.set(PERIOD);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_owed_after_sixty_decisions_until_it_is_served() {
        let fairness = Fairness::new();
        assert!((0..PERIOD).all(|_| !fairness.tick()));
        assert!(fairness.is_owed() && fairness.tick() && fairness.tick());
        fairness.serve();
        assert!(!fairness.is_owed() && !fairness.tick());
    }
}
