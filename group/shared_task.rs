//! A task whose outcome several tasks and threads wait for.

use crate::runtime::{CancelHandle, Cancelled, JoinError, Task, TaskId, current_id};
use crate::shim::Mutex;
use crate::sync::{Event, WaitError};
use crate::task::cause::Reason;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A handle of a task whose outcome several tasks and threads wait for, each with a clone of the
/// handle. Each of them gets a reference to the one value, or a share of the one error.
/// [`Task::shared`] makes a handle.
///
/// Dropping the last clone cancels the task, as dropping a [`Task`] does. The value lives as long
/// as the clones.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let total = rt.block_on(|| {
///     let config = cygnet::spawn(|| String::from("read once")).shared();
///     let users: Vec<_> = (0..3)
///         .map(|_| {
///             let config = config.clone();
///             cygnet::spawn(move || config.value().map(String::len))
///         })
///         .collect();
///     users.into_iter().map(|user| user.value()?).sum::<Result<usize, cygnet::Cancelled>>()
/// });
/// assert_eq!(total, Ok(27));
/// ```
#[must_use = "dropping the last SharedTask cancels its task; call join"]
pub struct SharedTask<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    id: TaskId,
    cancel: CancelHandle,
    ended: Arc<Ended>,
    /// Has the outcome, from the task's end until the first waiter moves it into `outcome`.
    task: Mutex<Task<T>>,
    outcome: OnceLock<Result<T, Arc<JoinError>>>,
}

/// The waker by which the task tells of its end. The task keeps this waker, so the waker must not
/// keep a handle: the last handle would never be dropped.
struct Ended(Event);

impl Wake for Ended {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }
}

impl<T> Task<T> {
    /// Returns a handle that can be cloned, so that several tasks and threads can wait for the
    /// outcome. See [`SharedTask`]. A waiter does not call the task in place.
    ///
    /// Does not suspend. Costs three allocations.
    ///
    /// # Panics
    /// If the outcome has been taken by [`join_timeout`](Task::join_timeout).
    pub fn shared(self) -> SharedTask<T> {
        let ended = Arc::new(Ended(Event::new()));
        let (id, cancel) = (self.id(), self.cancel_handle());
        let waker = Waker::from(ended.clone());
        if self.tell_of_end(&waker) {
            waker.wake();
        }
        let (task, outcome) = (Mutex::new(self), OnceLock::new());
        SharedTask { shared: Arc::new(Shared { id, cancel, ended, task, outcome }) }
    }
}

impl<T> SharedTask<T> {
    /// Waits for the task's end and returns its value.
    ///
    /// Suspends the calling task, or blocks a plain thread, unless the task has ended. Costs as
    /// much as [`Event::wait`].
    ///
    /// # Errors
    /// Those of [`Task::join`], shared by all waiters. [`JoinError::Cancelled`] if the calling task
    /// is cancelled, even if the joined task has ended. The caller keeps its handle in any case.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn join(&self) -> Result<&T, Arc<JoinError>> {
        self.is_own_end()?;
        self.after(self.shared.ended.0.wait())
    }

    /// Waits for the task's end, but not longer than a time, and returns its value. Otherwise like
    /// [`join`](SharedTask::join).
    ///
    /// ```
    /// use cygnet::JoinError;
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let task = rt.spawn(cygnet::park).shared();
    /// let error = task.join_timeout(Duration::from_millis(1)).unwrap_err();
    /// assert!(matches!(*error, JoinError::TimedOut));
    /// ```
    ///
    /// # Errors
    /// [`JoinError::TimedOut`]; the errors of [`join`](SharedTask::join).
    ///
    /// # Panics
    /// As [`join`](SharedTask::join) does.
    #[track_caller]
    pub fn join_timeout(&self, time: Duration) -> Result<&T, Arc<JoinError>> {
        self.is_own_end()?;
        self.after(self.shared.ended.0.wait_timeout(time))
    }

    /// Like [`join`](SharedTask::join), as a future for any executor, and for
    /// [`select!`](crate::select).
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let task = rt.spawn(|| 7).shared();
    /// let seven = cygnet::wait(std::pin::pin!(task.join_async())).unwrap();
    /// assert_eq!(*seven.unwrap(), 7);
    /// ```
    ///
    /// # Errors
    /// Those of [`join`](SharedTask::join), but not for a cancel of the caller: whoever polls the
    /// future drops it.
    pub async fn join_async(&self) -> Result<&T, Arc<JoinError>> {
        self.is_own_end()?;
        self.after(self.shared.ended.0.wait_async().await)
    }

    /// Waits for the task's end and returns its value, for code that passes a cancel on with `?`
    /// and has nothing to say about a panic. Otherwise like [`join`](SharedTask::join). See
    /// [`SharedTask`] for an example.
    ///
    /// # Errors
    /// [`Cancelled`] if the task or the caller was cancelled; with [`Reason::Abandoned`] if the
    /// task's [`Promise`](crate::Promise) was dropped, or the other runtime it was to run on ended.
    ///
    /// # Panics
    /// If the task has panicked, with the text of that panic in it: one payload cannot go on in
    /// several tasks. If the kernel refused memory for the task's stack; if the task waits for
    /// its own end. As [`join`](SharedTask::join) does.
    #[track_caller]
    pub fn value(&self) -> Result<&T, Cancelled> {
        match self.join() {
            Ok(value) => Ok(value),
            Err(error) => Err(error.to_cancelled()),
        }
    }

    fn is_own_end(&self) -> Result<(), Arc<JoinError>> {
        let is_own = current_id() == Some(self.shared.id);
        if is_own { Err(Arc::new(JoinError::OwnEnd)) } else { Ok(()) }
    }

    /// Returns the outcome after a wait for the end.
    fn after(&self, waited: Result<(), WaitError>) -> Result<&T, Arc<JoinError>> {
        let short = match waited {
            Ok(()) => return self.shared.outcome().as_ref().map_err(Arc::clone),
            Err(WaitError::Cancelled(cancelled)) => JoinError::Cancelled(cancelled),
            Err(_) => JoinError::TimedOut,
        };
        Err(Arc::new(short))
    }

    /// Cancels the task and all its descendants. Every waiter learns of it. See [`Task::cancel`],
    /// also for the cost. Does not suspend.
    #[track_caller]
    pub fn cancel(&self, reason: impl Into<Reason>) {
        self.shared.cancel.cancel(reason);
    }

    /// Returns whether the task and all its children have ended. Does not suspend. Costs a load.
    pub fn is_finished(&self) -> bool {
        self.shared.ended.0.is_set()
    }

    /// The task's identity, which [`current_id`] returns inside the task. Does not suspend. Costs a
    /// load.
    pub fn id(&self) -> TaskId {
        self.shared.id
    }
}

impl<T> Shared<T> {
    /// The outcome of a task that has told of its end.
    fn outcome(&self) -> &Result<T, Arc<JoinError>> {
        if let Some(outcome) = self.outcome.get() {
            return outcome;
        }
        // Under the lock there is one caller, so it does not wait inside the cell.
        let mut task = self.task.lock();
        self.outcome.get_or_init(|| {
            match Pin::new(&mut *task).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => outcome.map_err(Arc::new),
                Poll::Pending => unreachable!("the task has told of its end"),
            }
        })
    }
}

impl<T> Clone for SharedTask<T> {
    fn clone(&self) -> SharedTask<T> {
        SharedTask { shared: Arc::clone(&self.shared) }
    }
}

// Unlike a `Task`, this shows the value, so the value must be unwind-safe by reference.
unwind_safe! { impl<T: std::panic::RefUnwindSafe> SharedTask<T> }

debug! { impl<T> SharedTask<T> as this { id: this.id(), finished: this.is_finished() } }
