//! A thief goes back to its victim.
//!
//! A thief that has run all of its loot looks once more into the public deque that the loot came
//! from, before it gives up its fiber. There is often more: the owner hands the next share over
//! when it finds that the last one is gone (run_loop/share.rs). The alternative costs two thirds of
//! the time between two stolen tasks: become a searcher, find the same deque, leave the searchers,
//! and switch to a new fiber.
//!
//! Such a thief does not count as a searcher, so no producer relies on it. The items that it moves
//! into its own deque are for a moment in neither deque. A worker that lies down, or stops
//! searching, in that moment finds both empty. So the thief announces the items that have arrived
//! as if it had produced them, as for a batch from the injector.

use crate::scheduler::queue::public::BATCH;
use crate::scheduler::steal::loot::Loot;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::time::now;
use crate::shim::{Fault, fault, point};
use crate::task::reference::RunRef;
use crossbeam_deque::Steal;

/// The number of returns after which a thief searches, since other workers may have work too.
const RETURNS: u32 = 8;

impl Worker {
    /// Takes a fresh task, claimed, from the deque that this worker last stole from. For the loop.
    #[inline(never)]
    pub(crate) fn next_of_victim(&self) -> Option<RunRef> {
        let loot = self.loot.get()?;
        let shared = self.shared();
        let victim = shared.remote(loot.victim?);
        point();
        if victim.thief.is_empty()
            || loot.returns == RETURNS
            || self.memory.exhausted.get()
            || shared.pressure.load(Ordering::Relaxed)
            // Offered tasks are not for every worker; the search decides which worker takes them.
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
        self.loot.set(Some(Loot { stolen_at: time, items, returns, ..loot }));
        self.announce_arrivals();
        let first = self.open(item);
        // A ready task comes before the other items.
        if self.queues.ready.is_empty() { first.or_else(|| self.next_public()) } else { first }
    }

    /// Announces items that have come into this worker's deque from another queue. On the way they
    /// were in neither, so a worker that lay down meanwhile has not seen them.
    pub(crate) fn announce_arrivals(&self) {
        if !self.queues.deque.is_empty() {
            self.shared().idle.notify(self.shared(), false);
        }
    }
}
