//! Rounds: each case runs in a process of its own, in turn with the others.

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
use crate::turns::{self, Attempt, Subject, Turns};

/// Default numbers of rounds. A ratio is judged only over at least `ROUNDS`.
const ROUNDS: u32 = 15;
const QUICK_ROUNDS: u32 = 3;

/// The results of all rounds.
#[derive(Debug, Default)]
pub struct Results {
    /// By case.
    pub by_case: BTreeMap<&'static str, Measured>,
    /// Total duration.
    pub seconds: f64,
}

/// The measurements of one case over all rounds.
pub type Measured = turns::Measured<Measurement>;

impl Subject for &'static Case {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn is_due(&self, round: u32, of: u32) -> bool {
        self.kind.is_due(round, of)
    }

    fn wants_quiet(&self) -> bool {
        self.kind == Kind::Times
    }
}

/// Measures the requested figures and prints them.
///
/// # Errors
/// There is nothing to measure, a process fails, or the output cannot be written.
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
    let turns = Turns::new(rounds, args.quick);
    let results = turns::take(turns, &cases, &progress, |case| measure(case, args.quick));
    drop(progress);
    let (measured, seconds) = results?;
    let by_case = cases.iter().map(|case| case.name).zip(measured).collect();
    let results = Results { by_case, seconds };
    let page = Page::new(Machine::here(), rounds, args.quick, &rows, &results);
    if args.json { page.print_json() } else { page.print_table() }
}

/// Measures one case in a process of its own.
fn measure(case: &Case, quick: bool) -> anyhow::Result<Attempt<Measurement>> {
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
        .with_context(|| format!("the case {} did not print its measurement", case.name))?;
    let foreign = busy.map_or(0.0, |busy| busy - measurement.cpu_seconds);
    Ok(Attempt::new(measurement, seconds, foreign))
}

#[cfg(test)]
mod tests {
    use super::super::cases::find;
    use super::*;

    #[test]
    fn bytes_do_not_need_quiet_and_are_measured_in_few_rounds() {
        let bytes = find("memory-parked-100000").unwrap();
        let times = find("yield-2").unwrap();
        assert!(times.wants_quiet() && !bytes.wants_quiet());
        let due = |case: &'static Case| (0..15).filter(|&round| case.is_due(round, 15)).count();
        assert_eq!((due(times), due(bytes)), (15, 3));
    }
}
