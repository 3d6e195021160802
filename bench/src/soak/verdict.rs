//! What the samples say: each series with its line, and whether it leaks.

use super::sample::{SERIES, Sample, Series};
use super::slope::{self, Fit};

/// A series, and what has become of it at rest.
pub(crate) struct Row {
    pub(crate) series: &'static Series,
    /// Nothing, if there are too few samples.
    pub(crate) fit: Option<Fit>,
    /// Growth for each program of the fitted time.
    pub(crate) per_program: f64,
}

impl Row {
    pub(crate) fn leaks(&self) -> bool {
        self.fit.is_some_and(|fit| fit.sure_growth() > self.series.limit)
    }
}

/// A line for each series, through the samples at rest.
pub(crate) fn rows(samples: &[Sample]) -> Vec<Row> {
    let at_rest: Vec<&Sample> = samples.iter().filter(|sample| sample.at_rest).collect();
    let row = |(number, series)| {
        let of = |x: fn(&Sample) -> f64| {
            let points: Vec<(f64, f64)> =
                at_rest.iter().map(|sample| (x(sample), sample.values[number])).collect();
            let measured = points.iter().all(|point| !point.1.is_nan());
            measured.then(|| slope::of_second_half(&points)).flatten()
        };
        let per_program = of(|sample| sample.programs as f64).map_or(f64::NAN, |fit| fit.slope);
        Row { series, fit: of(|sample| sample.minutes), per_program }
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
        // Over the two minutes of the second half.
        assert_eq!(leaking(700.0 * 1024.0), ["heap in use"]);
        assert!(leaking(400.0 * 1024.0).is_empty());
        assert!(leaking(-1e6).is_empty());
    }

    #[test]
    fn growth_is_told_for_each_program() {
        let rows = rows(some(400, 100_000.0).all());
        assert!((rows[HEAP].per_program - 100.0).abs() < 1.0, "{}", rows[HEAP].per_program);
    }

    #[test]
    fn few_samples_and_missing_ones_judge_nothing() {
        assert!(rows(some(10, 1e9).all()).iter().all(|row| row.fit.is_none() && !row.leaks()));
        let mut missing = some(400, 1e9).all().to_vec();
        missing.iter_mut().for_each(|sample| sample.values[HEAP] = f64::NAN);
        assert!(rows(&missing)[HEAP].fit.is_none());
    }
}
