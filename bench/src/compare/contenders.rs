//! Contenders: a runtime or another program, in a case, with a number of workers. Each is
//! measured in a process of its own.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::CompareArgs;
use super::cases::{self, CASES, Case};
use super::outcome::Outcome;
use super::runtimes::{self, Runtime, runtimes};
use crate::measure::harness::Setting;
use crate::measure::line::Line;
use crate::measure::process::{self, Ending};
use crate::measure::rounds::{Attempt, Subject};
use crate::measure::work::Speed;
use crate::output;
use crate::report::counted;

/// Time limit of this program's own processes. The longest takes a few seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A contender.
#[derive(Clone)]
pub struct Contender {
    /// The case.
    pub case: &'static Case,
    /// The number of workers.
    pub workers: usize,
    /// The runtime or program.
    pub who: Who,
}

/// The runtime or program of a contender.
#[derive(Clone)]
pub enum Who {
    /// A runtime that this program can run.
    Runtime(&'static Runtime),
    /// A program, as a command line for the shell.
    Program(String),
}

impl Contender {
    /// Its name in the table, unless a program has given another one.
    pub fn runtime(&self) -> &str {
        match &self.who {
            Who::Runtime(runtime) => runtime.name,
            Who::Program(command) => command,
        }
    }
}

impl Subject for Contender {
    fn name(&self) -> String {
        format!("{} on {}, {}", self.case.name, self.runtime(), workers(self.workers))
    }
}

/// Formats a number of workers.
pub fn workers(count: usize) -> String {
    counted(count as u64, "worker")
}

/// Returns all requested contenders, in the order of a round.
///
/// # Errors
/// No case's name contains one of the filters.
pub fn all(args: &CompareArgs) -> anyhow::Result<Vec<Contender>> {
    let mut all = Vec::new();
    for case in wanted(&args.filters)? {
        for runtime in runtimes().filter(|runtime| runtime.run(case.name).is_some()) {
            for workers in runtime.workers(case) {
                all.push(Contender { case, workers, who: Who::Runtime(runtime) });
            }
        }
        for command in &args.external {
            for &workers in case.workers {
                all.push(Contender { case, workers, who: Who::Program(command.clone()) });
            }
        }
    }
    Ok(all)
}

/// Returns the requested cases.
///
/// # Errors
/// No case's name contains one of the filters. The other filters may match, but this one was a
/// mistake.
pub fn wanted(filters: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    for filter in filters {
        let found = CASES.iter().any(|case| case.matches(std::slice::from_ref(filter)));
        ensure!(found, "no case's name contains {filter}; see compare --list");
    }
    Ok(CASES.iter().filter(|case| case.matches(filters)).collect())
}

/// Measures a contender in a process of its own.
///
/// # Errors
/// This program's own file cannot be found. Any other failure is an outcome.
pub fn measure(
    contender: &Contender,
    args: &CompareArgs,
    speed: Speed,
) -> anyhow::Result<Attempt<Outcome>> {
    let &Contender { case, workers, ref who } = contender;
    let (count, quick) = (workers.to_string(), args.turns.quick);
    let [us, item] = [speed.steps_per_us, speed.steps_per_item].map(|steps| steps.to_string());
    let (mut command, limit, ending) = match who {
        Who::Runtime(runtime) => {
            let words = ["compare", "--measure", case.name, runtime.name, &count];
            let mut command = process::own(&words, quick)?;
            command.args(["--steps-per-us", &us, "--steps-per-item", &item]);
            (command, LIMIT, Ending::Process)
        }
        Who::Program(program) => {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("exec {program} \"$@\""), "sh", case.name, &count]);
            command.env("COMPARE_STEPS_PER_US", us).env("COMPARE_STEPS_PER_ITEM", item);
            command.env("COMPARE_QUICK", if quick { "1" } else { "0" });
            (command, Duration::from_secs(args.time_limit), Ending::Group)
        }
    };
    process::attempt(&mut command, limit, ending).try_map(|line| {
        Ok(line.map_or_else(Outcome::Failed, |line| Outcome::judge(line, case, quick)))
    })
}

/// Measures a case in this process and prints the line.
///
/// # Errors
/// There is no such case or runtime, the number of workers is not a number, or the runtime does
/// not run the case.
pub fn measure_here(words: &[String], quick: bool, speed: Speed) -> anyhow::Result<()> {
    let [case, runtime, workers] = words else {
        anyhow::bail!("--measure needs a case, a runtime and a number of workers")
    };
    let case = cases::find(case).with_context(|| format!("no case is called {case}"))?;
    let found = runtimes::find(runtime);
    let runtime = found.with_context(|| format!("no runtime is called {runtime}"))?;
    let workers = workers.parse().with_context(|| format!("not a number of workers: {workers}"))?;
    let measured = runtime.measure(case.name, &Setting::new(quick, workers, speed));
    let line = measured.with_context(|| format!("{} does not run {}", runtime.name, case.name))?;
    output::print_json(&Line::from(line), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: Speed = Speed { steps_per_us: 1, steps_per_item: 1 };

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn each_filter_must_match_a_case() {
        assert_eq!(wanted(&[]).unwrap().len(), CASES.len());
        assert_eq!(wanted(&words(&["YIELD", "fib"])).unwrap().len(), 3);
        let error = wanted(&words(&["fib", "nothing"])).unwrap_err().to_string();
        assert!(error.contains("nothing") && error.contains("--list"), "{error}");
    }

    #[test]
    fn unknown_words_are_refused() {
        for wrong in [["nothing", "cygnet", "1"], ["fib", "nothing", "1"], ["fib", "cygnet", "x"]] {
            assert!(measure_here(&words(&wrong), true, SPEED).is_err());
        }
        let error = measure_here(&words(&["switch", "serial", "1"]), true, SPEED).unwrap_err();
        assert_eq!(error.to_string(), "serial does not run switch");
    }
}
