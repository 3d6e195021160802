//! One that ends, and is cancelled by what is called as it ends: it has not been cancelled, whoever asks.

use crate::common::{with_each, within};
use cygnet::{CancelHandle, CancelledFuture, Runtime, scope, sleep, spawn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Cancels what it is told of, and notes if that is said to have happened.
struct Cancels {
    handle: CancelHandle,
    happened: AtomicBool,
}

impl Wake for Cancels {
    fn wake(self: Arc<Self>) {
        self.handle.cancel("too late");
        self.happened.fetch_or(self.handle.is_cancelled(), Ordering::Relaxed);
    }
}

fn poll(future: &mut CancelledFuture, waker: &Waker) -> Poll<bool> {
    let told = Pin::new(future).poll(&mut Context::from_waker(waker));
    told.map(|cancelled| cancelled.is_some())
}

/// Watches one by several futures, each of which cancels it when it is woken.
struct Watched {
    handle: CancelHandle,
    cancels: Arc<Cancels>,
    futures: Vec<CancelledFuture>,
}

impl Watched {
    fn new(handle: CancelHandle) -> Watched {
        let happened = AtomicBool::new(false);
        let cancels = Arc::new(Cancels { handle: handle.clone(), happened });
        let waker = Waker::from(cancels.clone());
        let mut futures: Vec<_> = (0..3).map(|_| handle.cancelled_async()).collect();
        futures.iter_mut().for_each(|future| assert!(poll(future, &waker).is_pending()));
        Watched { handle, cancels, futures }
    }

    /// It has ended.
    fn assert_not_cancelled(self) {
        assert!(!self.handle.is_cancelled());
        assert!(!self.cancels.happened.load(Ordering::Relaxed), "to one whom it has woken");
        let new = self.handle.cancelled_async();
        for mut future in self.futures.into_iter().chain([new]) {
            assert_eq!(poll(&mut future, Waker::noop()), Poll::Ready(false));
        }
    }
}

#[test]
fn a_scope_is_not_cancelled_by_what_its_end_calls() {
    with_each(|rt| {
        rt.block_on(|| {
            let watched = scope(|s| Watched::new(s.cancel_handle()));
            watched.assert_not_cancelled();
        });
    });
}

/// Has waited where a cancel finds it, or has not.
const LIVES: [fn() -> u8; 2] = [
    || 7,
    || {
        sleep(Duration::from_micros(10)).unwrap();
        7
    },
];

#[test]
fn a_task_is_not_cancelled_by_what_its_end_calls() {
    within(|| {
        for live in LIVES {
            let rt = Runtime::builder().workers(1).build().unwrap();
            // Nobody waits for it but the end of the one around it.
            let (watched, value) = rt.block_on(|| {
                let task = spawn(live);
                let watched = Watched::new(task.cancel_handle());
                (watched, task)
            });
            assert_eq!(value.join().unwrap(), 7);
            watched.assert_not_cancelled();
            rt.block_on(|| {
                // It is called where it is joined.
                let task = spawn(live);
                let watched = Watched::new(task.cancel_handle());
                assert_eq!(task.join().unwrap(), 7);
                watched.assert_not_cancelled();
                // It is waited for by one on the same worker.
                let task = spawn(live);
                let watched = Watched::new(task.cancel_handle());
                cygnet::yield_now().unwrap();
                assert_eq!(task.join().unwrap(), 7);
                watched.assert_not_cancelled();
                // Nobody waits for it but the scope.
                let watched = scope(|s| Watched::new(s.spawn(live).cancel_handle()));
                watched.assert_not_cancelled();
            });
        }
    });
}
