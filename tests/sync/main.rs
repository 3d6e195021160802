//! What tasks, threads and futures wait for together: the order, cancellation, time, and that nothing is lost.

mod broadcast;
mod channel;
#[path = "../common/mod.rs"]
mod common;
mod condvar;
mod event;
mod foreign;
mod meeting;
mod mutex;
mod oneshot;
mod passing;
mod races;
mod rwlock;
mod semaphore;
mod storm;
mod watch;

use common::eventually;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(10_000);

/// How many wait, as the primitive's own debug output says.
fn waiting(primitive: &impl Debug) -> usize {
    format!("{primitive:?}").matches(".rs:").count()
}

/// On a thread: until so many wait.
#[track_caller]
fn until_waiting(primitive: &impl Debug, count: usize) {
    eventually("they wait", || waiting(primitive) == count);
}

struct Unpark(common::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: a thread that polls one future and parks in between.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(common::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => common::thread::park(),
        }
    }
}
