//! Joins that start the child themselves: they call it on the joiner's stack, or begin it at once
//! on a coroutine of its own.

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
    /// Takes a fresh task out of its queue to be called in place, if it may be: if it is a child
    /// of the running node that needs no stack of its own, and this stack has room.
    #[inline(always)]
    pub(crate) fn claim_in_place(&self, record: NonNull<Record>, kind: WaitKind) -> bool {
        // SAFETY: the caller holds the handle, which has a reference.
        let task = unsafe { record.as_ref() };
        if !ptr::eq(task.node.parent, self.node.get())
            || task.traits.needs_own_stack()
            || self.forbidden.get() > 0
            || !self.fiber().has_room()
            || (kind != WaitKind::Structured && self.is_interrupted())
        {
            return false;
        }
        // Other tasks have their turn, even if this task goes on for ever with joins.
        if self.fairness.tick() || self.remote.timers.want_looks() {
            self.let_others_in_turn();
            // A cancel may have come meanwhile.
            if kind != WaitKind::Structured && self.is_interrupted() {
                return false;
            }
        }
        // Tasks of a class that spreads are begun on coroutines of their own, which are counted.
        // The newest task usually has no siblings.
        self.remote.private.take_newest(record)
            || self.may_call(task) && self.claim_elsewhere(record)
    }

    /// Takes a fresh task out of the middle of the private deque, or out of another queue.
    #[inline(never)]
    pub(crate) fn claim_elsewhere(&self, record: NonNull<Record>) -> bool {
        if self.remote.private.take(record) {
            self.balance.joins_oldest.set(true);
            // Calls nothing except in tail position, so it has no registers to save.
            return !self.is_to_share() || self.serve_in_join();
        }
        self.claim_queued(record)
    }

    /// Takes a fresh task out of a queue other than the private deque.
    #[inline(never)]
    fn claim_queued(&self, record: NonNull<Record>) -> bool {
        // SAFETY: the caller holds the handle, which has a reference.
        let task = unsafe { record.as_ref() };
        if task.phase() != Phase::Ready {
            return false;
        }
        // The entry of the public (or local) queue goes stale, and keeps its reference.
        if task.claim() {
            task.add_reference();
            return true;
        }
        false
    }

    /// Hands tasks on. A parent that joins its children one after the other spawns nothing.
    /// Without this, it would leave requests for work unanswered, and be taken for a task that
    /// computes. Returns `true`.
    #[cold]
    #[inline(never)]
    fn serve_in_join(&self) -> bool {
        self.hand_on();
        true
    }

    /// Starts a fresh child of the running node on a coroutine of its own, because it needs one or
    /// there is no room to call it, and waits for its end. Returns `None` if the child cannot be
    /// claimed, or if either task may run on another worker.
    ///
    /// The child runs here until its end, so hardly anything needs a lock. The exception is the
    /// end of the child's own last child on another worker, after the child's closure. `at_home` of
    /// the record says whether the child has ended here.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn start_and_await(
        &self,
        record: NonNull<Record>,
        kind: WaitKind,
    ) -> Option<Result<(), Interrupted>> {
        let parent = self.node.get();
        // SAFETY: the caller holds the handle, which has a reference.
        let child = unsafe { record.as_ref() };
        if !ptr::eq(child.node.parent, parent) {
            return None;
        }
        let joiner = self.task()?;
        // First of all, since it may change everything that is checked below.
        if self.fairness.tick() {
            self.let_others();
        }
        // SAFETY: the running task has not ended.
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
            // Cancelled at this moment: the child is put back as it was.
            me.set_phase(Phase::Running);
            child.at_home.set(JoinedAtHome::No);
            child.join.unregister_at_home();
            self.requeue(record);
            return None;
        }
        self.counters().parks.add(1);
        self.fiber().task.set(joiner.as_ptr());
        let next = self.begin(record).unwrap_or_else(|| {
            // There is no stack. The child is kept for later, and may be started anywhere. The
            // registration stands.
            child.at_home.set(JoinedAtHome::No);
            self.pick()
        });
        self.leave_for(next);
        if me.wait.woken() == Woken::Granted {
            return Some(Ok(()));
        }
        // As in `wait`, the interruption may be stale. The registration stands.
        if !self.is_cancelled_here() && self.wait(joiner, kind).0.is_ok() {
            return Some(Ok(()));
        }
        if child.join.take_back() {
            child.at_home.set(JoinedAtHome::No);
            self.give_way(joiner);
            return Some(Err(Interrupted));
        }
        // The child ended right after the interruption, and its grant is under way.
        let (result, _) = self.wait(joiner, WaitKind::Structured);
        debug_assert!(result.is_ok(), "a structured wait was cut short");
        if child.at_home.get() == JoinedAtHome::Ended {
            // The child has left its run reference to us, and we shall not take the outcome.
            child.place.store(self.retired().as_ptr().expose_provenance(), Ordering::Relaxed);
            // SAFETY: the run reference is ours. The caller has the handle's reference.
            unsafe { release_run(self, record, 1) };
        }
        Some(Err(Interrupted))
    }

    /// Puts a claimed task back where this worker finds it first.
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

    /// Serves requests for work and gives other tasks a turn, where a join need not wait.
    #[inline]
    pub(crate) fn let_others_between_joins(&self) {
        self.serve_between_tasks();
        if self.fairness.tick() {
            self.let_others();
        }
    }

    /// Looks at the clock and gives other tasks a turn, before a child is called in place.
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

    /// Gives way to tasks that would otherwise wait as long as the running task goes on. The
    /// running task is ready meanwhile, and the tasks that it has spawned stay where they are.
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
