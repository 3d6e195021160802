//! Running several tasks at once: until all have ended, until one fails, or until one succeeds.

use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::scope::{Scope, scope};
use crate::runtime::scoped_task::ScopedTask;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::task::cause::{Cause, Reason};
use std::fmt;
use std::panic::Location;

/// Why one of several tasks returned no value, or a [pipeline](crate::pipeline()) did not run to
/// its end.
#[derive(Debug)]
pub enum TaskError<E> {
    /// The closure of the task, or of a pipeline's stage, returned this error.
    Failed(E),
    /// The closure did not return: it panicked, was cancelled before its start, was unwound, or got
    /// no stack. For a pipeline, [`JoinError::Cancelled`] says that the calling task is cancelled.
    Join(JoinError),
}

impl<E> TaskError<E> {
    /// Returns the error that the closure returned.
    ///
    /// # Errors
    /// The error itself, if the closure did not return.
    pub fn into_failed(self) -> Result<E, TaskError<E>> {
        match self {
            TaskError::Failed(error) => Ok(error),
            join => Err(join),
        }
    }

    /// Returns the error of the closure, for code that passes it on with `?`. A cancel becomes an
    /// error by its `From` implementation, and a panic of the task goes on.
    ///
    /// ```
    /// use std::error::Error;
    ///
    /// type Failed = Box<dyn Error + Send + Sync>;
    /// fn sum(texts: &[&str]) -> Result<u32, Failed> {
    ///     let parse = |text| move || Ok::<u32, Failed>(str::parse(text)?);
    ///     let numbers = cygnet::all_fail_fast(texts.iter().map(|text| parse(text)))
    ///         .map_err(cygnet::TaskError::into_error)?;
    ///     Ok(numbers.iter().sum())
    /// }
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// assert_eq!(rt.block_on(|| sum(&["1", "2"])).unwrap(), 3);
    /// assert!(rt.block_on(|| sum(&["1", "two"])).is_err());
    /// ```
    ///
    /// # Panics
    /// With the panic of the task. If the kernel refused memory for its stack; if it waited for its
    /// own end.
    #[track_caller]
    pub fn into_error(self) -> E
    where
        E: From<Cancelled>,
    {
        match self {
            TaskError::Failed(error) => error,
            TaskError::Join(error) => error.into_cancelled().into(),
        }
    }

    /// Returns why the task, or the caller, was cancelled, if one of them was. The error that the
    /// closure returned may say so too; this does not look into it. Does not suspend.
    pub fn cancelled(&self) -> Option<&Cancelled> {
        match self {
            TaskError::Failed(_) => None,
            TaskError::Join(error) => error.cancelled(),
        }
    }
}

impl<E> From<Cancelled> for TaskError<E> {
    fn from(cancelled: Cancelled) -> TaskError<E> {
        TaskError::Join(cancelled.into())
    }
}

impl<E> From<JoinError> for TaskError<E> {
    fn from(error: JoinError) -> TaskError<E> {
        TaskError::Join(error)
    }
}

impl<E: fmt::Display> fmt::Display for TaskError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Failed(error) => error.fmt(f),
            TaskError::Join(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for TaskError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TaskError::Failed(error) => error.source(),
            TaskError::Join(error) => error.source(),
        }
    }
}

/// Runs all closures as tasks of a [`scope`], and returns all results in the order of the input.
///
/// A failure does not cancel the other tasks. If the calling task is cancelled, all tasks are
/// cancelled, and each task that has not started gives [`JoinError::NotStarted`]. An empty input
/// gives an empty `Vec`.
///
/// Suspends (structured) until all tasks have ended. Costs a scope, and a task for each closure.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let text = String::from("one two three");
/// let lengths = rt.block_on(|| cygnet::all(text.split(' ').map(|word| || word.len())));
/// let lengths: Vec<_> = lengths.into_iter().map(Result::unwrap).collect();
/// assert_eq!(lengths, [3, 3, 5]);
/// ```
///
/// # Panics
/// Outside a task; with the panic of the iterator. The panic of a closure is returned as that
/// closure's error.
#[track_caller]
pub fn all<'env, F, T>(closures: impl IntoIterator<Item = F>) -> Vec<Result<T, JoinError>>
where
    F: FnOnce() -> T + Send + 'env,
    T: Send + 'env,
{
    scope(|s| {
        let tasks: Vec<_> = closures.into_iter().map(|f| s.spawn(f)).collect();
        tasks.into_iter().map(ScopedTask::await_end).collect()
    })
}

/// Runs all closures as tasks of a [`scope`], and returns their values in the order of the input.
/// The first task that fails cancels the others: tasks that have not started never will, and the
/// rest learn of it from their present or next wait.
///
/// An empty input gives an empty `Vec`. All tasks have ended when the call returns or panics.
///
/// Suspends (structured) until all tasks have ended. Costs as much as [`all`].
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     let parse = |text: &'static str| move || text.parse::<u32>();
///     let sum: u32 = cygnet::all_fail_fast(["1", "2", "3"].map(parse)).unwrap().iter().sum();
///     assert_eq!(sum, 6);
///     let error = cygnet::all_fail_fast(["1", "two", "3"].map(parse)).unwrap_err();
///     assert_eq!(error.to_string(), "invalid digit found in string");
/// });
/// ```
///
/// # Errors
/// The first failure. A task that did not start because of an outside cancellation has failed too.
///
/// # Panics
/// Outside a task; with the panic of the iterator.
#[track_caller]
pub fn all_fail_fast<'env, F, T, E>(
    closures: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, TaskError<E>>
where
    F: FnOnce() -> Result<T, E> + Send + 'env,
    T: Send + 'env,
    E: Send + 'env,
{
    let (failed, outcomes) = race(closures, Result::is_err, true);
    failed.into_iter().chain(outcomes).collect()
}

/// Runs all closures as tasks of a [`scope`], and returns the first success, which cancels the
/// other tasks.
///
/// All tasks have ended when the call returns, including tasks that ignore the cancellation. If
/// another task succeeds all the same, its value is dropped.
///
/// Suspends (structured) until all tasks have ended. Costs as much as [`all`].
///
/// ```
/// use std::time::Duration;
///
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     let mirrors = [("far", 3000), ("near", 1)].map(|(name, milliseconds)| {
///         move || cygnet::sleep(Duration::from_millis(milliseconds)).map(|()| name)
///     });
///     assert_eq!(cygnet::any(mirrors).unwrap(), "near");
/// });
/// ```
///
/// # Errors
/// The errors of all tasks, in the order of the input, if none succeeded. An empty input gives an
/// empty `Vec`.
///
/// # Panics
/// Outside a task; with the panic of the iterator.
#[track_caller]
pub fn any<'env, F, T, E>(closures: impl IntoIterator<Item = F>) -> Result<T, Vec<TaskError<E>>>
where
    F: FnOnce() -> Result<T, E> + Send + 'env,
    T: Send + 'env,
    E: Send + 'env,
{
    match race(closures, Result::is_ok, false) {
        (Some(Ok(value)), _) => Ok(value),
        (_, outcomes) => Err(outcomes.into_iter().filter_map(Result::err).collect()),
    }
}

/// The number of the task that ended the race.
struct First(AtomicUsize);

impl First {
    const NOBODY: usize = usize::MAX;

    fn new() -> First {
        First(AtomicUsize::new(First::NOBODY))
    }

    /// Returns whether the caller is the first to end the race.
    fn is(&self, number: usize) -> bool {
        let (nobody, relaxed) = (First::NOBODY, Ordering::Relaxed);
        // MUTANT(several.first): split
        self.0.compare_exchange(nobody, number, relaxed, relaxed).is_ok()
    }

    /// Returns the first task's number. Called after all tasks have ended.
    fn get(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|number| *number != First::NOBODY)
    }
}

/// The outcome of the task that ended a race, if one did, and the other outcomes.
type Raced<T, E> = (Option<Result<T, TaskError<E>>>, Vec<Result<T, TaskError<E>>>);

/// Runs all closures. The first result for which `ends` returns `true` ends the race and cancels
/// the other tasks. A task without a result (a panic, for example) ends the race too if
/// `failure_ends` is set.
#[track_caller]
fn race<'env, F, T, E>(
    closures: impl IntoIterator<Item = F>,
    ends: fn(&Result<T, E>) -> bool,
    failure_ends: bool,
) -> Raced<T, E>
where
    F: FnOnce() -> Result<T, E> + Send + 'env,
    T: Send + 'env,
    E: Send + 'env,
{
    let cause = Cause::new(Reason::SiblingFailed, Some(Location::caller()));
    let first = First::new();
    let mut outcomes: Vec<_> = scope(|s| {
        let spawn = |(number, f): (usize, F)| {
            let (first, cause) = (&first, cause.clone());
            let mut runner = Runner { scope: s, first, cause, number, ends: failure_ends };
            s.spawn(move || {
                let result = f();
                runner.ends = ends(&result);
                drop(runner);
                result
            })
        };
        let tasks: Vec<_> = closures.into_iter().enumerate().map(spawn).collect();
        let outcomes = tasks.into_iter().map(|task| match task.await_end() {
            Ok(result) => result.map_err(TaskError::Failed),
            Err(error) => Err(TaskError::Join(error)),
        });
        outcomes.collect()
    });
    let ended_by = first.get().map(|number| outcomes.swap_remove(number));
    (ended_by, outcomes)
}

/// Dropped when its closure has ended, also by a panic or without a call. Ends the race if `ends`
/// says so by then.
struct Runner<'a, 'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    first: &'a First,
    cause: std::sync::Arc<Cause>,
    number: usize,
    ends: bool,
}

impl Drop for Runner<'_, '_, '_> {
    fn drop(&mut self) {
        if self.ends && self.first.is(self.number) {
            self.scope.cancel_for(self.cause.clone());
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::First;
    use crate::shim::check::{ALL, Stage, explore};
    use crate::shim::thread::spawn;

    #[test]
    fn loom_one_comes_first() {
        explore(ALL, || {
            let first = Stage::new(First::new());
            let other = spawn(move || first.is(1));
            let firsts = [first.is(0), other.join().unwrap()];
            assert_eq!(firsts.iter().filter(|is| **is).count(), 1);
            assert_eq!(first.get(), Some(usize::from(firsts[1])));
        });
    }
}
