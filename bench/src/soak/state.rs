//! State shared by the threads of a run: running steps, counters, failures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cygnet::Handle;

use super::programs::{KINDS, Kind, PLANTED};
use super::sample::{Sample, Samples};
use crate::output;
use crate::report::counted;

/// A program or the end of a round that has begun and has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) what: Step,
    pub(crate) begun: Instant,
    number: u64,
    /// Number of times the watchdog has seen it.
    looks: u64,
}

/// A step of a run, which can take too long or fail.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kind: &'static str,
    pub(crate) seed: u64,
    /// A description of the round.
    pub(crate) round: String,
}

/// Something that should not have happened.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) what: String,
}

/// A run ends after this many failures, as more add nothing.
pub(crate) const MOST_FAILURES: usize = 20;

/// The length of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Time(Duration),
    Rounds(u64),
}

impl Length {
    /// Whether a run's time is over after `elapsed`.
    pub(crate) fn is_time_over(self, elapsed: Duration) -> bool {
        matches!(self, Length::Time(length) if elapsed >= length)
    }

    /// Whether a run that has done `done` rounds has done all of them.
    pub(crate) fn is_last_round(self, done: u64) -> bool {
        matches!(self, Length::Rounds(rounds) if done >= rounds)
    }
}

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Length::Time(length) => write!(f, "{length:.0?}"),
            Length::Rounds(rounds) => f.write_str(&counted(*rounds, "round")),
        }
    }
}

pub(crate) struct State {
    pub(crate) seed: u64,
    began: Instant,
    pub(crate) length: Length,
    /// The runtime that lasts as long as the run.
    lasting: Mutex<Option<Handle>>,
    /// The runtime of the current round, if there is one.
    round: Mutex<Option<Handle>>,
    running: Mutex<Vec<Running>>,
    next: AtomicU64,
    counts: Vec<(&'static str, AtomicU64)>,
    pub(crate) rounds: AtomicU64,
    failures: Mutex<Vec<Failure>>,
    pub(crate) samples: Mutex<Samples>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned mutex is still consistent: no step that could panic leaves its data half
    // changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(crate) fn new(seed: u64, length: Length, lasting: Handle) -> State {
        State {
            seed,
            began: Instant::now(),
            length,
            lasting: Mutex::new(Some(lasting)),
            round: Mutex::new(None),
            running: Mutex::new(Vec::with_capacity(64)),
            next: AtomicU64::new(0),
            counts: KINDS.iter().chain(PLANTED).map(|kind| (kind.name, 0.into())).collect(),
            rounds: AtomicU64::new(0),
            failures: Mutex::new(Vec::with_capacity(MOST_FAILURES)),
            samples: Mutex::new(Samples::new(length)),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Sets the runtime that is sampled in addition to the lasting one.
    pub(crate) fn set_round(&self, handle: Option<Handle>) {
        *lock(&self.round) = handle;
    }

    pub(crate) fn runtimes(&self) -> Vec<Handle> {
        let round = lock(&self.round).clone();
        [lock(&self.lasting).clone(), round].into_iter().flatten().collect()
    }

    /// The lasting runtime.
    pub(crate) fn lasting(&self) -> Handle {
        lock(&self.lasting).clone().expect("the lasting runtime ends after its programs")
    }

    /// Drops the handle, which keeps the state that the workers shared, and their pools.
    pub(crate) fn forget_lasting(&self) {
        *lock(&self.lasting) = None;
    }

    /// Runs `f` under the watchdog.
    pub(crate) fn watched<R>(&self, what: Step, f: impl FnOnce() -> R) -> R {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.running).push(Running { what, begun: Instant::now(), number, looks: 0 });
        let back = f();
        lock(&self.running).retain(|running| running.number != number);
        back
    }

    pub(crate) fn running(&self) -> Vec<Running> {
        lock(&self.running).clone()
    }

    /// Counts a look of the watchdog. Returns a step that it has now seen more than `limit`
    /// times.
    pub(crate) fn look(&self, limit: u64) -> Option<Running> {
        let mut running = lock(&self.running);
        running.iter_mut().for_each(|one| one.looks += 1);
        running.iter().find(|one| one.looks > limit).cloned()
    }

    pub(crate) fn count(&self, kind: &Kind) {
        let counted = self.counts.iter().find(|(name, _)| *name == kind.name);
        counted.expect("all kinds are counted").1.fetch_add(1, Ordering::Relaxed);
    }

    /// The kinds of programs, each with the number of ended programs.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(name, count)| (*name, count.load(Ordering::Relaxed)))
    }

    pub(crate) fn programs(&self) -> u64 {
        self.counts().map(|(_, count)| count).sum()
    }

    pub(crate) fn fail(&self, failure: Failure) {
        output::tell(&format!("cygnet: {}: {}", failure.step, failure.what));
        let mut failures = lock(&self.failures);
        if failures.len() < MOST_FAILURES {
            failures.push(failure);
        }
    }

    pub(crate) fn failures(&self) -> Vec<Failure> {
        lock(&self.failures).clone()
    }

    pub(crate) fn sample(&self, at_rest: bool) {
        if !lock(&self.samples).is_due(at_rest, self.elapsed()) {
            return;
        }
        let sample = Sample::take(self.elapsed(), at_rest, self.programs(), &self.runtimes());
        lock(&self.samples).push(sample);
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (--program {}:{}) in {}", self.kind, self.kind, self.seed, self.round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a process is stopped for an hour, the watchdog looks once in that hour.
    #[test]
    fn a_hang_is_counted_in_looks_and_not_in_time() {
        let runtime = cygnet::Runtime::builder().workers(1).build().unwrap();
        let state = State::new(1, Length::Rounds(1), runtime.handle());
        let step = Step { kind: "join", seed: 1, round: "round 0".to_owned() };
        state.watched(step, || {
            assert!(state.look(2).is_none() && state.look(2).is_none());
            assert_eq!(state.look(2).expect("it is late").what.kind, "join");
        });
        assert!(state.look(0).is_none(), "nothing runs any more");
    }
}
