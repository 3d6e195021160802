//! A thief goes back to its victim.
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

use crate::scheduler::queue::public::BATCH;
use crate::scheduler::steal::loot::Loot;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::time::now;
use crate::shim::{Fault, fault, point};
use crate::task::record::Record;
use crossbeam_deque::Steal;
use std::ptr::NonNull;

/// After so many returns a thief searches, since others may have work too.
const RETURNS: u32 = 8;

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
            || self.memory.exhausted.get()
            || shared.pressure.load(Ordering::Relaxed)
            // What is offered is not for everybody, and the search knows for whom.
            || self.balance.invited.get()
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
        let Steal::Success(item) = victim.thief.steal_batch_and_pop(&self.queues.deque, BATCH / 2)
        else {
            return None;
        };
        self.counters().steals.add(1);
        let (items, returns) = (self.queues.deque.len() + 1, loot.returns + 1);
        self.loot.set(Some(Loot { taken: time, items, returns, ..loot }));
        self.announce_arrivals();
        let first = self.open(item);
        // What is ready comes before the others.
        if self.queues.ready.is_empty() { first.or_else(|| self.next_public()) } else { first }
    }

    /// Announces items that have come into this worker's deque out of another queue. Between the two
    /// they were in neither, so a worker that lay down meanwhile has not seen them.
    pub(crate) fn announce_arrivals(&self) {
        if !self.queues.deque.is_empty() {
            self.shared().idle.notify(self.shared(), false);
        }
    }
}
