//! Samples of the process, as the kernel and the allocator see it, and of the library's own
//! counters.

use std::fs;
use std::time::Duration;

use cygnet::Handle;

use super::state::Length;
use crate::measure::memory::field;

/// A sampled quantity.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// The unit for display.
    pub(crate) unit: Unit,
    /// The quantity leaks if its sure growth at rest, over the second half of the programs,
    /// exceeds this limit.
    pub(crate) limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Count,
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

macro_rules! series {
    ($($index:ident = $at:literal: $name:literal, $unit:ident, $limit:expr;)*) => {
        $(pub(crate) const $index: usize = $at;)*

        /// The limits are what pools and arenas may still grow by if a rare round needs more than
        /// all rounds before. The constants are the indices.
        pub(crate) const SERIES: &[Series] =
            &[$(Series { name: $name, unit: Unit::$unit, limit: $limit }),*];
    };
}

series! {
    HEAP = 0: "heap in use", Bytes, MIB;
    RESIDENT = 1: "resident memory", Bytes, 8.0 * MIB;
    VIRTUAL = 2: "address space", Bytes, 512.0 * MIB;
    MAPPINGS = 3: "mappings", Count, 64.0;
    THREADS = 4: "threads", Count, 3.0;
    DESCRIPTORS = 5: "open descriptors", Count, 3.0;
    STACKS = 6: "stacks", Count, 64.0;
    COROUTINES = 7: "live coroutines", Count, 3.0;
    TIMERS = 8: "timers", Count, 3.0;
    RETIRING = 9: "retire backlog", Count, 64.0;
    BLOCKING = 10: "blocking threads", Count, 3.0;
}

/// All quantities at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) minutes: f64,
    /// True between two rounds, when only the lasting runtime exists.
    pub(crate) at_rest: bool,
    pub(crate) programs: u64,
    /// In the order of [`SERIES`]; NaN if the system does not report a quantity.
    pub(crate) values: [f64; SERIES.len()],
}

impl Sample {
    /// Takes a sample, with the summed counters of these runtimes.
    pub(crate) fn take(
        since: Duration,
        at_rest: bool,
        programs: u64,
        runtimes: &[Handle],
    ) -> Sample {
        let mut values = [f64::NAN; SERIES.len()];
        values[HEAP] = heap_in_use();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |status: &str, name| field(status, name).unwrap_or(f64::NAN);
        values[RESIDENT] = field(&status, "VmRSS:") * KIB;
        values[VIRTUAL] = field(&status, "VmSize:") * KIB;
        values[THREADS] = field(&status, "Threads:");
        values[MAPPINGS] = fs::read("/proc/self/maps")
            .map_or(f64::NAN, |maps| maps.iter().filter(|byte| **byte == b'\n').count() as f64);
        values[DESCRIPTORS] =
            fs::read_dir("/proc/self/fd").map_or(f64::NAN, |files| files.count() as f64 - 1.0);
        values[STACKS..].fill(0.0);
        for metrics in runtimes.iter().map(Handle::metrics) {
            values[STACKS] += metrics.stacks as f64;
            for worker in &metrics.workers {
                values[COROUTINES] += worker.coroutines as f64;
                values[RETIRING] += worker.retiring as f64;
            }
            values[TIMERS] += metrics.timers() as f64;
            values[BLOCKING] += metrics.blocking.threads as f64;
        }
        Sample { minutes: since.as_secs_f64() / 60.0, at_rest, programs, values }
    }
}

/// Bytes allocated and not yet freed. Freed memory in a thread's own cache counts until the
/// thread ends.
#[cfg(target_env = "gnu")]
pub(crate) fn heap_in_use() -> f64 {
    // SAFETY: `mallinfo2` takes no argument, locks the state it reads, and returns a structure by
    // value.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks as f64 + info.hblkhd as f64
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn heap_in_use() -> f64 {
    f64::NAN
}

/// The samples of a run. Their memory is allocated at the beginning, so that it does not look
/// like a leak. When it is full, every second sample is dropped.
pub(crate) struct Samples {
    kept: Vec<Sample>,
    /// Minimum time between two samples of the same sort (at rest, or not).
    pub(crate) apart: Duration,
}

const MOST: usize = 4096;
/// Time between two samples of the same sort in a short run.
const APART: Duration = Duration::from_millis(100);
/// Number of samples of each sort in a long run.
const WANTED: f64 = 1200.0;

impl Samples {
    pub(crate) fn new(length: Length) -> Samples {
        let apart = match length {
            Length::Time(length) => length.div_f64(WANTED).clamp(APART, Duration::from_secs(60)),
            // A sample after each round, however short the round.
            Length::Rounds(_) => Duration::ZERO,
        };
        Samples { kept: Vec::with_capacity(MOST), apart }
    }

    pub(crate) fn push(&mut self, sample: Sample) {
        if self.kept.len() == MOST {
            for at_rest in [true, false] {
                let mut odd = false;
                self.kept.retain(|kept| {
                    odd ^= kept.at_rest == at_rest;
                    kept.at_rest != at_rest || odd
                });
            }
            self.apart *= 2;
        }
        // Two threads take samples, so an earlier sample may arrive later.
        let place = self.kept.partition_point(|kept| kept.minutes <= sample.minutes);
        self.kept.insert(place, sample);
    }

    /// Whether another sample of this sort is due.
    pub(crate) fn is_due(&self, at_rest: bool, since: Duration) -> bool {
        let last = self.kept.iter().rev().find(|sample| sample.at_rest == at_rest);
        let apart = if at_rest { self.apart } else { self.apart.max(Duration::from_millis(250)) };
        last.is_none_or(|last| since.as_secs_f64() - last.minutes * 60.0 >= apart.as_secs_f64())
    }

    /// Memory allocated at the beginning.
    pub(crate) fn bytes(&self) -> f64 {
        (self.kept.capacity() * size_of::<Sample>()) as f64
    }

    pub(crate) fn all(&self) -> &[Sample] {
        &self.kept
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Samples of a run, of both sorts in turn, with a heap that grows by `growth` per minute.
    pub(crate) fn some(count: usize, growth: f64) -> Samples {
        let mut samples = Samples::new(Length::Time(Duration::from_secs(60)));
        for number in 0..count {
            let minutes = number as f64 / 100.0;
            let mut values = [10.0; SERIES.len()];
            values[HEAP] = 1e6 + growth * minutes;
            let at_rest = number % 2 == 0;
            samples.push(Sample { minutes, at_rest, programs: number as u64 * 10, values });
        }
        samples
    }

    #[test]
    fn a_sample_has_all_values_that_linux_reports() {
        let runtime = cygnet::Runtime::builder().workers(2).build().unwrap();
        let sample = Sample::take(Duration::from_secs(6), true, 5, &[runtime.handle()]);
        assert_eq!(sample.minutes, 0.1);
        assert!(sample.values[RESIDENT] > 100.0 * KIB && sample.values[THREADS] >= 3.0);
        assert!(sample.values[MAPPINGS] > 5.0 && sample.values[DESCRIPTORS] >= 1.0);
        assert!(sample.values[VIRTUAL] > sample.values[RESIDENT]);
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn allocated_memory_is_in_use() {
        let before = heap_in_use();
        let large = std::hint::black_box(vec![1u8; 10 << 20]);
        let with = heap_in_use();
        drop(large);
        // Other tests allocate too, but not this much.
        assert!(with - before > 8.0 * MIB, "{before} {with}");
    }

    /// A thread may pause between taking a sample and handing it in.
    #[test]
    fn a_late_sample_is_inserted_in_order() {
        let mut samples = some(10, 0.0);
        let late = Sample { minutes: 0.035, ..samples.all()[3] };
        samples.push(late);
        assert!(samples.all().is_sorted_by(|a, b| a.minutes < b.minutes));
    }

    #[test]
    fn an_endless_run_is_kept_in_bounded_memory() {
        let samples = some(50_000, 1.0);
        assert!(samples.all().len() <= MOST && samples.all().len() >= MOST / 4);
        assert!(samples.all().is_sorted_by(|a, b| a.minutes < b.minutes));
        for at_rest in [true, false] {
            let of_a_sort = samples.all().iter().filter(|sample| sample.at_rest == at_rest);
            assert!(of_a_sort.count() > MOST / 10);
        }
        assert!(samples.apart > APART);
    }
}
