//! Several cancel the same one at the same time, or as it ends: whoever asks, and whenever, is told the same.

use crate::common::{thread, with};
use cygnet::sync::oneshot;
use cygnet::{
    CancelHandle, CancelledFuture, Runtime, cancel_handle, checkpoint, park, scope, sleep, spawn,
};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Somebody who was there before: what he is told, in the end.
struct Watcher {
    future: CancelledFuture,
    told: Poll<Option<String>>,
}

impl Watcher {
    fn new(handle: &CancelHandle) -> Watcher {
        let mut watcher = Watcher { future: handle.cancelled_async(), told: Poll::Pending };
        watcher.ask();
        watcher
    }

    fn ask(&mut self) {
        let told = Pin::new(&mut self.future).poll(&mut Context::from_waker(Waker::noop()));
        self.told = told.map(|cancelled| cancelled.map(|cancelled| cancelled.reason().to_string()));
    }

    /// The reason, if it was cancelled.
    fn told(mut self) -> Option<String> {
        loop {
            if let Poll::Ready(told) = self.told {
                return told;
            }
            thread::yield_now();
            self.ask();
        }
    }
}

/// Few: in simulation there are seeds, and on real threads it takes tens of thousands to meet somebody in the middle.
fn rounds(show: impl Fn(&Runtime) + Sync) {
    with(&[2], |rt| (0..3).for_each(|_| show(rt)));
}

#[test]
fn one_that_has_ended_stays_as_it_is() {
    for live in [|| (), || sleep(Duration::from_micros(1)).unwrap_or(())] {
        rounds(|rt| {
            let task = rt.spawn(live);
            let handle = task.cancel_handle();
            let (canceller, watcher) = (handle.clone(), Watcher::new(&handle));
            thread::scope(|threads| {
                threads.spawn(move || canceller.cancel("perhaps too late"));
                let _ = task.join();
                let first = handle.is_cancelled();
                for _ in 0..10 {
                    thread::yield_now();
                    assert_eq!(handle.is_cancelled(), first, "it has ended");
                }
                assert_eq!(watcher.told().is_some(), first, "who was there before");
                assert_eq!(Watcher::new(&handle).told().is_some(), first, "who comes later");
            });
        });
    }
}

/// Asks why, and again and again.
fn first_reason() -> String {
    let first = park().unwrap_err().reason().to_string();
    for _ in 0..10 {
        thread::yield_now();
        let again = checkpoint().unwrap_err().reason().to_string();
        assert_eq!(first, again, "the reason has changed");
    }
    first
}

#[test]
fn all_are_told_the_same_reason_of_a_task() {
    rounds(|rt| {
        let ((give, mut taken), (give_handle, mut handle)) = (oneshot(), oneshot());
        let outer = rt.spawn(move || {
            let inner = spawn(move || {
                give_handle.send(cancel_handle()).unwrap();
                first_reason()
            });
            assert!(give.send(inner).is_ok());
            park()
        });
        let (inner, handle) = (taken.recv().unwrap(), handle.recv().unwrap());
        let (canceller, watcher) = (handle.clone(), Watcher::new(&handle));
        let own = thread::scope(|threads| {
            threads.spawn(move || canceller.cancel("by its handle"));
            threads.spawn(|| outer.cancel("from above"));
            inner.join().unwrap()
        });
        assert_eq!(watcher.told().as_ref(), Some(&own), "who was there before");
        assert_eq!(Watcher::new(&handle).told(), Some(own), "who comes later");
    });
}

#[test]
fn all_are_told_the_same_reason_of_a_scope() {
    rounds(|rt| {
        let (give, mut handle) = oneshot();
        let task = rt.spawn(move || {
            scope(|s| {
                give.send(s.cancel_handle()).unwrap();
                first_reason()
            })
        });
        let handle: CancelHandle = handle.recv().unwrap();
        let (canceller, watcher) = (handle.clone(), Watcher::new(&handle));
        let own = thread::scope(|threads| {
            threads.spawn(move || canceller.cancel("by its handle"));
            let above = task.cancel_handle();
            threads.spawn(move || above.cancel("from above"));
            task.join().unwrap()
        });
        assert_eq!(watcher.told().as_ref(), Some(&own), "who was there before");
        assert_eq!(Watcher::new(&handle).told(), Some(own), "who comes later");
    });
}

#[test]
fn all_are_told_the_same_reason_of_a_task_whose_handle_is_dropped() {
    rounds(|rt| {
        let (give, mut taken) = oneshot();
        let outer = rt.spawn(move || {
            let inner = spawn(park);
            assert!(give.send(inner).is_ok());
            park()
        });
        let inner = taken.recv().unwrap();
        let handle = inner.cancel_handle();
        let watcher = Watcher::new(&handle);
        thread::scope(|threads| {
            threads.spawn(move || drop(inner));
            threads.spawn(move || {
                outer.cancel("from above");
                let _ = outer.join();
            });
        });
        let told = watcher.told();
        assert!(told.is_some(), "both cancel it");
        assert_eq!(Watcher::new(&handle).told(), told, "who comes later");
    });
}
