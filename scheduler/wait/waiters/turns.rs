//! A wait list for repeated events, each of which reaches all present waiters.

use super::list::Wake;
use super::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::MutexGuard;

/// The number of waiters that are granted before other threads may have the lock.
const BATCH: usize = if cfg!(any(loom, feature = "sim")) { 1 } else { 64 };

/// A wait list in turns. The token of each node is the turn in which it came. An event ends a
/// turn, and reaches exactly the waiters of this turn, even if the lock is released half-way and
/// other waiters come, or the event is undone meanwhile. Waiters of ended turns that are still in
/// the list count as reached: the next event is not for them.
pub(crate) struct Turns {
    pub(crate) waiters: WaitList,
    turn: u64,
}

impl Turns {
    pub(crate) const fn new() -> Turns {
        Turns { waiters: WaitList::new(), turn: 0 }
    }

    /// Stamps a node that is about to be entered with the present turn.
    pub(crate) fn mark(&self, node: &WaitNode) {
        node.token.set(self.turn);
    }

    /// Grants the first waiter of the present turn.
    pub(crate) fn grant_one(&mut self, answer: u32) -> Option<Wake> {
        let turn = self.turn;
        self.waiters.grant_first_that(answer, |node| node.token.get() >= turn)
    }

    /// Ends the turn, and grants all its waiters `answer`. Waiters of turns that ended before are
    /// granted `reached`, whichever thread comes to them first.
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
