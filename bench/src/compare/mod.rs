//! The comparison: the same work on cygnet and on other runtimes, side by side.
//!
//! * [`cases`]: the work that is compared; [`kernels`]: its code, generic over the way to fork.
//! * [`runtimes`]: which runtime runs which case, and how.
//! * [`measure`]: measurements of one case on any runtime.
//! * [`contenders`]: the contenders, each measured in a process of its own; [`outcome`]: how that
//!   went.
//! * [`targets`]: what cygnet should reach beside the others.
//! * [`page`], [`text`], [`plot`]: the result, as JSON, as text or Markdown, and as a picture.

pub mod cases;
pub mod contenders;
pub mod kernels;
pub mod measure;
pub mod outcome;
pub mod page;
pub mod plot;
pub mod runtimes;
pub mod targets;
pub mod text;

/// What the kernels and the runtimes need.
mod prelude {
    pub(in crate::compare) use std::hint::black_box;
    pub(in crate::compare) use std::time::{Duration, Instant};

    pub(in crate::compare) use super::cases::{self, *};
    pub(in crate::compare) use super::kernels::busy::{
        self, Blocking, Channels, Lock, ReadWrite, Scopes, Slot, Task,
    };
    pub(in crate::compare) use super::kernels::data::numbers;
    pub(in crate::compare) use super::kernels::forks::{self, item_size, with_forks};
    pub(in crate::compare) use super::kernels::waits::{
        self, Number, Place, locks_like_those_of_std,
    };
    pub(in crate::compare) use super::kernels::{Fork, Serial, fork, splitmix};
    pub(in crate::compare) use super::measure::*;
    pub(in crate::compare) use super::runtimes::rings::Traffic;
    pub(in crate::compare) use crate::measure::busy::*;
    pub(in crate::compare) use crate::measure::harness::*;
    pub(in crate::compare) use crate::measure::work::*;
}

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use self::outcome::Outcome;
use self::page::Page;
use crate::measure::plot::check;
use crate::measure::rounds::{self, Attempt, Turns};
use crate::measure::work::Speed;
use crate::output;

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
    /// Rounds.
    #[command(flatten)]
    pub turns: Turns,
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
    if let Some(words) = &args.measure {
        let speed = match (args.steps_per_us, args.steps_per_item) {
            (Some(steps_per_us), Some(steps_per_item)) => Speed { steps_per_us, steps_per_item },
            _ => Speed::measure(),
        };
        contenders::measure_here(words, args.turns.quick, speed)?;
    } else if args.list {
        text::list(&args.filters)?;
    } else if !compare(args)? {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
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
        check(file)?;
    }
    let speed = Speed::measure();
    // A contender that fails, or does not know its case, is not run again.
    let mut last_words: Vec<Option<Outcome>> = vec![None; contenders.len()];
    let (run, measured) = rounds::take(&args.turns, &contenders, |at| {
        if let Some(outcome) = &last_words[at] {
            return Ok(Attempt::new(outcome.clone(), f64::MIN_POSITIVE, 0.0));
        }
        let attempt = contenders::measure(&contenders[at], args, speed)?;
        if !matches!(attempt.measurement, Outcome::Values(..)) {
            last_words[at] = Some(attempt.measurement.clone());
        }
        Ok(attempt)
    })?;
    let page = Page::new(run, &contenders, &measured);
    if args.json {
        output::print_json(&page, true)?;
    } else {
        let text = if args.markdown { text::markdown(&page) } else { text::plain(&page) };
        output::print_text(&text)?;
    }
    if let Some(file) = &args.plot {
        let written = plot::svg(&page).and_then(|picture| Ok(std::fs::write(file, picture)?));
        written.with_context(|| format!("cannot draw {}", file.display()))?;
    }
    for failure in page.failures() {
        output::tell(&format!("cygnet: {failure}"));
    }
    Ok(page.failures().next().is_none())
}
