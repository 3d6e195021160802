//! Several tasks at once: all of them, all or the first failure, the first that succeeds.

use crate::runtime::errors::JoinError;
use crate::runtime::scope::{Scope, scope};
use crate::runtime::scoped_task::ScopedTask;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::task::cause::{Cause, Reason};
use std::fmt;
use std::panic::Location;

/// Why one of several tasks gave no value, or a [pipeline](crate::pipeline()) did not come to its end.
#[derive(Debug)]
pub enum TaskError<E> {
    /// Its closure, or that of a stage, returned this.
    Failed(E),
    /// Its closure did not return: it panicked, was cancelled before its start, was unwound, or found no stack. Of a
    /// pipeline: the calling task is cancelled ([`JoinError::Cancelled`]).
    Join(JoinError),
}

impl<E> TaskError<E> {
    /// What the closure returned.
    ///
    /// # Errors
    /// The error itself, if the closure did not return.
    pub fn into_failed(self) -> Result<E, TaskError<E>> {
        match self {
            TaskError::Failed(error) => Ok(error),
            join => Err(join),
        }
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

/// Runs all closures as tasks of a [`scope`], and returns what has become of each, in the order of the input.
///
/// None of them is cancelled because another one has failed. An empty input gives an empty `Vec`. If the calling task is
/// cancelled, so are they; those that had not started are [`JoinError::NotStarted`].
///
/// Suspends (structured) until all have ended. Costs a scope, and for each closure a task.
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
/// Outside a task; with the panic of the iterator. That of a closure is an error of its own.
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

/// Runs all closures as tasks of a [`scope`], and returns their values in the order of the input. The first one that fails
/// cancels the others: those that have not started never do, and the others are told by their next wait.
///
/// An empty input gives an empty `Vec`. All have ended when the call returns, however it does.
///
/// Suspends (structured) until all have ended. Costs as [`all`].
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
/// The failure that came first. One that a cancel from outside has kept from its start has failed, too.
///
/// # Panics
/// As [`all`].
#[track_caller]
pub fn all_fail_fast<'env, F, T, E>(
    closures: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, TaskError<E>>
where
    F: FnOnce() -> Result<T, E> + Send + 'env,
    T: Send + 'env,
    E: Send + 'env,
{
    let first = First::new();
    let mut outcomes = race(closures, &first, |result: &Result<T, E>| result.is_err(), true);
    if let Some(failed) = first.get() {
        match outcomes.swap_remove(failed) {
            Ok(_) => unreachable!("it is the one that has failed"),
            Err(error) => return Err(error),
        }
    }
    outcomes.into_iter().collect()
}

/// Runs all closures as tasks of a [`scope`], and returns the value of the first that succeeds, which cancels the others.
///
/// All have ended when the call returns: a loser that is told of the cancel by its next wait, and one that takes no notice
/// of it, too. The value of a loser that succeeds nevertheless is dropped.
///
/// Suspends (structured) until all have ended. Costs as [`all`].
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
/// What has become of each, in the order of the input, if none has succeeded; nothing for an empty input.
///
/// # Panics
/// As [`all`].
#[track_caller]
pub fn any<'env, F, T, E>(closures: impl IntoIterator<Item = F>) -> Result<T, Vec<TaskError<E>>>
where
    F: FnOnce() -> Result<T, E> + Send + 'env,
    T: Send + 'env,
    E: Send + 'env,
{
    let first = First::new();
    let mut outcomes = race(closures, &first, |result: &Result<T, E>| result.is_ok(), false);
    if let Some(won) = first.get() {
        match outcomes.swap_remove(won) {
            Ok(value) => return Ok(value),
            Err(_) => unreachable!("it is the one that has succeeded"),
        }
    }
    let errors = outcomes.into_iter().map(|outcome| match outcome {
        Ok(_) => unreachable!("none has succeeded"),
        Err(error) => error,
    });
    Err(errors.collect())
}

/// The number of the one that came first.
struct First(AtomicUsize);

impl First {
    const NOBODY: usize = usize::MAX;

    fn new() -> First {
        First(AtomicUsize::new(First::NOBODY))
    }

    /// Whether the caller is the first.
    fn is(&self, number: usize) -> bool {
        let (nobody, relaxed) = (First::NOBODY, Ordering::Relaxed);
        // MUTANT(several.first): split
        self.0.compare_exchange(nobody, number, relaxed, relaxed).is_ok()
    }

    /// When all have ended.
    fn get(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|number| *number != First::NOBODY)
    }
}

/// Runs all closures. The first with a result that `ends` the race cancels the others, and so does one without a result,
/// if that does.
#[track_caller]
fn race<'env, F, T, E>(
    closures: impl IntoIterator<Item = F>,
    first: &First,
    ends: fn(&Result<T, E>) -> bool,
    failure_ends: bool,
) -> Vec<Result<T, TaskError<E>>>
where
    F: FnOnce() -> Result<T, E> + Send + 'env,
    T: Send + 'env,
    E: Send + 'env,
{
    let cause = Cause::new(Reason::SiblingFailed, Some(Location::caller()));
    scope(|s| {
        let spawn = |(number, f): (usize, F)| {
            let mut runner =
                Runner { scope: s, first, cause: cause.clone(), number, ends: failure_ends };
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
    })
}

/// Ends the race when it is dropped, if the way in which its closure has ended does: also by a panic, or uncalled.
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
            // SAFETY: the threads have ended.
            unsafe { first.end() };
        });
    }
}
