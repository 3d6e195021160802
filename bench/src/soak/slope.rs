//! Detects growth: a robust line through the samples, with its confidence.
//!
//! The slope is the median of the slopes between all pairs of samples (Theil and Sen). A few
//! outliers, such as those of a round with many threads, do not move it. The interval is that of
//! Sen, by the normal approximation of Kendall's statistic. Successive samples are not
//! independent, so the true interval is wider. Therefore a series fails only if its *sure* growth
//! over the extent of the fit exceeds a limit of its own.

use crate::measure::stats;

/// The number of pairs is quadratic: longer series are thinned out to this many points.
const MOST_POINTS: usize = 800;
/// Minimum number of points for a fit.
pub(crate) const FEWEST_POINTS: usize = 8;
/// Quantile of the normal distribution for an interval of 99 %.
const Z: f64 = 2.576;

/// A line through samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// Growth per unit of x.
    pub(crate) slope: f64,
    /// Lower end of the 99 % interval of the slope.
    pub(crate) low: f64,
    /// Upper end of that interval.
    pub(crate) high: f64,
    /// The range of x that the fit covers.
    pub(crate) extent: f64,
    /// Values at the beginning and the end of the fit, each as the median of an eighth of the
    /// points.
    pub(crate) ends: (f64, f64),
}

impl Fit {
    /// The least growth over the extent of the fit; negative if there may have been shrinkage.
    pub(crate) fn sure_growth(&self) -> f64 {
        self.low * self.extent
    }
}

/// Fits a line to the second half of the samples (x, y), which are sorted by x. The first half is
/// left out because the pools fill then, and because one-time allocations happen then.
pub(crate) fn of_second_half(points: &[(f64, f64)]) -> Option<Fit> {
    let (first, last) = (points.first()?.0, points.last()?.0);
    let from = points.partition_point(|point| point.0 < (first + last) / 2.0);
    fit(&points[from..])
}

fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(f64, f64)> = points.iter().copied().step_by(step).collect();
    if points.len() < FEWEST_POINTS {
        return None;
    }
    let mut slopes = Vec::with_capacity(points.len() * (points.len() - 1) / 2);
    for (at, one) in points.iter().enumerate() {
        let later = points[at + 1..].iter().filter(|other| other.0 > one.0);
        slopes.extend(later.map(|other| (other.1 - one.1) / (other.0 - one.0)));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let count = points.len() as f64;
    let reach = Z * (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let pairs = slopes.len();
    let at = |place: f64| slopes.get((place.max(0.0) as usize).min(pairs.checked_sub(1)?)).copied();
    let eighth = (points.len() / 8).max(1);
    Some(Fit {
        slope: at(pairs as f64 / 2.0)?,
        low: at((pairs as f64 - reach) / 2.0)?,
        high: at((pairs as f64 + reach) / 2.0)?,
        extent: points[points.len() - 1].0 - points[0].0,
        ends: (median(&points[..eighth]), median(&points[points.len() - eighth..])),
    })
}

fn median(points: &[(f64, f64)]) -> f64 {
    stats::median(&points.iter().map(|point| point.1).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rng::Rng;

    /// A line with noise, in which every tenth sample is an outlier.
    fn noisy(slope: f64, count: usize) -> Vec<(f64, f64)> {
        let mut rng = Rng::new(5);
        let point = |at: usize| {
            let x = at as f64 / 10.0;
            let far_off = if at % 10 == 3 { 50_000.0 } else { 0.0 };
            (x, 1000.0 + slope * x + rng.below(100) as f64 + far_off)
        };
        (0..count).map(point).collect()
    }

    #[test]
    fn a_slope_is_found_among_noise_and_samples_far_off() {
        let fit = of_second_half(&noisy(100.0, 400)).unwrap();
        assert!((fit.slope - 100.0).abs() < 5.0, "{fit:?}");
        assert!(fit.low < 100.0 && 100.0 < fit.high, "{fit:?}");
        assert!((fit.extent - 19.9).abs() < 0.2, "{fit:?}");
        assert!(fit.sure_growth() > 1500.0, "{fit:?}");
        let thinned = of_second_half(&noisy(100.0, 20_000)).unwrap();
        assert!((thinned.slope - 100.0).abs() < 1.0, "{thinned:?}");
    }

    #[test]
    fn a_constant_series_has_no_sure_growth() {
        assert!(of_second_half(&noisy(0.0, 400)).unwrap().sure_growth() < 60.0);
        assert!(of_second_half(&noisy(-100.0, 400)).unwrap().sure_growth() < 0.0);
        let series = |count, y: fn(i32) -> i32| -> Fit {
            let points: Vec<_> = (0..count).map(|at| (at.into(), y(at).into())).collect();
            of_second_half(&points).unwrap()
        };
        assert_eq!(series(200, |at| at.min(90)).slope, 0.0, "growth in the first half alone");
        assert!(series(40, |at| at / 37).sure_growth() <= 0.0, "a step among few samples");
    }

    #[test]
    fn too_few_samples_have_no_fit() {
        assert_eq!(of_second_half(&[]), None);
        assert_eq!(of_second_half(&noisy(100.0, 13)), None);
        assert_eq!(of_second_half(&[(1.0, 1.0); 40]), None, "all of the same moment");
    }
}
