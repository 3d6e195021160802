//! Targets and verdicts.

use serde::Serialize;

use super::stats::Spread;

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

    /// At most `most` nanoseconds or bytes.
    pub const fn most(most: f64) -> Target {
        Target { most: Some(most), ..Target::STATED }
    }

    /// A ratio of at most `most`.
    pub const fn ratio(most: f64) -> Target {
        Target { most: Some(most), most_r: None, ratio: true }
    }

    /// Adds an upper limit in units of r. One of the two limits is enough.
    pub const fn in_r(self, most_r: f64) -> Target {
        Target { most_r: Some(most_r), ..self }
    }

    /// Judges a figure by its median, or a ratio by the upper bound of its median.
    ///
    /// `r` is the cost of an atomic read-modify-write in the same processes.
    pub fn judge(&self, figure: &Spread, r: f64) -> Verdict {
        let Some(most) = self.most.filter(|_| !figure.rounds.is_empty()) else {
            return Verdict::Stated;
        };
        if self.ratio {
            return match figure.high <= most * ROOM {
                _ if figure.rounds.len() < RATIO_ROUNDS => Verdict::TooFewRounds,
                true => Verdict::Met,
                false => Verdict::Missed,
            };
        }
        let absolute = figure.value <= most;
        match self.most_r.map_or(absolute, |most_r| figure.value <= most_r * r) {
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
        let target = Target::most(25.0).in_r(3.0);
        for (value, r, verdict) in [
            (24.0, 8.5, Verdict::Met),
            (26.0, 9.0, Verdict::MetInR),
            (24.0, 4.0, Verdict::MetInTime),
            (26.0, 8.0, Verdict::Missed),
        ] {
            assert_eq!(target.judge(&vec![value].into(), r), verdict);
        }
        assert_eq!(Target::STATED.judge(&vec![26.0].into(), 8.0), Verdict::Stated);
        assert_eq!(target.judge(&Vec::new().into(), 8.0), Verdict::Stated);
    }

    #[test]
    fn a_ratio_is_judged_by_its_upper_bound_over_enough_rounds() {
        let judge = |rounds, high| {
            let figure = Spread { high, ..vec![1.0; rounds].into() };
            Target::ratio(1.0).judge(&figure, 0.0)
        };
        assert_eq!(judge(15, 1.05), Verdict::Met);
        assert_eq!(judge(15, 1.15), Verdict::Missed);
        assert_eq!(judge(3, 1.05), Verdict::TooFewRounds);
    }
}
