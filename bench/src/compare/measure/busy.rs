//! Measuring computing tasks that keep every core busy.

use std::time::{Duration, Instant};

use super::{Delay, Measured, Setting, Stint, shared_out, since_the_first, timed};
use crate::compare::cases::{LONGEST, P50, P99};
use crate::figures::harness::{Delays, Plan};

/// The report of one of several tasks.
#[derive(Clone, Debug)]
pub struct Share {
    /// The start and the end of the task.
    pub stint: Stint,
    /// Some of the task's waits.
    pub waits: Vec<Delay>,
}

impl Share {
    /// Begins the report of a task with `turns` turns.
    #[must_use]
    pub fn begin(turns: u64) -> Share {
        let waits = Vec::with_capacity(turns.div_ceil(SAMPLED) as usize);
        let now = Instant::now();
        Share { stint: (now, now), waits }
    }

    /// Ends the report.
    #[must_use]
    pub fn end(self) -> Share {
        Share { stint: (self.stint.0, Instant::now()), ..self }
    }
}

/// Measures the wait of one turn in `SAMPLED`, as a reading of the clock takes as long as a short
/// turn.
const SAMPLED: u64 = 16;

/// Returns the time if the wait of this turn is measured.
#[inline]
#[must_use]
pub fn sampled(turn: u64) -> Option<Instant> {
    turn.is_multiple_of(SAMPLED).then(Instant::now)
}

/// Minimum duration of a repetition of a case in which every core is busy, long enough to hide
/// the starts and ends of the tasks.
const BUSY_REPETITION: Duration = Duration::from_millis(20);

impl Setting {
    fn with_long_repetitions(self) -> Setting {
        let repetition = if self.plan.quick { self.plan.repetition } else { BUSY_REPETITION };
        Setting { plan: Plan { repetition, ..self.plan }, ..self }
    }
}

/// Measures computing tasks. `run` does `things` things, and the cost is that of one. It returns
/// a result, which must be the same each time.
pub fn busy(setting: &Setting, things: usize, run: impl FnMut() -> u64) -> Measured {
    let mut measured = timed(&setting.with_long_repetitions(), run);
    measured.values.values_mut().for_each(|value| *value /= things as f64);
    measured
}

/// Measures computing tasks, from the start of the first to the end of the last, together with
/// their waits. `run` does `things` things, and the cost is that of one. It returns a result and
/// the reports of the tasks.
///
/// # Panics
/// If the result is not the same each time.
pub fn busy_with_waits(
    setting: &Setting,
    things: usize,
    mut run: impl FnMut() -> (u64, Vec<Share>),
) -> Measured {
    let mut expected = None;
    let (mut delays, mut measured_before) = (Delays::new(), Duration::ZERO);
    let mut measured = shared_out(&setting.with_long_repetitions(), things, |n| {
        let mut time = Duration::ZERO;
        for _ in 0..n {
            let (result, shares) = run();
            assert_eq!(
                result,
                *expected.get_or_insert(result),
                "the work had another result before"
            );
            let stints: Vec<_> = shares.iter().map(|share| share.stint).collect();
            time += since_the_first(&stints).max().unwrap_or_default();
            if measured_before >= setting.plan.warm_up {
                let waits = shares.iter().flat_map(|share| &share.waits);
                waits.for_each(|&(from, to)| delays.add(from, to));
            }
        }
        measured_before += time;
        time
    });
    let (p50, p99) = delays.p50_and_p99();
    let waits = [(P50, p50), (P99, p99), (LONGEST, delays.longest())];
    measured.values.extend(waits.map(|(key, value)| (key.to_owned(), value)));
    measured.checksum = expected;
    measured
}

#[cfg(test)]
mod tests {
    use super::super::moment;
    use super::*;
    use crate::figures::cases::TIME;

    /// Two tasks that begin one after the other, and the wait of one of them.
    #[test]
    fn tasks_are_timed_from_the_first_to_the_last_and_their_waits_go_beside_that() {
        let measured = busy_with_waits(&moment(1), 10, || {
            let now = Instant::now();
            let at = |us| now + Duration::from_micros(us);
            let wait = (at(0), at(1_000));
            let first = Share { stint: (at(0), at(3_000)), waits: vec![wait] };
            (7, vec![first, Share { stint: (at(2_000), at(5_000)), waits: Vec::new() }])
        });
        assert_eq!((measured.values[TIME], measured.checksum), (500_000.0, Some(7)));
        let near = 990_000.0..=1_000_000.0;
        assert!([P50, P99, LONGEST].iter().all(|&key| near.contains(&measured.values[key])));
    }

    #[test]
    fn one_turn_in_sixteen_is_sampled() {
        let samples = (0..64).filter(|&turn| sampled(turn).is_some());
        assert_eq!(samples.collect::<Vec<_>>(), [0, 16, 32, 48]);
    }
}
