//! Tests in simulation. With `CYGNET_SIM_SEEDS` each test is run by about that many seeds, instead
//! of once on real threads:
//!
//! | variable | |
//! | --- | --- |
//! | `CYGNET_SIM_SEEDS` | number of seeds for each call of `within` or `with` |
//! | `CYGNET_SIM_SECONDS` | after this time only the fixed seeds are still tried |
//! | `CYGNET_SIM_FIRST` | the first seed, after the fixed ones |
//! | `CYGNET_SIM_LOG` | a file that gets a line for each test and its result |
//! | `CYGNET_SIM_SEED` | the only seed, as a failure names it |
//!
//! A test that cannot be simulated says why by `common::real!`.

mod waiting;

pub(crate) use waiting::{Barrier, Mutex, mpsc};

use cygnet::sim::{self, Options};
use std::cell::Cell;
use std::fmt::Display;
use std::io::Write;
use std::ops::Range;
use std::str::FromStr;
use std::time::Instant;

/// The number of fixed seeds, from 0 on, which come first in each run.
const FIXED: u64 = 8;
/// A run with more steps is a livelock.
const STEPS: u64 = 20_000_000;

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The number of seeds for each test, if tests are to be simulated.
fn seeds() -> Option<u64> {
    variable("CYGNET_SIM_SEEDS")
}

/// Whether tests are simulated.
pub(crate) fn wanted() -> bool {
    seeds().is_some()
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread belongs to a simulation.
pub(crate) fn inside() -> bool {
    INSIDE.get()
}

/// Runs `test` by its share of the seeds, which is part number `part` of `parts`.
pub(crate) fn check(part: usize, parts: usize, test: &dyn Fn()) {
    let seeds = seeds().expect("tests are simulated").div_ceil(parts as u64);
    let fixed = FIXED.min(seeds);
    let first: u64 = variable("CYGNET_SIM_FIRST").unwrap_or(fixed);
    let seconds = variable("CYGNET_SIM_SECONDS").unwrap_or(f64::INFINITY) / parts as f64;
    let started = Instant::now();
    let explore = |range: Range<u64>| {
        INSIDE.set(true);
        let explored = sim::explore(&Options::new().seeds(range).most_steps(STEPS), test);
        INSIDE.set(false);
        let explored = explored.unwrap_or_else(|failed| panic!("{failed}"));
        (explored.runs, explored.steps)
    };
    let (mut runs, mut steps) = explore(0..fixed);
    let alone = std::env::var_os("CYGNET_SIM_SEED").is_some();
    // Each part has its own seeds.
    let mut next = first.wrapping_add(part as u64 * seeds);
    let (mut left, mut some) = (seeds - fixed, 8);
    while left > 0 && !alone && started.elapsed().as_secs_f64() < seconds {
        some = left.min(some);
        let (more, taken) = explore(next..next + some);
        (runs, steps) = (runs + more, steps + taken);
        (next, left) = (next + some, left - some);
        // More seeds each time, as long as there is time, with a look at the clock in between.
        let each = started.elapsed().as_secs_f64() / runs as f64;
        let room = ((seconds - started.elapsed().as_secs_f64()) / each).clamp(1.0, 1_000.0);
        some = (some * 2).min(room as u64);
    }
    log(format_args!("simulated {runs} {steps} {:.3}", started.elapsed().as_secs_f64()));
}

/// Returns whether the test is to be left out because tests are simulated and this one cannot be.
pub(crate) fn leaves_out(reason: &str) -> bool {
    if inside() || !wanted() {
        return false;
    }
    log(format_args!("real {reason}"));
    true
}

/// Adds a line for the running test.
fn log(what: impl Display) {
    let Some(path) = std::env::var_os("CYGNET_SIM_LOG") else { return };
    let thread = std::thread::current();
    let line = format!("{} {what}\n", thread.name().unwrap_or("?"));
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // One call: lines of several threads do not mix.
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("CYGNET_SIM_LOG can be written");
}
