//! Stands for the core until that is there: one `Swansong` without a tree. To be replaced.

use crate::runtime::shutdown::{Guarded, Interrupt};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct Inner {
    stopped: AtomicBool,
    handles: AtomicUsize,
    guards: AtomicUsize,
    wakers: Mutex<Vec<(u64, Waker)>>,
    tickets: AtomicUsize,
}

impl UnwindSafe for Inner {}
impl RefUnwindSafe for Inner {}

impl Inner {
    fn with<R>(&self, f: impl FnOnce(&mut Vec<(u64, Waker)>) -> R) -> R {
        f(&mut self.wakers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let wakers = self.with(std::mem::take);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// A stub.
#[derive(Debug)]
pub struct Swansong(Arc<Inner>);

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

/// A stub.
#[derive(Debug)]
pub struct ShutdownCompletion(());

impl Default for Swansong {
    fn default() -> Swansong {
        Swansong::new()
    }
}

impl Swansong {
    /// A stub.
    pub fn new() -> Swansong {
        let inner = Inner::default();
        inner.handles.store(1, Ordering::SeqCst);
        Swansong(Arc::new(inner))
    }

    /// A stub.
    pub fn shut_down(&self) -> ShutdownCompletion {
        self.0.stop();
        ShutdownCompletion(())
    }

    /// A stub.
    pub fn interrupt<T>(&self, wrapped: T) -> Interrupt<T> {
        Interrupt::new(StopListener { inner: Arc::clone(&self.0), registered: None }, wrapped)
    }

    /// A stub.
    #[track_caller]
    pub fn guarded<T>(&self, wrapped: T) -> Guarded<T> {
        Guarded::new(self.guard(), wrapped)
    }

    /// A stub.
    #[track_caller]
    pub fn guard(&self) -> Guard {
        Guard::new(&self.0)
    }

    /// A stub.
    pub fn guard_count(&self) -> usize {
        self.0.guards.load(Ordering::SeqCst)
    }
}

impl Clone for Swansong {
    fn clone(&self) -> Swansong {
        self.0.handles.fetch_add(1, Ordering::SeqCst);
        Swansong(Arc::clone(&self.0))
    }
}

impl Drop for Swansong {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.stop();
        }
    }
}

/// A stub.
#[derive(Debug)]
pub struct Guard(Arc<Inner>);

impl Guard {
    fn new(inner: &Arc<Inner>) -> Guard {
        inner.guards.fetch_add(1, Ordering::SeqCst);
        Guard(Arc::clone(inner))
    }
}

impl Clone for Guard {
    fn clone(&self) -> Guard {
        Guard::new(&self.0)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Eq for Guard {}

impl PartialEq for Guard {
    fn eq(&self, other: &Guard) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Sees the stop of a `Swansong`, and is called at it if it has been polled.
pub(crate) struct StopListener {
    inner: Arc<Inner>,
    registered: Option<(u64, Waker)>,
}

impl StopListener {
    /// Another one of the same `Swansong`, which is not registered.
    #[cfg_attr(not(any(feature = "futures-io", feature = "tokio")), allow(dead_code))]
    pub(crate) fn another(&self) -> StopListener {
        StopListener { inner: Arc::clone(&self.inner), registered: None }
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.inner.stopped.load(Ordering::SeqCst)
    }

    pub(crate) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.registered.as_ref().is_none_or(|(_, waker)| !waker.will_wake(cx.waker())) {
            self.deregister();
            let ticket = self.inner.tickets.fetch_add(1, Ordering::SeqCst) as u64;
            self.inner.with(|wakers| wakers.push((ticket, cx.waker().clone())));
            self.registered = Some((ticket, cx.waker().clone()));
        }
        if self.is_stopped() { Poll::Ready(()) } else { Poll::Pending }
    }

    #[track_caller]
    pub(crate) fn guard(&self) -> Option<Guard> {
        let there = self.inner.handles.load(Ordering::SeqCst) > 0
            || self.inner.guards.load(Ordering::SeqCst) > 0;
        there.then(|| Guard::new(&self.inner))
    }

    pub(crate) fn is_same(&self, other: &StopListener) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    fn deregister(&mut self) {
        if let Some((ticket, _)) = self.registered.take() {
            let gone = self.inner.with(|wakers| {
                let at = wakers.iter().position(|(other, _)| *other == ticket)?;
                Some(wakers.swap_remove(at))
            });
            drop(gone);
        }
    }
}

impl Drop for StopListener {
    fn drop(&mut self) {
        self.deregister();
    }
}
