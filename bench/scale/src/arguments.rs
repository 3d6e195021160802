//! The command line.

use crate::cases::Case;
use crate::world::MODELLED;
use clap::Parser;
use clap::builder::RangedU64ValueParser;
use std::path::PathBuf;

/// Measure how well workloads use the cores of a machine, on a model of it
///
/// The figure is the efficiency: the time on an ideal machine (the work of all items divided by the
/// number of cores) divided by the time taken. For a few workloads the figure is a time.
///
/// Each run is a process of its own, as many at a time as there are processors. A run on a modelled
/// machine takes the same time whenever it is repeated. docs/scaling.md explains the model and the
/// table.
#[derive(Parser, Debug)]
#[command(name = "cygnet-scale", version)]
pub struct Arguments {
    /// Workloads [default: all]
    #[arg(value_name = "CASE")]
    pub cases: Vec<Case>,
    /// Numbers of cores for the workers [default: the powers of two up to 128, or up to the number
    /// of processors on the real machine]
    ///
    /// There is a worker per core. The threads that a workload adds to them (outside, beside) have
    /// cores of their own.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = count())]
    pub cores: Vec<usize>,
    /// Numbers of sockets, among which the cores are divided as evenly as possible
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = count())]
    pub sockets: Vec<usize>,
    /// Number of workers [default: as many as cores for them]
    #[arg(long, value_name = "N", value_parser = count())]
    pub workers: Option<usize>,
    /// Computing times of an item in nanoseconds [default: depends on the workload]
    #[arg(long, value_name = "NS", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(0..=HOUR))]
    pub work: Vec<u64>,
    /// Number of items [default: depends on the workload]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub items: Option<u64>,
    /// Seed of the random decisions, or the first of several
    ///
    /// The seed also decides where in a cache line the first variable lies.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Number of seeds; the table shows the mean of their times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub seeds: u64,
    /// Number of steps after which a run has failed, because it seems not to end
    #[arg(long, value_name = "N", default_value_t = 4_000_000_000)]
    pub most_steps: u64,
    /// Show where the time of a single run went, by threads and by places of the source
    #[arg(long)]
    pub places: bool,
    /// File for all runs, as JSON with a line per run; `-` is the standard output, without the
    /// table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// File for a picture of the efficiencies (SVG)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Measure with 16 and 64 cores for --check, and write the runs to this file
    ///
    /// A workload whose times differ from seed to seed is measured with up to 16 of them.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_TABLE)]
    pub store: Option<PathBuf>,
    /// Measure the runs of this table with 16 and 64 cores again, and fail if an efficiency has
    /// fallen by more than a tenth
    ///
    /// The figures are the means of all seeds in the table, which --store or --json has written.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_TABLE, conflicts_with = "store")]
    pub check: Option<PathBuf>,
    /// Measure in this process, which the program itself starts
    #[arg(long, hide = true)]
    pub alone: bool,
}

/// Options of a table that is shown.
const OF_ONE_TABLE: [&str; 10] =
    ["cores", "sockets", "workers", "work", "items", "seed", "seeds", "places", "json", "svg"];
/// An hour, in nanoseconds.
const HOUR: u64 = 3_600_000_000_000;

/// Parses a number of cores, sockets or workers, within the limits of a machine and of a runtime.
fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=4096)
}

impl Arguments {
    pub fn cores(&self) -> Vec<usize> {
        if !self.cores.is_empty() {
            return self.cores.clone();
        }
        let most = if MODELLED { 128 } else { processors() };
        (0..).map(|power| 1 << power).take_while(|cores| *cores <= most).collect()
    }
}

/// The number of processors of the real machine.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
