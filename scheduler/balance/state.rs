//! What a worker remembers for the sake of balance.

use crate::scheduler::balance::habits::Accounts;
use crate::scheduler::balance::standing_back::Spread;
use crate::shim::time::Duration;
use std::cell::Cell;

/// See the module's documentation.
pub(crate) struct Balance {
    pub(crate) standing_back: Spread,
    pub(crate) accounts: Accounts,
    /// Others have invited it to take what they offer.
    pub(crate) invited: Cell<bool>,
    /// It has done so at the last invitation: a ready task comes before the next.
    pub(crate) took_offered: Cell<bool>,
    /// For how long it has had nothing to run.
    pub(crate) idle_time: Cell<Duration>,
    /// It has handed tasks over, and has not had to run them itself.
    pub(crate) shares: Cell<bool>,
    /// It joins its children in the order in which it has spawned them, so it hands over the
    /// newest.
    pub(crate) joins_oldest: Cell<bool>,
    /// From the first index of its private deque to the second one lie tasks that are spread (crowd.rs), and
    /// that it joins in that order too. It begins the oldest of them first, after those that have
    /// been pushed since: so neighbours stay together, which often have to do with each other.
    pub(crate) spread_at: Cell<(usize, usize)>,
}

impl Balance {
    pub(crate) fn new() -> Balance {
        Balance {
            standing_back: Spread::new(),
            accounts: Accounts::new(),
            invited: Cell::new(false),
            took_offered: Cell::new(false),
            idle_time: Cell::new(Duration::ZERO),
            shares: Cell::new(false),
            joins_oldest: Cell::new(false),
            spread_at: Cell::new((0, 0)),
        }
    }
}
