//! What a task can do for itself and to others: yield, check in, park, unpark, and ask whether it
//! is cancelled.

use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::runtime::task::{Task, TaskId};
use crate::scheduler::run_loop::check_in;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::wait::resume::resume;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::SharedRef;
use crate::task::record::Phase;

/// Lets the other ready tasks of this worker run, then continues. A task that has not started gets
/// a turn when this worker has switched 61 times since the last such turn, however long that takes;
/// [`checkpoint`] counts by time.
///
/// Suspends, unless the thread is unwinding: then it returns at once. Costs a queue operation and a
/// switch for each task that runs in between; no locked instruction.
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
/// [`Cancelled`] if the task is cancelled or its runtime ends, after the other tasks have run.
///
/// # Panics
/// Outside a task, and inside [`no_suspend`](crate::no_suspend).
#[inline]
#[track_caller]
pub fn yield_now() -> Result<(), Cancelled> {
    let (worker, task) = here("yield_now");
    worker.yield_now(task).map_err(|_| Cancelled::here())
}

/// The result of a [`yield_to`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum YieldTo {
    /// The task was ready, or not started, on this worker, and ran before the caller resumed.
    Ran,
    /// The task waits for something. The caller yielded to other tasks instead.
    Parked,
    /// The task had already finished. The caller yielded to other tasks instead.
    Finished,
    /// The task is the caller itself, which yielded to other tasks instead.
    Itself,
    /// The task could not run on this worker next, and the caller yielded to other tasks instead.
    /// It runs or is queued on another worker; or has called the caller in place, on the same
    /// coroutine, and waits for it; or has not started and gets no stack; or is held back by a
    /// [`scope_with`](crate::scope_with()). Also returned, without running any task, if the thread
    /// is unwinding.
    Elsewhere,
}

/// Lets a given task run next, if it can run on this worker. Otherwise acts like [`yield_now`].
///
/// A task that has not started is started on a coroutine of its own. The given task runs before the
/// other ready tasks; another task that has not started may still come first if it is its turn.
///
/// Suspends, unless the thread is unwinding. Costs a search of the worker's queue of ready tasks,
/// proportional to the queue's length.
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
/// [`Cancelled`] if the task is cancelled or its runtime ends, after the other tasks have run.
///
/// # Panics
/// Outside a task, and inside [`no_suspend`](crate::no_suspend).
#[track_caller]
pub fn yield_to<T>(other: &Task<T>) -> Result<YieldTo, Cancelled> {
    let (worker, task) = here("yield_to");
    let answer = if other.task() == task {
        YieldTo::Itself
    } else if other.is_finished() {
        YieldTo::Finished
    } else if crate::shim::panicking() {
        YieldTo::Elsewhere
    } else {
        match other.task().phase() {
            Phase::Suspended | Phase::Parked if worker.bring_forward(other.task()) => YieldTo::Ran,
            Phase::Parked => YieldTo::Parked,
            Phase::Created | Phase::Ready if worker.start_next(other.task()) => YieldTo::Ran,
            _ => YieldTo::Elsewhere,
        }
    };
    worker.yield_now(task).map(|()| answer).map_err(|_| Cancelled::here())
}

/// Gives other tasks their turn in a long computation, and returns an error if the task is
/// cancelled.
///
/// Calling `checkpoint` in a loop bounds how long anything else waits for this worker, even if no
/// other worker is free:
///
/// * A ready task runs at the next call.
/// * A timer, such as a [`sleep`](crate::sleep()) or a [`timeout`](crate::timeout()), fires within
///   eight calls of its time or a tenth of a millisecond, whichever is later.
/// * A task that has not started, and that any worker could take, such as one that was spawned from
///   outside, is noticed within eight calls (or one, if calls are 8 us or more apart) and started by
///   the first call 0.2 ms after that. If several tasks compute on this worker, each adds 0.2 ms.
/// * A child that this worker has spawned and no other worker takes is started after a millisecond,
///   unless others are ready here.
///
/// Idle workers get a share of this worker's tasks. A sleeping task that is to cancel the loop is
/// thus woken by the loop itself.
///
/// Suspends only if another task has its turn, and never inside [`no_suspend`](crate::no_suspend).
/// Otherwise costs a few loads, and at some calls a reading of the clock. Timers that are due fire
/// in the call: it may run wakers and cancellation hooks, like any other thread.
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
    if worker.remote.private.is_requested() {
        worker.serve_requests();
    }
    if worker.check_in() && !is_forbidden() {
        return worker.yield_now(task).map_err(|_| Cancelled::here());
    }
    if check_in::is_cancelled(Some(worker)) { Err(Cancelled::here()) } else { Ok(()) }
}

/// Returns whether the calling task is cancelled or its runtime ends. In the closure of a
/// [`blocking`](crate::blocking()) call, returns whether the task that waits for the call is.
/// Returns `false` anywhere else.
///
/// For computations that never wait; [`checkpoint`] also gives others their turn. Does not suspend.
/// Costs a few loads.
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
    check_in::is_cancelled(Worker::current())
}

/// Returns the identity of the calling task, or `None` outside a task. Costs a few loads.
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
    Some(TaskId(Worker::current()?.task()?.id()))
}

/// Returns the index of the calling thread's worker, or `None` if the thread is no worker's. The
/// workers of a runtime have the indices from 0 on. A task that has started gets the same answer
/// until its end, unless it is migratable: so the index can choose one of several shards, such as
/// counters that each worker has for itself.
///
/// Does not suspend. Costs two loads.
///
/// ```
/// use cygnet::{Runtime, current_worker};
///
/// let rt = Runtime::builder().workers(2).build().unwrap();
/// assert!(rt.block_on(|| current_worker().unwrap() < 2));
/// assert_eq!(current_worker(), None);
/// assert_eq!(rt.block_on(|| cygnet::blocking(current_worker)), None);
/// ```
#[inline]
pub fn current_worker() -> Option<usize> {
    Some(Worker::current()?.remote.index)
}

/// Waits until an [`Unparker`] of this task is used. An unpark before the call makes it return at
/// once; several of them count as one.
///
/// Suspends, unless there was an earlier unpark. Costs a locked instruction and a switch. There are
/// no spurious wake-ups.
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
/// when nothing may suspend. An earlier unpark is then kept for the next call.
///
/// # Panics
/// Outside a task, and inside [`no_suspend`](crate::no_suspend).
#[inline]
#[track_caller]
pub fn park() -> Result<(), Cancelled> {
    let (worker, task) = here("park");
    worker.park(task).map_err(|_| Cancelled::here())
}

/// Wakes one task from [`park`], from any thread. Has no effect after the task's end. Keeps the
/// task's record in memory, and nothing else of the task. See [`park`] for an example.
#[derive(Clone)]
pub struct Unparker {
    record: SharedRef,
}

unwind_safe! { impl Unparker }

/// Returns an [`Unparker`] of the calling task. Does not suspend. Costs a locked instruction, as
/// does cloning it.
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
    Unparker { record: SharedRef::new(record) }
}

impl Unparker {
    /// Ends the task's [`park`], or makes its next one return at once.
    ///
    /// Does not suspend. Costs a locked instruction, and more if the task's worker must be woken.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let me = cygnet::unparker();
    /// me.unpark();
    /// me.unpark(); // counts as one
    /// cygnet::park().unwrap(); // returns at once
    /// # });
    /// ```
    pub fn unpark(&self) {
        self.record.task().unpark().into_iter().for_each(resume);
    }

    /// The identity of the task. Does not suspend. Costs a load.
    pub fn id(&self) -> TaskId {
        TaskId(self.record.id())
    }
}

debug! { impl Unparker as this (this.id().0) }
