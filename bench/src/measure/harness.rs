//! Repetition within one process: calibrates, warms up, measures and takes the median.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use super::machine::cpu_time;
use super::stats;
use super::work::{Speed, Work};

/// The values of a process by their keys: nanoseconds per operation, or bytes per task.
pub type Values = BTreeMap<String, f64>;

/// Median time of an operation.
pub const TIME: &str = "time";
/// Processor time of an operation, on all threads.
pub const CPU: &str = "cpu";
/// Median delay.
pub const P50: &str = "p50";
/// The 99th percentile of the delays.
pub const P99: &str = "p99";
/// Bytes of a task.
pub const BYTES: &str = "bytes";

/// How long and with what to measure.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Time before anything counts.
    pub warm_up: Duration,
    /// Minimum of measured time.
    pub measured: Duration,
    /// Minimum duration of a repetition.
    pub repetition: Duration,
    /// A quick look, in smaller sizes.
    pub quick: bool,
    /// Number of worker threads.
    pub workers: usize,
    /// The speed of the machine.
    pub speed: Speed,
    /// The number at the end of the case's name, for a case of a family.
    pub number: u64,
}

/// A number of things: for figures, and for a quick look.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub usize, pub usize);

/// Target duration of a repetition: long compared with the clock, short compared with an
/// interruption.
const REPETITION: Duration = Duration::from_millis(2);
/// Minimum number of repetitions, unless they take twice the planned time.
const REPETITIONS: usize = 11;

impl Setting {
    /// The setting for figures, or for a quick look at them.
    pub fn new(quick: bool, workers: usize, speed: Speed) -> Setting {
        let (warm_up, measured) = if quick { (10, 40) } else { (60, 240) };
        let [warm_up, measured] = [warm_up, measured].map(Duration::from_millis);
        Setting { warm_up, measured, repetition: REPETITION, quick, workers, speed, number: 0 }
    }

    /// Chooses the number that this measurement takes.
    pub fn size(&self, Size(full, quick): Size) -> usize {
        if self.quick { quick } else { full }
    }

    /// Work that takes `length`.
    pub fn work(&self, length: Duration) -> Work {
        let steps = u128::from(self.speed.steps_per_us) * length.as_nanos() / 1000;
        Work { steps: u64::try_from(steps).unwrap_or(u64::MAX) }
    }
}

/// The results of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Values by their keys.
    pub values: Values,
    /// The result of the work, if it has one.
    pub checksum: Option<u64>,
}

impl Measured {
    /// Values without a result of the work.
    pub fn of<const N: usize>(values: [(&str, f64); N]) -> Measured {
        Measured {
            values: values.map(|(key, value)| (key.to_owned(), value)).into(),
            checksum: None,
        }
    }

    /// Adds a value.
    pub fn and(mut self, key: &str, value: f64) -> Measured {
        self.values.insert(key.to_owned(), value);
        self
    }

    /// Divides the values among `things` things.
    pub fn each(mut self, things: usize) -> Measured {
        self.values.values_mut().for_each(|value| *value /= things as f64);
        self
    }
}

/// What the measurement of a case comes to.
pub type CaseResult = anyhow::Result<Measured>;

/// Measures a case in this process.
pub type Run = fn(&Setting) -> CaseResult;

/// Cases, by name. A name that ends with a hyphen is that of a family: its cases have a number
/// after it.
pub type Table = &'static [(&'static str, Run)];

/// The number of the case `case` in a family: `10k` is ten thousand, and times are microseconds.
pub fn number_in(family: &str, case: &str) -> Option<u64> {
    let text = case.strip_prefix(family).filter(|_| family.ends_with('-'))?;
    let digits = text.trim_end_matches(char::is_alphabetic);
    let factor = match &text[digits.len()..] {
        "" | "us" => 1,
        "k" | "ms" => 1000,
        _ => return None,
    };
    Some(digits.parse::<u64>().ok()? * factor)
}

/// The time of `n` calls of `call`, each with its number.
#[inline(always)]
pub fn time<T>(n: u64, mut call: impl FnMut(u64) -> T) -> Duration {
    let began = Instant::now();
    for i in 0..n {
        drop(call(i));
    }
    began.elapsed()
}

/// The part of `time` that `n` operations take, if `done` operations take `time`.
pub fn scale(time: Duration, n: u64, done: u64) -> Duration {
    if n == done { time } else { time.mul_f64(n as f64 / done as f64) }
}

/// Measures `rep`, which performs an operation the given number of times and returns the time
/// taken. Returns the median over the repetitions of that time, and the processor time of the
/// whole process over all repetitions.
pub fn repeated(setting: &Setting, mut rep: impl FnMut(u64) -> Duration) -> Measured {
    let mut count = 1;
    let mut warm = Duration::ZERO;
    // Doubling also warms up. An operation longer than a repetition is performed once at a time.
    loop {
        let time = rep(count);
        warm += time;
        if time >= setting.repetition {
            break;
        }
        count *= 2;
    }
    while warm < setting.warm_up {
        warm += rep(count);
    }
    let mut walls = Vec::new();
    let (mut total, cpu_before) = (Duration::ZERO, cpu_time());
    while total < setting.measured || walls.len() < REPETITIONS && total < setting.measured * 2 {
        let time = rep(count);
        total += time;
        walls.push(time.as_nanos() as f64 / count as f64);
    }
    let cpu = cpu_time().saturating_sub(cpu_before);
    let operations = walls.len() as f64 * count as f64;
    Measured::of([(TIME, stats::median(&walls)), (CPU, cpu.as_nanos() as f64 / operations)])
}

/// The same for an operation that deals with `things` things at once. Returns the cost of one of
/// them.
pub fn shared_out(
    setting: &Setting,
    things: usize,
    operation: impl FnMut(u64) -> Duration,
) -> Measured {
    repeated(setting, operation).each(things)
}

/// The result of work, which must be the same each time.
#[derive(Debug, Default)]
pub struct Checked(pub Option<u64>);

impl Checked {
    /// Compares a result with the first one.
    ///
    /// # Panics
    /// If they differ.
    #[track_caller]
    pub fn check(&mut self, result: u64) {
        assert_eq!(result, *self.0.get_or_insert(result), "the work had another result before");
    }
}

/// Measures work that has a result.
///
/// # Panics
/// If the result changes.
pub fn timed(setting: &Setting, mut work: impl FnMut() -> u64) -> Measured {
    let mut checked = Checked::default();
    let measured = repeated(setting, |n| {
        let mut result = 0;
        let time = time(n, |_| result = black_box(work()));
        checked.check(result);
        time
    });
    Measured { checksum: checked.0, ..measured }
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
    let (mut copy, mut checked) = (original.to_vec(), Checked::default());
    let measured = repeated(setting, |n| {
        let mut time = Duration::ZERO;
        for _ in 0..n {
            copy.clone_from_slice(original);
            let began = Instant::now();
            work(black_box(&mut copy));
            time += began.elapsed();
        }
        checked.check(result(&copy));
        time
    });
    Measured { checksum: checked.0, ..measured }
}

/// The start and the end of a delay.
pub type Delay = (Instant, Instant);

/// Delays between two moments, each measured with one reading of the clock at either end.
pub struct Delays {
    clock: f64,
    samples: Vec<f64>,
}

impl Delays {
    /// Starts without delays, and measures the cost of a clock reading.
    #[expect(clippy::new_without_default, reason = "it takes time")]
    pub fn new() -> Delays {
        let cost = |_| Instant::now().elapsed().as_nanos() as f64;
        let costs: Vec<f64> = (0..1001).map(cost).collect();
        Delays { clock: stats::median(&costs), samples: Vec::new() }
    }

    /// Adds a delay, less the cost of a clock reading.
    pub fn add(&mut self, (from, to): Delay) {
        let delay = to.saturating_duration_since(from).as_nanos() as f64;
        self.samples.push((delay - self.clock).max(0.0));
    }

    /// Returns the median and the 99th percentile.
    pub fn p50_and_p99(&self) -> Measured {
        let [p50, p99] = [0.5, 0.99].map(|part| stats::quantile(&self.samples, part));
        Measured::of([(P50, p50), (P99, p99)])
    }

    /// Returns the longest delay, or 0 if there are no delays.
    pub fn longest(&self) -> f64 {
        self.samples.iter().copied().fold(0.0, f64::max)
    }
}

/// Spawns between two readings of the clock that ends the measurement.
pub const BLOCK: u64 = 64;

/// Measures delays in blocks. Returns p50 and p99.
pub fn starts(setting: &Setting, mut start: impl FnMut() -> Delay) -> Measured {
    delays(setting, BLOCK, |n| (0..n).map(|_| start()).collect::<Vec<_>>())
}

/// Measures delays one at a time. Returns p50 and p99.
pub fn single_delays(setting: &Setting, mut start: impl FnMut() -> Delay) -> Measured {
    delays(setting, 1, |_| [start()])
}

/// Measures delays in blocks of `size`. Returns p50 and p99.
pub fn delays<B: IntoIterator<Item = Delay>>(
    setting: &Setting,
    size: u64,
    mut block: impl FnMut(u64) -> B,
) -> Measured {
    let began = Instant::now();
    while began.elapsed() < setting.warm_up {
        block(size);
    }
    let mut delays = Delays::new();
    let began = Instant::now();
    while began.elapsed() < setting.measured {
        block(size).into_iter().for_each(|delay| delays.add(delay));
    }
    delays.p50_and_p99()
}

#[cfg(test)]
pub(crate) fn moment(workers: usize) -> Setting {
    let (warm_up, measured) = (Duration::ZERO, Duration::from_millis(1));
    let speed = Speed { steps_per_us: 10, steps_per_item: 2 };
    Setting { warm_up, measured, ..Setting::new(true, workers, speed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_that_of_one_operation_however_long_it_is() {
        let setting = Setting::new(true, 1, moment(1).speed);
        assert_eq!(repeated(&setting, |n| Duration::from_nanos(50 * n)).values[TIME], 50.0);
        assert_eq!(repeated(&setting, Duration::from_secs).values[TIME], 1e9);
        assert_eq!(shared_out(&moment(1), 10, Duration::from_micros).values[TIME], 100.0);
    }

    #[test]
    fn a_case_of_a_family_has_a_number() {
        let cases = ["ring-4", "ring-10k", "ring-1ms", "ring-batch-4", "ring-", "king-4"];
        let numbers = cases.map(|case| number_in("ring-", case));
        assert_eq!(numbers, [Some(4), Some(10_000), Some(1000), None, None, None]);
        assert_eq!(number_in("ring", "ring4"), None);
    }

    #[test]
    fn the_clock_is_not_part_of_a_delay() {
        let mut delays = Delays::new();
        let now = Instant::now();
        delays.add((now, now));
        delays.add((now, now + Duration::from_micros(5)));
        assert!(delays.p50_and_p99().values[P99] <= 5000.0);
    }

    #[test]
    fn work_is_steps_in_proportion_to_its_length() {
        let speed = Speed { steps_per_us: 300, ..moment(1).speed };
        let setting = Setting { speed, ..moment(1) };
        assert_eq!(setting.work(Duration::from_millis(2)).steps, 600_000);
        assert_eq!(setting.work(Duration::from_nanos(20)).steps, 6);
    }

    #[test]
    fn the_result_goes_with_the_time_and_each_copy_is_worked_on_once() {
        let measured = timed(&moment(1), || 7);
        assert_eq!(measured.checksum, Some(7));
        assert!(measured.values[TIME] > 0.0 && measured.values.contains_key(CPU));
        let measured = timed_on_copies(&moment(1), &[1, 2], |v| v[0] += 1, |v| v[0]);
        assert_eq!(measured.checksum, Some(2));
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
}
