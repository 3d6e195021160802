//! What a task can do to itself and others: give way, park, be unparked, ask whether it is
//! cancelled.

use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::runtime::task::{Task, TaskId, same};
use crate::scheduler::blocking;
use crate::scheduler::cancel;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::wait::resume::resume;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::release;
use crate::task::record::{Phase, Record};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

/// Lets other ready tasks of this worker run, and comes back. Fresh tasks have a turn now and then,
/// not at each call.
///
/// Suspends (not while the thread is unwinding: then it returns at once). Costs a queue operation and,
/// for each task that runs between, a switch; no locked instruction.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// for step in 0..3 {
///     // .. a piece of work ..
/// #   let _ = step;
///     cygnet::yield_now().unwrap();
/// }
/// # });
/// ```
///
/// # Errors
/// [`Cancelled`] if the task is cancelled or its runtime ends, after the others have run.
///
/// # Panics
/// Outside a task, and inside [`no_suspend`](crate::no_suspend).
#[inline]
#[track_caller]
pub fn yield_now() -> Result<(), Cancelled> {
    let (worker, task) = here("yield_now");
    worker.yield_now(task).map_err(|_| Cancelled::here())
}

/// What became of a [`yield_to`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum YieldTo {
    /// The task was ready or fresh on this worker; it has run before the caller came back.
    Ran,
    /// It waits for something; the caller has yielded to others instead.
    Parked,
    /// It has ended already; likewise.
    Finished,
    /// It is the caller itself; likewise.
    Itself,
    /// It runs, or is queued, on another worker, or it waits for the caller below it on the same
    /// coroutine, or it has not started and there is no stack for it, or a
    /// [`scope_with`](crate::scope_with()) keeps it waiting; likewise. Or the thread is unwinding, and nothing
    /// has run.
    Elsewhere,
}

/// Lets a certain task run next, if it can run on this worker; otherwise like [`yield_now`].
///
/// A fresh one is started, on a coroutine of its own. "Next" is before the other ready tasks; a
/// fresh task whose turn it is may still come first.
///
/// Suspends, unless the thread is unwinding. Costs a look through the worker's queue of ready tasks, in proportion to its length.
///
/// ```
/// use cygnet::YieldTo;
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let task = cygnet::spawn(|| 42);
/// assert_eq!(cygnet::yield_to(&task), Ok(YieldTo::Ran));
/// assert_eq!(cygnet::yield_to(&task), Ok(YieldTo::Finished));
/// assert_eq!(task.join().unwrap(), 42);
/// # });
/// ```
///
/// # Errors
/// As [`yield_now`].
///
/// # Panics
/// As [`yield_now`].
#[track_caller]
pub fn yield_to<T>(other: &Task<T>) -> Result<YieldTo, Cancelled> {
    let (worker, task) = here("yield_to");
    let record = other.record();
    let answer = if same(record, task) {
        YieldTo::Itself
    } else if other.is_finished() {
        YieldTo::Finished
    } else if crate::shim::panicking() {
        YieldTo::Elsewhere
    } else {
        match record.phase() {
            Phase::Suspended | Phase::Parked if worker.bring_forward(other.pointer()) => {
                YieldTo::Ran
            }
            Phase::Parked => YieldTo::Parked,
            Phase::Created | Phase::Ready if worker.start_next(other.pointer()) => YieldTo::Ran,
            _ => YieldTo::Elsewhere,
        }
    };
    worker.yield_now(task).map(|()| answer).map_err(|_| Cancelled::here())
}

/// Lets others have their turn in the middle of a long computation, and returns whether the task is
/// cancelled.
///
/// What waits for this worker comes to its turn in a loop that calls `checkpoint`, also if no other
/// worker is free: a task that is ready at the next call; a timer, such as a [`sleep`](crate::sleep())
/// or a [`timeout`](crate::timeout()), within eight calls of its time or a tenth of a millisecond, the
/// later of the two; a task that has not been started, and that no other worker takes, within eight
/// calls or a millisecond. Workers that have nothing to do get a part of what this one has. A sleeper
/// that cancels the loop is thus woken by that loop.
///
/// Suspends only if another task has its turn, and never inside [`no_suspend`](crate::no_suspend). Costs a
/// few loads otherwise; now and then a look at the clock, and what a timer does that is due: wakers and
/// hooks of cancellation are called here, as by any other thread.
///
/// ```
/// fn sum(numbers: &[u64]) -> Result<u64, cygnet::Cancelled> {
///     let mut sum = 0;
///     for chunk in numbers.chunks(1000) {
///         sum += chunk.iter().sum::<u64>();
///         cygnet::checkpoint()?;
///     }
///     Ok(sum)
/// }
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// assert_eq!(rt.block_on(|| sum(&[1; 5000])), Ok(5000));
/// ```
///
/// # Errors
/// [`Cancelled`] if the task is cancelled or its runtime ends.
///
/// # Panics
/// Outside a task.
#[inline]
#[track_caller]
pub fn checkpoint() -> Result<(), Cancelled> {
    let (worker, task) = here("checkpoint");
    if worker.remote.front.wants_attention() {
        worker.attend();
    }
    if worker.check_in() && !is_forbidden() {
        return worker.yield_now(task).map_err(|_| Cancelled::here());
    }
    if is_cancelled() { Err(Cancelled::here()) } else { Ok(()) }
}

/// Whether the calling task is cancelled or its runtime ends. In the closure of a
/// [`blocking`](crate::blocking()) call: whether the task that waits for it is. False elsewhere.
///
/// Does not suspend. Costs a few loads. For computations that never wait; [`checkpoint`] asks as
/// well.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let task = rt.spawn(|| {
///     while !cygnet::is_cancelled() {
///         std::hint::spin_loop();
///     }
/// });
/// drop(task); // cancels it
/// ```
#[inline]
pub fn is_cancelled() -> bool {
    let Some(worker) = Worker::current() else { return blocking::is_cancelled_here() };
    // SAFETY: none between tasks; else that of the running task, or of a scope on its stack.
    unsafe { worker.node.get().as_ref() }.is_some_and(cancel::is_cancelled)
}

/// The identity of the calling task; none outside one. Costs a few loads.
///
/// ```
/// assert_eq!(cygnet::current_id(), None);
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     let task = cygnet::spawn(|| cygnet::current_id().unwrap());
///     let id = task.id();
///     assert_eq!(task.join().unwrap(), id);
/// });
/// ```
pub fn current_id() -> Option<TaskId> {
    let task = Worker::current()?.task()?;
    // SAFETY: the running task.
    Some(TaskId(unsafe { task.as_ref() }.id()))
}

/// Waits until an [`Unparker`] of this task is used. One that was used before is remembered (once).
///
/// Suspends, unless it is. Costs one locked instruction and a switch. It does not wake without a
/// reason.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// # rt.block_on(|| {
/// let me = cygnet::unparker();
/// std::thread::spawn(move || me.unpark());
/// cygnet::park().unwrap();
/// # });
/// ```
///
/// # Errors
/// [`Cancelled`] if the task is cancelled or its runtime ends; also while the thread is panicking,
/// when nothing may suspend. An unparker that was used before is remembered further then.
///
/// # Panics
/// Outside a task, and inside [`no_suspend`](crate::no_suspend).
#[inline]
#[track_caller]
pub fn park() -> Result<(), Cancelled> {
    let (worker, task) = here("park");
    worker.park(task).map_err(|_| Cancelled::here())
}

/// Wakes one task from [`park`], from any thread, also after the task's end (when it does nothing).
/// It keeps the task's record, and nothing else of it. See [`park`] for an example.
pub struct Unparker {
    record: NonNull<Record>,
}

// SAFETY: a reference to a record that is shared by design; gives out nothing of the task's types.
unsafe impl Send for Unparker {}
// SAFETY: as above.
unsafe impl Sync for Unparker {}

impl UnwindSafe for Unparker {}
impl RefUnwindSafe for Unparker {}

/// An [`Unparker`] of the calling task. Does not suspend. Costs one locked instruction, as does its
/// clone.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// # rt.block_on(|| {
/// let me = cygnet::unparker();
/// let other = cygnet::spawn(move || me.unpark());
/// cygnet::park().unwrap();
/// other.join().unwrap();
/// # });
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn unparker() -> Unparker {
    let (_, record) = here("unparker");
    // SAFETY: the running task.
    unsafe { record.as_ref() }.add_reference();
    Unparker { record }
}

impl Unparker {
    fn record(&self) -> &Record {
        // SAFETY: we hold a reference.
        unsafe { self.record.as_ref() }
    }

    /// Ends the task's [`park`], or makes its next one return at once.
    ///
    /// Does not suspend. Costs one locked instruction, more if the task's worker must be woken.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let me = cygnet::unparker();
    /// me.unpark();
    /// me.unpark(); // remembered once
    /// cygnet::park().unwrap(); // so this one returns at once
    /// # });
    /// ```
    pub fn unpark(&self) {
        if self.record().wait.unpark() {
            resume(self.record.as_ptr());
        }
    }

    /// The identity of the task. A load; does not suspend.
    pub fn id(&self) -> TaskId {
        TaskId(self.record().id())
    }
}

impl Clone for Unparker {
    fn clone(&self) -> Unparker {
        self.record().add_reference();
        Unparker { record: self.record }
    }
}

impl Drop for Unparker {
    fn drop(&mut self) {
        // SAFETY: our reference; it is the last only if the handle has disposed of the outcome.
        unsafe { release(self.record, 1) };
    }
}

impl fmt::Debug for Unparker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unparker").field(&self.id().0).finish()
    }
}
