//! Handing over: when a worker makes its private work public, and how much of it.
//!
//! Work in the private deque and in the fork list costs its owner no fence, and no other worker
//! sees it. So the owner shares it only if a worker has left a request there, or, between two
//! tasks, if thieves have emptied the public deque since the last hand-over and will be back soon.
//! The owner notices a request at its next push and between two tasks. Joins, waits and check-ins
//! serve it as well.
//!
//! The owner moves a portion of the private deque, the tasks that it would come to last, to its
//! public deque, and wakes a worker. It gives a fork only if there is no task to give. It keeps a
//! lone task, which its spawner most likely joins in a moment. A thief that gets no answer takes by
//! force (`search`), which costs a membarrier.

use crate::retire::nesting::is_inside;
use crate::scheduler::queue::item::Item;
use crate::scheduler::queue::private_deque::{PUBLIC, Portion};
use crate::scheduler::queue::public::BATCH;
use crate::scheduler::steal::idle::FEW;
use crate::scheduler::worker::Worker;
use crate::shim::point;
use crate::shim::time::{Duration, now};
use crate::task::record::Phase;
use crate::task::reference::RunRef;

impl Worker {
    /// Hands tasks over if a worker has made a request, or is about to, and there are more than the
    /// one task that this worker takes next. Otherwise the request stands until the next push:
    /// taking it back would require waking a worker for nothing.
    #[inline]
    pub(crate) fn serve_between_tasks(&self) {
        if self.is_to_share() && self.remote.private.len() > 1 {
            self.hand_on();
        }
    }

    /// Whether a worker has asked for work, or has taken all that was handed over last and comes
    /// back soon. It would otherwise have to wait for the end of the next task.
    #[inline]
    pub(crate) fn is_to_share(&self) -> bool {
        self.remote.private.is_requested()
            || self.balance.shares.get() && self.queues.deque.is_empty()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn hand_on(&self) {
        if self.remote.private.is_requested() {
            self.serve_requests();
        } else {
            self.answer();
        }
    }

    /// As [`serve_requests`](Worker::serve_requests), after a push. To hand tasks over costs some
    /// cache lines, however many they are. So among many workers one that pushes fast collects a
    /// few of them. It may do so only while a worker searches: that one looks for them when it
    /// stops, as for a lone task, and takes them by force if no push follows.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_requests_at_push(&self) {
        const COLLECTS: Duration = Duration::from_micros(1);
        let shared = self.shared();
        let collects = shared.workers() > FEW
            && self.remote.private.has_room()
            && self.remote.forks.is_clear()
            && now() - self.balance.handed_over_at.get() < COLLECTS
            && shared.idle.anyone_searching();
        if !collects {
            self.serve_requests();
            // The owner makes a request of itself, since only a few of many searchers find out that
            // it goes on pushing. Once no worker searches, its next push takes the request back.
            let idle = &shared.idle;
            let workers = shared.workers();
            if workers > FEW && idle.anyone_searching() && idle.most_sleep(workers) {
                self.remote.private.request();
            }
        }
    }

    /// Hands tasks over if a worker has asked.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_requests(&self) {
        let remote = &self.remote;
        let searched = || self.shared().idle.anyone_searching();
        // A lone task is not handed over. The request stands, so that the next push serves it
        // (idle.rs). But a private deque that a thief has emptied may still be full, as long as the
        // thief has not read the slots.
        let lone = remote.private.len() == 1 && remote.forks.is_clear();
        if lone && remote.private.has_room() && searched() {
            return;
        }
        let asked = remote.private.take_request(searched);
        // Inside a bare coroutine the request stands, so that each fork is served.
        let asked = !is_inside() && self.remote.forks.take_request() || asked;
        if asked {
            self.answer();
        }
    }

    /// Hands tasks over. A worker has asked, and its request has been taken back.
    pub(crate) fn answer(&self) {
        let shared = self.shared();
        // The tasks that are handed over now may be of any class.
        self.announce_offer(None);
        // A single item is most likely joined by its spawner in a moment. A worker that wants it
        // all the same takes it by force after a while. A full public deque gets no more: its
        // growth would cost kilobytes of the stack that we happen to stand on.
        let room = BATCH.saturating_sub(self.queues.deque.len());
        let portion = Portion { takers: shared.idle.searching().max(1), most: room };
        let given = self.hand_over(2, portion);
        self.balance.shares.set(given > 0);
        if given > 0 {
            self.balance.handed_over_at.set(now());
        }
        if given == 0 && room > 0 {
            self.hand_over_fork();
        }
        // Fences even if nothing was handed over: a second worker may have found the request that
        // we have just taken back, relied on it, and be lying down at this moment.
        shared.idle.notify(shared, false);
    }

    /// Moves a portion of the private deque to the public deque, from the end that this worker
    /// comes to last. A deque with fewer than `least` tasks gives none.
    pub(crate) fn hand_over(&self, least: usize, portion: Portion) -> usize {
        let private = &self.remote.private;
        let spread = self.begins_oldest();
        if !(spread | self.balance.joins_oldest.replace(false)) {
            return private.hand_over(least, portion, |task| self.push_public(task));
        }
        let given = private.hand_over_newest(least, portion, |task| self.push_public(task));
        if spread {
            self.balance.spread_at.set((self.balance.spread_at.get().0, private.tail()));
        }
        given
    }

    /// Notes that a task that is spread, and was at this index of the private deque, is joined
    /// before the younger ones: so they are begun the oldest first.
    pub(crate) fn begin_oldest_from(&self, index: usize) {
        let (private, (from, below)) = (&self.remote.private, self.balance.spread_at.get());
        let from = match index {
            // Its older siblings have been handed over as well, now or before.
            PUBLIC => private.head(),
            // The tasks before it have been joined.
            _ if (from..below).contains(&index) => from,
            _ => index,
        };
        self.balance.spread_at.set((from, private.tail()));
    }

    /// Whether there are tasks in the private deque, and all of them are to be begun the oldest
    /// first.
    pub(super) fn begins_oldest(&self) -> bool {
        let (private, (from, below)) = (&self.remote.private, self.balance.spread_at.get());
        private.tail() <= below && private.head() >= from && !private.is_empty()
    }

    /// Puts a fresh task that has left a private deque into the public deque.
    pub(crate) fn push_public(&self, task: RunRef) {
        task.set_phase(Phase::Ready);
        point();
        self.queues.deque.push(Item::fresh(task));
    }
}
