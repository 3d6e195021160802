//! The command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::compare::CompareArgs;
use crate::figures::FiguresArgs;
use crate::soak::SoakArgs;
use clap::{Args, Parser, Subcommand};

/// Compute jobs on coroutines.
#[derive(Debug, Parser)]
#[command(name = "cygnet", version)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The first word of a command line.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a compute job
    Run {
        /// Which job.
        #[command(subcommand)]
        job: Job,
    },
    /// Measure what the library's calls cost, each figure beside its floor and its target
    ///
    /// Each measurement runs in its own process, and the figures are measured in turn, round
    /// after round; the table shows the median over the rounds. Keep the machine otherwise idle
    /// meanwhile.
    Bench(FiguresArgs),
    /// Measure the same work on cygnet and on other runtimes, side by side
    ///
    /// Each measurement runs in its own process, and the runtimes take turns, round after round.
    /// The result is a table with the ratio to the best runtime, and the targets that cygnet
    /// should reach beside the others. Keep the machine otherwise idle meanwhile. The other
    /// runtimes are part of a build with the feature `peers`; programs in other languages are
    /// measured with --external.
    Compare(CompareArgs),
    /// Run random programs with injected faults for a long time, to find hangs, leaks, wrong
    /// results
    ///
    /// Each program checks its own result. Memory and the library's counters are sampled; growth
    /// beyond a limit is a leak. The exit status is 1 if a program failed or hung, or if there is
    /// a leak. Ctrl-C ends the run early, with a report of what was done so far. docs/soak.md
    /// explains the report.
    Soak(SoakArgs),
    /// Measure how well workloads use 1 to 128 cores, on a model of such machines
    ///
    /// This runs the program cygnet-scale beside this one, which `cargo build --release --package
    /// cygnet-scale` builds, and passes all arguments on to it. `cygnet scale --help` is its help.
    /// docs/scaling.md explains the model and the table.
    #[command(disable_help_flag = true)]
    Scale(ScaleArgs),
}

/// Arguments of `scale`.
#[derive(Args, Debug)]
pub(crate) struct ScaleArgs {
    /// Arguments of cygnet-scale
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}

/// The jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// SHA-256 of every regular file below the paths, one coroutine per file
    ///
    /// Prints, sorted by path, the output of
    /// `find -H PATH... -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum`. A symbolic link
    /// is followed if it is given as a PATH, but not below one. A PATH that is neither a
    /// directory nor a regular file (a pipe, a device) is read like a file, and `-` is the
    /// standard input. A file that is reached twice is printed twice. Unreadable files are
    /// reported on the standard error, and the exit status is then 1.
    #[command(mut_arg("compare_serial", second_run_of_files))]
    Hash(HashArgs),
    /// Draw the Mandelbrot set, one coroutine per row
    Mandelbrot(MandelbrotArgs),
    /// Count the ways to place N queens on an N by N board, none attacking another
    Nqueens(NqueensArgs),
    /// Count the words of all regular files below the paths
    ///
    /// A word is a run of letters and digits (Unicode), taken in lower case. Equally frequent
    /// words are listed in the order of their bytes. A symbolic link is followed if it is given
    /// as a PATH, but not below one. A PATH that is neither a directory nor a regular file (a
    /// pipe, a device) is read like a file, and `-` is the standard input. A file that is reached
    /// twice is counted twice. Unreadable files are reported on the standard error, and the exit
    /// status is then 1.
    #[command(mut_arg("compare_serial", second_run_of_files))]
    Wordcount(WordcountArgs),
}

/// The options of every job.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = worker_count)]
    pub(crate) workers: Option<usize>,
    /// Run the job again with one worker, check that the result is the same, and print the ratio
    #[arg(long)]
    pub(crate) compare_serial: bool,
    /// Print one JSON object, with the result and the figures
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress bar and no closing line
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Extends the help of `--compare-serial` for jobs that read files.
fn second_run_of_files(arg: clap::Arg) -> clap::Arg {
    let help = arg.get_help().cloned().unwrap_or_default();
    arg.long_help(format!(
        "{help}\n\nThe second run may find in the page cache what the first run had to read from disk: for a \
         fair ratio, run the command twice."
    ))
}

/// Arguments of `run hash`.
#[derive(Args, Debug)]
pub(crate) struct HashArgs {
    /// Files and directories
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The options of every job.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `run mandelbrot`.
#[derive(Args, Debug)]
pub(crate) struct MandelbrotArgs {
    /// Width and height of the picture in pixels
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub(crate) size: u32,
    /// File for the picture (PNG); an existing file is replaced once the new one is complete
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Steps after which a point counts as a member of the set
    #[arg(long, value_name = "M", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) iterations: u32,
    /// The options of every job.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `run nqueens`.
#[derive(Args, Debug)]
pub(crate) struct NqueensArgs {
    /// Size of the board (27 is the largest whose answer is known)
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=27))]
    pub(crate) n: u32,
    /// The options of every job.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `run wordcount`.
#[derive(Args, Debug)]
pub(crate) struct WordcountArgs {
    /// Files and directories
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// How many of the most frequent words to list
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub(crate) top: usize,
    /// The options of every job.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Reads the argument of `--workers`.
fn worker_count(text: &str) -> Result<usize, String> {
    workers_among(text, 1..=usize::MAX, "a job needs at least one worker")
}

/// Reads a number of workers.
pub(crate) fn workers_among(
    text: &str,
    range: RangeInclusive<usize>,
    sentence: &str,
) -> Result<usize, String> {
    let count = text.parse().map_err(|error| format!("not a number of workers: {error}"))?;
    if range.contains(&count) { Ok(count) } else { Err(sentence.to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
