//! The comparison: the same work on cygnet and on other runtimes, side by side.
//!
//! * [`cases`]: the work that is compared; [`kernels`]: its code, generic over the way to fork.
//! * [`runtimes`]: which runtime runs which case, and how.
//! * [`measure`]: repetition within one process; [`mod@line`]: the line that such a process
//!   prints.
//! * [`contenders`], [`process`]: the contenders, each measured in a process of its own.
//! * [`targets`]: what cygnet should reach beside the others.
//! * [`page`], [`text`], [`plot`]: the result, as JSON, as text or Markdown, and as a picture.

pub mod cases;
pub mod contenders;
pub mod kernels;
pub mod line;
pub mod measure;
pub mod page;
pub mod plot;
pub mod process;
pub mod runtimes;
pub mod targets;
pub mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use self::contenders::Contender;
use self::line::Outcome;
use self::measure::Speed;
use self::page::Page;
use crate::figures::machine::Machine;
use crate::figures::progress::Progress;
use crate::output;
use crate::turns::{self, Attempt, Turns};

/// Default numbers of rounds. A target is judged only over at least `ROUNDS`.
const ROUNDS: u32 = 15;
const QUICK_ROUNDS: u32 = 3;

/// Arguments of `compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Measure only the cases with one of these in their names, in upper or lower case
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Print one JSON object, with the value of each round
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown tables
    #[arg(long)]
    pub markdown: bool,
    /// Draw the result into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Number of rounds over which the median is taken, with a process for each case, runtime and
    /// number of workers [default: 15, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Measure for a shorter time and in smaller sizes: a look, not figures for publication
    #[arg(long)]
    pub quick: bool,
    /// Also measure a program, which the shell runs as CMD CASE WORKERS and which prints one line
    /// of JSON (docs/compare.md). May be given more than once
    #[arg(long, value_name = "CMD")]
    pub external: Vec<String>,
    /// Seconds that a run of such a program may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub time_limit: u64,
    /// Print the cases and their runtimes and exit
    #[arg(long, conflicts_with_all = ["json", "markdown", "plot", "rounds", "quick", "external"])]
    pub list: bool,
    /// Measure one case in this process and print one JSON line
    #[arg(long, num_args = 3, value_names = ["CASE", "RUNTIME", "WORKERS"], hide = true,
          conflicts_with_all = ["filters", "json", "markdown", "plot", "rounds", "external"])]
    pub measure: Option<Vec<String>>,
    /// Steps of work per microsecond, measured once for all processes
    #[arg(long, value_name = "N", hide = true, requires = "measure")]
    pub steps_per_us: Option<u64>,
    /// Steps per item of a loop, measured once for all processes
    #[arg(long, value_name = "N", hide = true, requires = "measure")]
    pub steps_per_item: Option<u64>,
}

/// How to get a build with the peers.
pub const HOW_TO_GET_PEERS: &str = "rayon, tokio and the other peers: cargo run --release -p cygnet-bench --features peers -- compare";

/// Runs `compare`. A missed target is not a failure of the command. A case that cannot be
/// measured is, after all others have been measured.
///
/// # Errors
/// No case's name contains one of the filters, or a picture or the output cannot be written.
pub fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let complete = if let Some(words) = &args.measure {
        let speed = args.steps_per_us.zip(args.steps_per_item);
        let speed = speed.map_or_else(Speed::measure, |(steps_per_us, steps_per_item)| Speed {
            steps_per_us,
            steps_per_item,
        });
        contenders::measure_here(words, args.quick, speed)?;
        true
    } else if args.list {
        text::list(&args.filters)?;
        true
    } else {
        compare(args)?
    };
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures the requested cases and prints the results. Returns whether everything could be
/// measured.
fn compare(args: &CompareArgs) -> anyhow::Result<bool> {
    let contenders = contenders::all(args)?;
    if !cfg!(feature = "peers") {
        output::tell(&format!("cygnet: not in this build: {HOW_TO_GET_PEERS}"));
    }
    // Checked before the long run rather than after it.
    if let Some(file) = &args.plot {
        plot::check(file)?;
    }
    let rounds = args.rounds.unwrap_or(if args.quick { QUICK_ROUNDS } else { ROUNDS });
    let progress = Progress::new(rounds * contenders.len() as u32);
    let speed = Speed::measure();
    let (measured, seconds) = take_turns(rounds, args, &contenders, &progress, |contender| {
        contenders::measure(contender, args, speed)
    })?;
    drop(progress);
    let page = Page::new(Machine::here(), rounds, args.quick, seconds, &contenders, &measured);
    if args.json {
        page.print_json()?;
    } else {
        let text = if args.markdown { text::markdown(&page) } else { text::plain(&page) };
        output::print_text(&text)?;
    }
    if let Some(file) = &args.plot {
        plot::draw(&page, file).with_context(|| format!("cannot draw {}", file.display()))?;
    }
    for failure in page.failures() {
        output::tell(&format!("cygnet: {failure}"));
    }
    Ok(page.failures().next().is_none())
}

/// Measures all contenders in turn. A contender that fails, or does not know its case, is not run
/// again.
fn take_turns(
    rounds: u32,
    args: &CompareArgs,
    contenders: &[Contender],
    progress: &Progress,
    mut measure: impl FnMut(&Contender) -> anyhow::Result<Attempt<Outcome>>,
) -> anyhow::Result<(Vec<turns::Measured<Outcome>>, f64)> {
    let numbered: Vec<Numbered> =
        (0..contenders.len()).map(|at| Numbered(&contenders[at], at)).collect();
    let mut last_words = vec![None; contenders.len()];
    turns::take(Turns::new(rounds, args.quick), &numbered, progress, |&Numbered(contender, at)| {
        if let Some(outcome) = &last_words[at] {
            return Ok(Attempt::new(Outcome::clone(outcome), f64::MIN_POSITIVE, 0.0));
        }
        let attempt = measure(contender)?;
        if !matches!(attempt.measurement, Outcome::Values(..)) {
            last_words[at] = Some(attempt.measurement.clone());
        }
        Ok(attempt)
    })
}

/// A contender and its index.
struct Numbered<'a>(&'a Contender, usize);

impl turns::Subject for Numbered<'_> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn is_due(&self, round: u32, of: u32) -> bool {
        self.0.is_due(round, of)
    }

    fn wants_quiet(&self) -> bool {
        self.0.wants_quiet()
    }
}
