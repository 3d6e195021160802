//! Stops: the end of a runtime, shutdowns that let work finish, interrupts and guards, and the tree
//! of Swansongs.

#[path = "../common/mod.rs"]
mod common;

mod endings;
mod graceful;
mod interrupt;
mod runtime;
mod swansong;

use common::prelude::*;
use cygnet::shutdown::{ShutdownState, Swansong};

/// A waker that counts its calls.
struct Called {
    calls: Arc<Calls>,
    waker: Waker,
}

struct Calls {
    count: AtomicUsize,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::Release);
    }
}

impl Called {
    fn new() -> Called {
        let calls = Arc::new(Calls { count: AtomicUsize::new(0) });
        Called { waker: Waker::from(Arc::clone(&calls)), calls }
    }

    fn count(&self) -> usize {
        self.calls.count.load(Ordering::Acquire)
    }

    /// The number of clones of the waker.
    fn kept(&self) -> usize {
        Arc::strong_count(&self.calls) - 2
    }

    fn cx(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    fn poll<F: Future + ?Sized>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut self.cx())
    }
}

/// The output of a future that is ready at once.
fn now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Shows a behaviour of a root, of a child of a root that runs, and of a Swansong whose parent has
/// no handle.
fn of_each_kind(show: impl Fn(Swansong)) {
    show(Swansong::new());
    let root = Swansong::new();
    show(root.child());
    show(root.child().child());
    assert_eq!((root.state(), root.guard_count()), (ShutdownState::Running, 0));
}

/// Runs a future on tokio, and leaves the test out in simulation.
fn on_tokio<F: Future>(show: impl Fn() -> F + Sync) {
    if !common::leaves_out("a foreign executor with threads of its own") {
        common::within(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(show());
        });
    }
}
