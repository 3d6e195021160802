//! What a thief has stolen last: whether it was worth it, and whose it was.
//!
//! # Back to the same victim
//!
//! A thief whose loop has run all of its loot looks into the public deque that the loot came out of
//! before it gives up its coroutine. There is often more: the owner hands the next share over when
//! it finds that the last one is gone (pick.rs). To become a searcher, find the same deque, leave
//! the searchers, and switch to a new coroutine costs two thirds of the time between two stolen
//! tasks.
//!
//! Such a thief does not count as a searcher, so no producer relies on it. What it moves into its
//! own deque is for a moment in neither deque. A worker that lies down, or stops searching, in that
//! moment finds both empty. So the thief announces what has arrived as if it had produced it, as
//! for a batch out of the injector.

use crate::scheduler::run_loop::pick::BATCH;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::time::{Duration, Instant, now};
use crate::shim::{Fault, fault, point};
use crate::task::record::Record;
use crossbeam_deque::Steal;
use std::ptr::NonNull;

/// Loot that lasts less was not worth stealing, ...
const SHORT: Duration = Duration::from_nanos(600);
/// ... nor was that of which an item lasts less: its spawner would have been done with it sooner.
const SHORT_ITEM: Duration = Duration::from_nanos(100);

/// After so many returns a thief searches, since others may have work too.
const RETURNS: u32 = 8;

/// What was stolen last.
#[derive(Clone, Copy)]
pub(crate) struct Loot {
    taken: Instant,
    items: usize,
    /// Coroutines that the thief had.
    live: u32,
    /// The worker that it was stolen from, if the thief may look there again.
    victim: Option<usize>,
    /// How often it has done so without a search.
    returns: u32,
}

impl Loot {
    /// Some items that were taken now, of which so many are `besides` those in the deque.
    pub(crate) fn of(worker: &Worker, besides: usize, victim: Option<usize>) -> Loot {
        let items = worker.deque.len() + besides;
        Loot { taken: now(), items, live: worker.live(), victim, returns: 0 }
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

impl Worker {
    /// A fresh task, claimed, out of the deque that this worker has stolen from last. For the loop.
    #[inline(never)]
    pub(crate) fn next_of_victim(&self) -> Option<NonNull<Record>> {
        let loot = self.loot.get()?;
        let shared = self.shared();
        let victim = shared.remote(loot.victim?);
        point();
        if victim.thief.is_empty()
            || loot.returns == RETURNS
            || self.exhausted.get()
            || shared.pressure.load(Ordering::Relaxed)
            // What is offered is not for everybody, and the search knows for whom.
            || self.invited.get()
            || self.anyone_offers()
            || self.is_to_stand_back()
            || !self.may_start()
            || fault(Fault::Steal)
        {
            return None;
        }
        let time = now();
        if loot.was_short(time) || !loot.is_done(self.live() - 1) {
            return None;
        }
        let Steal::Success(item) = victim.thief.steal_batch_and_pop(&self.deque, BATCH / 2) else {
            return None;
        };
        self.counters().steals.add(1);
        let (items, returns) = (self.deque.len() + 1, loot.returns + 1);
        self.loot.set(Some(Loot { taken: time, items, returns, ..loot }));
        self.announce_arrivals();
        let first = self.open(item);
        // What is ready comes before the others.
        if self.ready.is_empty() { first.or_else(|| self.next_public()) } else { first }
    }

    /// Announces items that have come into this worker's deque out of another queue. Between the two
    /// they were in neither, so a worker that lay down meanwhile has not seen them.
    pub(crate) fn announce_arrivals(&self) {
        if !self.deque.is_empty() {
            self.shared().idle.notify(self.shared(), false);
        }
    }
}
