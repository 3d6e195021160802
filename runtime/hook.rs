//! What is told when a scope or a task is cancelled, and is not a task itself.

use crate::runtime::errors::Cancelled;
use crate::runtime::here;
use crate::scheduler::cancel::hook::{Body, Hung, hang};
use crate::task::cause::Cause;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Something that hangs on a scope or a task, and is told if that is cancelled: a request to another program, a foreign
/// thread, an operation of the system. See [`on_cancel`]. Any `FnOnce(Cancelled)` is one.
///
/// Of the two one is called, once. By whoever cancels, takes the hook back, or ends the scope, on that thread, and in
/// the name of no task: it may wake, cancel and drop whatever it likes, but neither wait nor spawn. A wait in it
/// panics, or, on a thread that is no worker's, blocks that; a panic in it has been reported by the panic hook, and goes
/// no further. Two hooks that drop each other's guard on two threads at the same time wait for each other for ever.
pub trait CancelHook: Send + 'static {
    /// The scope is cancelled. No lock is held.
    fn on_cancel(self: Box<Self>, cancelled: Cancelled);

    /// The scope has ended, or the hook was taken back, without a cancel.
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

/// Hangs a hook on the innermost scope that is open in the calling task, or on the task itself if there is none. If
/// that is cancelled already the hook is called at once.
///
/// Does not suspend. Costs two allocations and a lock; as much as a first wait besides, for a task that has never
/// waited.
///
/// ```
/// use std::sync::mpsc::channel;
///
/// // A thread that is not of the library's, and must be told that nobody waits for it any more.
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
    // SAFETY: that of the running task, or of a scope on its stack, which does not end before this call.
    HookGuard::new(hang(unsafe { &*worker.node.get() }, Box::new(hook)))
}

/// Takes a hook back when it is dropped, from any thread and at any time. Unless the hook has been called before,
/// [`CancelHook::on_cleanup`] is called then, or `on_cancel` if the scope is cancelled and the canceller has not yet come
/// to it. If another thread is calling it at this moment, the drop waits for the end of that.
///
/// See [`on_cancel`] for an example.
#[must_use = "dropping it takes the hook back; call keep to leave it where it is"]
pub struct HookGuard {
    hung: Hung,
}

impl UnwindSafe for HookGuard {}
impl RefUnwindSafe for HookGuard {}

impl HookGuard {
    pub(crate) fn new(hung: Hung) -> HookGuard {
        HookGuard { hung }
    }

    /// Leaves the hook where it is, until it is called by a cancel or at the end of the scope. Costs a lock.
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
