//! The last loot of a thief: whether it was worth stealing, and from which worker it came.

use crate::shim::time::{Duration, Instant, now};

/// Loot that lasts less than this was not worth stealing.
const SHORT: Duration = Duration::from_nanos(600);
/// Nor was loot that lasts less than this per item: its spawner would have finished it sooner.
const SHORT_ITEM: Duration = Duration::from_nanos(100);

/// The items that were last stolen.
#[derive(Clone, Copy)]
pub(crate) struct Loot {
    pub(super) stolen_at: Instant,
    pub(super) items: usize,
    /// The thief's fibers at the time.
    pub(super) live: u32,
    /// The victim, if the thief may go back to it.
    pub(super) victim: Option<usize>,
    /// How often the thief has gone back to it without a search.
    pub(super) returns: u32,
}

impl Loot {
    /// Loot of `items` items, stolen now by a thief with `live` fibers.
    pub(crate) fn new(items: usize, live: u32, victim: Option<usize>) -> Loot {
        Loot { stolen_at: now(), items, live, victim, returns: 0 }
    }

    /// How long the loot has kept the thief busy.
    pub(crate) fn lasted(&self, time: Instant) -> Duration {
        time - self.stolen_at
    }

    /// Whether the loot was gone so soon that it was not worth stealing.
    pub(crate) fn was_short(&self, time: Instant) -> bool {
        self.lasted(time) < SHORT.max(SHORT_ITEM * self.items as u32)
    }

    /// Whether no task of the loot waits. `others` is the number of the thief's fibers besides the
    /// one of its loop.
    pub(crate) fn is_done(&self, others: u32) -> bool {
        others <= self.live
    }
}
