//! Results of runs.

use super::calls;
use crate::scheduler::simulation::{Failure, Report, Step};
use std::any::Any;
use std::error::Error;
use std::fmt::{self, Write};
use std::time::Duration;

/// The result of a run.
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

    /// Returns a hash of the run's events: which thread did what, where and when. It is the same
    /// for the same program and seed.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.trace_hash
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns how often a [fault](super::Faults) happened.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Returns how long the run took on its own clock.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Returns the number of virtual threads: the test's own, the workers, the threads for blocking
    /// calls, and the threads that the test started. All of them have ended, unless the run failed.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }
}

/// The result of many runs, none of which failed.
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
    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the total number of steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns how often a [fault](super::Faults) happened in all runs.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Returns the total number of virtual threads. See [`Run::threads`].
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns a hash of the events of all runs, in order. See [`Run::trace_hash`].
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.trace_hash
    }

    /// Returns whether every schedule within the limit of
    /// [preemptions](super::Options::preemptions) was run.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The test panicked with this message.
    Panicked(String),
    /// A deadlock: no thread can go on, and no timer is set.
    Deadlock,
    /// The run took as many steps as it [may](super::Options::most_steps).
    TooManySteps,
    /// The run does not follow its schedule. The program has changed, or depends on something that
    /// no seed decides, such as real time or the order of a `HashMap`.
    Another,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Panicked(text) => write!(f, "the test panicked: {text}"),
            Reason::Deadlock => f.write_str("deadlock: no thread can go on, and no timer is set"),
            Reason::TooManySteps => f.write_str("it exceeded the limit of steps, and seems not to end"),
            Reason::Another => f.write_str(
                "the run does not follow its schedule: the program has changed, or it depends on something \
                 that no seed decides, such as real time or the order of a `HashMap`",
            ),
        }
    }
}

/// A failed run. Its `Display` output has all details.
#[derive(Clone, Debug)]
pub struct Failed {
    pub(super) reason: Reason,
    pub(super) seed: String,
    pub(super) run: Run,
    /// The number of runs, including this one.
    pub(super) runs: usize,
    /// Whether the test's own closure has returned.
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
        // The payload of a panic may be anything. It is leaked, as is the rest of the run.
        std::mem::forget(report.failure);
        Failed { reason, seed, run, runs: 1, returned: report.returned, left: report.left, trace }
    }

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Returns the value of `CYGNET_SIM_SEED` that repeats the run.
    #[must_use]
    pub fn seed(&self) -> &str {
        &self.seed
    }

    /// Returns the steps, faults, time and threads of the run until it failed.
    #[must_use]
    pub fn run(&self) -> Run {
        self.run
    }

    /// Returns the number of runs, including the failed one.
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
        writeln!(f, "to run it again, with the test's own lines: CYGNET_SIM_SEED={}", self.seed)?;
        if self.returned {
            let why = "a thread was not joined, or a runtime not dropped (a `static` one never is)";
            writeln!(f, "the test itself has returned: {why}")?;
        }
        if !self.left.is_empty() {
            writeln!(f, "not finished:")?;
            self.left.iter().try_for_each(|left| writeln!(f, "    {left}"))?;
        }
        write!(f, "the last switches:\n{}", self.trace)
    }
}

impl Error for Failed {}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(a payload that is not a string)")
        .to_owned()
}

fn written(report: &Report) -> String {
    let mut text = String::new();
    let name = |thread: usize| report.names.get(thread).map_or("?", String::as_str);
    for event in report.trace.events() {
        let (from, to) = (name(event.from), name(event.to));
        let why = match event.step {
            Step::Preempted => "is preempted",
            Step::GaveWay => "yields",
            Step::Waits => "waits",
            Step::Ended => "ends",
            Step::Stalled => "stalls",
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
