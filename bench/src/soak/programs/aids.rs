//! Helpers of the programs.

use std::panic::resume_unwind;

use cygnet::Cancelled;

use super::prelude::*;

/// Time limit for waits that should be cut short and not time out.
pub(crate) const LONG: Duration = Duration::from_secs(1000);

/// Counts the tasks that have begun, and the tasks that have ended.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A task that has begun. It ends when this is dropped.
pub(crate) struct Present<'a>(&'a Tally);

impl Tally {
    pub(crate) fn enter(&self) -> Present<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Present(self)
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Checks, after the wait for all tasks, that as many have ended as have begun. Returns their
    /// number.
    #[track_caller]
    pub(crate) fn assert_balanced(&self) -> u64 {
        let (ended, begun) = (self.ended.load(Ordering::Relaxed), self.begun());
        assert_eq!(ended, begun, "of {begun} tasks that began, {ended} have ended");
        ended
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for tasks without handles: each of them holds a ticket until its end.
pub(crate) struct Leaving {
    ticket: mpsc::Sender<()>,
    gone: mpsc::Receiver<()>,
}

impl Leaving {
    pub(crate) fn new() -> Leaving {
        let (ticket, gone) = mpsc::channel();
        Leaving { ticket, gone }
    }

    /// A ticket. Its holder must drop it after everything else it holds.
    pub(crate) fn ticket(&self) -> mpsc::Sender<()> {
        self.ticket.clone()
    }

    /// Blocks the thread until no ticket is left.
    pub(crate) fn wait(self) {
        drop(self.ticket);
        let _ = self.gone.recv();
    }
}

/// Lets a task do something between two steps: nothing, a yield, a nap, some work.
pub(crate) fn pause(rng: &mut Rng) -> Result<(), Cancelled> {
    match rng.below(8) {
        0..=2 => {}
        3 => return cygnet::yield_now(),
        4 => return cygnet::checkpoint(),
        5 => return cygnet::sleep(rng.micros(200)),
        6 => spin(rng.micros(20)),
        _ => thread::yield_now(),
    }
    Ok(())
}

/// Holds for waits that nothing cuts short.
pub(crate) const UNDISTURBED: &str = "it is never cancelled";

/// A time limit that may pass, of at most `most` microseconds.
pub(crate) fn limit(rng: &mut Rng, most: u64) -> Duration {
    Fault::Timeout.count();
    rng.micros(most)
}

/// Returns the value of a wait, or `None` if its time was over.
pub(crate) fn in_time<T>(waited: Result<T, WaitError>) -> Result<Option<T>, WaitError> {
    match waited {
        Err(WaitError::TimedOut) => Ok(None),
        waited => waited.map(Some),
    }
}

/// Cancels a task at a random moment.
pub(crate) fn cancel<T>(task: &Task<T>) {
    Fault::Cancel.count();
    task.cancel("at a random moment");
}

/// The same for a plain thread, which stalls now and then.
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

/// Returns the value of a task, or `None` if it panicked as planned or was cancelled.
#[track_caller]
pub(crate) fn outcome<T>(result: Result<T, JoinError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(JoinError::Panicked(payload)) if payload.is::<Planned>() => None,
        Err(JoinError::Panicked(payload)) => resume_unwind(payload.into_inner()),
        Err(error) if error.cancelled().is_some() => None,
        Err(error) => panic!("a task ended with an unexpected error: {error}"),
    }
}

/// Returns the value of a task that is not cancelled and does not panic.
#[track_caller]
pub(crate) fn value<T>(result: Result<T, JoinError>) -> T {
    match result {
        Ok(value) => value,
        Err(JoinError::Panicked(payload)) => resume_unwind(payload.into_inner()),
        Err(error) => panic!("a task that is never cancelled ended without a value: {error}"),
    }
}
