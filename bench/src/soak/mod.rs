//! The soak: random programs with faults on real threads, for a given time or number of rounds,
//! in search of leaks, hangs and wrong results.
//!
//! * `programs`: the programs; `faults`: the faults in them.
//! * `round`: a runtime, threads that run programs on it, and its end, again and again.
//! * `state`: shared state; `watchdog`: detection of hangs; `interrupt`: Ctrl-C.
//! * `sample`, `slope`, `verdict`: memory and counters, and whether they grow.
//! * `report`, `plot`: the result.

mod faults;
mod interrupt;
mod plot;
mod programs;
mod report;
mod round;
mod sample;
mod slope;
mod state;
mod verdict;
mod watchdog;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use cygnet::Runtime;

use self::programs::{KINDS, PLANTED};
use self::report::Report;
use self::round::Mix;
use self::state::{Length, MOST_FAILURES, State};
use crate::cli::workers_among;
use crate::measure::machine::Machine;
use crate::measure::plot::check;
use crate::output;

/// Arguments of `soak`.
#[derive(Args, Clone, Debug)]
pub struct SoakArgs {
    /// Duration of the run; fractions are allowed
    #[arg(long, value_name = "N", value_parser = minutes, required_unless_present_any = ["list", "rounds"])]
    pub minutes: Option<f64>,
    /// Number of rounds, however long they take: the same work on slow and fast machines
    #[arg(long, value_name = "N", conflicts_with = "minutes", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Number that determines which programs run, and their sizes [default: a random one,
    /// printed]
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Numbers of workers, used by the rounds in turn
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,2,3,8", value_parser = workers)]
    pub workers: Vec<usize>,
    /// File for the report (Markdown), with its picture beside it, ending in .svg; without this
    /// option the report is printed
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Seconds after which an unfinished program counts as hung; the run then fails and ends
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watchdog: u64,
    /// Run only programs of kinds with one of these in their names
    #[arg(long, value_name = "KIND,..", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Run only this program, again and again; failures name their programs in this form
    #[arg(long, value_name = "KIND:SEED", conflicts_with = "only")]
    pub program: Option<String>,
    /// Print the kinds of programs and exit
    #[arg(long)]
    pub list: bool,
    /// Plant a fault on purpose
    #[arg(long, value_name = "WHAT", hide = true)]
    pub plant: Option<String>,
}

/// Reads the argument of `--minutes`.
fn minutes(text: &str) -> Result<f64, String> {
    // A year: no longer run is useful.
    const MOST: f64 = 525_600.0;
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= MOST => Ok(minutes),
        Ok(_) => Err(format!("a soak goes on for more than 0 and at most {MOST} minutes")),
        Err(_) => Err("not a number of minutes".to_owned()),
    }
}

/// Reads one number of the argument of `--workers`.
fn workers(text: &str) -> Result<usize, String> {
    // Each worker has a thread, and more threads would test the machine rather than the library.
    workers_among(text, 1..=256, "a runtime of a soak must have 1 to 256 workers")
}

/// Runs `soak`. It succeeds if every program's result was right, no program hung and nothing
/// leaks.
///
/// # Errors
/// An argument has no meaning, or a file or the output cannot be written.
pub fn run(args: &SoakArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        return list().map(|()| ExitCode::SUCCESS);
    }
    Ok(if soak(args)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list() -> anyhow::Result<()> {
    output::print(|out| {
        KINDS.iter().try_for_each(|kind| writeln!(out, "{:10} {}", kind.name, kind.what))
    })
}

/// The programs to draw from, as requested.
fn mix(args: &SoakArgs) -> anyhow::Result<Mix> {
    let (mut kinds, mut seed) = (KINDS.iter().collect::<Vec<_>>(), None);
    for filter in &args.only {
        let known = KINDS.iter().any(|kind| kind.name.contains(filter.as_str()));
        ensure!(known, "no kind's name contains {filter}; --list prints them");
    }
    if !args.only.is_empty() {
        kinds.retain(|kind| args.only.iter().any(|filter| kind.name.contains(filter.as_str())));
    }
    if let Some(program) = &args.program {
        let (name, number) = program.split_once(':').unwrap_or_default();
        kinds.retain(|kind| kind.name == name);
        seed = number.parse().ok();
        let known = seed.is_some() && !kinds.is_empty();
        ensure!(known, "{program} is not a kind and a seed, as in join:7; --list prints the kinds");
    }
    let planted = args.plant.as_ref().map(|name| {
        let names: Vec<_> = PLANTED.iter().map(|kind| kind.name).collect();
        let planted = programs::planted(name);
        planted.ok_or_else(|| anyhow!("{name} cannot be planted, only {}", names.join(", ")))
    });
    Ok(Mix { kinds, seed, planted: planted.transpose()?, workers: args.workers.clone() })
}

/// The path of the picture.
fn picture(out: &Path) -> anyhow::Result<PathBuf> {
    let picture = out.with_extension("svg");
    ensure!(picture != out, "the report is Markdown: its picture goes to {}", out.display());
    Ok(picture)
}

/// Runs the soak, and returns whether it passed.
fn soak(args: &SoakArgs) -> anyhow::Result<bool> {
    let mix = mix(args)?;
    let length = match args.rounds {
        Some(rounds) => Length::Rounds(rounds),
        None => Length::Time(Duration::from_secs_f64(args.minutes.unwrap_or_default() * 60.0)),
    };
    // Checked before the long run rather than after it.
    let picture = args.out.as_deref().map(picture).transpose()?;
    for file in args.out.iter().chain(&picture) {
        check(file)?;
    }
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    output::tell(&format!("cygnet: soak for {length} with --seed {seed}"));
    interrupt::install().context("cannot handle Ctrl-C")?;
    faults::install_panic_hook();

    let before = sample::heap_in_use();
    // With this short keep-alive, no blocking threads are left at rest.
    let lasting = Runtime::builder().workers(2).thread_name("lasting").max_blocking_threads(8);
    let lasting = lasting.blocking_keep_alive(Duration::from_millis(20)).build()?;
    round::fill_pools(&lasting);
    let state = Arc::new(State::new(seed, length, lasting.handle()));
    let mut report = Report {
        machine: Machine::here(),
        workers: args.workers.clone(),
        restricted: args.program.clone().unwrap_or_else(|| args.only.join(",")),
        out: args.out.clone().zip(picture),
        left: None,
    };
    let (hung_state, hung_report) = (Arc::clone(&state), report.clone());
    let limit = Duration::from_secs(args.watchdog);
    let (running, observers) = watchdog::start(&state, limit, move |failure| {
        hung_state.fail(failure);
        if let Err(error) = hung_report.finish(&hung_state, true) {
            output::tell(&format!("cygnet: {error:#}"));
        }
        // A hanging program cannot be waited for.
        std::process::exit(1);
    });
    let stop = || interrupt::is_interrupted() || length.is_time_over(state.elapsed());
    let mut number = 0;
    while !stop() && !length.is_last_round(number) && state.failures().len() < MOST_FAILURES {
        round::run(&state, &mix, number, &stop);
        number += 1;
    }
    drop(running);
    for observer in observers {
        observer.join().map_err(|_| anyhow!("a thread of the watchdog has panicked"))?;
    }
    drop(lasting);
    state.forget_lasting();
    // The caches of the lasting runtime are freed by now. Leaked memory is not.
    let left = sample::heap_in_use() - before - state::lock(&state.samples).bytes();
    report.left = Some(left);
    report.finish(&state, interrupt::is_interrupted())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_lies_beside_the_report() {
        assert_eq!(picture(Path::new("a/soak.md")).unwrap(), Path::new("a/soak.svg"));
        assert_eq!(picture(Path::new("soak")).unwrap(), Path::new("soak.svg"));
        assert!(picture(Path::new("soak.svg")).is_err());
    }
}
