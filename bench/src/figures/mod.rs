//! The figures: what the library's calls cost, each beside its floor and its target.
//!
//! * [`ops`]: the measured calls, in loops; the criterion benches run the same loops.
//! * [`tree`]: loops of cancellation and timers.
//! * [`waits`]: loops of locks, channels and blocking calls.
//! * [`rings`]: loops of messages through rings.
//! * [`stops`]: loops of guards, interrupts and children of a graceful shutdown.
//! * [`balance`]: tasks that wait and then compute for a known time.
//! * [`floor`]: the least that the machine charges for the steps of such calls.
//! * [`cases`], [`memory`]: what one process measures.
//! * [`rows`]: the table: which value of which case, its floor, its target.
//! * [`report`]: the printed page.
//! * [`count`]: a number of operations and nothing else, for a tool that counts instructions.

pub mod balance;
pub mod cases;
pub mod count;
pub mod floor;
pub mod memory;
pub mod ops;
pub mod report;
pub mod rings;
pub mod rows;
pub mod stops;
pub mod tree;
pub mod waits;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::Args;

use self::report::Page;
use self::rows::{ROWS, Row, cases_of};
use crate::measure::process::{self, Ending};
use crate::measure::rounds::{self, Turns};
use crate::output;

/// Arguments of `bench`.
#[derive(Args, Clone, Debug)]
pub struct FiguresArgs {
    /// Measure only the figures with one of these in their names, in upper or lower case
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Rounds. Memory is measured in three of them.
    #[command(flatten)]
    pub turns: Turns,
    /// Print the names of the figures and exit
    #[arg(long, conflicts_with_all = ["json", "rounds", "quick"])]
    pub list: bool,
    /// Measure one case in this process and print one JSON line
    #[arg(long, value_name = "CASE", hide = true, conflicts_with_all = ["filters", "json", "rounds"])]
    pub measure: Option<String>,
    /// Run an operation N times and exit
    #[arg(long, num_args = 2, value_names = ["CASE", "N"], hide = true,
          conflicts_with_all = ["filters", "json", "rounds", "quick", "measure"])]
    pub count: Option<Vec<String>>,
}

/// Runs `bench`. A missed target is not a failure of the command, but a case that cannot be
/// measured is.
///
/// # Errors
/// A case cannot be measured, or the output cannot be written.
pub fn run(args: &FiguresArgs) -> anyhow::Result<ExitCode> {
    if let Some(count) = &args.count {
        count::run(&count[0], &count[1])
    } else if let Some(case) = &args.measure {
        cases::measure(case, args.turns.quick)
    } else if args.list {
        rows::list(&args.filters)
    } else {
        measure(args)
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Time limit of the process of a case. The longest takes some seconds.
const LIMIT: Duration = Duration::from_secs(600);

/// Measures the requested figures, each case in a process of its own, and prints them.
fn measure(args: &FiguresArgs) -> anyhow::Result<()> {
    let rows: Vec<&'static Row> = ROWS.iter().filter(|row| row.matches(&args.filters)).collect();
    ensure!(
        !rows.is_empty(),
        "no figure's name contains {}; see bench --list",
        args.filters.join(" or ")
    );
    let cases = cases_of(&rows);
    let (run, measured) = rounds::take(&args.turns, &cases, |at| {
        let name = cases[at].name;
        let mut command = process::own(&["bench", "--measure", name], args.turns.quick)?;
        process::attempt(&mut command, LIMIT, Ending::Process)
            .try_map(|line| line.map_err(|reason| anyhow!("the case {name} failed: {reason}")))
    })?;
    let names = cases.iter().map(|case| case.name);
    let page = Page::new(run, &rows, &names.zip(measured).collect());
    if args.json { output::print_json(&page, true) } else { output::print_text(&page.text()) }
}
