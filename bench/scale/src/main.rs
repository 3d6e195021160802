//! Workloads of cygnet on machines of many cores: modelled ones, or (without the feature `model`) the real one.
//!
//! ```text
//! cargo run --release --package cygnet-scale -- flood phases --cores 2,8,16 --work 1us
//! cargo run --release --package cygnet-scale --no-default-features -- flood --cores 2
//! ```

mod cases;
mod world;

use cases::{Case, Size};
use clap::Parser;
use std::time::Duration;
use world::World;

/// How well workloads use the cores of a machine: their ideal time by the time that they take.
#[derive(Parser)]
struct Arguments {
    /// Workloads; all of them if none is named.
    cases: Vec<Case>,
    /// Cores of the machines.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16")]
    cores: Vec<usize>,
    /// Sockets, among which the cores are divided.
    #[arg(long, default_value_t = 1)]
    sockets: usize,
    /// Workers, if they are not as many as cores.
    #[arg(long)]
    workers: Option<usize>,
    /// What an item computes, in nanoseconds; by default what is usual for the workload.
    #[arg(long, value_delimiter = ',')]
    work: Vec<u64>,
    /// Items; by default as many as are usual for the workload.
    #[arg(long)]
    items: Option<u64>,
    /// Where the time has gone: by threads and by places of the source.
    #[arg(long)]
    places: bool,
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() {
    let arguments = Arguments::parse();
    let all = Case::all();
    let cases = if arguments.cases.is_empty() { &all } else { &arguments.cases };
    println!(
        "{:<12}{:>9}{:>7}{:>9}{:>12}{:>12}{:>12}  {}",
        "case",
        "work, ns",
        "cores",
        "workers",
        "us",
        "ideal, us",
        "efficiency",
        world::NAME
    );
    for case in cases {
        let usual = [case.usual_work()];
        let works = if arguments.work.is_empty() { &usual[..] } else { &arguments.work };
        for &work in works {
            for &cores in &arguments.cores {
                let workers = arguments.workers.unwrap_or(cores);
                let size = Size {
                    cores,
                    workers,
                    work: Duration::from_nanos(work),
                    items: arguments.items,
                };
                let world =
                    World { cores, sockets: arguments.sockets.min(cores), seed: arguments.seed };
                match world.measure(|clock| case.run(&size, clock)) {
                    Ok((took, ideal, report)) => {
                        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
                        let efficiency = ideal.as_secs_f64() / took.as_secs_f64();
                        println!(
                            "{:<12}{work:>9}{cores:>7}{workers:>9}{:>12.1}{:>12.1}{efficiency:>12.3}",
                            case.name(),
                            us(took),
                            us(ideal)
                        );
                        if arguments.places {
                            println!("{report}");
                        }
                    }
                    Err(error) => println!(
                        "{:<12}{work:>9}{cores:>7}{workers:>9}  failed: {error}",
                        case.name()
                    ),
                }
            }
        }
    }
}
