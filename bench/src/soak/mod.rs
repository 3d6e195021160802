//! The soak: random programs on real threads, with faults, until the time is over; and whether anything leaks, hangs or comes out wrong.
//!
//! * `programs`: what is run; `faults`: what is done to it; `rng`: the seed's numbers.
//! * `round`: a runtime, threads that run programs on it, and its end, again and again.
//! * `state`: what is shared; `watchdog`: who looks at the clock; `interrupt`: Ctrl-C.
//! * `sample`, `slope`, `verdict`: memory and counters, and whether they grow.
//! * `report`, `plot`: the result.

mod faults;
mod interrupt;
mod plot;
mod programs;
mod report;
mod rng;
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
use crate::figures::machine::Machine;
use crate::output;

/// Arguments of `soak`.
#[derive(Args, Clone, Debug)]
pub struct SoakArgs {
    /// How long it goes on; fractions are allowed
    #[arg(long, value_name = "N", value_parser = minutes, required_unless_present_any = ["list", "rounds"])]
    pub minutes: Option<f64>,
    /// Go on for so many rounds, however long they take: the same work on a slow machine as on a fast one
    #[arg(long, value_name = "N", conflicts_with = "minutes", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// What decides which programs are run, and how large they are: a number [default: a random one, which is printed]
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Numbers of workers of the runtimes, in turn from round to round
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,2,3,8", value_parser = workers)]
    pub workers: Vec<usize>,
    /// Write the report (Markdown) into this file, and its picture beside it, with the ending .svg; without it the report is printed
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Seconds after which a program that has not ended hangs: the run fails, and ends there
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watchdog: u64,
    /// Only programs of the kinds whose name contains one of these
    #[arg(long, value_name = "KIND,..", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only this program, again and again, as a failure names it
    #[arg(long, value_name = "KIND:SEED", conflicts_with = "only")]
    pub program: Option<String>,
    /// Print the kinds of programs, and leave
    #[arg(long)]
    pub list: bool,
    /// Go wrong on purpose
    #[arg(long, value_name = "WHAT", hide = true)]
    pub plant: Option<String>,
}

/// Reads the argument of `--minutes`.
fn minutes(text: &str) -> Result<f64, String> {
    // A year, after which nobody waits for the report.
    const MOST: f64 = 525_600.0;
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= MOST => Ok(minutes),
        Ok(_) => Err(format!("a soak goes on for more than 0 and at most {MOST} minutes")),
        Err(_) => Err("not a number of minutes".to_owned()),
    }
}

/// Reads one number of the argument of `--workers`.
fn workers(text: &str) -> Result<usize, String> {
    // Each of them has a thread, and more than this are no test of the library but of the machine.
    const MOST: usize = 256;
    match text.parse() {
        Ok(count) if (1..=MOST).contains(&count) => Ok(count),
        Ok(_) => Err(format!("a runtime of a soak has 1 to {MOST} workers")),
        Err(error) => Err(format!("not a number of workers: {error}")),
    }
}

/// Runs `soak`. Success is a run in which every program came out right, none hung, and nothing leaks.
///
/// # Errors
/// An argument that means nothing; a file or an output that cannot be written.
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

/// What programs are asked for.
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

/// Where the picture goes.
fn picture(out: &Path) -> anyhow::Result<PathBuf> {
    let picture = out.with_extension("svg");
    ensure!(picture != out, "the report is Markdown: its picture goes to {}", out.display());
    Ok(picture)
}

/// Whether all went well.
fn soak(args: &SoakArgs) -> anyhow::Result<bool> {
    let mix = mix(args)?;
    let length = match args.rounds {
        Some(rounds) => Length::Rounds(rounds),
        None => Length::Time(Duration::from_secs_f64(args.minutes.unwrap_or_default() * 60.0)),
    };
    // Before the long wait, not after it.
    let picture = args.out.as_deref().map(picture).transpose()?;
    for file in args.out.iter().chain(&picture) {
        plot::check(file)?;
    }
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    output::tell(&format!("cygnet: soak for {length} with --seed {seed}"));
    interrupt::install().context("cannot have Ctrl-C noted")?;
    faults::install_panic_hook();

    let before = sample::heap_in_use();
    // What keeps its threads for so short a time as this has none left at rest.
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
        // What hangs cannot be waited for.
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
        observer.join().map_err(|_| anyhow!("the thread that looks at the clock has panicked"))?;
    }
    drop(lasting);
    state.forget_lasting();
    // What a cache of the lasting runtime has kept is back now; what leaks is not.
    let left = sample::heap_in_use() - before - state::lock(&state.samples).bytes();
    report.left = Some(left);
    report.finish(&state, interrupt::is_interrupted())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_positive_number() {
        assert_eq!(minutes("0.05"), Ok(0.05));
        for bad in ["0", "-1", "NaN", "inf", "1e9"] {
            assert!(minutes(bad).unwrap_err().contains("more than 0"), "{bad}");
        }
        assert!(minutes("soon").unwrap_err().contains("not a number"));
    }

    #[test]
    fn the_picture_lies_beside_the_report() {
        assert_eq!(picture(Path::new("a/soak.md")).unwrap(), Path::new("a/soak.svg"));
        assert_eq!(picture(Path::new("soak")).unwrap(), Path::new("soak.svg"));
        assert!(picture(Path::new("soak.svg")).is_err());
    }
}
