//! Running a test many times.

use super::options::Options;
use super::report::{Explored, Failed};
use super::watchdog::Watchdog;
use crate::scheduler::simulation::{Chooser, Config, Machine, Report, Run, Simulation};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The environment variable that selects a single run.
const SEED: &str = "CYGNET_SIM_SEED";

/// Runs a test in many orders of events until a run fails. See the [module](super).
///
/// With the environment variable `CYGNET_SIM_SEED` the test is run once, by that seed.
///
/// # Panics
/// If a run fails, with the text of [`Failed`]. If called inside another simulation or a task. If
/// `CYGNET_SIM_SEED` cannot be parsed.
pub fn check(options: &Options, test: impl Fn()) {
    if let Err(failed) = explore(options, test) {
        panic!("{failed}");
    }
}

/// Runs a test like [`check`], and returns a summary of the runs, or the first failed run.
///
/// # Errors
/// The first failed run.
///
/// # Panics
/// If called inside another simulation or a task. If `CYGNET_SIM_SEED` cannot be parsed.
pub fn explore(options: &Options, test: impl Fn()) -> Result<Explored, Box<Failed>> {
    explore_all(options, &test)
}

/// Not generic, so that it is compiled only once for all tests of a program.
fn explore_all(options: &Options, test: &dyn Fn()) -> Result<Explored, Box<Failed>> {
    let watchdog = Watchdog::new();
    let run = |schedule: &Schedule| schedule.run(options, &watchdog, None, Box::new(test));
    let mut explored = Explored::default();
    if let Ok(seed) = std::env::var(SEED) {
        let schedule = Schedule::parse(&seed);
        let schedule = schedule.unwrap_or_else(|| {
            panic!(
                "cygnet: {SEED}={seed} is not a seed; use the value from the report of a failed run"
            )
        });
        explored.add(&schedule, run(&schedule))?;
        return Ok(explored);
    }
    for seed in options.seeds.clone() {
        let schedule = Schedule::Seed(seed);
        explored.add(&schedule, run(&schedule))?;
    }
    let Some(preemptions) = options.preemptions else { return Ok(explored) };
    // Breadth first: plans with fewer choices come before plans with more.
    let mut plans = VecDeque::from([(Vec::new(), 0)]);
    let mut left = options.most_runs;
    let mut dropped = false;
    while left > 0
        && let Some((plan, used)) = plans.pop_front()
    {
        left -= 1;
        let schedule = Schedule::Plan(plan);
        let mut report = run(&schedule);
        let choices = std::mem::take(&mut report.choices);
        explored.add(&schedule, report)?;
        let Schedule::Plan(plan) = schedule else { unreachable!("made above") };
        for choice in choices {
            let used = used + usize::from(!choice.must);
            if used > preemptions {
                continue;
            }
            for other in choice.others {
                // There would be no run left for this plan.
                if plans.len() >= left {
                    dropped = true;
                    break;
                }
                let mut plan = plan.clone();
                plan.push((choice.at, other));
                plans.push_back((plan, used));
            }
        }
    }
    explored.is_complete = plans.is_empty() && !dropped;
    Ok(explored)
}

/// Runs a test once, by a seed.
///
/// # Errors
/// The failure, if the run fails.
///
/// # Panics
/// If called inside another simulation or a task.
pub fn run(seed: u64, test: impl FnOnce()) -> Result<Run, Box<Failed>> {
    let schedule = Schedule::Seed(seed);
    let report = schedule.run(&Options::new(), &Watchdog::new(), None, Box::new(test));
    schedule.judge(report)
}

impl Explored {
    fn add(&mut self, schedule: &Schedule, report: Report) -> Result<(), Box<Failed>> {
        self.runs += 1;
        let run = schedule.judge(report).map_err(|mut failed| {
            failed.runs = self.runs;
            failed
        })?;
        self.steps += run.steps;
        self.faults += run.faults;
        self.threads += run.threads;
        // The order of the runs counts.
        self.trace_hash = self.trace_hash.rotate_left(5) ^ run.trace_hash;
        Ok(())
    }
}

/// A rule for which thread runs next.
pub(super) enum Schedule {
    Seed(u64),
    Plan(Vec<(u64, usize)>),
}

impl Schedule {
    /// Parses the output of [`Schedule::text`].
    fn parse(text: &str) -> Option<Schedule> {
        let Some(plan) = text.strip_prefix("plan") else {
            return text.parse().ok().map(Schedule::Seed);
        };
        let step = |step: &str| {
            let (at, to) = step.split_once('-')?;
            Some((at.parse().ok()?, to.parse().ok()?))
        };
        let steps = match plan.strip_prefix(':') {
            Some(steps) => steps.split(':').map(step).collect::<Option<Vec<_>>>()?,
            None if plan.is_empty() => Vec::new(),
            None => return None,
        };
        Some(Schedule::Plan(steps))
    }

    fn text(&self) -> String {
        match self {
            Schedule::Seed(seed) => seed.to_string(),
            Schedule::Plan(plan) => {
                let steps = plan.iter().map(|(at, to)| format!(":{at}-{to}"));
                format!("plan{}", steps.collect::<String>())
            }
        }
    }

    pub(super) fn run(
        &self,
        options: &Options,
        watchdog: &Watchdog,
        machine: Option<Machine>,
        test: Box<dyn FnOnce() + '_>,
    ) -> Report {
        watchdog.begin(self.text());
        let (seed, chooser) = match self {
            Schedule::Seed(seed) => (*seed, Chooser::random(*seed)),
            Schedule::Plan(plan) => (0, Chooser::planned(plan.clone())),
        };
        let config = Config {
            seed,
            chooser: RefCell::new(chooser),
            faults: options.faults.rates,
            bug: options.bug,
            most_steps: options.most_steps,
            keeps_calls: std::env::var_os(SEED).is_some(),
            progress: Arc::clone(&watchdog.progress),
            machine: machine.map(RefCell::new),
        };
        Simulation::run(config, test)
    }

    pub(super) fn judge(&self, report: Report) -> Result<Run, Box<Failed>> {
        if report.failure.is_none() {
            return Ok(report.run);
        }
        Err(Box::new(Failed::of(report, self.text())))
    }
}
