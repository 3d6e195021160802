//! The figures: what the library's calls cost, each beside its floor and its target.
//!
//! * [`ops`]: the calls themselves, in loops; the criterion benches run the same.
//! * [`tree`]: cancellation and time, likewise.
//! * [`waits`]: locks, channels and calls that block, likewise.
//! * [`stops`]: guards, interrupts and children of a graceful shutdown, likewise.
//! * [`balance`], [`work`]: tasks that wait and then compute for a known time.
//! * [`floor`]: what the machine charges for the least that such calls can consist of.
//! * [`harness`]: warm-up, repetition, medians, within one process.
//! * [`cases`], [`memory`]: what one process measures, and prints as one JSON line.
//! * [`rows`]: the table: which value of which case, its floor, its target.
//! * [`rounds`], [`progress`]: a process for each case, in interleaved rounds, and what is shown of
//!   it.
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
    /// Measure only the figures whose name contains one of these, whatever the case of letters
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Rounds over which the median is taken, each a process of its own for each case; memory is
    /// measured in three of them [default: 15, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Measure for a shorter time and with fewer tasks: a look, not a figure to be published
    #[arg(long)]
    pub quick: bool,
    /// Print the names of the figures and leave
    #[arg(long, conflicts_with_all = ["json", "rounds", "quick"])]
    pub list: bool,
    /// Measure one case in this process and print one JSON line
    #[arg(long, value_name = "CASE", hide = true, conflicts_with_all = ["filters", "json", "rounds"])]
    pub measure: Option<String>,
    /// Run an operation N times and leave
    #[arg(long, num_args = 2, value_names = ["CASE", "N"], hide = true,
          conflicts_with_all = ["filters", "json", "rounds", "quick", "measure"])]
    pub count: Option<Vec<String>>,
}

/// Runs `bench`. A target that is not met is not a failure of the command; a case that cannot be
/// measured is.
///
/// # Errors
/// A case that cannot be measured; an output that cannot be written.
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
