//! Computation of a known duration, for tasks that need something to do.

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use super::harness::time;

/// A computation of a fixed number of steps. It reads no clock and touches no memory.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The number of steps.
    pub steps: u64,
}

impl Work {
    /// No work.
    pub const NONE: Work = Work { steps: 0 };

    /// Work that is `factor` times as long.
    pub const fn times(self, factor: u64) -> Work {
        Work { steps: self.steps * factor }
    }

    /// Performs the work. Each step depends on the one before, so little is lost if the other
    /// hardware thread of the core computes too.
    #[inline(never)]
    pub fn run(self, seed: u64) -> u64 {
        black_box(xorshift(black_box(seed | 1), self.steps))
    }
}

/// Performs `steps` steps of xorshift64 (Marsaglia, 2003) from `x`.
#[inline(always)]
fn xorshift(mut x: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// Computes for `length` without calling the scheduler.
pub fn spin(length: Duration) {
    spin_until(length, || false);
}

/// Computes until `is_so` returns true, or for `limit` at most.
pub fn spin_until(limit: Duration, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() && began.elapsed() < limit {
        spin_loop();
    }
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
    /// Measures the speed of this machine at present. The fastest of many trials counts, as a
    /// computation can be delayed, but not sped up.
    pub fn measure() -> Speed {
        const TRIAL: Work = Work { steps: 1 << 16 };
        const STEPS: u64 = 24;
        const ITEMS: u64 = 20_000;
        const ITEM_NANOS: u64 = 20;
        let fastest = |trials, trial: &dyn Fn()| {
            let times = (0..trials).map(|_| time(1, |_| trial()).as_nanos().max(1) as u64);
            times.min().unwrap_or(1)
        };
        let item = fastest(20, &|| {
            black_box((0..black_box(ITEMS)).map(|at| item(at, black_box(STEPS))).sum::<u64>());
        });
        let work = fastest(40, &|| _ = TRIAL.run(1));
        Speed {
            steps_per_us: (TRIAL.steps * 1000 / work).max(1),
            steps_per_item: (STEPS * ITEMS * ITEM_NANOS / item).max(1),
        }
    }
}

/// An item: the number below 2^32 that `steps` steps of xorshift64 lead to.
#[inline]
pub fn item(at: u64, steps: u64) -> u64 {
    xorshift(at | 1, steps) >> 32
}

#[cfg(test)]
mod tests {
    use super::super::harness::Setting;
    use super::*;

    #[test]
    fn the_speed_of_this_machine_is_some() {
        let Speed { steps_per_us, steps_per_item } = Speed::measure();
        assert!(steps_per_us > 1 && (1..1000).contains(&steps_per_item));
        let setting = Setting::new(true, 1, Speed { steps_per_us, steps_per_item });
        let [short, long] = [10, 10_000].map(|us| setting.work(Duration::from_micros(us)));
        assert!(short.steps > 0 && short.steps < long.steps, "{short:?} {long:?}");
    }

    #[test]
    fn the_result_depends_on_the_seed_and_on_every_step() {
        let work = Work { steps: 10 };
        assert_ne!(work.run(1), work.run(3));
        assert_ne!(work.run(1), Work { steps: 11 }.run(1));
        assert_eq!(Work::NONE.run(7), 7);
    }
}
