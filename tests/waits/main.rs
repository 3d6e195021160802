//! Waits: of tasks, of futures and for a time, what runs meanwhile, and which task is woken.

#[path = "../common/mod.rs"]
mod common;

mod alarms;
mod check_in;
mod descendants_only;
mod futures;
mod group;
mod group_cancels;
mod interval;
mod no_suspend;
mod parking;
mod select;
mod time;
mod timed_futures;
mod turns;
mod waiting;
mod waking;

use common::Count;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Counts the calls, and unparks the thread that has made it.
struct Counting {
    thread: common::thread::Thread,
    wakes: Count,
}

impl Counting {
    fn waker() -> (Arc<Counting>, Waker) {
        let thread = common::thread::current();
        let counting = Arc::new(Counting { thread, wakes: Count::new() });
        (Arc::clone(&counting), Waker::from(counting))
    }

    fn wakes(&self) -> usize {
        self.wakes.get()
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.wakes.up();
        self.thread.unpark();
    }
}

/// The smallest executor: a thread that polls one future and parks in between.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (_, waker) = Counting::waker();
    loop {
        match poll(future.as_mut(), &waker) {
            Poll::Ready(output) => return output,
            Poll::Pending => common::thread::park(),
        }
    }
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

fn is_pending<F: Future>(future: Pin<&mut F>) -> bool {
    poll(future, Waker::noop()).is_pending()
}
