//! The waits of a task (for the end of another task, an unpark, a time, the children of a scope),
//! and yielding.
//!
//! Every wait goes through the wait word; `task/words/wait.rs` describes the protocol. This
//! module has the two steps that need the scheduler: leaving the worker to other tasks, and
//! continuing.

use crate::scheduler::cancel;
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::run_loop::call;
use crate::scheduler::timers::tick::Tick;
use crate::scheduler::timers::timer::{Action, Timer};
use crate::scheduler::wait::blocking_wait::{Until, block};
use crate::scheduler::wait::interrupted::{Interrupted, Interruption};
use crate::scheduler::wait::no_suspend::{assert_may_suspend, refuse_to_suspend};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::switch::NextFiber;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::{self, Bug};
use crate::shim::{Cell, load_in_total_order};
use crate::task::record::{Phase, Record};
use crate::task::reference::{TaskRef, WaiterRef};
use crate::task::words::tree::{Node, Verdict};
use crate::task::words::wait::{Publish, WaitKind, Woken};
use std::panic::Location;
use std::pin::pin;
use std::ptr;

/// Tells a simulation what the caller waits for, until the returned guard is dropped.
#[inline(always)]
pub(crate) fn waits<'a>(what: impl Fn() -> String + 'a) -> shim::Waits<'a> {
    let task = if shim::is_simulated() { Worker::current().and_then(Worker::task) } else { None };
    shim::waits(move || match task {
        Some(task) => {
            let name = task.name().map_or(String::new(), |name| format!(" `{name}`"));
            let (id, location) = (task.id(), task.spawned_at);
            format!("task {id}{name}, spawned at {location}, waits for {}", what())
        }
        None => format!("the thread waits for {}", what()),
    })
}

/// Cuts a wait short for another reason than a cancel of the waiter's node.
pub(in crate::scheduler) trait Limit {
    /// The caller has found that the task [may wait](Worker::may_wait).
    const MAY_WAIT: bool = true;

    /// Returns whether the limit has been reached. The waiter calls this after it has published
    /// the wait.
    #[inline(always)]
    fn is_over(&self) -> bool {
        false
    }
}

impl Limit for () {}

/// No limit, for a caller that has not looked whether the task may wait.
struct Unknown;

impl Limit for Unknown {
    const MAY_WAIT: bool = false;
}

/// A flag that a timer sets when the time of the wait is over.
impl Limit for AtomicBool {
    fn is_over(&self) -> bool {
        load_in_total_order(self)
    }
}

/// How a task spends a wait.
enum Spent {
    /// The wait is over already.
    Over(Result<(), Interrupted>),
    /// By blocking the thread: no other task may run on it.
    Blocking,
    /// By leaving for this fiber, which runs meanwhile.
    Beside(NextFiber),
}

/// Publishes a wait of `me`, a task that runs in `node`. Takes the wait back if `node` was
/// cancelled, or `limit` was reached, since the task last looked.
#[inline(always)]
pub(in crate::scheduler) fn publish_wait(
    node: &Node,
    me: &Record,
    kind: WaitKind,
    limit: &impl Limit,
) -> Result<Publish, Interrupted> {
    let published = me.wait.publish(kind);
    if shim::has(Bug::NoLookAfterPublishing) {
        return Ok(published);
    }
    if published == Publish::Parked
        && kind != WaitKind::Structured
        // MUTANT(parking.look): false
        && (node.word().is_cancelled_in_total_order() || limit.is_over())
        // False if another party has woken the task already.
        // MUTANT(parking.cut): true
        && me.wait.interrupt()
    {
        return Err(Interrupted);
    }
    Ok(published)
}

impl Worker {
    /// Publishes a wait of `task`, which runs here, and suspends the task if need be. Returns
    /// `Err` if the task is cancelled and the kind of wait allows an interruption: then nothing
    /// was published, or the wait was cut short. Also returns the worker that the task then runs
    /// on.
    #[inline(always)]
    pub(crate) fn wait(
        &self,
        task: TaskRef<'_>,
        kind: WaitKind,
    ) -> (Result<(), Interrupted>, &Worker) {
        self.wait_within(task, kind, &Unknown)
    }

    /// The same wait, if the task [may wait](Worker::may_wait).
    #[inline(always)]
    pub(in crate::scheduler) fn wait_on(
        &self,
        task: TaskRef<'_>,
        kind: WaitKind,
    ) -> (Result<(), Interrupted>, &Worker) {
        self.wait_within(task, kind, &())
    }

    #[inline(always)]
    fn wait_within(
        &self,
        task: TaskRef<'_>,
        kind: WaitKind,
        limit: &impl Limit,
    ) -> (Result<(), Interrupted>, &Worker) {
        let mut worker = self;
        loop {
            worker = match worker.begin_wait(task, kind, limit) {
                Spent::Over(result) => return (result, worker),
                Spent::Blocking => block(worker, task, Until::Grant),
                Spent::Beside(next) => worker.leave_for(next),
            };
            if task.wait.woken() == Woken::Granted {
                return (Ok(()), worker);
            }
            // Otherwise the interruption was for a node that the task has left, or for one above
            // the node in which the task ignores cancellation: it waits again.
            if worker.is_cancelled_here() {
                return (Err(Interrupted), worker);
            }
        }
    }

    /// Waits for a grant until `at`, if the task [may wait](Worker::may_wait). A grant that has
    /// come is collected, even if the time has passed.
    pub(in crate::scheduler) fn wait_until(
        &self,
        task: TaskRef<'_>,
        at: Tick,
    ) -> (Result<(), Interruption>, &Worker) {
        // The timer is taken out, and the waiter dropped, before the task leaves this frame.
        let action = Action::Expire(waiter_of(task), AtomicBool::new(false));
        let timer = pin!(Timer::new(at, action));
        self.set_timer(timer.as_ref());
        let over = timer.over();
        let mut worker = self;
        let result = loop {
            let granted = match worker.begin_wait(task, WaitKind::Grant, over) {
                Spent::Over(result) => result.is_ok(),
                Spent::Blocking => unreachable!("a wait that blocks its worker is begun as one"),
                Spent::Beside(next) => {
                    worker = worker.leave_for(next);
                    task.wait.woken() == Woken::Granted
                }
            };
            if granted {
                break Ok(());
            }
            if worker.is_interrupted() {
                break Err(Interruption::Cancelled);
            }
            if over.load(Ordering::Relaxed) {
                break Err(Interruption::TimedOut);
            }
            // The interruption was for a node that the task has left, or for one above the node
            // in which the task ignores cancellation.
        };
        timer.unset();
        (result, worker)
    }

    /// Waits for a grant until `at`, if that is given, while the thread unwinds. No other task may
    /// run on it meanwhile, so this blocks the worker. A cancel cuts the wait short.
    #[cold]
    pub(in crate::scheduler) fn block_until(
        &self,
        task: TaskRef<'_>,
        at: Option<Tick>,
    ) -> (Result<(), Interruption>, &Worker) {
        // The timer is taken out, and the waiter dropped, before the task leaves this frame.
        let action = Action::Expire(waiter_of(task), AtomicBool::new(false));
        let timer = pin!(Timer::new(at.unwrap_or(Tick::NEVER), action));
        if at.is_some() {
            self.set_timer(timer.as_ref());
        }
        let has_limit = at.is_some() || self.running_node().is_timed();
        let until = if has_limit { Until::Time } else { Until::Grant };
        let (me, over) = (task.get(), timer.over());
        let mut worker = self;
        let result = loop {
            // A cancel from now on finds the task.
            if !worker.may_wait() || worker.is_cancelled_here() {
                break Err(Interruption::Cancelled);
            }
            if over.load(Ordering::Relaxed) {
                break Err(Interruption::TimedOut);
            }
            me.place.store(worker.fibers.running.get().expose_provenance(), Ordering::Relaxed);
            me.set_phase(Phase::Parked);
            match worker.publish_wait(me, WaitKind::Grant, over) {
                Ok(Publish::Parked) => {
                    worker.counters().parks.add(1);
                    worker = block(worker, task, until);
                    if task.wait.woken() == Woken::Granted {
                        break Ok(());
                    }
                }
                published => {
                    me.set_phase(Phase::Running);
                    if published.is_ok() {
                        break Ok(());
                    }
                }
            }
            // Otherwise the limit is over, or the interruption was for a node that the task has
            // left, or for one above the node in which the task ignores cancellation.
        };
        timer.unset();
        (result, worker)
    }

    /// Returns whether the running task is cancelled in the node that it is in.
    #[inline(always)]
    pub(in crate::scheduler) fn is_cancelled_here(&self) -> bool {
        cancel::is_cancelled(self.running_node())
    }

    /// Publishes a wait of `task`, and returns how the task spends it.
    #[inline(always)]
    fn begin_wait<L: Limit>(&self, task: TaskRef<'_>, kind: WaitKind, limit: &L) -> Spent {
        let me = task.get();
        // While the thread unwinds, no other task may run on it.
        let panicking = crate::shim::panicking();
        let may_wait = || L::MAY_WAIT || self.may_wait();
        if kind != WaitKind::Structured && (panicking || !may_wait()) {
            return Spent::Over(Err(Interrupted));
        }
        me.place.store(self.fibers.running.get().expose_provenance(), Ordering::Relaxed);
        me.set_phase(Phase::Parked);
        let published = self.publish_wait(me, kind, limit);
        if published != Ok(Publish::Parked) {
            me.set_phase(Phase::Running);
            return Spent::Over(published.map(|_| ()));
        }
        self.counters().parks.add(1);
        // Where no other task may run on this thread, a structured wait blocks it.
        if panicking || self.forbidden.get() > 0 {
            return Spent::Blocking;
        }
        Spent::Beside(self.next_after(task))
    }

    /// Makes sure that a cancel finds the running task when it waits. Returns `false` if a cancel
    /// has come already.
    #[inline(always)]
    pub(in crate::scheduler) fn may_wait(&self) -> bool {
        let node = self.running_node();
        if !node.is_linked() {
            return cancel::link_to_wait(node);
        }
        node.verdict() != Verdict::Cancelled
    }

    /// Returns whether the running task is cancelled, if there is a deadline above it. For a wait
    /// that may be over, or switch to another task, without a look at the clock. A cancel that
    /// has been marked already is seen by `may_wait`.
    #[inline(always)]
    pub(in crate::scheduler) fn is_late(&self) -> bool {
        let node = self.running_node();
        node.is_timed() && cancel::is_cancelled(node)
    }

    /// Same as the function [`publish_wait`], for the running task.
    #[inline(always)]
    pub(in crate::scheduler) fn publish_wait(
        &self,
        me: &Record,
        kind: WaitKind,
        limit: &impl Limit,
    ) -> Result<Publish, Interrupted> {
        publish_wait(self.running_node().get(), me, kind, limit)
    }

    /// Waits for an unpark.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn park(&self, task: TaskRef<'_>) -> Result<(), Interrupted> {
        assert_may_suspend();
        // After the deadline the task fails, even if there is a token.
        if self.is_late() {
            self.give_way(task);
            return Err(Interrupted);
        }
        let location = Location::caller();
        let _waits = waits(|| format!("an unpark, parked at {location}"));
        let (result, worker) = self.wait(task, WaitKind::Unpark);
        if result.is_err() {
            worker.give_way(task);
        }
        result
    }

    /// Waits until tick `at`.
    #[track_caller]
    pub(crate) fn sleep(&self, task: TaskRef<'_>, at: Tick) -> Result<(), Interrupted> {
        assert_may_suspend();
        if self.is_interrupted() {
            self.give_way(task);
            return Err(Interrupted);
        }
        let location = Location::caller();
        let _waits = waits(|| format!("a time, asleep at {location}"));
        // This call returns only after the grant, or when the timer has been taken out.
        let action = Action::Wake(Cell::new(Some(waiter_of(task))));
        let timer = pin!(Timer::new(at, action));
        self.set_timer(timer.as_ref());
        // Nothing but the timer grants this wait.
        self.wait_or_take_back(task, WaitKind::Grant, || timer.unset())
    }

    /// Waits for a grant. `take_back` is called after an interruption, and takes the registration
    /// back. It returns `false` if the grant is under way: then this waits for the grant, too.
    #[inline(always)]
    pub(super) fn wait_or_take_back(
        &self,
        task: TaskRef<'_>,
        kind: WaitKind,
        take_back: impl FnOnce() -> bool,
    ) -> Result<(), Interrupted> {
        let (result, worker) = self.wait(task, kind);
        if result.is_ok() {
            return Ok(());
        }
        if take_back() {
            worker.give_way(task);
        } else {
            worker.await_grant(task);
        }
        Err(Interrupted)
    }

    /// Waits for a grant that is certain to come, without interruption. Returns the worker that the
    /// task then runs on.
    #[inline(always)]
    pub(in crate::scheduler) fn await_grant(&self, task: TaskRef<'_>) -> &Worker {
        let (result, worker) = self.wait(task, WaitKind::Structured);
        debug_assert!(result.is_ok(), "a structured wait was cut short");
        worker
    }

    /// Closes a scope and waits for its last child.
    pub(crate) fn await_children(&self, frame: &ScopeFrame) {
        let task = frame.owner();
        let mut worker = self;
        // The newest children may still lie on top of the private deque: call them.
        while worker.fiber().has_room() {
            if worker.fairness.tick() {
                worker.let_others();
                worker = Worker::current().expect("tasks run on workers");
            }
            // Between two children, a thief's request is served with a share of the remaining
            // ones.
            worker.serve_between_tasks();
            let Some(child) = worker.remote.private.pop() else { break };
            let ours = ptr::eq(child.node.parent, &raw const frame.node);
            if !ours || child.traits.needs_own_stack() || !worker.may_call(&child) {
                worker.queue_privately(child);
                break;
            }
            worker.counters().in_place.add(1);
            let ended = call::call(worker, child);
            worker = Worker::current().expect("tasks run on workers");
            ended.uncount(worker);
        }
        if frame.node.close() {
            return;
        }
        let _waits = waits(|| "the end of its children".to_owned());
        worker.await_grant(task);
    }

    /// Lets the other ready tasks run once. Does not suspend while the thread unwinds, and panics
    /// inside `no_suspend`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn yield_now(&self, task: TaskRef<'_>) -> Result<(), Interrupted> {
        let worker = if let Some(next) = self.queue_behind(task) {
            self.leave_for(next)
        } else {
            refuse_to_suspend();
            self
        };
        if cancel::is_cancelled(worker.running_node()) { Err(Interrupted) } else { Ok(()) }
    }

    /// Queues the running task behind the ready ones. Returns the fiber to run next, or
    /// `None` if nothing may suspend here.
    #[inline(always)]
    fn queue_behind(&self, task: TaskRef<'_>) -> Option<NextFiber> {
        let allowed = !crate::shim::panicking() && self.forbidden.get() == 0;
        allowed.then(|| self.queue_and_pick(task))
    }

    // A separate function that calls nothing before its very end, so that it has no registers to
    // save.
    #[inline(never)]
    fn queue_and_pick(&self, task: TaskRef<'_>) -> NextFiber {
        let ready = self.suspend(task);
        self.queues.ready.push(ready);
        self.next_after(task)
    }

    /// Lets the other ready tasks run once, if a task may suspend here. A cancelled wait does
    /// this too, so that a task that goes on calling waits cannot monopolise its worker.
    pub(crate) fn give_way(&self, task: TaskRef<'_>) {
        if let Some(next) = self.queue_behind(task) {
            self.leave_for(next);
        }
    }

    /// Returns whether an interruptible wait of the running task would be cut short.
    #[inline(always)]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.innermost_node().is_some_and(cancel::is_cancelled) || crate::shim::panicking()
    }
}

/// The running task, to be registered for a grant. Each caller, all of them here and in `end`,
/// stays in its wait until the grant has come, or until it has taken the registration back.
pub(super) fn waiter_of(task: TaskRef<'_>) -> WaiterRef {
    // SAFETY: the task does not leave its wait before the reference is granted or taken back.
    unsafe { WaiterRef::new(task) }
}
