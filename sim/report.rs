//! Results of runs.

use super::calls;
use crate::scheduler::simulation::{Reason, Report, Run, Step};
use std::fmt::{self, Write};

/// The result of many runs, none of which failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Explored {
    /// The number of runs.
    pub runs: usize,
    /// The total number of steps.
    pub steps: u64,
    /// How often a [fault](super::Faults) happened in all runs.
    pub faults: u64,
    /// The total number of virtual threads. See [`Run::threads`].
    pub threads: usize,
    /// A hash of the events of all runs, in order. See [`Run::trace_hash`].
    pub trace_hash: u64,
    /// Every schedule within the limit of [preemptions](super::Options::preemptions) was run.
    pub is_complete: bool,
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
#[non_exhaustive]
pub struct Failed {
    /// The reason.
    pub reason: Reason,
    /// The value of `CYGNET_SIM_SEED` that repeats the run.
    pub seed: String,
    /// The steps, faults, time and threads of the run until it failed.
    pub run: Run,
    /// The number of runs, including this one.
    pub runs: usize,
    /// Whether the test's own closure has returned.
    returned: bool,
    left: Vec<String>,
    trace: String,
}

impl Failed {
    pub(super) fn of(report: Report, seed: String) -> Failed {
        let trace = written(&report);
        let reason = report.failure.expect("the run has failed");
        let Report { run, returned, left, .. } = report;
        Failed { reason, seed, run, runs: 1, returned, left, trace }
    }
}

error! {
    impl Failed: |this, f| {
        writeln!(f, "run {} of the simulation has failed: {}", this.runs, this.reason)?;
        let (steps, faults, time) = (this.run.steps, this.run.faults, this.run.time);
        writeln!(f, "after {steps} steps and {faults} faults, {time:?} on its clock")?;
        writeln!(f, "to run it again, with the test's own lines: CYGNET_SIM_SEED={}", this.seed)?;
        if this.returned {
            let why = "a thread was not joined, or a runtime not dropped (a `static` one never is)";
            writeln!(f, "the test itself has returned: {why}")?;
        }
        if !this.left.is_empty() {
            writeln!(f, "not finished:")?;
            this.left.iter().try_for_each(|left| writeln!(f, "    {left}"))?;
        }
        write!(f, "the last switches:\n{}", this.trace)
    }
}

fn written(report: &Report) -> String {
    let mut text = String::new();
    let name = |thread: usize| report.names.get(thread).map_or("?", String::as_str);
    for event in &report.trace.events {
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
