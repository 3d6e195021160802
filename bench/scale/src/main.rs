//! Workloads of cygnet on machines with many cores: on modelled ones, or on the real one without
//! the feature `model`.
//!
//! ```text
//! cargo run --release --package cygnet-scale -- flood phases --cores 2,8,16 --work 1us
//! cargo run --release --package cygnet-scale --no-default-features -- flood --cores 2
//! ```

mod cases;
mod steps;
mod world;

use cases::{Case, Size};
use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum};
use std::process::{Command, ExitCode};
use std::time::Duration;
use world::World;

/// How well workloads use the cores of a machine: their ideal time divided by the time they take
#[derive(Parser)]
struct Arguments {
    /// Workloads [default: all]
    cases: Vec<Case>,
    /// Numbers of cores of the machines
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = count())]
    cores: Vec<usize>,
    /// Number of sockets, among which the cores are divided
    #[arg(long, default_value_t = 1, value_parser = count())]
    sockets: usize,
    /// Number of workers [default: as many as cores]
    #[arg(long, value_parser = count())]
    workers: Option<usize>,
    /// Computing time of an item in nanoseconds [default: depends on the workload]
    #[arg(long, value_delimiter = ',')]
    work: Vec<u64>,
    /// Number of items [default: depends on the workload]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    items: Option<u64>,
    /// Show where the time went, by threads and by places of the source
    #[arg(long)]
    places: bool,
    /// Seed of the random decisions
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Measure in this process, which the program itself starts
    #[arg(long, hide = true)]
    alone: bool,
}

/// Parses a number of cores, sockets or workers, within the limits of a machine and of a runtime.
fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=4096)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(measured) = arguments.one() {
        return measured;
    }
    let heads = "case         work, ns  cores  workers          us   ideal, us  efficiency";
    println!("{heads}  {}", world::NAME);
    let mut failed = false;
    for case in arguments.cases() {
        for work in arguments.works(case) {
            for &cores in &arguments.cores {
                failed |= !arguments.measure_alone(case, work, cores);
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

impl Arguments {
    fn cases(&self) -> Vec<Case> {
        if self.cases.is_empty() { Case::value_variants().to_vec() } else { self.cases.clone() }
    }

    fn works(&self, case: Case) -> Vec<u64> {
        if self.work.is_empty() { vec![case.usual_work()] } else { self.work.clone() }
    }

    /// Measures in a process of its own: after another run, the addresses of variables would
    /// decide which of them share a cache line.
    fn measure_alone(&self, case: Case, work: u64, cores: usize) -> bool {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg(case.name()).arg("--alone");
        command.args(["--work", &work.to_string(), "--cores", &cores.to_string()]);
        command.args(["--sockets", &self.sockets.to_string(), "--seed", &self.seed.to_string()]);
        let options = [("--workers", self.workers.map(|n| n as u64)), ("--items", self.items)];
        for (name, value) in options {
            value.into_iter().for_each(|value| _ = command.arg(name).arg(value.to_string()));
        }
        command.args(self.places.then_some("--places"));
        command.status().expect("this program can be started").success()
    }

    /// Performs the measurement that this process was started for, if it was started for one.
    fn one(&self) -> Option<ExitCode> {
        let (&[case], &[work], &[cores], true) =
            (&self.cases[..], &self.work[..], &self.cores[..], self.alone)
        else {
            return None;
        };
        let workers = self.workers.unwrap_or(cores);
        let size = Size { cores, workers, work: Duration::from_nanos(work), items: self.items };
        let world = World { cores, sockets: self.sockets.min(cores), seed: self.seed };
        let name = case.name();
        print!("{name:<12}{work:>9}{cores:>7}{workers:>9}");
        match world.measure(|clock| case.run(&size, clock)) {
            Ok((took, ideal, report)) => {
                let us = |time: Duration| time.as_nanos() as f64 / 1e3;
                let efficiency = ideal.as_secs_f64() / took.as_secs_f64();
                println!("{:>12.1}{:>12.1}{efficiency:>12.3}", us(took), us(ideal));
                if self.places {
                    println!("{report}");
                }
                Some(ExitCode::SUCCESS)
            }
            Err(error) => {
                println!("  failed: {error}");
                Some(ExitCode::FAILURE)
            }
        }
    }
}
