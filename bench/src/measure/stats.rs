//! Medians and their spread.

use serde::Serialize;

use super::rng::Rng;
use super::text::Unit;

/// A value over all rounds: NaN, or `null` in JSON, if there is none.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// Median over the rounds.
    pub value: f64,
    /// The interval that holds the median with 90 % probability.
    pub low: f64,
    /// The upper bound of that interval.
    pub high: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The value of each round.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// Formats the interval; empty if there is no value.
    pub fn interval(&self, unit: Unit) -> String {
        match self.rounds[..] {
            [] => String::new(),
            _ => format!("{} .. {}", unit.show(self.low), unit.show(self.high)),
        }
    }
}

impl From<Vec<f64>> for Spread {
    fn from(rounds: Vec<f64>) -> Spread {
        let (low, high) = interval_of_median(&rounds);
        let [min, value, max] = [0.0, 0.5, 1.0].map(|part| quantile(&rounds, part));
        Spread { value, low, high, min, max, rounds }
    }
}

/// The value below which `part` (0 to 1) of the values lie, interpolated; NaN if there are none.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = part.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// The median; NaN if there are no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Number of resamples of a bootstrap.
const RESAMPLES: usize = 2000;

/// The interval that holds the median with a probability of 90 %, by the bootstrap (Efron, 1979).
///
/// The same values give the same interval: the resamples come from a fixed seed.
pub fn interval_of_median(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    let mut rng = Rng::new(1);
    let medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let resample: Vec<f64> = values.iter().map(|_| *rng.pick(values)).collect();
            median(&resample)
        })
        .collect();
    (quantile(&medians, 0.05), quantile(&medians, 0.95))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[0.0, 10.0], 0.99), 9.9);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_interval_holds_the_median_and_shrinks_with_more_values() {
        let few: Vec<f64> = (0..5).map(f64::from).collect();
        let many: Vec<f64> = (0..500).map(|n| f64::from(n % 5)).collect();
        let (low, high) = interval_of_median(&few);
        assert!(low <= 2.0 && 2.0 <= high, "{low} to {high}");
        let (tight_low, tight_high) = interval_of_median(&many);
        assert!(tight_high - tight_low < high - low);
        assert_eq!(interval_of_median(&[7.0; 4]), (7.0, 7.0));
    }
}
