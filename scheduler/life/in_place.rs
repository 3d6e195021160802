//! Joins that start the child themselves: they call it on the joiner's stack, or begin it at once
//! on a fiber of its own.

use crate::scheduler::life::complete::release_run;
use crate::scheduler::wait::interrupted::Interrupted;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::fairness::Turn;
use crate::scheduler::worker::release::queued;
use crate::shim::atomic::Ordering;
use crate::task::record::{JoinedAtHome, Phase};
use crate::task::reference::{RunRef, TaskRef, WaiterRef};
use crate::task::words::wait::{Publish, WaitKind, Woken};
use std::ptr;

impl Worker {
    /// Takes a fresh task out of its queue to be called in place, if it may be: if it is a child
    /// of the running node that needs no stack of its own, and this stack has room.
    #[inline(always)]
    pub(crate) fn claim_in_place(&self, task: TaskRef<'_>, kind: WaitKind) -> Option<RunRef> {
        if !ptr::eq(task.node.parent, self.node.get())
            || task.traits.needs_own_stack()
            || self.forbidden.get() > 0
            || !self.fiber().has_room()
            || (kind != WaitKind::Structured && self.is_interrupted())
        {
            return None;
        }
        // Other tasks have their turn, even if this task goes on for ever with joins.
        if self.fairness.tick() || self.remote.timers.want_looks() {
            self.let_others_in_turn();
            // A cancel may have come meanwhile.
            if kind != WaitKind::Structured && self.is_interrupted() {
                return None;
            }
        }
        // Tasks of a class that spreads are begun on fibers of their own, which are counted. The
        // newest task usually has no siblings.
        let newest = self.remote.private.take_newest(task);
        if newest.is_some() || !self.may_call(&task) {
            return newest;
        }
        self.claim_elsewhere(task)
    }

    /// Takes a fresh task out of the middle of the private deque, or out of another queue.
    #[inline(never)]
    pub(crate) fn claim_elsewhere(&self, task: TaskRef<'_>) -> Option<RunRef> {
        let Some(run) = self.remote.private.take(task) else { return self.claim_queued(task) };
        self.balance.joins_oldest.set(true);
        // Calls nothing except in tail position, so it has no registers to save.
        if self.is_to_share() { self.serve_in_join(run) } else { Some(run) }
    }

    /// Takes a fresh task out of a queue other than the private deque.
    #[inline(never)]
    pub(in crate::scheduler) fn claim_queued(&self, task: TaskRef<'_>) -> Option<RunRef> {
        if task.phase() != Phase::Ready || !task.claim() {
            return None;
        }
        // The entry of the public (or local) queue goes stale, and keeps its reference.
        task.add_reference();
        // SAFETY: claimed just now, and the reference was added for it.
        Some(unsafe { RunRef::new(task.pointer()) })
    }

    /// Hands tasks on. A parent that joins its children one after the other spawns nothing.
    /// Without this, it would leave requests for work unanswered, and be taken for a task that
    /// computes. Returns what it is given.
    #[cold]
    #[inline(never)]
    fn serve_in_join(&self, run: RunRef) -> Option<RunRef> {
        self.hand_on();
        Some(run)
    }

    /// Starts a fresh child of the running node on a fiber of its own, because it needs one or
    /// there is no room to call it, and waits for its end. Returns `None` if it has not waited: the
    /// child cannot be claimed, an earlier poll has left a waker, either task may change workers,
    /// no wait may begin here, or a cancel came just then.
    ///
    /// The child runs here until its end, so hardly anything needs a lock. The exception is the
    /// end of the child's own last child on another worker, after the child's closure. `at_home` of
    /// the record says whether the child has ended here.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn start_and_await(
        &self,
        child: TaskRef<'_>,
        kind: WaitKind,
    ) -> Option<Result<(), Interrupted>> {
        let parent = self.node.get();
        if !ptr::eq(child.node.parent, parent) {
            return None;
        }
        let joiner = self.task()?;
        // First of all, since it may change everything that is checked below.
        if self.fairness.tick() {
            self.let_others();
        }
        let me = joiner.get();
        if child.traits.migratable
            || me.traits.migratable
            || !child.join.is_empty()
            || self.queues.has_dedicated()
            || self.forbidden.get() > 0
            || crate::shim::panicking()
            || (kind != WaitKind::Structured && (self.is_late() || !self.may_wait()))
        {
            return None;
        }
        let index = child.place.load(Ordering::Relaxed);
        let run = match self.remote.private.take_newest(child) {
            Some(run) => run,
            None => {
                let run = self.claim_elsewhere(child)?;
                if !self.may_call(&child) && !child.traits.local {
                    self.begin_oldest_from(index);
                }
                run
            }
        };
        // SAFETY: this call returns only after the grant, or with the registration taken back.
        child.join.register_at_home(unsafe { WaiterRef::new(joiner) });
        child.at_home.set(JoinedAtHome::Waiting);
        me.place.store(self.fibers.running.get().expose_provenance(), Ordering::Relaxed);
        me.set_phase(Phase::Parked);
        if self.publish_wait(me, kind, &()) != Ok(Publish::Parked) {
            // Cancelled at this moment: the child is put back as it was.
            me.set_phase(Phase::Running);
            child.at_home.set(JoinedAtHome::No);
            child.join.unregister_at_home();
            self.requeue(run);
            return None;
        }
        self.counters().parks.add(1);
        self.fiber().task.set(joiner.pointer().as_ptr());
        let next = self.begin(run).unwrap_or_else(|| {
            // There is no stack. The child is kept for later, and may be started anywhere. The
            // registration stands.
            child.at_home.set(JoinedAtHome::No);
            self.pick()
        });
        self.leave_for(next);
        if me.wait.woken() == Woken::Granted {
            return Some(Ok(()));
        }
        // As in `wait_within`, the interruption may be stale. The registration stands.
        if !self.is_cancelled_here() && self.wait(joiner, kind).0.is_ok() {
            return Some(Ok(()));
        }
        if child.join.take_back() {
            child.at_home.set(JoinedAtHome::No);
            self.give_way(joiner);
            return Some(Err(Interrupted));
        }
        // The child ended right after the interruption, and its grant is under way.
        self.await_grant(joiner);
        if child.at_home.get() == JoinedAtHome::Ended {
            // SAFETY: the child has left its run reference to us.
            release_run(self, unsafe { RunRef::new(child.pointer()) });
        }
        Some(Err(Interrupted))
    }

    /// Puts a claimed task back where this worker finds it first.
    #[cold]
    pub(crate) fn requeue(&self, run: RunRef) {
        if run.traits.local {
            run.unclaim();
            self.queues.local.borrow_mut().push_front(queued(run));
        } else {
            run.unclaim_privately();
            self.queue_privately(run);
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
        self.give_owed_turn();
        if self.remote.private.is_requested() {
            self.hand_on();
        }
        self.fairness.due_yields.set(self.fairness.due_yields.get().wrapping_add(1));
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
