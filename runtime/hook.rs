//! Cancellation hooks: callbacks that run when a task or scope is cancelled.

use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::scheduler::cancel::hook::{Body, Hung, hang};
use crate::task::cause::Cause;
use std::fmt;
use std::sync::Arc;

/// A callback that hangs on a scope or a task and is told of its cancellation, to stop something
/// that is not a task: a request to another program, a foreign thread, a system operation. See
/// [`on_cancel`]. Every `FnOnce(Cancelled)` is a hook.
///
/// One of the two methods is called, once. It runs on the thread that cancels, takes the hook back
/// or ends the scope, outside any task. It may wake, cancel and drop anything, but must neither
/// wait nor spawn: on a worker's thread a wait panics, on any other it blocks the thread. A panic
/// of the hook is reported by the panic hook and goes no further. Two hooks that drop each other's
/// guard on two threads at the same time deadlock.
pub trait CancelHook: Send + 'static {
    /// Called when the scope is cancelled. No lock is held.
    fn on_cancel(self: Box<Self>, cancelled: Cancelled);

    /// Called when the scope has ended, or the hook was taken back, without a cancellation.
    fn on_cleanup(self: Box<Self>) {}
}

impl<F: FnOnce(Cancelled) + Send + 'static> CancelHook for F {
    fn on_cancel(self: Box<Self>, cancelled: Cancelled) {
        self(cancelled);
    }
}

impl<H: CancelHook> Body for H {
    fn on_cancel(self: Box<Self>, cause: Arc<Cause>) {
        CancelHook::on_cancel(self, Cancelled::new(cause));
    }

    fn on_cleanup(self: Box<Self>) {
        CancelHook::on_cleanup(self);
    }
}

/// Hangs a hook on the innermost open scope of the calling task, or on the task itself if it has no
/// open scope. If that is already cancelled, the hook is called at once.
///
/// Does not suspend. Costs two allocations and a lock; in a task that has never waited, also as
/// much as a first wait.
///
/// ```
/// use std::sync::mpsc::channel;
///
/// // A foreign thread, which must learn that its result is not needed any more.
/// let (order, orders) = channel();
/// let foreign = std::thread::spawn(move || orders.recv().unwrap());
///
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         let _hook = cygnet::on_cancel(move |cancelled: cygnet::Cancelled| {
///             order.send(cancelled.reason().to_string()).unwrap();
///         });
///         s.cancel("the game is over");
///     });
/// });
/// assert_eq!(foreign.join().unwrap(), "the game is over");
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn on_cancel(hook: impl CancelHook) -> HookGuard {
    let (worker, _) = here("on_cancel");
    HookGuard::new(hang(worker.running_node(), Box::new(hook)))
}

/// The guard of a hook: dropping it takes the hook back, from any thread and at any time. If the
/// hook has not been called yet, the drop calls [`CancelHook::on_cleanup`], or `on_cancel` if the
/// scope is cancelled and the canceller has not reached the hook. If another thread is calling the
/// hook, the drop waits for that call to return.
///
/// See [`on_cancel`] for an example.
#[must_use = "dropping it takes the hook back; call keep to leave it where it is"]
pub struct HookGuard {
    hung: Hung,
}

unwind_safe! { impl HookGuard }

impl HookGuard {
    pub(crate) fn new(hung: Hung) -> HookGuard {
        HookGuard { hung }
    }

    /// Leaves the hook in place until a cancellation or the end of the scope calls it. Costs a
    /// lock.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// struct Connection;
    ///
    /// impl cygnet::CancelHook for Connection {
    ///     fn on_cancel(self: Box<Self>, _: cygnet::Cancelled) { /* .. cut it off .. */ }
    ///     fn on_cleanup(self: Box<Self>) { /* .. close it .. */ }
    /// }
    ///
    /// # rt.block_on(|| {
    /// cygnet::scope(|_| cygnet::on_cancel(Connection).keep());
    /// # });
    /// ```
    pub fn keep(self) {
        self.hung.keep();
    }
}

impl fmt::Debug for HookGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookGuard(..)")
    }
}
