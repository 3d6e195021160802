//! The state that a worker keeps about the clock.

use std::cell::Cell;

/// See the module's documentation. Times are in ticks.
#[derive(Default)]
pub(crate) struct Clockwork {
    /// When the worker last looked at the clock.
    pub(crate) looked: Cell<u64>,
    /// When a resting worker gets up at the latest.
    pub(crate) up_at: Cell<u64>,
    /// The worker is the timekeeper, or another worker relies on it to look at the timers of others
    /// soon.
    pub(crate) keeps_time: Cell<bool>,
}
