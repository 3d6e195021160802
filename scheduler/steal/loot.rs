//! What a thief has stolen last: whether it was worth it, and whose it was.

use crate::shim::time::{Duration, Instant, now};

/// Loot that lasts less was not worth stealing, ...
const SHORT: Duration = Duration::from_nanos(600);
/// ... nor was that of which an item lasts less: its spawner would have been done with it sooner.
const SHORT_ITEM: Duration = Duration::from_nanos(100);

/// What was stolen last.
#[derive(Clone, Copy)]
pub(crate) struct Loot {
    pub(super) taken: Instant,
    pub(super) items: usize,
    /// Fibers that the thief had.
    pub(super) live: u32,
    /// The worker that it was stolen from, if the thief may look there again.
    pub(super) victim: Option<usize>,
    /// How often it has done so without a search.
    pub(super) returns: u32,
}

impl Loot {
    /// Items that a thief with `live` coroutines has taken now.
    pub(crate) fn new(items: usize, live: u32, victim: Option<usize>) -> Loot {
        Loot { taken: now(), items, live, victim, returns: 0 }
    }

    /// For how long the thief has been busy with it.
    pub(crate) fn lasted(&self, time: Instant) -> Duration {
        time - self.taken
    }

    /// Whether it was gone so soon that it was not worth stealing.
    pub(crate) fn was_short(&self, time: Instant) -> bool {
        self.lasted(time) < SHORT.max(SHORT_ITEM * self.items as u32)
    }

    /// Whether no task of it waits, if the thief has so many coroutines besides the one of its loop.
    pub(crate) fn is_done(&self, others: u32) -> bool {
        others <= self.live
    }
}
