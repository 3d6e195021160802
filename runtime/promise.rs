//! Children that something outside completes.

use crate::runtime::here;
use crate::runtime::hook::{CancelHook, HookGuard};
use crate::runtime::spawn::terms;
use crate::runtime::task::{Claim, Task};
use crate::scheduler::life::external::{OnCancel, Outside};
use crate::task::record::Traits;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};

/// A child of the calling task (or of the scope that is open in it) without a closure: it ends when something outside
/// of it says with what value, on any thread, by the [`Promise`].
///
/// The [`Task`] is as any other: it is joined, dropped, detached or cancelled, and its parent does not end before it.
/// If it is cancelled, itself or with its scope, it ends at once, with [`JoinError::NotStarted`](crate::JoinError::NotStarted), and the promise is not
/// taken any more: [`Promise::is_cancelled`] says so, and [`Promise::on_cancel`] tells it to whoever works on it.
///
/// Does not suspend. Costs a record, an allocation, and some 200 ns in all with the completion and the join.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     let (promise, answer) = cygnet::promise();
///     let foreign = std::thread::spawn(move || promise.complete(6 * 7).unwrap());
///     assert_eq!(answer.join().unwrap(), 42);
/// #   foreign.join().unwrap();
/// });
/// ```
///
/// What may fail is a promise of a `Result`:
///
/// ```
/// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// # rt.block_on(|| {
/// let (promise, answer) = cygnet::promise();
/// let foreign = std::thread::spawn(move || promise.complete("x".parse::<u32>()).is_ok());
/// assert!(answer.join().unwrap().is_err());
/// # assert!(foreign.join().unwrap());
/// # });
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn promise<T: Send + 'static>() -> (Promise<T>, Task<T>) {
    let (worker, parent) = here("promise");
    let terms = terms(parent, Location::caller(), Traits::default(), None);
    // SAFETY: the running node is open.
    let (record, outside) =
        unsafe { worker.spawn_external(worker.node.get(), terms, OnCancel::End) };
    // SAFETY: the handle's reference is ours.
    (Promise { outside }, Task::new(unsafe { Claim::new(record) }))
}

/// The right to complete a task from anywhere. See [`promise`].
///
/// Dropped without a value, also by a thread that panics, it ends the task with [`JoinError::Abandoned`](crate::JoinError::Abandoned). One that is
/// forgotten (`mem::forget`) leaves a task that ends by a cancel only.
#[must_use = "dropping a Promise ends its task without a value"]
pub struct Promise<T> {
    outside: Outside<T>,
}

impl<T> Promise<T> {
    /// Ends the task with this value.
    ///
    /// Does not suspend; nobody is resumed in place: a worker ends the task, and its parent if that has waited for nothing
    /// else. Costs a handful of locked instructions, and a system call if a worker must be woken.
    ///
    /// # Errors
    /// The value, if the task has been cancelled before.
    pub fn complete(self, value: T) -> Result<(), T> {
        // A cancel marks the task, and ends its wait after that. Who has seen the mark is not to be faster.
        if self.is_cancelled() {
            return Err(value);
        }
        self.outside.settle(Ok(value)).map_err(|outcome| match outcome {
            Ok(value) => value,
            Err(_) => unreachable!("it is given back as it was"),
        })
    }

    /// Whether the task is cancelled, and nobody waits for the value any more. One load; does not suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let (promise, answer) = cygnet::promise();
    /// assert!(!promise.is_cancelled());
    /// answer.cancel("too late");
    /// assert!(promise.is_cancelled());
    /// assert_eq!(promise.complete(7), Err(7));
    /// # assert!(answer.join().is_err());
    /// # });
    /// ```
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.outside.is_cancelled()
    }

    /// Hangs a hook on the task, from any thread: it is told if the task is cancelled, at once if it is so already, or
    /// that it has ended without. See [`on_cancel`](crate::on_cancel), also for what it costs. Does not suspend.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let (stop, stopped) = std::sync::mpsc::channel();
    /// let (promise, answer) = cygnet::promise::<u32>();
    /// promise.on_cancel(move |_| stop.send(()).unwrap()).keep();
    /// let foreign = std::thread::spawn(move || {
    ///     let _promise = promise; // .. works on it, and looks whether it is to stop ..
    ///     stopped.recv().unwrap();
    /// });
    /// drop(answer);
    /// foreign.join().unwrap();
    /// # });
    /// ```
    pub fn on_cancel(&self, hook: impl CancelHook) -> HookGuard {
        HookGuard::new(self.outside.hang(Box::new(hook)))
    }
}

impl<T> UnwindSafe for Promise<T> {}
impl<T> RefUnwindSafe for Promise<T> {}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("cancelled", &self.is_cancelled()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::task::words::tree::Cancel;

    /// What is between the two steps of a cancel: it has marked the task, and not yet ended its wait.
    #[test]
    fn it_is_not_taken_any_more_as_soon_as_it_is_known_to_be_cancelled() {
        let rt = crate::Runtime::builder().workers(1).build().unwrap();
        rt.block_on(|| {
            let (promise, answer) = super::promise();
            assert_eq!(promise.outside.record().node.word().cancel(), Cancel::First);
            assert!(promise.is_cancelled());
            assert_eq!(promise.complete("too late"), Err("too late"));
            assert!(matches!(answer.join(), Err(crate::JoinError::NotStarted(_))));
        });
    }
}
