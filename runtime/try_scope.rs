//! Scopes that end early: the first failure cancels the rest, and is what the scope returns.

use crate::retire::nesting::Pin;
use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::here;
use crate::runtime::scope::{Scope, await_children, enter, leave};
use crate::runtime::scoped_task::ScopedTask;
use crate::runtime::task::TaskId;
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::cancel::reason::cause_of;
use crate::shim::Mutex;
use crate::task::cause::{Cause, Reason};
use crate::task::outcome::{Failure, Payload};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, Location, RefUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// An open scope that ends with its first failure. See [`try_scope`].
///
/// It dereferences to the [`Scope`], for tasks that cannot fail and for
/// [`cancel`](Scope::cancel). A panic of such a task cancels nothing; it goes on when the scope has
/// ended, as with [`scope`](crate::scope()).
// `E: 'env` orders the two lifetimes that outlive 'scope. Without the order the compiler takes
// 'static for their join, and no task could borrow if E is `'static`.
pub struct TryScope<'scope, 'env: 'scope, E: 'env> {
    scope: Scope<'scope, 'env>,
    first: Mutex<Option<First<E>>>,
    /// Why the rest is cancelled after a failure.
    cause: Arc<Cause>,
}

/// The first failure in a scope.
enum First<E> {
    Error(E),
    Panic(Payload),
    /// A task did not start, or was unwound, because it is cancelled.
    Cancelled(Cancelled),
}

impl<E> RefUnwindSafe for TryScope<'_, '_, E> {}

debug! { impl<E> TryScope<'_, '_, E> { .. } }

/// Opens a [`scope`](crate::scope()) that returns the first failure, and cancels the rest because
/// of it: a failure of `f`, or of a task of [`spawn_try`](TryScope::spawn_try). An error and a
/// panic are failures.
///
/// The others learn of the cancel ([`Reason::SiblingFailed`]) from their present or next wait, and
/// pass it on with `?`; what they return then does not count. `f` is cancelled like a task. Tasks
/// that have not started never do. `Ok` means that `f` and all these tasks have returned `Ok`. So a
/// cancel is a failure, too, if it kept a task from its start.
///
/// As in any scope, tasks may borrow what lives outside, and all of them have ended when the call
/// returns. (A plain `scope` cancels nothing if `f` panics: it does as `std::thread::scope` does,
/// and its tasks, which no failure stops, run to their end.)
///
/// The errors are of any type that a [`Cancelled`] converts to: an enum of your own with
/// `From<Cancelled>`, or a boxed error.
///
/// Suspends at its end, as a structured wait, if tasks are left. Costs a scope, and an allocation.
///
/// ```
/// use cygnet::{try_scope, try_timeout};
/// use std::time::Duration;
///
/// type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
///
/// fn price(text: &str) -> Result<u64> {
///     Ok(text.parse()?) // .. asks a server ..
/// }
///
/// /// All of these; the first failure cancels the rest; two seconds at most; the sum.
/// fn total(texts: &[&str]) -> Result<u64> {
///     try_timeout(Duration::from_secs(2), || try_scope(|s| {
///         let prices: Vec<_> = texts.iter().map(|text| s.spawn_try(|| price(text))).collect();
///         prices.into_iter().map(|price| Ok(price.value()?)).sum()
///     }))
/// }
///
/// let rt = cygnet::Runtime::builder().workers(2).build()?;
/// assert_eq!(rt.block_on(|| total(&["1", "2", "3"]))?, 6);
/// let error = rt.block_on(|| total(&["1", "two", "3"])).unwrap_err();
/// assert_eq!(error.to_string(), "invalid digit found in string");
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// # Errors
/// The first error. An error made from a [`Cancelled`] if the first failure was a task that did not
/// start, or was unwound by [`Cancelled::unwind`], because it was cancelled: from outside, or by a
/// joiner that was cancelled itself.
///
/// # Panics
/// With the panic that was the first failure, or else with the first panic of another task of the
/// scope that was not joined, or with the text of [`NoStack`](crate::NoStack) if there was no stack
/// for one; in all cases after all tasks have ended. Outside a task.
#[track_caller]
pub fn try_scope<'env, F, R, E>(f: F) -> Result<R, E>
where
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> Result<R, E>,
    E: From<Cancelled> + Send + 'env,
{
    let place = Location::caller();
    let (worker, task) = here("try_scope");
    let _pin = Pin::innermost();
    let scope = TryScope {
        scope: Scope::new(worker.frame_of_scope(task, None)),
        first: Mutex::new(None),
        cause: Cause::new(Reason::SiblingFailed, Some(place)),
    };
    let frame = scope.scope.frame();
    let outer = enter(worker, frame);
    let (value, other) = match catch_unwind(AssertUnwindSafe(|| f(&scope))) {
        Ok(Ok(value)) => (Some(value), None),
        Ok(Err(error)) => (None, scope.fail(First::Error(error))),
        Err(payload) => (None, scope.fail(First::Panic(payload))),
    };
    await_children(frame);
    let result = match scope.first.lock().take() {
        Some(First::Panic(payload)) => Err(payload),
        first => Ok(first),
    };
    // Destructors and conversions of the user run after this, outside the scope, and not while a
    // panic unwinds.
    let left = catch_unwind(AssertUnwindSafe(|| leave(frame, outer, result)));
    if let Ok(None) = left {
        return Ok(value.expect("a closure without a failure has returned a value"));
    }
    drop((value, other));
    match left {
        Ok(Some(First::Error(error))) => Err(error),
        Ok(Some(First::Cancelled(cancelled))) => Err(cancelled.into()),
        Ok(Some(First::Panic(payload))) | Err(payload) => resume_unwind(payload),
        Ok(None) => unreachable!("returned above"),
    }
}

impl<'scope, E: Send> TryScope<'scope, '_, E> {
    /// Spawns a task whose failure ends the scope. It may borrow what outlives the scope.
    ///
    /// May be called wherever [`Scope::spawn`] may. The handle may be dropped: the scope owns the
    /// task. Costs little more than `Scope::spawn`. Does not suspend. See [`try_scope`] for an
    /// example.
    ///
    /// # Panics
    /// As `Scope::spawn` does.
    #[track_caller]
    pub fn spawn_try<F, T>(&'scope self, f: F) -> TryTask<'scope, T>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
    {
        let attempt = Attempt { scope: self, has_begun: false };
        // The closure's captures are dropped before the attempt.
        let parts = (f, attempt);
        TryTask(self.scope.spawn(move || {
            let (f, attempt) = parts;
            attempt.run(f)
        }))
    }
}

impl<E> TryScope<'_, '_, E> {
    /// Keeps the first failure, and cancels the rest. Returns a later one: its destructor is the
    /// user's code.
    fn fail(&self, failure: First<E>) -> Option<First<E>> {
        let mut first = self.first.lock();
        if first.is_some() {
            return Some(failure);
        }
        *first = Some(failure);
        drop(first);
        self.scope.cancel_for(Arc::clone(&self.cause));
        None
    }
}

impl<'scope, 'env, E: 'env> Deref for TryScope<'scope, 'env, E> {
    type Target = Scope<'scope, 'env>;

    fn deref(&self) -> &Scope<'scope, 'env> {
        &self.scope
    }
}

/// A task of a scope, until it has begun.
struct Attempt<'scope, 'env, E: 'env> {
    scope: &'scope TryScope<'scope, 'env, E>,
    has_begun: bool,
}

impl<E> Attempt<'_, '_, E> {
    fn run<T>(mut self, f: impl FnOnce() -> Result<T, E>) -> Result<T, Cancelled> {
        self.has_begun = true;
        let failure = match catch_unwind(AssertUnwindSafe(f)) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => First::Error(error),
            Err(payload) => match Failure::from(payload) {
                Failure::Panicked(payload) => First::Panic(payload),
                failure => First::Cancelled(JoinError::from(failure).into_cancelled()),
            },
        };
        drop(self.scope.fail(failure));
        Err(Cancelled::new(Arc::clone(&self.scope.cause)))
    }
}

impl<E> Drop for Attempt<'_, '_, E> {
    fn drop(&mut self) {
        if self.has_begun {
            return;
        }
        // If not the scope, a joiner that was itself cancelled has cancelled the task. Or there was
        // no stack for it, which makes the scope panic unless the handle is forgotten.
        let node = self.scope.scope.node();
        let cause = if is_cancelled(node) { cause_of(node) } else { Cause::unknown() };
        self.scope.fail(First::Cancelled(Cancelled::new(cause)));
    }
}

/// The handle of a task of [`spawn_try`](TryScope::spawn_try). Dropping it does nothing: the scope
/// waits for the task, and returns its failure.
pub struct TryTask<'scope, T>(ScopedTask<'scope, Result<T, Cancelled>>);

impl<T> TryTask<'_, T> {
    /// Waits for the task's end and returns its value. Suspends and costs as
    /// [`Task::join`](crate::Task::join) does. See [`try_scope`] for an example.
    ///
    /// # Errors
    /// [`Cancelled`] if the task has failed, or was cancelled because another one had; the scope
    /// returns the failure. Or if the calling task is cancelled.
    ///
    /// # Panics
    /// If the kernel refused memory for the task's stack; if a task waits for its own end. As
    /// [`Task::join`](crate::Task::join) does.
    #[track_caller]
    pub fn value(self) -> Result<T, Cancelled> {
        self.0.value()?
    }

    /// Returns whether the task and all its children have ended. Does not suspend. Costs a load.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// The task's identity, which [`current_id`](crate::current_id) returns inside the task. Does
    /// not suspend. Costs a load.
    pub fn id(&self) -> TaskId {
        self.0.id()
    }
}

debug! { impl<T> TryTask<'_, T> as this { id: this.id(), finished: this.is_finished() } }
