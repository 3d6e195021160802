//! How a worker runs tasks: the loop, and the switches between coroutines.
//!
//! The loop runs on coroutine stacks. It takes a fresh task and calls it; a task that never waits
//! costs neither a switch nor a stack. When a task waits, its coroutine, with the loop frame at the
//! bottom, is set aside, and the worker goes on with a ready coroutine or with a new loop on
//! another stack. A loop that finds a ready coroutine leaves for it, and stands by or gives up its
//! stack. A worker that has nothing else to run goes to its main coroutine, the thread's own stack.
//! `pick` decides what comes next, and `call` calls tasks.

pub(crate) mod call;
pub(crate) mod check_in;
pub(crate) mod check_ins;
pub(crate) mod pick;

use crate::retire::nesting::{Saved, innermost, restore_nesting, suspend_nesting};
use crate::retire::stack::StackClass;
use crate::scheduler::life::complete::Uncounting;
use crate::scheduler::run_loop::call::{call, start};
use crate::scheduler::stacks::exhaustion;
use crate::scheduler::worker::fiber::{FiberOf, Observation};
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::atomic::Ordering;
use crate::shim::{abort_with, point};
use crate::task::record::Record;
use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

/// How a coroutine comes out of standing by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StoodBy {
    /// There is a task for the coroutine or for its loop.
    Needed,
    /// Another coroutine stands by, or a worker may need this one's stack.
    Superfluous,
    /// The main coroutine has asked it to end.
    Dismissed,
}

impl Worker {
    /// Sets `task`, which runs here, aside and returns the coroutine that goes on; that may be the
    /// running coroutine itself. The caller has arranged that something makes the task ready again,
    /// and has stored the coroutine in the task's `place`.
    #[inline]
    pub(crate) fn next_after(&self, task: NonNull<Record>) -> *const Fiber {
        point();
        self.fiber().task.set(task.as_ptr());
        if !self.remote.forks.is_clear() {
            return self.pick_after_forks();
        }
        self.pick()
    }

    /// As [`next_after`](Worker::next_after), where the next coroutine is known.
    pub(crate) fn set_aside(&self, task: NonNull<Record>) {
        point();
        self.fiber().task.set(task.as_ptr());
        if !self.remote.forks.is_clear() {
            self.publish_forks();
        }
    }

    /// The task that is set aside may wait for one of its forks.
    #[cold]
    #[inline(never)]
    fn pick_after_forks(&self) -> *const Fiber {
        self.publish_forks();
        self.pick()
    }

    /// Goes on with `next`, and returns when the running coroutine, which has its task noted, is
    /// continued. Returns the worker that the task then runs on (another one only if the task may
    /// migrate).
    ///
    /// Inlined, with the switch and little else: the processor mispredicts each return from a
    /// function that another coroutine has called.
    #[inline(always)]
    pub(crate) fn leave_for<'a>(&self, next: *const Fiber) -> &'a Worker {
        let me = self.fiber();
        let node = self.node.get();
        if !ptr::eq(next, me) {
            if self.remote.forks.is_clear() && innermost().is_null() {
                self.switch(me, next);
            } else {
                cold_path();
                self.leave_open(me, next);
            }
        }
        // SAFETY: a task is continued only on a worker's thread.
        let worker = unsafe { Worker::current_unchecked() };
        worker.reap();
        worker.node.set(node);
        worker
    }

    #[inline(always)]
    fn switch(&self, me: &Fiber, next: *const Fiber) {
        self.counters().switches.add(1);
        self.fibers.running.set(next);
        // SAFETY: `me` runs; `next` is suspended, new, or the main coroutine, in this worker's
        // hand alone, and lives until it has run to its end.
        unsafe { me.context.switch(&(*next).context) };
    }

    /// Leaves a coroutine that has open joins, or bare coroutines on its stack.
    #[cold]
    #[inline(never)]
    fn leave_open(&self, me: &Fiber, next: *const Fiber) {
        let forks = self.leave_forks();
        let chain = suspend_nesting();
        self.switch(me, next);
        let worker = Worker::current().expect("a task runs on a worker");
        // SAFETY: this coroutine runs again, and the coroutine that ran before has left a clear
        // fork list.
        unsafe { worker.remote.forks.come_back(forks) };
        worker.restore_nesting(chain);
    }

    /// Restores the nesting of bare coroutines of a task that goes on.
    pub(crate) fn restore_nesting(&self, chain: Saved) {
        if restore_nesting(chain) {
            self.remote.forks.request_from_self();
        }
    }

    /// Creates a coroutine. Returns `None` if there is no stack to be had.
    pub(crate) fn new_fiber(
        &self,
        class: StackClass,
        first: *const Record,
    ) -> Option<*const Fiber> {
        if class == self.memory.class
            // SAFETY: null, or a coroutine that is suspended in `stand_by`.
            && let Some(spare) = unsafe { self.fibers.spare.replace(ptr::null()).as_ref() }
        {
            spare.first.set(first);
            self.adopt(spare);
            if self.memory.exhausted.get() {
                exhaustion::end(self);
            }
            return Some(spare);
        }
        let taken = self.memory.stacks.borrow_mut().take(class, &self.shared().stacks);
        match taken {
            Ok(stack) => {
                // SAFETY: the stack is ours and unused.
                let fiber = unsafe { FiberOf::create(stack, ptr::from_ref(self), first, enter) };
                // SAFETY: made above.
                self.adopt(unsafe { fiber.as_ref() });
                if self.memory.exhausted.get() {
                    exhaustion::end(self);
                }
                Some(fiber.as_ptr())
            }
            Err(_) => {
                exhaustion::begin(self);
                None
            }
        }
    }

    /// Runs tasks, from the main coroutine, until nothing is left to do without searching. Returns
    /// `false` if there was nothing.
    pub(crate) fn run_until_idle(&self) -> bool {
        if self.isolations.any() {
            // Orders given to this worker while it rested come first.
            if self.shared().pressure.load(Ordering::Relaxed) && exhaustion::relieve(self) {
                return true;
            }
            let next = self.pick();
            let found = !ptr::eq(next, self.fibers.main.get());
            if found {
                self.leave_main(next);
            }
            return found;
        }
        if !self.queues.dedicated.get().is_null() {
            self.tell_of_next();
            return exhaustion::retry_dedicated(self);
        }
        if self.shared().pressure.load(Ordering::Relaxed) {
            self.tell_of_next();
            if exhaustion::relieve(self) {
                return true;
            }
        }
        // Only the kept task goes first, not a ready task whose turn it is: that one might wait for
        // the kept task.
        let kept = if self.queues.has_next.replace(false) { self.next_ready() } else { None };
        let next = kept.unwrap_or_else(|| self.pick());
        self.tell_of_next();
        if ptr::eq(next, self.fibers.main.get()) {
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

    /// Runs another coroutine, from the main one, until the worker comes back to main.
    pub(crate) fn leave_main(&self, next: *const Fiber) {
        if self.clockwork.watches.get() || self.remote.timers.want_looks() {
            self.hand_watch_over();
        }
        self.fibers.running.set(next);
        // SAFETY: the main coroutine runs; `next` is suspended or new and in our hand alone.
        unsafe { self.main().context.switch(&(*next).context) };
        self.reap();
        if !self.fibers.vacated.get().is_null() {
            exhaustion::see_off(self);
        }
        // The node that the previous coroutine has set is not ours.
        self.node.set(ptr::null());
    }

    /// Periodic work: frees the retired records.
    #[cold]
    #[inline(never)]
    pub(crate) fn housekeeping(&self) {
        // SAFETY: the queue lives as long as the worker.
        let retired = unsafe { self.retired().as_ref() };
        if !retired.is_empty() {
            // SAFETY: we are the owner.
            unsafe { retired.drain(&self.memory.records) };
        }
    }

    /// The loop: runs fresh tasks until a coroutine is ready or there is nothing to run.
    ///
    /// `ended` records the tasks that were called on this coroutine before.
    fn run_loop(&self, mut ended: Uncounting) {
        while let Some(record) = self.next_for_loop() {
            ended.before(self, record);
            ended.after(self, start(self, record));
            end_observation(self, self.fiber());
        }
        ended.finish(self);
    }

    /// The next fresh task for the loop to call, unless something else comes first.
    #[inline(always)]
    fn next_for_loop(&self) -> Option<NonNull<Record>> {
        self.collect();
        if self.isolations.any() || (!self.queues.ready.is_empty() && !self.fairness.tick()) {
            return None;
        }
        self.serve_between_tasks();
        let record = self.next_fresh().or_else(|| self.next_of_victim())?;
        if self.shared().habits.any_spreads() && !self.keeps_on_loop(record) {
            return None;
        }
        // SAFETY: we hold the run reference.
        let traits = unsafe { record.as_ref() }.traits;
        if traits.needs_own_stack() {
            self.queues.dedicated.set(record.as_ptr());
            return None;
        }
        Some(record)
    }

    /// Keeps the running coroutine, whose loop has nothing to do, for the next task that needs one,
    /// and leaves for another meanwhile: to end it and to make a new one would cost more.
    ///
    /// Inlined, so that a coroutine that stands by again after one task has returned from no more
    /// functions than it has called. The processor predicts returns from calls, so it then predicts
    /// the coroutine that is continued next.
    #[inline(always)]
    fn stand_by(&self) -> StoodBy {
        if !self.fibers.spare.get().is_null() || self.shared().pressure.load(Ordering::Relaxed) {
            return StoodBy::Superfluous;
        }
        let me = self.fiber();
        self.disown(me);
        me.task.set(ptr::null());
        self.fibers.spare.set(me);
        let next = self.pick_after_end();
        if !ptr::eq(next, me) {
            self.fibers.running.set(next);
            // SAFETY: `me` runs; `next` is suspended or new, and in our hand alone.
            unsafe { me.context.switch(&(*next).context) };
            self.reap();
            self.node.set(ptr::null());
        }
        if self.fibers.dismissing.replace(false) { StoodBy::Dismissed } else { StoodBy::Needed }
    }

    /// Ends the spare coroutine, if there is one. On the main coroutine.
    pub(crate) fn dismiss_spare(&self) {
        // SAFETY: null, or a coroutine that is suspended in `stand_by`.
        if let Some(spare) = unsafe { self.fibers.spare.replace(ptr::null()).as_ref() } {
            self.adopt(spare);
            self.fibers.dismissing.set(true);
            self.leave_main(spare);
        }
    }

    /// Ends the running coroutine and leaves for the next one.
    fn retire_fiber(&self, dismissed: bool) -> ! {
        let me = self.fiber();
        self.disown(me);
        let Some(stack) = me.take_stack() else {
            // A guest: nothing may happen on its host's stack before the main coroutine has
            // dismissed the guest and released the host.
            self.fibers.vacated.set(me);
            self.fibers.running.set(self.fibers.main.get());
            // SAFETY: nothing on this part of the stack is used again; main is suspended.
            unsafe { me.context.leave(&self.main().context) }
        };
        let next = if dismissed { self.fibers.main.get() } else { self.pick_after_end() };
        self.fibers.running.set(next);
        #[cfg(cygnet_tsan)]
        self.fibers.departed.set(me);
        // We still stand on this stack. The pool is ours, and nothing is taken from it before the
        // switch.
        self.memory.stacks.borrow_mut().put(stack);
        // SAFETY: nothing on this stack is used again: `enter` has no locals left; `next` is in our
        // hand alone.
        unsafe { me.context.leave(&(*next).context) }
    }

    /// Forgets the coroutine that has ended and left for the present one. It could not do so itself
    /// while it stood on its own stack. Only a sanitizer keeps any record of it.
    #[inline(always)]
    pub(crate) fn reap(&self) {
        #[cfg(cygnet_tsan)]
        // SAFETY: its stack lies in our pool, from which nothing has been taken since.
        if let Some(fiber) = unsafe { self.fibers.departed.replace(ptr::null()).as_ref() } {
            fiber.context.end();
        }
    }

    fn pick_after_end(&self) -> *const Fiber {
        if self.isolations.any() {
            return self.pick_member();
        }
        if let Some(record) = NonNull::new(self.queues.dedicated.replace(ptr::null()).cast_mut()) {
            // SAFETY: we hold the run reference.
            let class = self.class_for(unsafe { record.as_ref() });
            match self.new_fiber(class, record.as_ptr()) {
                Some(fiber) => return fiber,
                None => self.queues.dedicated.set(record.as_ptr()),
            }
        }
        if self.shared().pressure.load(Ordering::Relaxed) {
            // A starving worker may need the stack that comes free.
            return self.fibers.main.get();
        }
        if let Some(fiber) = self.next_ready() { fiber } else { self.fibers.main.get() }
    }
}

/// The entry point of every coroutine of a worker.
pub(crate) unsafe extern "C" fn enter(data: *mut u8, message: usize) {
    let fiber: *const Fiber = data.cast();
    // SAFETY: `data` is the coroutine that has just begun; it lives until it retires.
    let fiber_ref = unsafe { &*fiber };
    // SAFETY: this is the first call on the new coroutine.
    unsafe { fiber_ref.context.arrive(message) };
    // A task's own panic does not reach this frame. A panic that does is a bug of the scheduler,
    // and there is no frame below to unwind into.
    let Ok(dismissed) = catch_unwind(AssertUnwindSafe(|| {
        let worker = Worker::current().expect("fibers run on workers");
        worker.reap();
        // The node that the previous coroutine has set is not ours, and may be gone when it is
        // used.
        worker.node.set(ptr::null());
        loop {
            let first = NonNull::new(fiber_ref.first.replace(ptr::null()).cast_mut());
            let mut ended = Uncounting::new();
            if let Some(first) = first
                && !start_first(worker, fiber_ref, first, &mut ended)
            {
                return false;
            }
            worker.run_loop(ended);
            match worker.stand_by() {
                StoodBy::Needed => {}
                StoodBy::Superfluous => return false,
                StoodBy::Dismissed => return true,
            }
        }
    })) else {
        abort_with("the scheduler has panicked below a task, which is a bug");
    };
    Worker::current().expect("fibers run on workers").retire_fiber(dismissed)
}

/// Runs the task that a coroutine was made for. Returns `false` if no loop may run on the coroutine
/// afterwards.
fn start_first(
    worker: &Worker,
    fiber: &Fiber,
    first: NonNull<Record>,
    ended: &mut Uncounting,
) -> bool {
    if fiber.is_guest() {
        call(worker, first).uncount(worker);
        end_observation(worker, fiber);
        return false;
    }
    // SAFETY: its run reference came with it.
    let task = unsafe { first.as_ref() };
    // A task that migrates may have changed workers by its end, and a stack of another class is a
    // rare one. No loop follows on either.
    let usual = !task.traits.migratable && worker.class_for(task) == worker.memory.class;
    if task.traits.migratable {
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

/// Ends the observation of a task on a coroutine, if there was one. The task has not changed
/// workers.
#[inline(always)]
fn end_observation(worker: &Worker, fiber: &Fiber) {
    if let Observation::Task(task) = fiber.observation.get() {
        worker.leave_crowd(fiber, task);
    }
}
