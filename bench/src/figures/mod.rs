//! The figures: what the library's calls cost, each beside its floor and its target.
//!
//! * [`ops`]: the measured calls, in loops; the criterion benches run the same loops.
//! * [`tree`]: loops of cancellation and timers.
//! * [`waits`]: loops of locks, channels and blocking calls.
//! * [`rings`]: loops of messages through rings.
//! * [`stops`]: loops of guards, interrupts and children of a graceful shutdown.
//! * [`balance`], [`work`]: tasks that wait and then compute for a known time.
//! * [`floor`]: the least that the machine charges for the steps of such calls.
//! * [`harness`]: warm-up, repetition, medians, within one process.
//! * [`cases`], [`memory`]: what one process measures, and prints as one line of JSON.
//! * [`rows`]: the table: which value of which case, its floor, its target.
//! * [`rounds`], [`progress`]: a process for each case, in interleaved rounds, and the progress
//!   bar.
//! * [`stats`], [`verdict`], [`machine`], [`report`]: from samples to the printed page.
//! * [`count`]: a number of operations and nothing else, for a tool that counts instructions.

pub mod balance;
pub mod cases;
pub mod count;
pub mod floor;
pub mod harness;
pub mod machine;
pub mod memory;
pub mod ops;
pub mod progress;
pub mod report;
pub mod rings;
pub mod rounds;
pub mod rows;
pub mod stats;
pub mod stops;
pub mod tree;
pub mod verdict;
pub mod waits;
pub mod work;

use std::process::ExitCode;

use clap::Args;

/// Arguments of `bench`.
#[derive(Args, Clone, Debug)]
pub struct FiguresArgs {
    /// Measure only the figures with one of these in their names, in upper or lower case
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Number of rounds over which the median is taken, with a process for each case and round;
    /// memory is measured in three of them [default: 15, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Measure for a shorter time and with fewer tasks: a look, not figures for publication
    #[arg(long)]
    pub quick: bool,
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
        cases::measure(case, args.quick)
    } else if args.list {
        rows::list(&args.filters)
    } else {
        rounds::run(args)
    }
    .map(|()| ExitCode::SUCCESS)
}
