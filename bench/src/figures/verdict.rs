//! Targets and verdicts.

use serde::Serialize;

/// The target of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Upper limit in nanoseconds or bytes on the reference machine, or upper limit of a ratio.
    pub most: Option<f64>,
    /// Upper limit in units of r, on any machine.
    pub most_r: Option<f64>,
    ratio: bool,
}

/// Tolerance of ratios for noise.
const ROOM: f64 = 1.1;
/// Number of rounds needed to judge a ratio.
const RATIO_ROUNDS: usize = 15;

impl Target {
    /// No target: the figure is only stated.
    pub const STATED: Target = Target { most: None, most_r: None, ratio: false };

    /// At most `most` nanoseconds.
    #[must_use]
    pub const fn time(most: f64) -> Target {
        Target { most: Some(most), ..Target::STATED }
    }

    /// At most `most` bytes.
    #[must_use]
    pub const fn bytes(most: f64) -> Target {
        Target { most: Some(most), ..Target::STATED }
    }

    /// A ratio of at most `most`.
    #[must_use]
    pub const fn ratio(most: f64) -> Target {
        Target { most: Some(most), most_r: None, ratio: true }
    }

    /// Adds an upper limit in units of r. One of the two limits is enough.
    #[must_use]
    pub const fn in_r(self, most_r: f64) -> Target {
        Target { most_r: Some(most_r), ..self }
    }

    /// Judges a figure by its median, or a ratio by the upper bound of its median.
    ///
    /// `r` is the cost of an atomic read-modify-write in the same processes.
    #[must_use]
    pub fn judge(&self, median: f64, upper: f64, rounds: usize, r: f64) -> Verdict {
        let Some(most) = self.most else { return Verdict::Stated };
        if self.ratio {
            return match upper <= most * ROOM {
                _ if rounds < RATIO_ROUNDS => Verdict::TooFewRounds,
                true => Verdict::Met,
                false => Verdict::Missed,
            };
        }
        let absolute = median <= most;
        match self.most_r.map_or(absolute, |most_r| median <= most_r * r) {
            true if absolute => Verdict::Met,
            true => Verdict::MetInR,
            false if absolute => Verdict::MetInTime,
            false => Verdict::Missed,
        }
    }
}

/// Whether a target is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// There is no target.
    Stated,
    /// Met in every unit that the target has.
    Met,
    /// Met in units of r but not in time: this machine is slower than the reference.
    MetInR,
    /// Met in time but not in units of r: this machine is faster than the reference.
    MetInTime,
    /// Met in no unit.
    Missed,
    /// A ratio over too few rounds.
    TooFewRounds,
}

impl Verdict {
    /// The word in the table.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Stated => "",
            Verdict::Met => "yes",
            Verdict::MetInR => "yes, in r",
            Verdict::MetInTime => "yes, in time",
            Verdict::Missed => "no",
            Verdict::TooFewRounds => "few rounds",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_in_two_units_is_judged_in_both() {
        let target = Target::time(25.0).in_r(3.0);
        assert_eq!(target.judge(24.0, 0.0, 1, 8.5), Verdict::Met);
        assert_eq!(target.judge(26.0, 0.0, 1, 9.0), Verdict::MetInR);
        assert_eq!(target.judge(24.0, 0.0, 1, 4.0), Verdict::MetInTime);
        assert_eq!(target.judge(26.0, 0.0, 1, 8.0), Verdict::Missed);
        assert_eq!(Target::STATED.judge(26.0, 0.0, 1, 8.0), Verdict::Stated);
    }

    #[test]
    fn a_ratio_is_judged_by_its_upper_bound_over_enough_rounds() {
        let target = Target::ratio(1.0);
        assert_eq!(target.judge(1.0, 1.05, 15, 0.0), Verdict::Met);
        assert_eq!(target.judge(1.0, 1.15, 15, 0.0), Verdict::Missed);
        assert_eq!(target.judge(1.0, 1.05, 3, 0.0), Verdict::TooFewRounds);
    }
}
