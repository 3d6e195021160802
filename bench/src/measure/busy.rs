//! Measuring computing tasks that keep every core busy.

use std::time::{Duration, Instant};

use super::harness::{Checked, Delay, Delays, Measured, Setting, repeated, timed};

/// Key of the longest delay.
pub const LONGEST: &str = "longest";

/// The start and the end of a task.
pub type Stint = (Instant, Instant);

/// The time of each task, from the start of the first one.
pub(crate) fn since_the_first(stints: &[Stint]) -> impl Iterator<Item = Duration> {
    let first = stints.iter().map(|stint| stint.0).min().expect("there are some");
    stints.iter().map(move |stint| stint.1 - first)
}

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
    pub fn begin(turns: u64) -> Share {
        let waits = Vec::with_capacity(turns.div_ceil(SAMPLED) as usize);
        let now = Instant::now();
        Share { stint: (now, now), waits }
    }

    /// Ends the report.
    pub fn end(self) -> Share {
        Share { stint: (self.stint.0, Instant::now()), ..self }
    }
}

/// Measures the wait of one turn in `SAMPLED`, as a reading of the clock takes as long as a short
/// turn.
const SAMPLED: u64 = 16;

/// Returns the time if the wait of this turn is measured.
#[inline]
pub fn sampled(turn: u64) -> Option<Instant> {
    turn.is_multiple_of(SAMPLED).then(Instant::now)
}

/// Minimum duration of a repetition of a case in which every core is busy, long enough to hide
/// the starts and ends of the tasks.
const BUSY_REPETITION: Duration = Duration::from_millis(20);

fn with_long_repetitions(setting: &Setting) -> Setting {
    let repetition = if setting.quick { setting.repetition } else { BUSY_REPETITION };
    Setting { repetition, ..*setting }
}

/// Measures computing tasks. `run` does `things` things, and the cost is that of one. It returns
/// a result, which must be the same each time.
pub fn busy(setting: &Setting, things: usize, run: impl FnMut() -> u64) -> Measured {
    timed(&with_long_repetitions(setting), run).each(things)
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
    let mut checked = Checked::default();
    let (mut delays, mut measured_before) = (Delays::new(), Duration::ZERO);
    let mut measured = repeated(&with_long_repetitions(setting), |n| {
        let mut time = Duration::ZERO;
        for _ in 0..n {
            let (result, shares) = run();
            checked.check(result);
            let stints: Vec<_> = shares.iter().map(|share| share.stint).collect();
            time += since_the_first(&stints).max().unwrap_or_default();
            if measured_before >= setting.warm_up {
                shares.iter().flat_map(|share| &share.waits).for_each(|&wait| delays.add(wait));
            }
        }
        measured_before += time;
        time
    })
    .each(things)
    .and(LONGEST, delays.longest());
    measured.values.append(&mut delays.p50_and_p99().values);
    Measured { checksum: checked.0, ..measured }
}

#[cfg(test)]
mod tests {
    use super::super::harness::{P50, P99, TIME, moment};
    use super::*;

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
