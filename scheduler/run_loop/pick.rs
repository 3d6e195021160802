//! The order of service: what a worker does next.
//!
//! First come ready fibers, then the private deque and the public deque (last in, first out, but
//! see `begins_oldest`), local tasks, and the injector. Each 61st decision reverses the order, so
//! that no task waits for ever behind endless local spawns or endless yields. If there is nothing
//! here, `search` looks further.

use crate::retire::stack::StackClass;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::queue::private_deque::Portion;
use crate::scheduler::queue::public::{BATCH, steal_until};
use crate::scheduler::stacks::exhaustion;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::fairness::Turn;
use crate::scheduler::worker::release::{claim, claimed};
use crate::scheduler::worker::switch::NextFiber;
use crate::shim::point;
use crate::task::record::{Phase, Record};
use crate::task::reference::{Ready, RunRef, TaskRef};
use crossbeam_deque::Steal;
use std::ptr;

impl Worker {
    /// Picks the fiber to run next, which may be the one that is being suspended.
    ///
    /// Inlined, with the usual case alone: there is a ready fiber, and no reason to look further.
    #[inline(always)]
    pub(crate) fn pick(&self) -> NextFiber {
        if !self.queues.ready.is_empty()
            && !self.has_ready_besides_queue()
            && !self.remote.timers.want_looks()
            && !self.isolations.any()
            && self.fairness.next_turn.get() != Turn::Neglected
            && !self.fairness.tick()
            && let Some(fiber) = self.next_ready()
        {
            return fiber;
        }
        self.pick_of_all()
    }

    #[inline(never)]
    fn pick_of_all(&self) -> NextFiber {
        self.collect();
        if self.isolations.any() {
            return self.pick_member();
        }
        if self.fairness.next_turn.get() == Turn::Neglected {
            self.fairness.next_turn.set(Turn::ReadyAgain);
            if let Some(fiber) = self.next_neglected().and_then(|record| self.begin(record)) {
                return fiber;
            }
        }
        if self.fairness.tick() {
            // The turn of fresh tasks, before tasks that yield all the time. It is not left to the
            // tick in `next_fresh`, which always comes right after this one.
            self.give_owed_turn();
            self.fairness.due_yields.set(self.fairness.due_yields.get().wrapping_add(1));
            if self.has_neglected()
                && let Some(fiber) = self.next_neglected().and_then(|record| self.begin(record))
            {
                return fiber;
            }
            let in_turn = self.is_kept_waiting();
            if self.has_fresh()
                && (self.may_start() || in_turn)
                && let Some(fiber) = self.begin_fresh(in_turn)
            {
                self.balance.standing_back.begins_in_turn();
                return fiber;
            }
            if self.must_look_for_awaited() {
                return NextFiber::main(self);
            }
        }
        if self.balance.invited.replace(false) {
            // There may be more offered tasks than invitations, so this worker invites itself
            // again. Between two offered tasks a ready one has its turn.
            if self.balance.took_offered.replace(false) && !self.queues.ready.is_empty() {
                self.invite_itself();
            } else if let Some(fiber) = self.take_offered().and_then(|task| self.begin(task)) {
                self.balance.took_offered.set(true);
                self.invite_itself();
                return fiber;
            }
        }
        if let Some(fiber) = self.next_ready() {
            return fiber;
        }
        self.learn_wait();
        if self.has_fresh()
            && self.may_start()
            && let Some(fiber) = self.begin_fresh(false)
        {
            return fiber;
        }
        NextFiber::main(self)
    }

    /// Asks for a look at the fresh tasks, if the worker starves: one may have an extra stack,
    /// although others are ready here. Returns `true` if the worker must leave for its main fiber
    /// for that.
    pub(in crate::scheduler) fn must_look_for_awaited(&self) -> bool {
        let starves = self.memory.exhausted.get();
        self.memory.in_turn.set(starves);
        starves && !ptr::eq(self.fibers.running.get(), self.fibers.main.get())
    }

    /// Makes this worker look at offered tasks at its next decision, too.
    fn invite_itself(&self) {
        // If the inbox holds something else, the flag does the same.
        let lies_there = !self.remote.inbox.invite();
        self.balance.invited.set(lies_there);
    }

    /// Makes a fiber for a fresh task that is kept here, or for any fresh task if `any` is set.
    /// Returns `None` if there is no task, or no stack for it.
    #[inline(always)]
    fn begin_fresh(&self, any: bool) -> Option<NextFiber> {
        self.serve_between_tasks();
        let task = self.next_fresh()?;
        if any || self.keeps(&task) { self.begin(task) } else { self.begin_another(task) }
    }

    /// Offers a task that is not kept here to the other workers, and begins another one.
    #[cold]
    #[inline(never)]
    fn begin_another(&self, mut task: RunRef) -> Option<NextFiber> {
        loop {
            self.offer_to_others(task);
            // The offered tasks come next now, and are not kept either.
            if self.remote.private.is_empty() || self.queues.deque.len() >= BATCH {
                return None;
            }
            task = self.next_fresh()?;
            if self.keeps(&task) {
                return self.begin(task);
            }
        }
    }

    /// Makes a fiber for a claimed task. If there is no stack, the task is kept for later.
    #[inline(always)]
    pub(crate) fn begin(&self, task: RunRef) -> Option<NextFiber> {
        self.begin_known(task).map(|(fiber, _)| fiber)
    }

    /// As [`begin`](Worker::begin). Also returns the task.
    #[inline(always)]
    fn begin_known(&self, task: RunRef) -> Option<(NextFiber, TaskRef<'_>)> {
        // SAFETY: the run reference passes to the fiber, which has not begun.
        let begun = unsafe { TaskRef::new(task.task().pointer()) };
        match self.new_fiber(self.class_for(&task), task) {
            Ok(fiber) => {
                self.observe(&fiber, &begun);
                Some((fiber, begun))
            }
            Err(task) => {
                self.keep_for_later(task);
                None
            }
        }
    }

    /// As [`begin`](Worker::begin). Returns the task as one that is ready to go on.
    fn begin_ready(&self, task: RunRef) -> Option<Ready> {
        let (fiber, task) = self.begin_known(task)?;
        Some(fiber.into_ready(task))
    }

    /// Keeps a claimed task for which there is no stack.
    #[cold]
    #[inline(never)]
    fn keep_for_later(&self, task: RunRef) {
        // A task that an earlier attempt has left there must not be lost.
        if self.queues.has_dedicated() {
            exhaustion::put_back(self, task);
        } else {
            self.queues.dedicated.set(Some(task));
        }
    }

    pub(crate) fn class_for(&self, task: &Record) -> StackClass {
        match task.traits.stack_class {
            0 => self.memory.class,
            class => StackClass::from_byte(class),
        }
    }

    /// The fiber of the next ready task.
    #[inline(always)]
    pub(crate) fn next_ready(&self) -> Option<NextFiber> {
        let task = self.queues.ready.pop()?;
        task.set_phase(Phase::Running);
        Some(NextFiber::of(task))
    }

    /// Whether there is a fresh task, without looking at other workers.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.remote.private.is_empty()
            || !self.queues.deque.is_empty()
            || !self.queues.local.borrow().is_empty()
            || !self.shared().injector.is_empty()
            || self.queues.has_dedicated()
    }

    /// Whether there is a fresh task that any worker could take.
    pub(crate) fn has_shared(&self) -> bool {
        !self.queues.deque.is_empty() || !self.shared().injector.is_empty()
    }

    /// Whether there are fresh tasks that the usual order comes to last.
    pub(crate) fn has_neglected(&self) -> bool {
        // Newest first is the right order, but it would never come to some tasks.
        let rarely = self.fairness.due_yields.get().is_multiple_of(16) && !self.is_to_stand_back();
        !self.queues.local.borrow().is_empty()
            || !self.shared().injector.is_empty()
            || rarely && (!self.queues.deque.is_empty() || self.remote.private.len() > 1)
    }

    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.queues.ready.is_empty() || !self.remote.inbox.is_empty()
    }

    /// Whether other threads have sent something that has not been taken in.
    #[inline(always)]
    pub(crate) fn has_ready_besides_queue(&self) -> bool {
        !self.remote.inbox.is_empty()
    }

    /// Takes in the tasks that other threads have woken, or want started here.
    #[inline]
    pub(crate) fn collect(&self) {
        if !self.remote.inbox.is_empty() {
            let invited = self.remote.inbox.take_all(|task| match task.into_fresh() {
                Ok(fresh) => self.queue_local(fresh),
                Err(woken) => self.make_ready(woken),
            });
            self.balance.invited.set(invited || self.balance.invited.get());
        }
        if self.remote.timers.want_looks() {
            self.look_at_clock();
        }
    }

    /// Queues a task of this worker. On its thread.
    pub(crate) fn make_ready(&self, task: Ready) {
        let fiber = Worker::fiber_of(&task);
        // The context of the running fiber is not saved, and one that has called another waits for
        // the end of that call.
        let stays =
            ptr::eq(fiber, self.fibers.running.get()) || fiber.calls.get() || self.isolations.any();
        if task.traits.migratable && !stays {
            self.disown();
            let shared = self.shared();
            if self.queues.deque.len() < BATCH {
                self.queues.deque.push(Item::started(task));
            } else {
                shared.injector.push(Item::started(task));
            }
            shared.idle.notify(shared, false);
        } else {
            self.queues.ready.push(task);
        }
    }

    /// Moves a ready task of this worker before the others. Returns `false` if the task is not
    /// ready here, or may not run at present.
    pub(crate) fn bring_forward(&self, task: TaskRef<'_>) -> bool {
        self.collect();
        let Some(ready) = self.queues.ready.remove(task) else { return false };
        let may_run = self.may_run(&ready);
        if may_run {
            self.queues.ready.push_front(ready);
        } else {
            self.queues.ready.push(ready);
        }
        may_run
    }

    /// Makes a fresh task the next one to run here. Returns `false` if the task is not available,
    /// or may not run here at present, or if there is no stack.
    pub(crate) fn start_next(&self, task: TaskRef<'_>) -> bool {
        let run = self.remote.private.take(task).or_else(|| {
            // Make sure that the task is in a queue of this runtime and not of another one, or of
            // another worker. The addresses are compared and not followed.
            let parent = task.node.parent;
            let root = &raw const self.shared().root.node;
            let ours = ptr::eq(parent, self.node.get()) || ptr::eq(parent, root);
            let ours = ours && !task.traits.local;
            let run = if ours { self.claim_queued(task)? } else { return None };
            run.unclaim_privately();
            Some(run)
        });
        let Some(run) = run else { return false };
        if !self.may_run(&run) {
            self.requeue(run);
            return false;
        }
        match self.new_fiber(self.class_for(&task), run) {
            Ok(fiber) => {
                self.queues.ready.push_front(fiber.into_ready(task));
                true
            }
            Err(run) => {
                self.requeue(run);
                false
            }
        }
    }

    /// Makes a fresh task that was stolen just now, and is in our hand, the next one to run here,
    /// on a fiber of its own. For the main fiber, which runs it before anything else. If there is
    /// no stack, the task is kept as any other.
    ///
    /// A thief keeps the first task of its loot in this way. If others could steal that task, it
    /// might pass from thief to thief for ever: each thief looks at every worker before it runs
    /// anything, and if enough workers search, that takes longer than the next thief needs to find
    /// the task.
    pub(crate) fn run_next(&self, task: RunRef) {
        if self.begin_next(task) {
            self.queues.has_next.set(true);
        }
    }

    /// As [`run_next`](Worker::run_next) if the task is kept here; otherwise offers it to others.
    pub(crate) fn run_next_or_offer(&self, task: RunRef) {
        if self.keeps(&task) {
            self.run_next(task);
        } else {
            self.offer_to_others(task);
        }
    }

    /// Puts a claimed task before the ready ones, on a new fiber. Returns `false` if there is no
    /// stack: then the task is kept for later.
    pub(crate) fn begin_next(&self, task: RunRef) -> bool {
        let Some(ready) = self.begin_ready(task) else { return false };
        ready.unclaim_privately();
        self.queues.ready.push_front(ready);
        true
    }

    /// Starts a fresh child of the running node, which lies in no queue, at once on a fiber of its
    /// own. `me`, which runs, comes next after the child. If there is no stack, or nothing may
    /// suspend here, or the child may not run here at present, it is queued.
    pub(crate) fn start_now(&self, me: TaskRef<'_>, child: RunRef) {
        let begun = if crate::shim::panicking() || !self.may_run(&child) {
            Err(child)
        } else {
            self.new_fiber(self.class_for(&child), child)
        };
        let fiber = match begun {
            Ok(fiber) => fiber,
            Err(child) => return self.queue_privately(child),
        };
        let ready = self.suspend(me);
        self.queues.ready.push_front(ready);
        self.set_aside(me);
        self.leave_for(fiber);
    }

    /// Takes a fresh task, claimed.
    pub(crate) fn next_fresh(&self) -> Option<RunRef> {
        if let Some(task) = self.queues.dedicated.take() {
            return Some(task);
        }
        if self.fairness.tick() {
            self.give_owed_turn();
            let last_first = self.next_neglected();
            if last_first.is_some() {
                return last_first;
            }
        }
        if self.begins_oldest() {
            let oldest = self.next_oldest();
            if oldest.is_some() {
                return oldest;
            }
        }
        self.remote
            .private
            .pop()
            .or_else(|| self.next_public())
            .or_else(|| self.next_local())
            .or_else(|| self.next_injected())
    }

    /// Takes a fresh task that the usual order may never reach. Each kind of these tasks has its
    /// turn.
    pub(in crate::scheduler) fn next_neglected(&self) -> Option<RunRef> {
        let turn = self.fairness.turn.get();
        self.fairness.turn.set(turn.wrapping_add(1));
        (0..4).find_map(|i| match turn.wrapping_add(i) % 4 {
            0 => self.next_local(),
            1 => self.next_injected(),
            2 => self.next_oldest_public(),
            _ => self.next_oldest(),
        })
    }

    /// Takes a fresh task that any worker could take, alternately from the public deque and from
    /// outside. What came later stays there for others.
    pub(in crate::scheduler) fn next_shared(&self) -> Option<RunRef> {
        let turn = self.fairness.turn.get();
        self.fairness.turn.set(turn.wrapping_add(1));
        (0..2).find_map(|i| match turn.wrapping_add(i) % 2 {
            0 => self.next_injected_alone(),
            _ => self.next_oldest_public(),
        })
    }

    /// Takes a single task from outside.
    fn next_injected_alone(&self) -> Option<RunRef> {
        let steal = || {
            point();
            self.shared().injector.steal()
        };
        steal_until(steal, |item| self.open(item))
    }

    /// Takes the oldest task of the private deque, otherwise taken last in, first out.
    pub(crate) fn next_oldest(&self) -> Option<RunRef> {
        let mut oldest = None;
        self.remote.private.hand_over(1, Portion::ONE, |task| oldest = Some(task));
        oldest
    }

    /// Takes the oldest task of the public deque, otherwise taken last in, first out.
    fn next_oldest_public(&self) -> Option<RunRef> {
        let steal = || {
            point();
            self.remote.thief.steal()
        };
        steal_until(steal, |item| self.open(item))
    }

    pub(crate) fn next_public(&self) -> Option<RunRef> {
        point();
        while let Some(item) = self.queues.deque.pop() {
            // No worker is in a hurry to take it.
            self.balance.shares.set(false);
            if let Some(record) = self.open(item) {
                return Some(record);
            }
        }
        None
    }

    /// Opens an item and returns a fresh task, claimed. A started task is made ready here; a stale
    /// item is released.
    pub(crate) fn open(&self, item: Item) -> Option<RunRef> {
        match claimed(item)? {
            Runnable::Fresh(task) => Some(task),
            Runnable::Started(task) => {
                self.adopt(Worker::fiber_of(&task));
                self.queues.ready.push(task);
                None
            }
        }
    }

    pub(crate) fn next_local(&self) -> Option<RunRef> {
        loop {
            let entry = self.queues.local.borrow_mut().pop_front()?;
            if let Ok(task) = claim(entry) {
                return Some(task);
            }
        }
    }

    fn next_injected(&self) -> Option<RunRef> {
        let injector = &self.shared().injector;
        let steal = || {
            if injector.is_empty() {
                return Steal::Empty;
            }
            point();
            injector.steal_batch_and_pop(&self.queues.deque, 16)
        };
        steal_until(steal, |item| {
            self.announce_arrivals();
            self.open(item)
        })
    }
}
