//! Measuring within one process: the settings of a measurement, and its results.

pub mod busy;

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::cases::{CONTENDERS, ITEM_NANOS, LOCKS, MESSAGES, P50, P99, SPREAD_OF, VALUES};
use super::kernels::data::item;
use super::runtimes::rings::Traffic;
use crate::clock::cpu_time;
use crate::figures::cases::{CPU, TIME, Values};
use crate::figures::harness::{Delays, Plan, repeat};
use crate::figures::stats::median;
use crate::figures::work::Work;
use crate::figures::{memory, tree};

/// The settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How long to measure.
    pub plan: Plan,
    /// Number of worker threads.
    pub workers: usize,
    /// The speed of the machine.
    pub speed: Speed,
}

/// The speed of the machine. All processes of a run get the same values, so that all have the
/// same work to do.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Steps of [`Work`] that take a microsecond.
    pub steps_per_us: u64,
    /// Steps of an item that takes 20 ns. They exceed what one item could do in that time, as a
    /// processor works on several items at once.
    pub steps_per_item: u64,
}

impl Speed {
    /// Measures the speed of this machine at present, as the fastest of many trials.
    #[must_use]
    pub fn measure() -> Speed {
        const STEPS: u64 = 24;
        const ITEMS: u64 = 20_000;
        let trials = (0..20).map(|_| {
            let began = Instant::now();
            black_box((0..black_box(ITEMS)).map(|at| item(at, black_box(STEPS))).sum::<u64>());
            began.elapsed().as_nanos().max(1) as u64
        });
        let fastest = trials.min().unwrap_or(1);
        let millisecond = Work::calibrate(Duration::from_millis(1));
        Speed {
            steps_per_us: (millisecond.steps() / 1000).max(1),
            steps_per_item: (STEPS * ITEMS * ITEM_NANOS / fastest).max(1),
        }
    }
}

/// The size of a case: for figures, and for a quick look.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub usize, pub usize);

impl Setting {
    /// Chooses the number that this measurement takes.
    #[must_use]
    pub fn size(&self, size: Size) -> usize {
        self.plan.size(size.0, size.1)
    }

    /// Work that takes `length`.
    #[must_use]
    pub fn work(&self, length: Duration) -> Work {
        let steps = u128::from(self.speed.steps_per_us) * length.as_nanos() / 1000;
        Work::of_steps(u64::try_from(steps).unwrap_or(u64::MAX))
    }
}

/// The results of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Values by the keys of the case's parts, and the processor time.
    pub values: Values,
    /// The result of the work, if it has one.
    pub checksum: Option<u64>,
}

impl Measured {
    /// Values without a result of the work.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = (&'static str, f64)>) -> Measured {
        let values = values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Measured { values, checksum: None }
    }
}

/// Measures `operation`, which performs an operation the given number of times and returns the
/// time taken.
pub fn repeated(setting: &Setting, operation: impl FnMut(u64) -> Duration) -> Measured {
    let cost = repeat(&setting.plan, operation);
    Measured::of([(TIME, cost.wall), (CPU, cost.cpu)])
}

/// The same for an operation that deals with `things` things at once. Returns the cost of one of
/// them.
pub fn shared_out(
    setting: &Setting,
    things: usize,
    operation: impl FnMut(u64) -> Duration,
) -> Measured {
    let mut measured = repeated(setting, operation);
    measured.values.values_mut().for_each(|value| *value /= things as f64);
    measured
}

/// Measures trees of `count` nodes that are cancelled: the time of the cancellation per node, and
/// the time of the step after it.
pub fn cancelled_nodes(
    setting: &Setting,
    count: usize,
    afterwards: &'static str,
    cancelled: impl FnMut(usize) -> (Duration, Duration),
) -> Measured {
    let (time, after) = tree::of_a_node(&setting.plan, count, cancelled);
    Measured::of([(TIME, time), (afterwards, after)])
}

/// The start and end of a contender.
pub type Stint = (Instant, Instant);

/// The time of each contender, from the start of the first one.
fn since_the_first(stints: &[Stint]) -> impl Iterator<Item = Duration> {
    let first = stints.iter().map(|stint| stint.0).min().expect("there are some");
    stints.iter().map(move |stint| stint.1 - first)
}

/// Measures contenders for one lock, each of which takes the lock the given number of times.
/// Returns the cost of a lock acquisition.
pub fn contended(setting: &Setting, mut run: impl FnMut(usize) -> Vec<Stint>) -> Measured {
    let each = setting.size(LOCKS);
    shared_out(setting, CONTENDERS * each, |n| {
        (0..n).filter_map(|_| since_the_first(&run(each)).max()).sum()
    })
}

/// Measures the same contenders. Returns the ratio of the slowest one's time to the fastest
/// one's.
pub fn spread(setting: &Setting, mut run: impl FnMut(usize) -> Vec<Stint>) -> Measured {
    let each = setting.size(LOCKS);
    let spreads: Vec<_> = (0..setting.plan.size(11, 2))
        .map(|_| {
            let seconds: Vec<_> =
                since_the_first(&run(each)).map(|time| time.as_secs_f64()).collect();
            seconds.iter().copied().fold(0.0, f64::max)
                / seconds.into_iter().fold(f64::INFINITY, f64::min)
        })
        .collect();
    Measured::of([(SPREAD_OF, median(&spreads))])
}

/// Measures the cost per value of a channel. `run` passes the given number of values.
pub fn passed(setting: &Setting, mut run: impl FnMut(usize)) -> Measured {
    let values = setting.size(VALUES);
    shared_out(setting, values, |n| {
        let began = Instant::now();
        (0..n).for_each(|_| run(values));
        began.elapsed()
    })
}

/// Measures the cost per message of a ring. `run` passes the messages.
pub fn ring(setting: &Setting, traffic: Traffic, mut run: impl FnMut(Traffic)) -> Measured {
    let messages = setting.size(MESSAGES);
    shared_out(setting, messages, |n| {
        let began = Instant::now();
        (0..n).for_each(|_| run(Traffic { messages, ..traffic }));
        began.elapsed()
    })
}

/// Measures work that has a result, which must be the same each time.
///
/// # Panics
/// If the result changes.
pub fn timed(setting: &Setting, mut work: impl FnMut() -> u64) -> Measured {
    let mut expected = None;
    let mut measured = repeated(setting, |n| {
        let mut result = 0;
        let began = Instant::now();
        for _ in 0..n {
            result = black_box(work());
        }
        let time = began.elapsed();
        assert_eq!(result, *expected.get_or_insert(result), "the work had another result before");
        time
    });
    measured.checksum = expected;
    measured
}

/// Measures work on a copy of `original`, which is made before the clock starts.
///
/// # Panics
/// If the result changes.
pub fn timed_on_copies<T: Clone>(
    setting: &Setting,
    original: &[T],
    mut work: impl FnMut(&mut [T]),
    result: impl Fn(&[T]) -> u64,
) -> Measured {
    let mut copy = original.to_vec();
    let mut expected = None;
    let mut measured = repeated(setting, |n| {
        let mut time = Duration::ZERO;
        for _ in 0..n {
            copy.clone_from_slice(original);
            let began = Instant::now();
            work(black_box(&mut copy));
            time += began.elapsed();
        }
        let result = result(&copy);
        assert_eq!(result, *expected.get_or_insert(result), "the work had another result before");
        time
    });
    measured.checksum = expected;
    measured
}

/// The time of a spawn and of the first instruction of its task.
pub type Delay = (Instant, Instant);

/// Parameters of the case `start-elsewhere`. The time between two spawns lets the other worker
/// find out that there is no work. The child's computation makes it worth stealing. The limit
/// ends the parent's computation if a runtime has put the child where no other worker can take
/// it.
pub const ELSEWHERE_GAP: Duration = Duration::from_micros(5);
/// See [`ELSEWHERE_GAP`].
pub const ELSEWHERE_WORK: Duration = Duration::from_micros(20);
/// See [`ELSEWHERE_GAP`].
pub const ELSEWHERE_LIMIT: Duration = Duration::from_millis(2);
/// Time between two spawns of the case `start-outside`, after which all workers are asleep.
pub const OUTSIDE_GAP: Duration = Duration::from_micros(200);

/// Spawns between two readings of the clock that ends the measurement.
const BLOCK: u64 = 64;

/// Measures delays in blocks of the given number. Returns p50 and p99.
pub fn delays(setting: &Setting, mut block: impl FnMut(u64) -> Vec<Delay>) -> Measured {
    let Setting { plan, .. } = setting;
    let began = Instant::now();
    while began.elapsed() < plan.warm_up {
        block(BLOCK);
    }
    let mut delays = Delays::new();
    let began = Instant::now();
    while began.elapsed() < plan.measured {
        block(BLOCK).into_iter().for_each(|(from, to)| delays.add(from, to));
    }
    let (p50, p99) = delays.p50_and_p99();
    Measured::of([(P50, p50), (P99, p99)])
}

/// Computes for `length` without calling the scheduler.
pub fn spin(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        spin_loop();
    }
}

/// Computes until `is_so` returns true, or for `limit` at most.
pub fn spin_until(limit: Duration, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() && began.elapsed() < limit {
        spin_loop();
    }
}

/// Returns the bytes per thing of `count` things that `make` makes. One must have been made
/// before.
///
/// # Errors
/// There is not enough memory, or the kernel does not report its use.
pub fn memory_of<T>(
    count: usize,
    at_most: usize,
    make: impl FnOnce(usize) -> T,
) -> anyhow::Result<(f64, T)> {
    memory::need(count * at_most)?;
    let base = memory::settled()?;
    let made = make(count);
    let full = memory::used()?;
    Ok(((full - base) / count as f64, made))
}

/// The time between two jobs of the control loop, and the time of a job.
const PERIOD: Duration = Duration::from_millis(10);
const CONTROL_JOB: Duration = Duration::from_micros(100);
/// Number of jobs of the control loop.
const CONTROL_JOBS: Size = Size(200, 10);

/// A job of the control loop.
#[derive(Clone, Debug)]
pub struct ControlJob {
    work: Work,
    done: Arc<AtomicUsize>,
}

impl ControlJob {
    /// Performs the job.
    pub fn run(self) {
        self.work.run(1);
        self.done.fetch_add(1, Ordering::Release);
    }
}

/// Submits a job every 10 ms and measures the processor time that the process takes per job.
///
/// # Errors
/// A job is not done a second after the last one was submitted.
pub fn control_loop(
    setting: &Setting,
    mut submit: impl FnMut(ControlJob),
) -> anyhow::Result<Measured> {
    let jobs = setting.size(CONTROL_JOBS);
    let job = ControlJob { work: setting.work(CONTROL_JOB), done: Arc::default() };
    // Once beforehand, so that threads are started and pages touched.
    submit(job.clone());
    std::thread::sleep(PERIOD);
    let cpu_before = cpu_time();
    for _ in 0..jobs {
        submit(job.clone());
        std::thread::sleep(PERIOD);
    }
    let cpu = cpu_time().saturating_sub(cpu_before);
    let late = Instant::now();
    while job.done.load(Ordering::Acquire) <= jobs {
        ensure!(late.elapsed() < Duration::from_secs(1), "a job of the control loop was lost");
        std::thread::yield_now();
    }
    Ok(Measured::of([(CPU, cpu.as_nanos() as f64 / jobs as f64)]))
}

#[cfg(test)]
pub(super) fn moment(workers: usize) -> Setting {
    let measured = Duration::from_millis(1);
    let plan = Plan { warm_up: Duration::ZERO, measured, ..Plan::new(true) };
    Setting { plan, workers, speed: Speed { steps_per_us: 10, steps_per_item: 2 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_steps_in_proportion_to_its_length() {
        let speed = Speed { steps_per_us: 300, ..moment(1).speed };
        let setting = Setting { speed, ..moment(1) };
        assert_eq!(setting.work(Duration::from_millis(2)).steps(), 600_000);
        assert_eq!(setting.work(Duration::from_nanos(20)).steps(), 6);
    }

    #[test]
    fn the_speed_of_this_machine_is_some() {
        let Speed { steps_per_us, steps_per_item } = Speed::measure();
        assert!(steps_per_us > 1 && (1..1000).contains(&steps_per_item));
    }

    #[test]
    fn the_result_goes_with_the_time() {
        let measured = timed(&moment(1), || 7);
        assert_eq!(measured.checksum, Some(7));
        assert!(measured.values[TIME] > 0.0 && measured.values.contains_key(CPU));
    }

    #[test]
    #[should_panic(expected = "another result")]
    fn a_result_that_changes_is_an_error() {
        let mut calls = 0;
        timed(&moment(1), || {
            calls += 1;
            calls
        });
    }

    #[test]
    fn each_copy_is_worked_on_once() {
        let measured = timed_on_copies(&moment(1), &[1, 2], |v| v[0] += 1, |v| v[0]);
        assert_eq!(measured.checksum, Some(2));
    }

    #[test]
    fn the_cost_is_divided_among_the_things() {
        let measured = shared_out(&moment(1), 10, Duration::from_micros);
        assert_eq!(measured.values[TIME], 100.0);
    }
}
