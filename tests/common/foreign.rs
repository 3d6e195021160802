//! Code of users that the library calls: destructors, also while a panic unwinds, and wakers.

use super::panic_of;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Calls its closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Panics when it is dropped, unless the thread is panicking already.
#[derive(Debug)]
pub(crate) struct Bomb(pub(crate) &'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("{}", self.0);
        }
    }
}

/// Calls `f` in a destructor while a panic unwinds the caller, and returns its value.
#[track_caller]
pub(crate) fn while_unwinding<R>(f: impl FnOnce() -> R) -> R {
    let (mut f, mut returned) = (Some(f), None);
    let said = panic_of(|| {
        let _calls = OnDrop(|| returned = f.take().map(|f| f()));
        panic!("unwinds");
    });
    assert_eq!(said, "unwinds");
    returned.expect("it was called")
}

struct Calling<F>(F);

impl<F: Fn() + Send + Sync> Wake for Calling<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A waker that calls `f` whenever it is called.
pub(crate) fn calling(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Calling(f)))
}

/// A waker that calls `f` when it is called for the first time.
pub(crate) fn calling_once(f: impl FnOnce() + Send + 'static) -> Waker {
    let f = Mutex::new(Some(f));
    calling(move || {
        let first = f.lock().unwrap().take();
        first.into_iter().for_each(|f| f());
    })
}

/// A waker whose destructor calls `f`.
pub(crate) fn calling_at_drop(f: impl FnMut() + Send + 'static) -> Waker {
    let f = Mutex::new(OnDrop(f));
    calling(move || _ = &f)
}

/// Polls a future with this waker.
pub(crate) fn poll_by<F: Future + Unpin>(mut future: F, waker: &Waker) -> Poll<F::Output> {
    std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(waker))
}
