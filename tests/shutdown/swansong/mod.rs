//! Graceful shutdown, statement by statement: docs/spec/shutdown.md is the contract.

mod corrected;
mod dropping;
mod everywhere;
mod large;
mod lifetime;
mod model;
mod operations;
mod ours;
mod racing;
mod random;
mod reentrant;
mod scenarios;
mod tasks;

use crate::common::prelude::*;
use crate::{Called, now, of_each_kind};
use cygnet::shutdown::{Interrupt, ShutdownCompletion, Swansong};
use std::future::Pending;

/// A future with a waker of its own, which counts.
struct Watched<F> {
    future: F,
    called: Called,
}

impl<F: Future + Unpin> Watched<F> {
    fn new(future: F) -> Watched<F> {
        Watched { future, called: Called::new() }
    }

    fn poll(&mut self) -> Option<F::Output> {
        match self.called.poll(Pin::new(&mut self.future)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn is_woken(&self) -> bool {
        self.called.count() > 0
    }

    /// Whether the future was woken, and is ready.
    fn is_resolved(&mut self) -> bool {
        self.is_woken() && self.poll().is_some()
    }
}

type Waiting = Watched<Interrupt<Pending<()>>>;

/// An interrupt that waits.
fn waiting(of: &Swansong) -> Waiting {
    let mut waits = Watched::new(of.interrupt(pending()));
    assert!(waits.poll().is_none());
    waits
}

/// The interrupt was woken, and has ended.
#[track_caller]
fn assert_ended(waits: &mut Waiting) {
    assert!(waits.is_woken(), "it was not woken");
    assert_eq!(waits.poll(), Some(None));
}

/// A completion of a Swansong, without a stop.
fn completion_of(swansong: &Swansong) -> ShutdownCompletion {
    swansong.clone().into_future()
}

fn is_stopped(swansong: &Swansong) -> bool {
    !swansong.state().is_running()
}

/// A barrier that lets threads begin at the same time.
struct Start(AtomicUsize);

impl Start {
    fn of(threads: usize) -> Start {
        Start(AtomicUsize::new(threads))
    }

    fn wait(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        let mut turns = 0u32;
        while self.0.load(Ordering::Acquire) > 0 {
            turns += 1;
            // With fewer cores than threads, the other threads need this one.
            if turns.is_multiple_of(64) {
                common::thread::yield_now();
            }
            common::spin_loop();
        }
    }
}

/// Runs `each` on `threads` other threads, and `own` on this one. All begin at the same moment.
fn race<R>(threads: usize, each: impl Fn(usize) + Sync, own: impl FnOnce() -> R) -> R {
    let start = Start::of(threads + 1);
    common::thread::scope(|s| {
        let (start, each) = (&start, &each);
        for n in 0..threads {
            s.spawn(move || {
                start.wait();
                each(n);
            });
        }
        start.wait();
        own()
    })
}

/// Runs `other` on another thread, and `own` on this one. Both begin at the same moment.
fn beside<A: Send>(other: impl FnOnce() -> A + Send, own: impl FnOnce()) -> A {
    let (start, mut result) = (Start::of(2), None);
    common::thread::scope(|s| {
        s.spawn(|| {
            start.wait();
            result = Some(other());
        });
        start.wait();
        own();
    });
    result.unwrap()
}
