//! Repetition within one process: calibrates, warms up, measures and takes the median.

use std::time::{Duration, Instant};

use super::stats;
use crate::clock::cpu_time;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Time before anything counts.
    pub warm_up: Duration,
    /// Minimum of measured time.
    pub measured: Duration,
    /// Minimum duration of a repetition.
    pub repetition: Duration,
    /// A quick look, also with fewer tasks.
    pub quick: bool,
}

/// Target duration of a repetition: long compared with the clock, short compared with an
/// interruption.
pub const REPETITION: Duration = Duration::from_millis(2);
/// Minimum number of repetitions, unless they take twice the planned time.
const REPETITIONS: usize = 11;

impl Plan {
    /// The plan for figures, or for a quick look at them.
    #[must_use]
    pub fn new(quick: bool) -> Plan {
        let (warm_up, measured) = if quick { (10, 40) } else { (60, 240) };
        Plan {
            warm_up: Duration::from_millis(warm_up),
            measured: Duration::from_millis(measured),
            repetition: REPETITION,
            quick,
        }
    }

    /// Chooses between two numbers of tasks.
    #[must_use]
    pub fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// What an operation cost, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Median over the repetitions of the time that `rep` reported.
    pub wall: f64,
    /// Processor time of the whole process over all repetitions.
    pub cpu: f64,
}

/// Measures `rep`, which performs an operation the given number of times and returns the time
/// taken.
pub fn repeat(plan: &Plan, mut rep: impl FnMut(u64) -> Duration) -> Cost {
    let mut count = 1;
    let mut warm = Duration::ZERO;
    // Doubling also warms up. An operation longer than a repetition is performed once at a time.
    loop {
        let time = rep(count);
        warm += time;
        if time >= plan.repetition {
            break;
        }
        count *= 2;
    }
    while warm < plan.warm_up {
        warm += rep(count);
    }
    let mut walls = Vec::new();
    let (mut total, cpu_before) = (Duration::ZERO, cpu_time());
    while total < plan.measured || walls.len() < REPETITIONS && total < plan.measured * 2 {
        let time = rep(count);
        total += time;
        walls.push(time.as_nanos() as f64 / count as f64);
    }
    let cpu = cpu_time().saturating_sub(cpu_before);
    let operations = walls.len() as f64 * count as f64;
    Cost { wall: stats::median(&walls), cpu: cpu.as_nanos() as f64 / operations }
}

/// Delays between two moments, each measured with one reading of the clock at either end.
#[derive(Debug)]
pub struct Delays {
    clock: f64,
    samples: Vec<f64>,
}

impl Delays {
    /// Starts without delays, and measures the cost of a clock reading.
    #[must_use]
    pub fn new() -> Delays {
        let costs: Vec<f64> = (0..1001)
            .map(|_| {
                let first = Instant::now();
                first.elapsed().as_nanos() as f64
            })
            .collect();
        Delays { clock: stats::median(&costs), samples: Vec::new() }
    }

    /// Adds a delay, less the cost of a clock reading.
    pub fn add(&mut self, from: Instant, to: Instant) {
        let delay = to.saturating_duration_since(from).as_nanos() as f64;
        self.samples.push((delay - self.clock).max(0.0));
    }

    /// Returns the median and the 99th percentile.
    #[must_use]
    pub fn p50_and_p99(&self) -> (f64, f64) {
        (stats::median(&self.samples), stats::quantile(&self.samples, 0.99))
    }

    /// Returns the longest delay, or 0 if there are no delays.
    #[must_use]
    pub fn longest(&self) -> f64 {
        self.samples.iter().copied().fold(0.0, f64::max)
    }
}

impl Default for Delays {
    fn default() -> Delays {
        Delays::new()
    }
}

/// Calls `sample` for the warm-up time of the plan, then keeps the samples of the measured time.
pub fn sample(plan: &Plan, mut sample: impl FnMut() -> (Instant, Instant)) -> Delays {
    let began = Instant::now();
    while began.elapsed() < plan.warm_up {
        sample();
    }
    let mut delays = Delays::new();
    let began = Instant::now();
    while began.elapsed() < plan.measured {
        let (from, to) = sample();
        delays.add(from, to);
    }
    delays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_that_of_one_operation() {
        let plan = Plan::new(true);
        let cost = repeat(&plan, |n| Duration::from_nanos(50 * n));
        assert_eq!(cost.wall, 50.0);
    }

    #[test]
    fn an_operation_longer_than_the_plan_is_still_measured() {
        let plan = Plan::new(true);
        let cost = repeat(&plan, Duration::from_secs);
        assert_eq!(cost.wall, 1e9);
    }

    #[test]
    fn the_clock_is_not_part_of_a_delay() {
        let mut delays = Delays::new();
        let now = Instant::now();
        delays.add(now, now);
        delays.add(now, now + Duration::from_micros(5));
        let (_, p99) = delays.p50_and_p99();
        assert!(p99 <= 5000.0);
    }
}
