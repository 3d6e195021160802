//! The state that a worker keeps for the sake of balance.

use crate::scheduler::balance::habits::Accounts;
use crate::scheduler::balance::standing_back::StandingBack;
use crate::shim::time::{Duration, Instant};
use crate::shim::zero;
use std::cell::Cell;

/// See the module's documentation.
pub(crate) struct Balance {
    pub(crate) standing_back: StandingBack,
    pub(crate) accounts: Accounts,
    /// Other workers have invited this one to take offered tasks.
    pub(crate) invited: Cell<bool>,
    /// The worker took an offered task at the last invitation: a ready task comes before the next.
    pub(crate) took_offered: Cell<bool>,
    /// How long the worker has had nothing to run.
    pub(crate) idle_time: Cell<Duration>,
    /// The worker has handed tasks over, and has not had to run them itself.
    pub(crate) shares: Cell<bool>,
    /// When the worker last handed tasks over.
    pub(crate) handed_over_at: Cell<Instant>,
    /// The worker joins its children in the order in which it has spawned them, so it hands over
    /// the newest.
    pub(crate) joins_oldest: Cell<bool>,
    /// The range of indices of the private deque that holds tasks that are spread (crowd.rs) and
    /// joined in spawn order. The worker begins the oldest of them first, after the tasks pushed
    /// since. So neighbours, which often have to do with each other, stay together.
    pub(crate) spread_at: Cell<(usize, usize)>,
}

impl Balance {
    pub(crate) fn new() -> Balance {
        Balance {
            standing_back: StandingBack::new(),
            accounts: Accounts::new(),
            invited: Cell::new(false),
            took_offered: Cell::new(false),
            idle_time: Cell::new(Duration::ZERO),
            shares: Cell::new(false),
            handed_over_at: Cell::new(zero()),
            joins_oldest: Cell::new(false),
            spread_at: Cell::new((0, 0)),
        }
    }
}
