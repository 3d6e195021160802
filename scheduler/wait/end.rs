//! Waits for the end of a task.

use crate::scheduler::blocking::runs_job;
use crate::scheduler::timers::tick::Tick;
use crate::scheduler::wait::interrupted::{Interrupted, Interruption};
use crate::scheduler::wait::no_suspend::assert_may_suspend;
use crate::scheduler::wait::park::{waiter_of, waits};
use crate::scheduler::worker::Worker;
use crate::shim::Arc;
use crate::shim::time::Instant;
use crate::task::reference::TaskRef;
use crate::task::thread_waiter::ThreadWaiter;
use crate::task::words::join::{JoinWord, Waiter};
use crate::task::words::wait::WaitKind;
use std::panic::Location;

impl Worker {
    /// Waits until the task of a join word has ended.
    #[track_caller]
    pub(crate) fn await_end(
        &self,
        task: TaskRef<'_>,
        join: &JoinWord,
        kind: WaitKind,
    ) -> Result<(), Interrupted> {
        if kind != WaitKind::Structured && self.is_interrupted() {
            self.give_way(task);
            return Err(Interrupted);
        }
        let Some(worker) = register(task, join) else { return Ok(()) };
        let location = Location::caller();
        let _waits = waits(|| format!("the end of a task at {location}"));
        worker.wait_or_take_back(task, kind, || join.take_back())
    }

    /// The same, but only until `at`.
    #[track_caller]
    fn await_end_until(
        &self,
        task: TaskRef<'_>,
        join: &JoinWord,
        at: Tick,
    ) -> Result<(), Interruption> {
        // Looks for a cancel, and makes sure that a later one finds the task in `wait_until`.
        if self.is_interrupted() || !self.may_wait() {
            self.give_way(task);
            return Err(Interruption::Cancelled);
        }
        let Some(worker) = register(task, join) else { return Ok(()) };
        let location = Location::caller();
        let _waits = waits(|| format!("the end of a task, for a time, at {location}"));
        let (result, worker) = worker.wait_until(task, at);
        let Err(short) = result else { return Ok(()) };
        if !join.take_back() {
            // The task has ended at this moment.
            worker.await_grant(task);
            return Ok(());
        }
        if short == Interruption::Cancelled {
            worker.give_way(task);
        }
        Err(short)
    }

    /// Waits for the end of a fork that another worker has started. Allowed also where nothing
    /// may suspend: the wait then blocks the worker.
    pub(crate) fn await_fork(&self, task: TaskRef<'_>, join: &JoinWord) {
        if join.register(Waiter::Task(waiter_of(task))).is_ok() {
            self.await_grant(task);
        }
    }
}

/// Waits for the end of a task. The caller may be a task or a plain thread.
#[track_caller]
pub(crate) fn await_end_anywhere(join: &JoinWord, kind: WaitKind) -> Result<(), Interrupted> {
    if let Some(worker) = Worker::current()
        && let Some(task) = worker.task()
    {
        return worker.await_end(task, join, kind);
    }
    let location = Location::caller();
    let _waits = waits(|| format!("the end of a task at {location}"));
    let waiter = ThreadWaiter::current();
    if join.register(as_waiter(&waiter)).is_ok() {
        waiter.wait();
    }
    Ok(())
}

/// The same, but only until a moment, if that is given. A caller that is cancelled does not wait; a
/// cancel cuts its wait short, unless the task has ended by then.
#[track_caller]
pub(crate) fn await_end_anywhere_until(
    join: &JoinWord,
    until: Option<Instant>,
) -> Result<(), Interruption> {
    if let Some(worker) = Worker::current()
        && let Some(task) = worker.task()
    {
        return match until {
            Some(until) => worker.await_end_until(task, join, Tick::not_before(until)),
            None if worker.await_end(task, join, WaitKind::Grant).is_ok() => Ok(()),
            None => Err(Interruption::Cancelled),
        };
    }
    let location = Location::caller();
    let _waits = waits(|| format!("the end of a task, for a time, at {location}"));
    let waiter = ThreadWaiter::current();
    if join.register(as_waiter(&waiter)).is_ok() && !waiter.wait_until(until) {
        if join.take_back() {
            return Err(Interruption::TimedOut);
        }
        waiter.wait();
    }
    Ok(())
}

/// Registers the running task for the end of another. Returns the worker that it then runs on, or
/// `None` if the other task has ended. The waker of an earlier poll is dropped here: its destructor
/// may wait, and a migratable task may change workers there.
#[inline]
#[track_caller]
fn register<'a>(task: TaskRef<'_>, join: &JoinWord) -> Option<&'a Worker> {
    if join.is_done() {
        return None;
    }
    assert_may_suspend();
    join.register(Waiter::Task(waiter_of(task))).ok()?;
    Some(Worker::current().expect("tasks run on workers"))
}

/// The calling thread, to be registered for the end of a task. It stays in its wait until the grant
/// has come, or until it has taken the registration back.
fn as_waiter(thread: &Arc<ThreadWaiter>) -> Waiter {
    let thread = Arc::as_ptr(thread);
    if runs_job() { Waiter::PoolThread(thread) } else { Waiter::Thread(thread) }
}
