//! Those who wait for something that comes to all of them at once, again and again.

use super::list::Wake;
use super::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::MutexGuard;

/// So many are woken before others may have the lock.
const BATCH: usize = if cfg!(any(loom, feature = "sim")) { 1 } else { 64 };

/// A list in turns: each node's token is the turn at which it came. What comes to all ends a turn, and goes to those of it,
/// also if it gives the lock back half-way and others come, or what they came for is gone again meanwhile. Those whose turn
/// has ended and who are still in the list have been reached: what comes next is not for them.
pub(crate) struct Turns {
    pub(crate) waiters: WaitList,
    turn: u64,
}

impl Turns {
    pub(crate) const fn new() -> Turns {
        Turns { waiters: WaitList::new(), turn: 0 }
    }

    /// For a node that is about to be entered.
    pub(crate) fn mark(&self, node: &WaitNode) {
        node.token.set(self.turn);
    }

    /// Grants the first one whose turn has not ended.
    pub(crate) fn grant_one(&mut self, answer: u32) -> Option<Wake> {
        let turn = self.turn;
        self.waiters.grant_first_that(answer, |node| node.token.get() >= turn)
    }

    /// Ends the turn, and wakes all who are there with this answer. Those whose turn has ended before have the answer
    /// `reached`, from whomever.
    pub(crate) fn end<'a, W: Waitable<State: AsMut<Turns>>>(
        source: &'a W,
        mut state: MutexGuard<'a, W::State>,
        answer: u32,
        reached: u32,
    ) {
        let turn = state.as_mut().turn;
        state.as_mut().turn += 1;
        loop {
            let mut wakes = Wakes::default();
            let mut left = BATCH;
            let turns = state.as_mut();
            while left > 0
                && let Some(came) = turns.waiters.first().map(|node| node.token.get())
                // MUTANT(waiters.turns): true
                && came <= turn
                && let answer = if came == turn { answer } else { reached }
                && let Some(wake) = turns.waiters.grant_first(answer)
            {
                wakes.add(wake);
                left -= 1;
            }
            drop(state);
            wakes.deliver();
            if left > 0 {
                return;
            }
            state = source.state();
        }
    }
}

impl AsMut<Turns> for Turns {
    fn as_mut(&mut self) -> &mut Turns {
        self
    }
}
