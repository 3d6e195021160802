//! Callers that wait at a primitive: how many there are, and tasks that join them.

use super::mpsc::channel;
use super::{eventually, give_way_until, parks, thread};
use cygnet::{Runtime, Task, Unparker};
use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A time limit that no test reaches.
pub(crate) const LONG: Duration = Duration::from_secs(10_000);
/// A time limit that a test waits for.
pub(crate) const MOMENT: Duration = Duration::from_millis(1);

/// Returns how many callers wait: the debug output of a primitive has a source location for each.
pub(crate) fn waiting(primitive: &(impl Debug + ?Sized)) -> usize {
    format!("{primitive:?}").matches(".rs:").count()
}

/// On a thread: blocks until `count` callers wait.
#[track_caller]
pub(crate) fn until_waiting(primitive: &(impl Debug + ?Sized), count: usize) {
    eventually("they wait", || waiting(primitive) == count);
}

/// Spawns `body` and returns once one more caller waits at `primitive`.
#[track_caller]
pub(crate) fn queued<R: Send + 'static>(
    rt: &Runtime,
    primitive: &(impl Debug + ?Sized),
    body: impl FnOnce() -> R + Send + 'static,
) -> Task<R> {
    let before = waiting(primitive);
    let task = rt.spawn(body);
    until_waiting(primitive, before + 1);
    task
}

/// Calls `begin`, and returns its value once `more` waits have parked a task meanwhile.
#[track_caller]
pub(crate) fn parking<R>(rt: &Runtime, more: u64, begin: impl FnOnce() -> R) -> R {
    let before = parks(rt);
    let begun = begin();
    let they_wait = || parks(rt) >= before + more;
    match cygnet::current_id() {
        Some(_) => give_way_until(they_wait),
        None => eventually("they wait", they_wait),
    }
    begun
}

/// Spawns `body`, in a task as its child, and returns once `more` waits have parked a task
/// meanwhile.
#[track_caller]
pub(crate) fn parked<R: Send + 'static>(
    rt: &Runtime,
    more: u64,
    body: impl FnOnce() -> R + Send + 'static,
) -> Task<R> {
    parking(rt, more, || match cygnet::current_id() {
        Some(_) => cygnet::spawn(body),
        None => rt.spawn(body),
    })
}

/// Spawns a task that parks, as [`parked`] does. Returns it with its unparker once it waits.
#[track_caller]
pub(crate) fn sleeper(rt: &Runtime) -> (Task<bool>, Unparker) {
    let (tell, told) = channel();
    let task = parked(rt, 1, move || {
        tell.send(cygnet::unparker()).unwrap();
        cygnet::park().is_ok()
    });
    (task, told.recv().unwrap())
}

/// Spawns `body` with a clone of `primitive` and returns once it waits there.
#[track_caller]
pub(crate) fn waits<T: Clone + Debug + Send + 'static, R: Send + 'static>(
    rt: &Runtime,
    primitive: &T,
    body: impl FnOnce(T) -> R + Send + 'static,
) -> Task<R> {
    queued(rt, primitive, own(primitive, body))
}

/// Returns a closure that calls `body` with a clone of `value`.
pub(crate) fn own<T: Clone, R, F: FnOnce(T) -> R>(
    value: &T,
    body: F,
) -> impl FnOnce() -> R + use<T, R, F> {
    let value = value.clone();
    move || body(value)
}

/// Polls a future with a waker that does nothing.
pub(crate) fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future for the first time. It must not be ready.
#[track_caller]
pub(crate) fn begun<F: Future>(future: F) -> Pin<Box<F>> {
    begun_by(future, Waker::noop())
}

/// As `begun`, with this waker.
#[track_caller]
pub(crate) fn begun_by<F: Future>(future: F, waker: &Waker) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    future
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: a thread that polls one future and parks in between.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
