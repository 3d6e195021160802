//! Joins that start the child themselves: it is called on the joiner's stack, or begun on a coroutine of its own at
//! once.

use crate::scheduler::life::complete::release_run;
use crate::scheduler::wait::interrupted::Interrupted;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::fairness::Turn;
use crate::shim::atomic::Ordering;
use crate::task::record::{JoinedAtHome, Phase, Record};
use crate::task::words::wait::{Publish, WaitKind, Woken};
use std::ptr::{self, NonNull};

impl Worker {
    /// Takes a fresh task out of wherever it lies to be run in place, if it is one of those that may
    /// be: a child of the running node, on a stack with room.
    #[inline(always)]
    pub(crate) fn claim_in_place(&self, record: NonNull<Record>, kind: WaitKind) -> bool {
        // SAFETY: the caller holds the handle.
        let task = unsafe { record.as_ref() };
        if !ptr::eq(task.node.parent, self.node.get())
            || task.traits.needs_own_stack()
            || self.forbidden.get() > 0
            || !self.fiber().has_room()
            || (kind != WaitKind::Structured && self.is_interrupted())
        {
            return false;
        }
        // The others have their turn, also if this task goes on for ever with joins.
        if self.fairness.tick() || self.remote.timers.want_looks() {
            self.let_others_in_turn();
            // A cancel may have come meanwhile.
            if kind != WaitKind::Structured && self.is_interrupted() {
                return false;
            }
        }
        // Tasks that are spread are begun on coroutines of their own, which are counted. The newest
        // one mostly has no siblings.
        self.remote.private.take_newest(record)
            || self.may_call(task) && self.claim_elsewhere(record)
    }

    /// Takes a fresh task out of the middle of the private deque, or out of another queue.
    #[inline(never)]
    pub(crate) fn claim_elsewhere(&self, record: NonNull<Record>) -> bool {
        if self.remote.private.take(record) {
            self.balance.joins_oldest.set(true);
            // Calls nothing but at the very end, and so has no registers to save.
            return !self.is_to_share() || self.serve_in_join();
        }
        self.claim_queued(record)
    }

    /// Takes a fresh task out of a queue that is not the private deque.
    #[inline(never)]
    fn claim_queued(&self, record: NonNull<Record>) -> bool {
        // SAFETY: the caller holds the handle.
        let task = unsafe { record.as_ref() };
        if task.phase() != Phase::Ready {
            return false;
        }
        // In a public queue (or the local one), whose entry goes stale and keeps its reference.
        if task.claim() {
            task.add_reference();
            return true;
        }
        false
    }

    /// A parent that joins its children one after the other spawns nothing, and would leave whoever asks without
    /// an answer, and be taken for one that computes. True.
    #[cold]
    #[inline(never)]
    fn serve_in_join(&self) -> bool {
        self.hand_on();
        true
    }

    /// Starts a fresh child of the running node on a coroutine of its own, because it needs one or there is
    /// no room to call it, and waits for its end. Nothing, if it is not to be had or either of the two
    /// could be met on another worker.
    ///
    /// The child runs here until its end, so hardly anything need be locked, unless the last of its own
    /// children ends elsewhere after it: `at_home` of the record says whether it has ended here.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn start_and_await(
        &self,
        record: NonNull<Record>,
        kind: WaitKind,
    ) -> Option<Result<(), Interrupted>> {
        let parent = self.node.get();
        // SAFETY: the caller holds the handle.
        let child = unsafe { record.as_ref() };
        if !ptr::eq(child.node.parent, parent) {
            return None;
        }
        let joiner = self.task()?;
        // First of all: much can be otherwise afterwards.
        if self.fairness.tick() {
            self.let_others();
        }
        // SAFETY: the running task.
        let me = unsafe { joiner.as_ref() };
        if child.traits.migratable
            || me.traits.migratable
            || !child.join.is_empty()
            || !self.queues.dedicated.get().is_null()
            || self.forbidden.get() > 0
            || crate::shim::panicking()
            || (kind != WaitKind::Structured && (self.is_late() || !self.may_wait()))
        {
            return None;
        }
        let index = child.place.load(Ordering::Relaxed);
        if !self.remote.private.take_newest(record) {
            if !self.claim_elsewhere(record) {
                return None;
            }
            if !self.may_call(child) && !child.traits.local {
                self.begin_oldest_from(index);
            }
        }
        child.join.register_at_home(joiner.as_ptr());
        child.at_home.set(JoinedAtHome::Waiting);
        me.place.store(self.fibers.running.get().expose_provenance(), Ordering::Relaxed);
        me.set_phase(Phase::Parked);
        if self.publish_wait(me, kind, &()) != Ok(Publish::Parked) {
            // Cancelled this moment: the child is what it was.
            me.set_phase(Phase::Running);
            child.at_home.set(JoinedAtHome::No);
            child.join.unregister_at_home();
            self.requeue(record);
            return None;
        }
        self.counters().parks.add(1);
        self.fiber().task.set(joiner.as_ptr());
        let next = self.begin(record).unwrap_or_else(|| {
            // No stack: it is kept for later, and may be started anywhere. The registration stands.
            child.at_home.set(JoinedAtHome::No);
            self.pick()
        });
        self.leave_for(next);
        if me.wait.woken() == Woken::Granted {
            return Some(Ok(()));
        }
        // As in `wait`: it may not be this node that was cancelled. The registration stands.
        if !self.is_cancelled_here() && self.wait(joiner, kind).0.is_ok() {
            return Some(Ok(()));
        }
        if child.join.take_back() {
            child.at_home.set(JoinedAtHome::No);
            self.give_way(joiner);
            return Some(Err(Interrupted));
        }
        // The end came right after the cut, and its grant is under way.
        let (result, _) = self.wait(joiner, WaitKind::Structured);
        debug_assert!(result.is_ok(), "a structured wait was cut short");
        if child.at_home.get() == JoinedAtHome::Ended {
            // It has left its run reference to us, and we shall not take the outcome.
            child.place.store(self.retired().as_ptr().expose_provenance(), Ordering::Relaxed);
            // SAFETY: that one. The caller has the handle's.
            unsafe { release_run(self, record, 1) };
        }
        Some(Err(Interrupted))
    }

    /// Puts a claimed task back to where this worker finds it first.
    #[cold]
    pub(crate) fn requeue(&self, record: NonNull<Record>) {
        // SAFETY: the run reference is in our hand.
        let task = unsafe { record.as_ref() };
        if task.traits.local {
            task.unclaim();
            self.queues.local.borrow_mut().push_front(record);
        } else {
            task.unclaim_privately();
            if self.remote.private.push(record) {
                self.serve_requests();
            }
        }
    }

    /// What is due where a join need not wait: an answer to those who ask for work, and a turn for
    /// others.
    #[inline]
    pub(crate) fn let_others_between_joins(&self) {
        self.serve_between_tasks();
        if self.fairness.tick() {
            self.let_others();
        }
    }

    /// What is due before a child is called in place: a turn for others, a look at the clock.
    #[cold]
    #[inline(never)]
    fn let_others_in_turn(&self) {
        if self.remote.timers.want_looks() {
            self.look_at_clock();
        }
        if self.fairness.is_owed() {
            self.let_others();
        }
    }

    /// Gives way to others who would have to wait as long as the running task goes on. It is ready
    /// itself meanwhile, and what it has spawned stays where it is.
    #[cold]
    #[inline(never)]
    pub(in crate::scheduler) fn let_others(&self) {
        self.serve_owed();
        if self.remote.private.is_requested() {
            self.serve_in_join();
        }
        self.fairness.offers.set(self.fairness.offers.get().wrapping_add(1));
        let neglected = self.has_neglected();
        if !(neglected || self.has_ready()) || is_forbidden() {
            return;
        }
        let Some(task) = self.task() else { return };
        self.fairness.next_turn.set(match self.fairness.next_turn.get() {
            Turn::Ready if neglected => Turn::Neglected,
            _ => Turn::Ready,
        });
        self.give_way(task);
    }
}
