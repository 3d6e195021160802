//! Cancellation: which tasks a cancel reaches and how often, what it says, and the sections that
//! ignore it. docs/spec/cancellation.md is the contract.

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod children;
mod completion;
mod deep;
mod ending;
mod handles;
mod hooks;
mod ignoring;
mod racing;
mod random;
mod reach;
mod tree;
mod unresponsive;
mod unwinding;
mod watching;
mod watching_from_outside;

use common::prelude::*;

/// Parks until it is cancelled, and returns the reason.
fn parked() -> String {
    why(park())
}

/// The reason of a cancel.
fn why(result: Result<(), Cancelled>) -> String {
    result.unwrap_err().reason().to_string()
}

/// On a thread: waits until waits have parked tasks `n` times since the runtime began.
fn until_parked(rt: &Runtime, n: u64) {
    eventually("tasks park", || parks(rt) >= n);
}

/// In a task: the same, and other tasks run meanwhile.
fn give_way_until_parked(n: u64) {
    let workers = || Handle::current().metrics().workers;
    give_way_until(|| workers().iter().map(|worker| worker.parks).sum::<u64>() >= n);
}

/// In a task: lets other tasks run until a value was sent.
fn receive<T>(from: &common::mpsc::Receiver<T>) -> T {
    let mut received = None;
    give_way_until(|| {
        received = from.try_recv().ok();
        received.is_some()
    });
    received.unwrap()
}

/// The events of a test, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, event: &'static str) {
        self.0.lock().unwrap().push(event);
    }

    /// A value whose drop is an event.
    fn on_drop(&self, event: &'static str) -> OnDrop {
        OnDrop(self.clone(), event)
    }

    #[track_caller]
    fn assert(&self, expected: &[&str], case: &str) {
        assert_eq!(*self.0.lock().unwrap(), expected, "{case}");
    }
}

struct OnDrop(Log, &'static str);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}
