//! How a worker runs tasks: the loop, and the switches between fibers.
//!
//! The loop runs on fiber stacks. It takes a fresh task and calls it; a task that never waits costs
//! neither a switch nor a stack. When a task waits, its fiber, with the loop frame at the bottom,
//! is set aside, and the worker goes on with a ready fiber or with a new loop on another stack. A
//! loop that finds a ready fiber leaves for it, and becomes the spare fiber or gives up its stack.
//! A worker that has nothing else to run goes to its main fiber, the thread's own stack.
//!
//! `pick` decides what comes next, `call` calls tasks, and `share` hands work over to others.

pub(crate) mod call;
pub(crate) mod check_in;
pub(crate) mod check_ins;
pub(crate) mod pick;
pub(crate) mod share;

use crate::retire::nesting::{Saved, is_inside, restore_nesting, suspend_nesting};
use crate::retire::stack::StackClass;
use crate::scheduler::life::complete::Uncounting;
use crate::scheduler::run_loop::call::start;
use crate::scheduler::stacks::exhaustion;
use crate::scheduler::worker::fiber::Observation;
use crate::scheduler::worker::switch::{NextFiber, Program};
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::atomic::Ordering;
use crate::shim::point;
use crate::shim::time::Duration;
use crate::task::reference::{RunRef, TaskRef};
use std::hint::cold_path;
use std::ptr;

/// Why a fiber is no longer the spare one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WasSpare {
    /// There is a task for the fiber or for its loop.
    Needed,
    /// Another fiber is the spare one, or a worker may need this one's stack.
    Superfluous,
    /// The main fiber has asked it to end.
    Dismissed,
}

impl Worker {
    /// Sets `task`, which runs here, aside and returns the fiber that goes on; that may be the
    /// running fiber itself. The caller has arranged that something makes the task ready again, and
    /// has stored the fiber in the task's `place`.
    #[inline]
    pub(crate) fn next_after(&self, task: TaskRef<'_>) -> NextFiber {
        point();
        self.fiber().task.set(task.pointer().as_ptr());
        if !self.remote.forks.is_clear() {
            return self.pick_after_forks();
        }
        self.pick()
    }

    /// As [`next_after`](Worker::next_after), where the next fiber is known.
    pub(crate) fn set_aside(&self, task: TaskRef<'_>) {
        point();
        self.fiber().task.set(task.pointer().as_ptr());
        if !self.remote.forks.is_clear() {
            self.make_forks_public();
        }
    }

    /// The task that is set aside may wait for one of its forks.
    #[cold]
    #[inline(never)]
    fn pick_after_forks(&self) -> NextFiber {
        self.make_forks_public();
        self.pick()
    }

    /// Goes on with `next`, and returns when the running fiber, which has its task noted, is
    /// continued. Returns the worker that the task then runs on (another one only if the task may
    /// migrate).
    ///
    /// Inlined, with the switch and little else: the processor mispredicts each return from a
    /// function that another fiber has called.
    #[inline(always)]
    pub(crate) fn leave_for<'a>(&self, next: NextFiber) -> &'a Worker {
        let me = self.fiber();
        let node = self.node.get();
        if !next.is(me) {
            if self.remote.forks.is_clear() && !is_inside() {
                self.counters().switches.add(1);
                self.switch(next);
            } else {
                cold_path();
                self.leave_open(next);
            }
        }
        // SAFETY: a task is continued only on a worker's thread.
        let worker = unsafe { Worker::current_unchecked() };
        worker.reap();
        worker.node.set(node);
        worker
    }

    /// Leaves a fiber that has open joins, or bare coroutines on its stack.
    #[cold]
    #[inline(never)]
    fn leave_open(&self, next: NextFiber) {
        let forks = self.leave_forks();
        let chain = suspend_nesting();
        self.counters().switches.add(1);
        self.switch(next);
        let worker = Worker::current().expect("a task runs on a worker");
        // SAFETY: this fiber runs again, and the fiber that ran before has left a clear fork list.
        unsafe { worker.remote.forks.come_back(forks) };
        worker.restore_nesting(chain);
    }

    /// Restores the nesting of bare coroutines of a task that goes on.
    pub(crate) fn restore_nesting(&self, chain: Saved) {
        if restore_nesting(chain) {
            self.remote.forks.request_from_self();
        }
    }

    /// Creates a fiber for a claimed task. Gives the task back if there is no stack to be had.
    pub(crate) fn new_fiber(&self, class: StackClass, first: RunRef) -> Result<NextFiber, RunRef> {
        if class == self.memory.class
            && let Some(spare) = self.fibers.take_spare()
        {
            spare.first.set(Some(first));
            self.adopt(&spare);
            if self.memory.exhausted.get() {
                exhaustion::end(self);
            }
            return Ok(spare);
        }
        let taken = self.memory.stacks.borrow_mut().take(class, &self.shared().stacks);
        match taken {
            Ok(stack) => {
                let fiber = NextFiber::new::<Loop>(self, stack, first);
                self.adopt(&fiber);
                if self.memory.exhausted.get() {
                    exhaustion::end(self);
                }
                Ok(fiber)
            }
            Err(reason) => {
                exhaustion::begin(self, reason);
                Err(first)
            }
        }
    }

    /// Runs tasks, from the main fiber, until nothing is left to do without searching. Returns
    /// `false` if there was nothing.
    pub(crate) fn run_until_idle(&self) -> bool {
        if self.isolations.any() {
            if self.shared().pressure.load(Ordering::Relaxed)
                && exhaustion::relieve(self, Duration::ZERO)
            {
                return true;
            }
            let next = self.pick();
            let found = !next.is(self.fibers.main.get());
            if found {
                self.leave_main(next);
            }
            return found;
        }
        if self.queues.has_dedicated() {
            self.tell_of_next();
            return exhaustion::retry_dedicated(self);
        }
        if self.shared().pressure.load(Ordering::Relaxed) {
            self.tell_of_next();
            if exhaustion::relieve(self, Duration::ZERO) {
                return true;
            }
        }
        // Only the kept task goes first, not a ready task whose turn it is: that one might wait for
        // the kept task.
        let kept = if self.queues.has_next.replace(false) { self.next_ready() } else { None };
        let next = kept.unwrap_or_else(|| self.pick());
        self.tell_of_next();
        if next.is(self.fibers.main.get()) {
            return false;
        }
        self.leave_main(next);
        true
    }

    /// Wakes a worker for the task that a searcher left as its own next without telling others, if
    /// something else has come first: a task of its own that was woken since, or an excess of
    /// started tasks.
    pub(crate) fn tell_of_next(&self) {
        if !self.queues.takes_next.replace(false) {
            return;
        }
        let shared = self.shared();
        let injected = !shared.injector.is_empty();
        if injected || !self.queues.deque.is_empty() {
            shared.idle.notify(shared, injected);
        }
    }

    /// Runs another fiber, from the main one, until the worker comes back to main.
    pub(crate) fn leave_main(&self, next: NextFiber) {
        if self.clockwork.keeps_time.get() || self.remote.timers.want_looks() {
            self.hand_timekeeping_over();
        }
        self.switch(next);
        self.reap();
        if !self.fibers.ended_extra.get().is_null() {
            exhaustion::give_back_extra(self);
        }
        // The node that the previous fiber has set is not ours.
        self.node.set(ptr::null());
    }

    /// Periodic work: frees the retired records.
    #[cold]
    #[inline(never)]
    pub(crate) fn housekeeping(&self) {
        if !self.retired().is_empty() {
            self.retired().drain(&self.memory.records);
        }
    }

    /// The loop: runs fresh tasks until a fiber is ready or there is nothing to run.
    ///
    /// `ended` records the tasks that were called on this fiber before.
    fn run_loop(&self, mut ended: Uncounting) {
        while let Some(task) = self.next_for_loop() {
            ended.before(self, &task);
            ended.after(self, start(self, task));
            end_observation(self, self.fiber());
        }
        ended.finish(self);
    }

    /// The next fresh task for the loop to call, unless something else comes first.
    #[inline(always)]
    fn next_for_loop(&self) -> Option<RunRef> {
        self.collect();
        if self.isolations.any() || (!self.queues.ready.is_empty() && !self.fairness.tick()) {
            return None;
        }
        self.serve_between_tasks();
        let mut task = self.next_fresh().or_else(|| self.next_of_victim())?;
        if self.shared().habits.any_spreads() {
            task = self.kept_on_loop(task)?;
        }
        if task.traits.needs_own_stack() {
            self.queues.dedicated.set(Some(task));
            return None;
        }
        Some(task)
    }

    /// Keeps the running fiber, whose loop has nothing to do, for the next task that needs one, and
    /// leaves for another meanwhile: to end it and to make a new one would cost more.
    ///
    /// Inlined, so that a fiber that is the spare one again after one task has returned from no
    /// more functions than it has called. The processor predicts returns from calls, so it then
    /// predicts the fiber that is continued next.
    #[inline(always)]
    fn wait_as_spare(&self) -> WasSpare {
        if self.fibers.has_spare() || self.shared().pressure.load(Ordering::Relaxed) {
            return WasSpare::Superfluous;
        }
        let me = self.fiber();
        self.disown();
        me.task.set(ptr::null());
        self.fibers.spare_running();
        let next = self.pick_after_end();
        if !next.is(me) {
            self.switch(next);
            self.reap();
            self.node.set(ptr::null());
        }
        if self.fibers.dismissing.replace(false) { WasSpare::Dismissed } else { WasSpare::Needed }
    }

    /// Ends the spare fiber, if there is one. On the main fiber.
    pub(crate) fn dismiss_spare(&self) {
        if let Some(spare) = self.fibers.take_spare() {
            self.adopt(&spare);
            self.fibers.dismissing.set(true);
            self.leave_main(spare);
        }
    }

    /// Ends the running fiber. Returns the next one.
    fn retire_fiber(&self, me: &Fiber, dismissed: bool) -> NextFiber {
        self.disown();
        let is_extra = me.extra_for.get().is_some();
        let to_main = dismissed || is_extra;
        let next = if to_main { NextFiber::main(self) } else { self.pick_after_end() };
        if is_extra {
            self.fibers.ended_extra.set(me);
        } else {
            // We still stand on this stack. The pool is ours, and nothing is taken from it before
            // the switch.
            let stack = me.take_stack().expect("a fiber that ends has a stack");
            self.memory.stacks.borrow_mut().put(stack);
        }
        next
    }

    /// Forgets the fiber that has ended and left for the present one. It could not do so itself
    /// while it stood on its own stack. Only a sanitizer keeps any record of it.
    #[inline(always)]
    pub(crate) fn reap(&self) {
        #[cfg(cygnet_tsan)]
        // SAFETY: its stack lies in our pool, from which nothing has been taken since.
        if let Some(fiber) = unsafe { self.fibers.departed.replace(ptr::null()).as_ref() } {
            fiber.context.end();
        }
    }

    fn pick_after_end(&self) -> NextFiber {
        if self.isolations.any() {
            return self.pick_member();
        }
        if let Some(task) = self.queues.dedicated.take() {
            match self.new_fiber(self.class_for(&task), task) {
                Ok(fiber) => return fiber,
                Err(task) => self.queues.dedicated.set(Some(task)),
            }
        }
        if self.shared().pressure.load(Ordering::Relaxed) {
            // A starving worker may need the stack that comes free.
            return NextFiber::main(self);
        }
        self.next_ready().unwrap_or_else(|| NextFiber::main(self))
    }
}

/// The program of every fiber of a worker, except of those that `blocking_wait` makes.
pub(crate) struct Loop;

impl Program for Loop {
    /// Whether the fiber was dismissed.
    type Result = bool;

    fn run(fiber: &Fiber) -> bool {
        let worker = Worker::current().expect("fibers run on workers");
        worker.reap();
        // The node that the previous fiber has set is not ours, and may be gone when it is used.
        worker.node.set(ptr::null());
        loop {
            let first = fiber.first.take();
            let mut ended = Uncounting::new();
            if let Some(first) = first
                && !start_first(worker, fiber, first, &mut ended)
            {
                return false;
            }
            worker.run_loop(ended);
            match worker.wait_as_spare() {
                WasSpare::Needed => {}
                WasSpare::Superfluous => return false,
                WasSpare::Dismissed => return true,
            }
        }
    }

    fn end(worker: &Worker, fiber: &Fiber, dismissed: bool) -> NextFiber {
        worker.retire_fiber(fiber, dismissed)
    }
}

/// Runs the task that a fiber was made for. Returns `false` if no loop may run on the fiber
/// afterwards.
fn start_first(worker: &Worker, fiber: &Fiber, first: RunRef, ended: &mut Uncounting) -> bool {
    // A task that migrates may have changed workers by its end, a stack of another class is a rare
    // one, and an extra stack is for this task alone. No loop follows on any of them.
    let migratable = first.traits.migratable;
    let usual = !migratable
        && worker.class_for(&first) == worker.memory.class
        && fiber.extra_for.get().is_none();
    if migratable {
        // A task that it calls is not observed either: the worker that counts a task must be the
        // one that uncounts it.
        fiber.observation.set(Observation::Ignored);
        let task = start(worker, first);
        // It may have changed workers.
        task.uncount(Worker::current().expect("tasks run on workers"));
    } else {
        ended.after(worker, start(worker, first));
        end_observation(worker, fiber);
        fiber.observation.set(Observation::None);
        if !usual {
            ended.finish(worker);
        }
    }
    usual
}

/// Ends the observation of a task on a fiber, if there was one. The task has not changed workers.
#[inline(always)]
fn end_observation(worker: &Worker, fiber: &Fiber) {
    if let Observation::Task(task) = fiber.observation.get() {
        worker.leave_crowd(fiber, task);
    }
}
