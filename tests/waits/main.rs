//! Waits: of tasks, of futures and for a time, what runs meanwhile, and which task is woken.

#[path = "../common/mod.rs"]
mod common;

mod alarms;
mod check_in;
mod descendants_only;
mod futures;
mod group;
mod group_cancels;
mod group_values;
mod interval;
mod no_suspend;
mod parking;
mod select;
mod time;
mod timed_futures;
mod turns;
mod waiting;
mod waking;

use common::prelude::*;

/// Counts the calls of its waker.
struct Counting(Count);

impl Counting {
    fn waker() -> (Arc<Counting>, Waker) {
        let counting = Arc::new(Counting(Count::new()));
        (Arc::clone(&counting), Waker::from(counting))
    }

    fn wakes(&self) -> usize {
        self.0.get()
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.up();
    }
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

fn is_pending<F: Future>(future: Pin<&mut F>) -> bool {
    poll(future, Waker::noop()).is_pending()
}
