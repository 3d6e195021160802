//! Judges the samples: a line for each series, and whether the series leaks.

use super::sample::{SERIES, Sample, Series};
use super::slope::{self, Fit};

/// A series with its lines at rest.
pub(crate) struct Row {
    pub(crate) series: &'static Series,
    /// The line over the number of programs, which judges the series: unlike the time, that
    /// number does not depend on the speed of the machine. `None` if there are too few samples.
    pub(crate) by_program: Option<Fit>,
    /// The line over time, which is only reported.
    pub(crate) by_minute: Option<Fit>,
}

impl Row {
    pub(crate) fn leaks(&self) -> bool {
        self.by_program.is_some_and(|fit| fit.sure_growth() > self.series.limit)
    }
}

/// Fits the lines of each series through the samples at rest.
pub(crate) fn rows(samples: &[Sample]) -> Vec<Row> {
    let at_rest: Vec<&Sample> = samples.iter().filter(|sample| sample.at_rest).collect();
    let row = |(number, series)| {
        let of = |x: fn(&Sample) -> f64| {
            let points: Vec<(f64, f64)> =
                at_rest.iter().map(|sample| (x(sample), sample.values[number])).collect();
            let measured = points.iter().all(|point| !point.1.is_nan());
            measured.then(|| slope::of_second_half(&points)).flatten()
        };
        Row { series, by_program: of(|s| s.programs as f64), by_minute: of(|s| s.minutes) }
    };
    SERIES.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::HEAP;
    use super::super::sample::tests::some;
    use super::*;

    fn leaking(growth: f64) -> Vec<&'static str> {
        let rows = rows(some(400, growth).all());
        rows.iter().filter(|row| row.leaks()).map(|row| row.series.name).collect()
    }

    #[test]
    fn growth_beyond_the_limit_is_a_leak_and_less_is_none() {
        // The second half takes two minutes.
        assert_eq!(leaking(700.0 * 1024.0), ["heap in use"]);
        assert!(leaking(400.0 * 1024.0).is_empty());
        assert!(leaking(-1e6).is_empty());
        let slope = rows(some(400, 100_000.0).all())[HEAP].by_program.unwrap().slope;
        assert!((slope - 100.0).abs() < 1.0, "{slope} per program");
    }

    /// A machine with other load may have run most programs in a small part of the time.
    #[test]
    fn a_run_is_judged_by_its_programs_and_not_by_its_time() {
        let mut samples = some(60, 1e9).all().to_vec();
        for sample in &mut samples[..56] {
            sample.minutes /= 100.0;
        }
        let row = &rows(&samples)[HEAP];
        assert!(row.by_minute.is_none() && row.leaks());
    }

    #[test]
    fn too_few_or_missing_samples_have_no_verdict() {
        assert!(
            rows(some(10, 1e9).all()).iter().all(|row| row.by_program.is_none() && !row.leaks())
        );
        let mut missing = some(400, 1e9).all().to_vec();
        missing.iter_mut().for_each(|sample| sample.values[HEAP] = f64::NAN);
        assert!(rows(&missing)[HEAP].by_program.is_none());
    }
}
