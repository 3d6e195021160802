//! The errors that users meet. Each says what was wrong and, where there is one, which setting
//! helps.

use crate::retire::stack::{StackExhausted, StackSizeError};
use crate::runtime::payload::PanicPayload;
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::cancel::unresponsive::count_refusal;
use crate::scheduler::worker::Worker;
use crate::shim::abort_with;
use crate::task::cause::{Cause, Reason};
use crate::task::outcome::{Failure, Unwound, no_stack};
use std::any::Any;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;
use std::{fmt, io};

/// The calling task is cancelled, its runtime ends, or its thread is unwinding.
///
/// Every call that can suspend returns it instead of waiting, unless the wait is structured. A
/// cancelled task gets it even if the call need not wait (a free permit then stays where it is).
/// Pass it on with `?`. A task that keeps calling waits must give way to others at each of them.
///
/// [`Cancelled::reason`] says why the task was cancelled, and [`Cancelled::place`] where in the
/// program.
///
/// ```
/// fn work() -> Result<u32, cygnet::Cancelled> {
///     let mut sum = 0;
///     for i in 0..4 {
///         sum += i;
///         cygnet::checkpoint()?;
///     }
///     Ok(sum)
/// }
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// assert_eq!(rt.block_on(work), Ok(6));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Cancelled(Arc<Cause>);

impl Cancelled {
    pub(crate) fn new(cause: Arc<Cause>) -> Cancelled {
        Cancelled(cause)
    }

    /// The error of calls on a runtime that has ended.
    pub(crate) fn by_the_end() -> Cancelled {
        Cancelled(Cause::shut_down())
    }

    /// The cause of the calling task's cancellation, if it is cancelled. It is passed on to a task
    /// for which the caller can no longer wait.
    pub(crate) fn passed_on() -> Option<Arc<Cause>> {
        if crate::shim::panicking() {
            return None;
        }
        let node = Worker::current()?.innermost_node()?;
        is_cancelled(node).then(|| cause_of(node))
    }

    /// The error of a call that was just refused or cut short.
    #[cold]
    #[inline(never)]
    pub(crate) fn here() -> Cancelled {
        if crate::shim::panicking() {
            return Cancelled(Cause::unwinding());
        }
        let running = Worker::current().and_then(|w| Some((w, w.innermost_node()?)));
        let Some((worker, node)) = running else { return Cancelled::by_the_end() };
        count_refusal(worker);
        Cancelled(cause_of(node))
    }

    /// Unwinds the calling task to its root, where it ends with [`JoinError::Unwound`]. For nested
    /// code that has no `Result` for passing the error on.
    ///
    /// This is not a panic: no hook runs, nothing is printed, and joining the task reports no
    /// panic. Destructors run, and each [`scope`](crate::scope()) on the way waits for its tasks. A
    /// `catch_unwind` on the way sees a payload of a private type, which it should pass on. On a
    /// plain thread, unwinds to the root of the thread.
    ///
    /// With `panic=abort`, the process ends with a message. In a destructor that runs because the
    /// thread is already unwinding, the process aborts without that message, as for any second
    /// panic.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// rt.block_on(|| {
    ///     let task = cygnet::spawn(|| {
    ///         // .. deep down:
    ///         if let Err(cancelled) = cygnet::park() {
    ///             cancelled.unwind();
    ///         }
    ///     });
    ///     cygnet::yield_to(&task).unwrap(); // now it waits
    ///     task.cancel("enough");
    ///     let error = task.join().unwrap_err();
    ///     assert_eq!(error.to_string(), "the task was cancelled: enough");
    /// });
    /// ```
    pub fn unwind(self) -> ! {
        if cfg!(panic = "abort") {
            abort_with(&format!("{self}, and this build cannot unwind it (panic=abort)"));
        }
        resume_unwind(Box::new(Unwound(self.0)))
    }

    /// Continues the unwinding of a task in its caller, which has no value to return. Panics
    /// outside a task.
    pub(crate) fn unwind_or_panic(self) -> ! {
        if Worker::current().is_some_and(|worker| worker.task().is_some()) {
            // The unwinding continues in the task that made the call.
            self.unwind();
        }
        panic!("cygnet: the closure of the call was unwound by Cancelled::unwind: {self}");
    }

    /// Why the task was cancelled.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Where in the program the task was cancelled, if that is known. For a dropped handle: where
    /// its task was spawned.
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.0.place
    }
}

debug! { impl Cancelled as this { reason: this.reason(), place: this.place() } }

error! {
    impl Cancelled: |this, f| {
        write!(f, "the task is cancelled: {}", this.reason())?;
        match this.place() {
            Some(place) => write!(f, " ({place})"),
            None => Ok(()),
        }
    }
}

/// A task could not be started, because the kernel refused memory for its stack.
///
/// The text says what ran out (memory or mappings) and which setting helps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoStack(StackExhausted);

error! { impl NoStack: |this, f| f.write_str(&no_stack(&this.0)) }

/// Why a task returned no value.
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let error = cygnet::spawn(|| -> u32 { panic!("out of range") }).join().unwrap_err();
/// assert!(error.is_panic());
/// let payload = error.into_panic().unwrap();
/// assert_eq!(payload.downcast_ref(), Some(&"out of range"));
/// # });
/// ```
///
/// Like all errors of this library, it is `Send + Sync + 'static`, so `?` converts it to a boxed
/// error (and to the error types of crates that hold one):
///
/// ```
/// use std::error::Error;
///
/// fn sum() -> Result<u64, Box<dyn Error + Send + Sync>> {
///     let squares = cygnet::spawn(|| (1..=3).map(|n: u64| n * n).sum::<u64>());
///     let limit: u64 = "10".parse()?;
///     Ok(squares.join()?.min(limit))
/// }
/// let rt = cygnet::Runtime::builder().workers(2).build()?;
/// assert_eq!(rt.block_on(sum)?, 10);
/// # Ok::<(), Box<dyn Error + Send + Sync>>(())
/// ```
#[non_exhaustive]
pub enum JoinError {
    /// The task's closure panicked, with this payload.
    Panicked(PanicPayload),
    /// The task was cancelled, or its runtime ended, before its closure was called.
    NotStarted(Cancelled),
    /// The task was cancelled and left its closure by [`Cancelled::unwind`].
    Unwound(Cancelled),
    /// The waiting task is cancelled, or its runtime ends, or its thread is unwinding. The handle
    /// was dropped: the other task is cancelled, or, if it had ended before the call, its value is
    /// dropped.
    Cancelled(Cancelled),
    /// The task tried to wait for its own end.
    OwnEnd,
    /// The task was not started because the kernel refused memory for its stack for 200 ms, while
    /// no worker started any task. Says what ran out.
    NoStack(NoStack),
    /// The task's [`Promise`](crate::Promise) was dropped without a value; or the task was to run
    /// on another runtime ([`ChildOn`](crate::ChildOn)), which ended before
    /// the task started.
    Abandoned,
    /// The time limit of [`Task::join_timeout`](crate::Task::join_timeout) has passed. The task
    /// lives on.
    TimedOut,
}

impl JoinError {
    /// Returns the payload of the panic, if the task panicked.
    ///
    /// # Errors
    /// The error itself, if the task did not panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self {
            JoinError::Panicked(payload) => Ok(payload.into_inner()),
            other => Err(other),
        }
    }

    /// Returns whether the task's closure panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, JoinError::Panicked(_))
    }

    /// Returns whether the waiting task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, JoinError::Cancelled(_))
    }

    /// Returns why the joined or the waiting task was cancelled, if one of them was.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// rt.block_on(|| {
    ///     let task = cygnet::spawn(|| unreachable!("it never starts"));
    ///     task.cancel("not needed any more");
    ///     let error: cygnet::JoinError = task.join().unwrap_err();
    ///     assert_eq!(error.cancelled().unwrap().reason().to_string(), "not needed any more");
    /// });
    /// ```
    pub fn cancelled(&self) -> Option<&Cancelled> {
        match self {
            JoinError::NotStarted(c) | JoinError::Unwound(c) | JoinError::Cancelled(c) => Some(c),
            _ => None,
        }
    }

    /// As [`into_cancelled`](JoinError::into_cancelled), for one of several that wait for a task. A
    /// panic of the task becomes a panic with the same text.
    #[track_caller]
    pub(crate) fn to_cancelled(&self) -> Cancelled {
        match (self, self.cancelled()) {
            (_, Some(cancelled)) => cancelled.clone(),
            (JoinError::Abandoned, None) => Cancelled(Cause::new(Reason::Abandoned, None)),
            // A second panic would end the process.
            _ if crate::shim::panicking() => Cancelled(Cause::unwinding()),
            _ => panic!("cygnet: {self}"),
        }
    }

    /// Returns why there is no value, for a caller that only passes a cancel on. A panic of the
    /// task goes on. What says that the program is wrong, or out of memory, panics.
    #[track_caller]
    pub(crate) fn into_cancelled(self) -> Cancelled {
        match self {
            JoinError::Panicked(payload) => resume_unwind(payload.into_inner()),
            other => other.to_cancelled(),
        }
    }
}

impl From<Failure> for JoinError {
    #[cold]
    #[inline(never)]
    fn from(failure: Failure) -> JoinError {
        match failure {
            Failure::Panicked(payload) => JoinError::Panicked(PanicPayload::new(payload)),
            Failure::NotStarted(cause) => JoinError::NotStarted(Cancelled::new(cause)),
            Failure::Unwound(cause) => JoinError::Unwound(Cancelled::new(cause)),
            Failure::NoStack(reason) => JoinError::NoStack(NoStack(reason)),
            Failure::Abandoned => JoinError::Abandoned,
        }
    }
}

impl From<Cancelled> for JoinError {
    fn from(cancelled: Cancelled) -> JoinError {
        JoinError::Cancelled(cancelled)
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panicked(payload) => {
                f.debug_tuple("Panicked").field(&payload.message()).finish()
            }
            JoinError::NotStarted(c) => f.debug_tuple("NotStarted").field(c).finish(),
            JoinError::Unwound(c) => f.debug_tuple("Unwound").field(c).finish(),
            JoinError::Cancelled(c) => f.debug_tuple("Cancelled").field(c).finish(),
            JoinError::OwnEnd => f.write_str("OwnEnd"),
            JoinError::NoStack(e) => f.debug_tuple("NoStack").field(e).finish(),
            JoinError::Abandoned => f.write_str("Abandoned"),
            JoinError::TimedOut => f.write_str("TimedOut"),
        }
    }
}

error! {
    impl JoinError: |this, f| match this {
        JoinError::Panicked(payload) => write!(f, "the task panicked: {}", payload.message()),
        JoinError::NotStarted(c) => write!(f, "the task did not start: {}", c.reason()),
        JoinError::Unwound(c) => write!(f, "the task was cancelled: {}", c.reason()),
        JoinError::Cancelled(c) => write!(f, "the waiting task was cancelled: {}", c.reason()),
        JoinError::OwnEnd => f.write_str("a task cannot wait for its own end"),
        JoinError::NoStack(e) => e.fmt(f),
        JoinError::Abandoned => f.write_str(
            "the task got no value: its promise was dropped, or its runtime has ended",
        ),
        JoinError::TimedOut => f.write_str("the task had not ended when the time was up"),
    }, source: this.cancelled()
}

/// The runtime has ended, or is ending, and takes no more tasks. Holds the closure that was not
/// run.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// let handle = rt.handle();
/// drop(rt);
/// let cygnet::SpawnError(f) = handle.spawn(|| 42).unwrap_err();
/// assert_eq!(f(), 42);
/// ```
pub struct SpawnError<F>(
    /// The closure that was not spawned.
    pub F,
);

error! { impl<F> SpawnError(..): "the runtime has ended or is ending, and takes no tasks" }

/// Why a runtime could not be built, or a task could not get the stack size that it asked for. The
/// text names the setting.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// [`Builder::workers`](crate::Builder::workers) got 0, or more than
    /// [`Builder::MAX_WORKERS`](crate::Builder::MAX_WORKERS).
    Workers {
        /// The number asked for.
        asked: usize,
    },
    /// The stack size is out of bounds. The text gives the bounds.
    StackSize(String),
    /// [`Builder::max_stacks`](crate::Builder::max_stacks) is smaller than the number of workers,
    /// so some workers could never run a task.
    MaxStacks {
        /// The bound asked for.
        asked: usize,
        /// The number of workers.
        workers: usize,
    },
    /// [`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads) got 0, so blocking
    /// calls could never run.
    MaxBlockingThreads,
    /// The system refused to start a thread.
    Thread(io::Error),
    /// The handler for overflow reports could not be installed.
    OverflowReport(io::Error),
    /// [`Builder::pin_workers`](crate::Builder::pin_workers) needs the feature `pin`, and a system
    /// that reports its cores.
    Pinning,
}

impl From<StackSizeError> for BuildError {
    fn from(error: StackSizeError) -> BuildError {
        BuildError::StackSize(error.to_string())
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Workers { asked } => write!(
                f,
                "a runtime needs 1 to {} workers, not {asked} (Builder::workers)",
                crate::Builder::MAX_WORKERS
            ),
            BuildError::StackSize(text) => {
                write!(f, "{text} (Builder::stack_size or TaskBuilder::stack_size)")
            }
            BuildError::MaxStacks { asked, workers } => write!(
                f,
                "{workers} workers need at least as many stacks, not {asked} (Builder::max_stacks)"
            ),
            BuildError::MaxBlockingThreads => f.write_str(
                "blocking calls need at least one thread, not 0 (Builder::max_blocking_threads)",
            ),
            BuildError::Thread(error) => write!(f, "a worker's thread cannot be started: {error}"),
            BuildError::OverflowReport(error) => write!(
                f,
                "the handler for stack overflows cannot be installed: {error} \
                 (Builder::overflow_report turns it off)"
            ),
            BuildError::Pinning => f.write_str(
                "workers cannot be pinned: build cygnet with the feature `pin`, on a system that \
                 reports its cores (Builder::pin_workers)",
            ),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Thread(error) | BuildError::OverflowReport(error) => Some(error),
            _ => None,
        }
    }
}
