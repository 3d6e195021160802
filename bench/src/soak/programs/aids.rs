//! What the programs have in common.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cygnet::{Cancelled, JoinError};

use crate::soak::faults::{Fault, Planned};
use crate::soak::rng::Rng;

/// For waits that are to be cut short, not to time out.
pub(crate) const LONG: Duration = Duration::from_secs(1000);

/// Counts who begins and who ends.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Somebody who has begun, and ends when this is dropped.
pub(crate) struct Present<'a>(&'a Tally);

impl Tally {
    pub(crate) fn enter(&self) -> Present<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Present(self)
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// When the wait for all is over: as many have ended as have begun. How many that was.
    #[track_caller]
    pub(crate) fn assert_balanced(&self) -> u64 {
        let (ended, begun) = (self.ended.load(Ordering::Relaxed), self.begun());
        assert_eq!(ended, begun, "of {begun} tasks that have begun {ended} have ended");
        ended
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tells when the last of its tickets is gone: those who have no handle can be waited for so.
pub(crate) struct Leaving {
    ticket: mpsc::Sender<()>,
    gone: mpsc::Receiver<()>,
}

impl Leaving {
    pub(crate) fn new() -> Leaving {
        let (ticket, gone) = mpsc::channel();
        Leaving { ticket, gone }
    }

    /// To be dropped last of all that its holder has.
    pub(crate) fn ticket(&self) -> mpsc::Sender<()> {
        self.ticket.clone()
    }

    /// Blocks the thread until no ticket is left.
    pub(crate) fn wait(self) {
        drop(self.ticket);
        let _ = self.gone.recv();
    }
}

/// What a task does between two steps: nothing, giving way, a nap, some work.
pub(crate) fn pause(rng: &mut Rng) -> Result<(), Cancelled> {
    match rng.below(8) {
        0..=2 => Ok(()),
        3 => cygnet::yield_now(),
        4 => cygnet::checkpoint(),
        5 => cygnet::sleep(rng.micros(200)),
        6 => {
            compute(rng.micros(20));
            Ok(())
        }
        _ => {
            thread::yield_now();
            Ok(())
        }
    }
}

/// The same for a plain thread, which now and then stalls.
pub(crate) fn stall(rng: &mut Rng) {
    match rng.below(8) {
        0..=3 => {}
        4..=6 => thread::sleep(rng.micros(200)),
        _ => {
            Fault::Stall.count();
            thread::sleep(rng.micros(8000));
        }
    }
}

/// Uses the processor for so long.
pub(crate) fn compute(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What has become of a task that may panic as planned, or be cancelled.
#[track_caller]
pub(crate) fn outcome<T>(result: Result<T, JoinError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(JoinError::Panicked(payload)) if payload.is::<Planned>() => None,
        Err(JoinError::Panicked(payload)) => resume_unwind(payload.into_inner()),
        Err(error) if error.cancelled().is_some() => None,
        Err(error) => panic!("a task has ended as none should: {error}"),
    }
}

/// What a task has come to that is not cancelled and does not panic.
#[track_caller]
pub(crate) fn value<T>(result: Result<T, JoinError>) -> T {
    match result {
        Ok(value) => value,
        Err(JoinError::Panicked(payload)) => resume_unwind(payload.into_inner()),
        Err(error) => panic!("a task that nobody cancels has ended without a value: {error}"),
    }
}
