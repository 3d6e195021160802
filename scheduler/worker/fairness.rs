//! Turns: no ready or fresh task waits for ever behind others.

use crate::scheduler::run_loop::check_ins::CheckIns;
use std::cell::Cell;

/// Scheduling decisions between two that reverse the order of service.
const PERIOD: u32 = 60;

/// The kind of tasks that has the turn when a task gives way without having asked for it. The two
/// kinds take turns, so that neither keeps the other waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Turn {
    /// The ready tasks.
    #[default]
    Ready,
    /// One of the neglected fresh tasks, which the usual order comes to last, at the next switch.
    Neglected,
    /// The ready tasks again, after a neglected one.
    ReadyAgain,
}

/// The turns of one worker.
#[derive(Default)]
pub(crate) struct Fairness {
    /// Decisions until the tasks that come last are owed a turn.
    tick: Cell<u32>,
    /// The kind of fresh task that has the next turn among the neglected ones.
    pub(crate) turn: Cell<u32>,
    /// The kind of tasks that has the turn when a task that could go on for ever gives way.
    pub(crate) next_turn: Cell<Turn>,
    pub(crate) check_ins: CheckIns,
    /// The number of times that a task would have given way without having asked for it.
    pub(crate) due_yields: Cell<u32>,
}

impl Fairness {
    pub(crate) fn new() -> Fairness {
        Fairness { tick: Cell::new(PERIOD), ..Fairness::default() }
    }

    /// Counts a scheduling decision. Returns `true` if the tasks that come last are owed a turn.
    /// The debt stands until they have had it: if it lasted for only one decision, two places that
    /// count in step could always leave the turn to each other.
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

    /// Notes that the tasks that come last have their turn now.
    pub(crate) fn give_turn(&self) {
        self.tick.set(PERIOD);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_owed_after_sixty_decisions_until_it_is_given() {
        let fairness = Fairness::new();
        assert!((0..PERIOD).all(|_| !fairness.tick()));
        assert!(fairness.is_owed() && fairness.tick() && fairness.tick());
        fairness.give_turn();
        assert!(!fairness.is_owed() && !fairness.tick());
    }
}
