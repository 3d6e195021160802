//! Rounds: each case in a process of its own, one case after the other, again and again.
//!
//! A measurement during which others used the processor is thrown away and repeated, a few times;
//! what is still disturbed then is kept and counted, so that the page says how quiet it was.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use super::FiguresArgs;
use super::cases::{Case, Measurement};
use super::machine::{Machine, busy_seconds};
use super::report::Page;
use super::rows::{ROWS, Row, cases_of};

/// Rounds if nothing else is asked for; a ratio is judged over no fewer.
const ROUNDS: u32 = 15;
const QUICK_ROUNDS: u32 = 3;
/// How often a disturbed measurement is repeated.
const REPEATS: u32 = 3;
/// What others may use: this part of the time, and two ticks of the kernel's clock for rounding.
const FOREIGN_PART: f64 = 0.05;
const FOREIGN_SECONDS: f64 = 0.02;

/// What all rounds have brought, by case.
#[derive(Debug, Default)]
pub struct Results {
    /// The measurements of each case, in the order of the rounds.
    pub by_case: BTreeMap<&'static str, Vec<Measurement>>,
    /// Measurements that were kept although they were disturbed.
    pub disturbed: u32,
    /// Measurements that were thrown away.
    pub repeated: u32,
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
    let results = measure_all(&cases, rounds, args.quick)?;
    let page = Page::new(Machine::here(), rounds, args.quick, &rows, &results);
    if args.json { page.print_json() } else { page.print_table() }
}

fn measure_all(cases: &[&'static Case], rounds: u32, quick: bool) -> anyhow::Result<Results> {
    let mut results = Results::default();
    let repeats = if quick { 0 } else { REPEATS };
    for round in 0..rounds {
        for &case in cases.iter().filter(|case| round < case.most_rounds) {
            if stderr().is_terminal() {
                eprint!("\r\x1b[Kround {} of {rounds}: {}", round + 1, case.name);
            }
            let mut left = repeats;
            let measurement = loop {
                let (measurement, disturbed) = measure(case, quick)?;
                if !disturbed {
                    break measurement;
                }
                if left == 0 {
                    results.disturbed += 1;
                    break measurement;
                }
                left -= 1;
                results.repeated += 1;
            };
            results.by_case.entry(case.name).or_default().push(measurement);
        }
    }
    if stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    Ok(results)
}

/// One case in a process of its own; true if others used the processor meanwhile.
fn measure(case: &Case, quick: bool) -> anyhow::Result<(Measurement, bool)> {
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
    let wall = began.elapsed().as_secs_f64();
    let busy = busy_before.zip(busy_seconds()).map(|(before, after)| after - before);
    ensure!(output.status.success(), "the case {} failed: {}", case.name, output.status);
    let measurement: Measurement = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the case {} printed something else", case.name))?;
    let foreign = busy.map_or(0.0, |busy| busy - measurement.cpu_seconds);
    Ok((measurement, foreign > wall * FOREIGN_PART + FOREIGN_SECONDS))
}
