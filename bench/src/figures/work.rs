//! Computation of a known duration, for tasks that need something to do.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A computation of a fixed number of steps. It reads no clock and touches no memory.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    steps: u64,
}

/// The computation that is timed, and the number of trials.
const TRIAL: Work = Work { steps: 1 << 16 };
const TRIALS: u32 = 40;

impl Work {
    /// No work.
    pub const NONE: Work = Work { steps: 0 };

    /// Work that takes `length` on this machine at present. The fastest of many trials counts, as
    /// a computation can be delayed, but not sped up.
    #[must_use]
    pub fn calibrate(length: Duration) -> Work {
        let trials = (0..TRIALS).map(|_| {
            let began = Instant::now();
            TRIAL.run(1);
            began.elapsed().as_nanos().max(1)
        });
        let fastest = trials.min().unwrap_or(1);
        let steps = length.as_nanos() * u128::from(TRIAL.steps) / fastest;
        Work { steps: u64::try_from(steps).unwrap_or(u64::MAX) }
    }

    /// Work of `steps` steps.
    #[must_use]
    pub const fn of_steps(steps: u64) -> Work {
        Work { steps }
    }

    /// The number of steps.
    #[must_use]
    pub const fn steps(self) -> u64 {
        self.steps
    }

    /// Work that is `factor` times as long.
    #[must_use]
    pub const fn times(self, factor: u64) -> Work {
        Work { steps: self.steps * factor }
    }

    /// Performs the work. Each step depends on the one before (xorshift64, Marsaglia 2003), so
    /// little is lost if the other hardware thread of the core computes too.
    #[inline(never)]
    pub fn run(self, seed: u64) -> u64 {
        let mut x = black_box(seed | 1);
        for _ in 0..self.steps {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        black_box(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_time_is_more_steps() {
        let (short, long) = (Duration::from_micros(10), Duration::from_millis(10));
        let (short, long) = (Work::calibrate(short), Work::calibrate(long));
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
