//! Promises: children without a closure, which are completed from outside.

use crate::runtime::here;
use crate::runtime::hook::{CancelHook, HookGuard};
use crate::runtime::spawn::terms;
use crate::runtime::task::Task;
use crate::scheduler::life::external::{OnCancel, Outside};
use crate::task::record::Traits;
use std::panic::Location;

/// Spawns a child of the calling task (or of its open scope) without a closure. The child ends when
/// its [`Promise`] gets a value, on any thread.
///
/// The [`Task`] is like any other: it can be joined, dropped, detached or cancelled, and its parent
/// ends after it. If it is cancelled, alone or with its scope, it ends at once with
/// [`JoinError::NotStarted`](crate::JoinError::NotStarted), and the promise accepts no value any
/// more. [`Promise::is_cancelled`] returns whether that has happened, and [`Promise::on_cancel`]
/// sets a hook for it.
///
/// Does not suspend. Costs a record, an allocation, and some 200 ns together with the completion
/// and the join.
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
/// A computation that may fail completes a promise of a `Result`:
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
    let (task, outside) = external_child("promise", OnCancel::End, None);
    (Promise { outside }, task)
}

/// Makes an external child of the running node.
#[track_caller]
pub(crate) fn external_child<T>(
    what: &str,
    on_cancel: OnCancel,
    name: Option<Box<str>>,
) -> (Task<T>, Outside<T>) {
    let (worker, task) = here(what);
    let terms = terms(task, Location::caller(), Traits::default(), name);
    let node = worker.running_node();
    let (handle, outside) = worker.shared().spawn_external(node, terms, on_cancel, false);
    (Task::new(handle), outside)
}

/// The right to complete a task from anywhere. See [`promise`].
///
/// Dropping a promise without a value, also by a panic, ends the task with
/// [`JoinError::Abandoned`](crate::JoinError::Abandoned). If a promise is forgotten
/// (`mem::forget`), only a cancellation ends its task.
#[must_use = "dropping a Promise ends its task without a value"]
pub struct Promise<T> {
    outside: Outside<T>,
}

impl<T> Promise<T> {
    /// Ends the task with a value.
    ///
    /// Does not suspend, and resumes no task in place: a worker ends the task, and the task's
    /// parent if that has waited for nothing else. Costs a handful of locked instructions, and a
    /// system call if a worker must be woken.
    ///
    /// # Errors
    /// The value, if the task was cancelled before.
    pub fn complete(self, value: T) -> Result<(), T> {
        // A canceller first marks the task and then cuts its wait. A caller that has seen the mark
        // must not complete the task in between.
        if self.is_cancelled() {
            return Err(value);
        }
        self.outside.settle(Ok(value)).map_err(|outcome| match outcome {
            Ok(value) => value,
            Err(_) => unreachable!("`settle` returns the outcome that it was given"),
        })
    }

    /// Returns whether the task is cancelled, so that the value is not wanted any more. Does not
    /// suspend. Costs a load.
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

    /// Hangs a hook on the task, from any thread. The hook is told that the task was cancelled (at
    /// once, if it already is), or that it ended without being cancelled. Does not suspend. Costs
    /// as much as [`on_cancel`](crate::on_cancel).
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let (stop, stopped) = std::sync::mpsc::channel();
    /// let (promise, answer) = cygnet::promise::<u32>();
    /// promise.on_cancel(move |_| stop.send(()).unwrap()).keep();
    /// let foreign = std::thread::spawn(move || {
    ///     let _promise = promise; // .. works, and checks whether to stop ..
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

unwind_safe! { impl<T> Promise<T> }

debug! { impl<T> Promise<T> as this { cancelled: this.is_cancelled() } }

#[cfg(all(test, not(loom)))]
mod tests {
    use super::external_child;
    use crate::scheduler::cancel::hook::Body;
    use crate::scheduler::life::external::OnCancel;
    use crate::task::cause::Cause;
    use crate::task::words::tree::Cancel;
    use std::sync::{Arc, mpsc};

    /// Between the two steps of a cancellation: the task is marked, and its wait is not yet cut.
    #[test]
    fn a_promise_takes_no_value_once_its_task_is_marked_as_cancelled() {
        let rt = crate::Runtime::builder().workers(1).build().unwrap();
        rt.block_on(|| {
            let (promise, answer) = super::promise();
            assert_eq!(promise.outside.task().node.word().cancel(), Cancel::First);
            assert!(promise.is_cancelled());
            assert_eq!(promise.complete("too late"), Err("too late"));
            assert!(matches!(answer.join(), Err(crate::JoinError::NotStarted(_))));
        });
    }

    struct Tells(mpsc::Sender<Option<String>>);

    impl Body for Tells {
        fn on_cancel(self: Box<Self>, cause: Arc<Cause>) {
            self.0.send(Some(cause.reason.to_string())).unwrap();
        }

        fn on_cleanup(self: Box<Self>) {
            self.0.send(None).unwrap();
        }
    }

    #[test]
    fn a_hook_that_comes_after_the_end_learns_whether_the_task_was_cancelled() {
        let rt = crate::Runtime::builder().workers(1).build().unwrap();
        rt.block_on(|| {
            for reason in [None, Some("enough")] {
                let (task, outside) = external_child("test", OnCancel::Tell, None);
                reason.into_iter().for_each(|reason| task.cancel(reason));
                assert!(outside.settle(Ok(7)).is_ok());
                assert_eq!(task.join().unwrap(), 7);
                let (tell, told) = mpsc::channel();
                outside.hang(Box::new(Tells(tell))).keep();
                assert_eq!(told.recv().unwrap().as_deref(), reason);
            }
        });
    }
}
