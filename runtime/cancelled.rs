//! The cancellation of a task or scope as a future.

use crate::runtime::cancel::CancelHandle;
use crate::runtime::errors::Cancelled;
use crate::scheduler::cancel::hook::Body;
use crate::scheduler::life::complete::wake_future;
use crate::scheduler::wait::watching::Watching;
use crate::shim::Mutex;
use crate::task::cause::Cause;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The future of [`CancelHandle::cancelled_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct CancelledFuture {
    /// Set by the first poll. Dropped before the handle.
    watching: Option<(Arc<Told>, Watching)>,
    /// `None` once the future was ready.
    handle: Option<CancelHandle>,
}

unwind_safe! { impl CancelledFuture }

/// The state shared by the hook and the future. Wakers are foreign code: they are cloned, called
/// and dropped without the lock.
struct Told(Mutex<State>);

enum State {
    Waits(Option<Waker>),
    /// The target was cancelled (`Some`), or ended without being cancelled (`None`).
    Over(Option<Arc<Cause>>),
}

impl Told {
    /// Records the outcome, and wakes the waiter if there is one.
    fn tell(&self, cause: Option<Arc<Cause>>) {
        let mut state = self.0.lock();
        let before = std::mem::replace(&mut *state, State::Over(cause));
        drop(state);
        if let State::Waits(Some(waker)) = before {
            wake_future(waker);
        }
    }
}

/// The hook that is hung on the target.
struct Tell(Arc<Told>);

impl Body for Tell {
    fn on_cancel(self: Box<Self>, cause: Arc<Cause>) {
        self.0.tell(Some(cause));
    }

    fn on_cleanup(self: Box<Self>) {
        self.0.tell(None);
    }
}

impl CancelledFuture {
    pub(super) fn new(handle: CancelHandle) -> CancelledFuture {
        CancelledFuture { watching: None, handle: Some(handle) }
    }
}

impl Future for CancelledFuture {
    type Output = Option<Cancelled>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Cancelled>> {
        let this = &mut *self;
        let handle = this.handle.as_ref().expect("cygnet: a future was polled after its end");
        let waker = cx.waker().clone();
        let (told, _) = this.watching.get_or_insert_with(|| {
            let told = Arc::new(Told(Mutex::new(State::Waits(None))));
            let tell = Box::new(Tell(Arc::clone(&told)));
            // SAFETY: `watching` is dropped before `handle` in the poll below, in `drop` and by the
            // order of the fields.
            (told, unsafe { handle.watch(tell) })
        });
        let mut state = told.0.lock();
        let (before, over) = match &mut *state {
            State::Waits(before) => (before.replace(waker), None),
            State::Over(cause) => (Some(waker), Some(cause.clone())),
        };
        drop(state);
        drop(before);
        let Some(cause) = over else { return Poll::Pending };
        this.watching = None;
        this.handle = None;
        Poll::Ready(cause.map(Cancelled::new))
    }
}

impl Drop for CancelledFuture {
    fn drop(&mut self) {
        // The waker must not be called any more, not even by a hook that is already running.
        let Some((told, watching)) = self.watching.take() else { return };
        drop(watching);
        let waker = match &mut *told.0.lock() {
            State::Waits(waker) => waker.take(),
            State::Over(_) => None,
        };
        drop(waker);
    }
}

debug! { impl CancelledFuture as this { over: this.handle.is_none() } }
