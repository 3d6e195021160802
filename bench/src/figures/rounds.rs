//! Rounds: each case in a process of its own, one case after the other, again and again.
//!
//! A measurement of times during which others used the processor is repeated when its round is over,
//! a few times, and the least disturbed one counts. What is still disturbed then is kept and counted,
//! so that the page says how quiet it was. Repeats have a budget, a part of the time that the rounds
//! themselves take: on a machine that is never quiet they would take three times as long as all else.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use super::FiguresArgs;
use super::cases::{Case, Kind, Measurement};
use super::machine::{Machine, busy_seconds};
use super::progress::Progress;
use super::report::Page;
use super::rows::{ROWS, Row, cases_of};

/// Rounds if nothing else is asked for; a ratio is judged over no fewer.
const ROUNDS: u32 = 15;
const QUICK_ROUNDS: u32 = 3;
/// How often a disturbed measurement is repeated.
const REPEATS: u32 = 3;
/// What repeats may take of the time of first attempts.
const REPEATS_PART: f64 = 0.75;
/// What others may use: this part of the time, and two ticks of the kernel's clock for rounding.
const FOREIGN_PART: f64 = 0.05;
const FOREIGN_SECONDS: f64 = 0.02;

/// What all rounds have brought.
#[derive(Debug, Default)]
pub struct Results {
    /// By case.
    pub by_case: BTreeMap<&'static str, Measured>,
    /// How long all that took.
    pub seconds: f64,
}

/// What all rounds have brought of one case.
#[derive(Debug, Default)]
pub struct Measured {
    /// In the order of the rounds.
    pub measurements: Vec<Measurement>,
    /// How long its processes took, those that do not count included.
    pub seconds: f64,
    /// Measurements that were kept although they were disturbed.
    pub disturbed: u32,
    /// Measurements that were repeated.
    pub repeated: u32,
}

/// A process that has measured a case.
#[derive(Debug)]
struct Attempt {
    measurement: Measurement,
    /// How long it took.
    seconds: f64,
    /// Processor time of others meanwhile, above what is allowed, as a part of it.
    disturbance: f64,
}

/// Measures what is asked for, and prints it.
///
/// # Errors
/// Nothing to measure; a process that fails; an output that cannot be written.
pub fn run(args: &FiguresArgs) -> anyhow::Result<()> {
    let rows: Vec<&'static Row> = ROWS.iter().filter(|row| row.matches(&args.filters)).collect();
    ensure!(
        !rows.is_empty(),
        "no figure's name contains {}; see bench --list",
        args.filters.join(" or ")
    );
    let rounds = args.rounds.unwrap_or(if args.quick { QUICK_ROUNDS } else { ROUNDS });
    let cases = cases_of(&rows);
    let progress = Progress::new(cases.iter().map(|case| case.kind.rounds(rounds)).sum());
    let repeats = if args.quick { 0 } else { REPEATS };
    let results = measure_all(&cases, rounds, repeats, &progress, |case| measure(case, args.quick));
    drop(progress);
    let page = Page::new(Machine::here(), rounds, args.quick, &rows, &results?);
    if args.json { page.print_json() } else { page.print_table() }
}

fn measure_all(
    cases: &[&'static Case],
    rounds: u32,
    repeats: u32,
    progress: &Progress,
    mut measure: impl FnMut(&Case) -> anyhow::Result<Attempt>,
) -> anyhow::Result<Results> {
    let began = Instant::now();
    let mut results = Results::default();
    let mut budget = 0.0;
    for round in 0..rounds {
        let say = |what: &str| progress.say(format!("round {} of {rounds}: {what}", round + 1));
        let mut attempts = Vec::new();
        for &case in cases.iter().filter(|case| case.kind.is_due(round, rounds)) {
            say(case.name);
            let attempt = measure(case)?;
            budget += attempt.seconds * REPEATS_PART;
            let measured = results.by_case.entry(case.name).or_default();
            measured.seconds += attempt.seconds;
            attempts.push((case, attempt));
            progress.step();
        }
        // Those first that have had the least of the budget.
        attempts.sort_by_key(|(case, _)| results.by_case[case.name].repeated);
        for _ in 0..repeats {
            for (case, best) in attempts.iter_mut().filter(|(case, best)| best.counts_not(case)) {
                if budget <= 0.0 {
                    break;
                }
                say(&format!("{} again", case.name));
                let attempt = measure(case)?;
                budget -= attempt.seconds;
                let measured = results.by_case.entry(case.name).or_default();
                measured.seconds += attempt.seconds;
                measured.repeated += 1;
                if attempt.disturbance < best.disturbance {
                    *best = attempt;
                }
            }
        }
        for (case, best) in attempts {
            let measured = results.by_case.entry(case.name).or_default();
            measured.disturbed += u32::from(best.counts_not(case));
            measured.measurements.push(best.measurement);
        }
    }
    results.seconds = began.elapsed().as_secs_f64();
    Ok(results)
}

impl Attempt {
    /// Whether it should be repeated.
    fn counts_not(&self, case: &Case) -> bool {
        case.kind == Kind::Times && self.disturbance > 0.0
    }
}

/// One case in a process of its own.
fn measure(case: &Case, quick: bool) -> anyhow::Result<Attempt> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut command = Command::new(program);
    command.args(["bench", "--measure", case.name]);
    if quick {
        command.arg("--quick");
    }
    let (began, busy_before) = (Instant::now(), busy_seconds());
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start this program again")?;
    let seconds = began.elapsed().as_secs_f64();
    let busy = busy_before.zip(busy_seconds()).map(|(before, after)| after - before);
    ensure!(output.status.success(), "the case {} failed: {}", case.name, output.status);
    let measurement: Measurement = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the case {} printed something else", case.name))?;
    let foreign = busy.map_or(0.0, |busy| busy - measurement.cpu_seconds);
    let disturbance = (foreign - FOREIGN_SECONDS) / seconds - FOREIGN_PART;
    Ok(Attempt { measurement, seconds, disturbance })
}

#[cfg(test)]
mod tests {
    use super::super::cases::{TIME, Values, find};
    use super::super::floor::Floors;
    use super::*;

    /// Measures cases for so many rounds; the processes take a second each, show what `outcome` says
    /// (a time and a disturbance), and are told how many there were before.
    fn played(names: &[&str], rounds: u32, outcome: impl Fn(u32) -> (f64, f64)) -> Results {
        let cases: Vec<_> = names.iter().map(|name| find(name).unwrap()).collect();
        let mut count = 0;
        measure_all(&cases, rounds, REPEATS, &Progress::hidden(), |case| {
            let (time, disturbance) = outcome(count);
            count += 1;
            let floors = Floors { rmw: 8.0, call: 1.5, load: 0.5, page: 2000.0, other: None };
            let measurement = Measurement {
                case: case.name.to_owned(),
                values: Values::from([(TIME.to_owned(), time)]),
                skipped: None,
                floors,
                cpu_seconds: 1.0,
            };
            Ok(Attempt { measurement, seconds: 1.0, disturbance })
        })
        .unwrap()
    }

    fn times(measured: &Measured) -> Vec<f64> {
        measured.measurements.iter().map(|measurement| measurement.values[TIME]).collect()
    }

    #[test]
    fn a_quiet_machine_repeats_nothing() {
        let results = played(&["yield-2", "yield-1000"], 3, |n| (f64::from(n), -0.05));
        assert_eq!(times(&results.by_case["yield-2"]), [0.0, 2.0, 4.0]);
        assert_eq!(times(&results.by_case["yield-1000"]), [1.0, 3.0, 5.0]);
        assert!(results.by_case.values().all(|m| m.repeated == 0 && m.disturbed == 0));
    }

    #[test]
    fn a_disturbed_measurement_is_repeated_when_its_round_is_over() {
        let results = played(&["yield-2", "yield-1000"], 1, |n| {
            (f64::from(n), if n == 0 { 0.2 } else { -0.05 })
        });
        assert_eq!(times(&results.by_case["yield-2"]), [2.0]);
        assert_eq!(times(&results.by_case["yield-1000"]), [1.0]);
        let measured = &results.by_case["yield-2"];
        assert_eq!((measured.repeated, measured.disturbed, measured.seconds), (1, 0, 2.0));
    }

    #[test]
    fn if_all_are_disturbed_the_least_disturbed_one_counts() {
        let results = played(&["yield-2", "yield-1000"], 1, |n| {
            (f64::from(n), if n == 2 { 0.1 } else { 0.2 })
        });
        assert_eq!(times(&results.by_case["yield-2"]), [2.0]);
        assert_eq!(results.by_case["yield-2"].disturbed, 1);
    }

    #[test]
    fn a_machine_that_is_never_quiet_gets_a_bounded_number_of_repeats() {
        let results = played(&["yield-2", "yield-1000"], 10, |_| (1.0, 0.5));
        let repeated: Vec<_> = results.by_case.values().map(|m| m.repeated).collect();
        let parts = f64::from(repeated.iter().sum::<u32>()) / 20.0;
        assert_eq!(parts, REPEATS_PART, "of the twenty that there are");
        assert!(repeated[0].abs_diff(repeated[1]) <= 1, "{repeated:?}");
        assert_eq!(results.by_case["yield-2"].disturbed, 10);
    }

    #[test]
    fn bytes_are_not_repeated() {
        let results = played(&["memory-parked-100000"], 15, |_| (1.0, 0.5));
        let measured = &results.by_case["memory-parked-100000"];
        assert_eq!((measured.measurements.len(), measured.repeated, measured.disturbed), (3, 0, 0));
    }
}
