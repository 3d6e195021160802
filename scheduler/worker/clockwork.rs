//! What a worker remembers of the clock.

use std::cell::Cell;

/// See the module's documentation. Times are in ticks.
#[derive(Default)]
pub(crate) struct Clockwork {
    /// When the worker looked at the clock last.
    pub(crate) looked: Cell<u64>,
    /// When a worker that rests is up at the latest.
    pub(crate) up_at: Cell<u64>,
    /// The worker watches the timers of others, or has been taken for one that soon looks at them.
    pub(crate) watches: Cell<bool>,
}
