//! What runs come to.

use super::calls;
use crate::scheduler::simulation::{Failure, Report, Step};
use std::any::Any;
use std::error::Error;
use std::fmt::{self, Write};
use std::time::Duration;

/// A run that has come to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    trace_hash: u64,
    steps: u64,
    faults: u64,
    time: Duration,
    threads: usize,
}

impl Run {
    pub(super) fn of(report: &Report) -> Run {
        let Report { trace, steps, faults, time, names, .. } = report;
        let (trace_hash, steps, faults) = (trace.hash(), *steps, *faults);
        Run { trace_hash, steps, faults, time: *time, threads: names.len() }
    }

    /// A number for what has happened: where who did what, and when. The same for the same program and seed.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.trace_hash
    }

    /// How many steps it took.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How often something went wrong because that was [asked for](super::Faults).
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// How long it took, on its own clock.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.time
    }

    /// How many virtual threads there were: the test's own, workers, those for blocking calls, and those that the test has started. All of them have
    /// ended, unless it has failed.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }
}

/// Runs that have all come to their ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Explored {
    pub(super) runs: usize,
    pub(super) steps: u64,
    pub(super) faults: u64,
    pub(super) threads: usize,
    pub(super) trace_hash: u64,
    pub(super) complete: bool,
}

impl Explored {
    /// How many there were.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// How many steps they took together.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How often something went wrong in them because that was [asked for](super::Faults).
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// How many virtual threads there were in all of them: see [`Run::threads`].
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// A number for what has happened in all of them: see [`Run::trace_hash`].
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.trace_hash
    }

    /// Whether these were all runs with so many [preemptions](super::Options::preemptions).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Why a run has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The test has panicked, and said this.
    Panicked(String),
    /// Nobody can go on, and no timer is set.
    Deadlock,
    /// It has taken as many steps as it [may](super::Options::most_steps).
    TooManySteps,
    /// Not the run that was to come: the program has changed since, or it depends on something that no seed decides, as real time or the order of a `HashMap`.
    Another,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Panicked(text) => write!(f, "the test has panicked: {text}"),
            Reason::Deadlock => f.write_str("nobody can go on, and no timer is set"),
            Reason::TooManySteps => f.write_str("it does not come to an end"),
            Reason::Another => f.write_str(
                "it is another run than the one to be seen again: the program has changed, or it depends on something that no seed decides, as real \
                 time or the order of a `HashMap`",
            ),
        }
    }
}

/// A run that has failed. Its text says all of it.
#[derive(Clone, Debug)]
pub struct Failed {
    pub(super) reason: Reason,
    pub(super) seed: String,
    pub(super) run: Run,
    /// How many runs it took to find it.
    pub(super) runs: usize,
    /// The test itself has returned.
    returned: bool,
    left: Vec<String>,
    trace: String,
}

impl Failed {
    pub(super) fn of(report: Report, seed: String) -> Failed {
        let run = Run::of(&report);
        let reason = match &report.failure {
            Some(Failure::Panicked(payload)) => Reason::Panicked(text_of(&**payload)),
            Some(Failure::TooManySteps) => Reason::TooManySteps,
            Some(Failure::Misfit) => Reason::Another,
            Some(Failure::Deadlock) | None => Reason::Deadlock,
        };
        let trace = written(&report);
        // What a panic carried may be anything; it is leaked, as is the rest of the run.
        std::mem::forget(report.failure);
        Failed { reason, seed, run, runs: 1, returned: report.returned, left: report.left, trace }
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// What `CYGNET_SIM_SEED` has to be for the same run.
    #[must_use]
    pub fn seed(&self) -> &str {
        &self.seed
    }

    /// How far it has come.
    #[must_use]
    pub fn run(&self) -> Run {
        self.run
    }

    /// How many runs it took to find it.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "run {} of the simulation has failed: {}", self.runs, self.reason)?;
        let (steps, faults, time) = (self.run.steps, self.run.faults, self.run.time);
        writeln!(f, "after {steps} steps and {faults} faults, {time:?} on its clock")?;
        writeln!(f, "the same again, with the test's own lines: CYGNET_SIM_SEED={}", self.seed)?;
        if self.returned {
            let why =
                "a thread was not joined, or a runtime not dropped, which a `static` never is";
            writeln!(f, "the test itself has returned: {why}")?;
        }
        if !self.left.is_empty() {
            writeln!(f, "who has not ended:")?;
            self.left.iter().try_for_each(|left| writeln!(f, "    {left}"))?;
        }
        write!(f, "its last switches:\n{}", self.trace)
    }
}

impl Error for Failed {}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(something that is no text)")
        .to_owned()
}

fn written(report: &Report) -> String {
    let mut text = String::new();
    let name = |thread: usize| report.names.get(thread).map_or("?", String::as_str);
    for event in report.trace.events() {
        let (from, to) = (name(event.from), name(event.to));
        let why = match event.step {
            Step::Preempted => "is left",
            Step::GaveWay => "gives way",
            Step::Waits => "waits",
            Step::Ended => "has ended",
            Step::Stalled => "stands still",
            Step::Stuck => "waits, as all others do,",
        };
        let micros = event.time.as_nanos() as f64 / 1_000.0;
        let _ = write!(text, "{micros:>14.2} us  {from} {why} at {}", event.place);
        if let Some(call) = event.calls.as_ref().and_then(calls::of_the_test) {
            let _ = write!(text, " ({call})");
        }
        let _ =
            if event.step == Step::Stuck { writeln!(text) } else { writeln!(text, " for {to}") };
    }
    text
}
