//! Interleaved rounds: each subject is measured once per round, round after round.
//!
//! A measurement that other processes disturbed is repeated at the end of its round, a few times,
//! and the least disturbed attempt counts. A measurement that is still disturbed is kept and
//! counted, so that the page can say how quiet the machine was. Repeats have a budget, a part of
//! the time of the rounds themselves: on a machine that is never quiet, they would otherwise take
//! three times as long as everything else.

use std::time::Instant;

use clap::Args;
use serde::Serialize;

use super::machine::Machine;
use super::progress::Progress;

/// Maximum number of repeats of a disturbed measurement.
const REPEATS: u32 = 3;
/// Budget of the repeats, as a part of the time of first attempts.
const REPEATS_PART: f64 = 0.75;
/// Processor time that other processes may use without disturbing a measurement: this part of the
/// elapsed time, plus two ticks of the kernel's clock for rounding.
const FOREIGN_PART: f64 = 0.05;
const FOREIGN_SECONDS: f64 = 0.02;

/// Default numbers of rounds, for figures and for a quick look. A ratio is judged only over at
/// least `ROUNDS`.
const ROUNDS: u32 = 15;
const QUICK_ROUNDS: u32 = 3;

/// The arguments about rounds.
#[derive(Args, Clone, Debug, Default)]
pub struct Turns {
    /// Number of rounds over which the median is taken, with a process for each measurement and
    /// round [default: 15, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Measure for a shorter time and in smaller sizes: a look, not figures for publication
    #[arg(long)]
    pub quick: bool,
}

impl Turns {
    /// The number of rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { QUICK_ROUNDS } else { ROUNDS })
    }
}

/// The facts about a run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The machine, versions and date.
    pub machine: Machine,
    /// Rounds.
    pub rounds: u32,
    /// Measured for a shorter time and in smaller sizes: not for publication.
    pub quick: bool,
    /// Total duration.
    pub seconds: f64,
    /// Measurements that other processes disturbed and that were kept nevertheless.
    pub disturbed: u32,
    /// Repeats of disturbed measurements.
    pub repeated: u32,
}

impl Run {
    /// The facts about a run that ends now.
    pub fn new<M>(turns: &Turns, began: Instant, measured: &[Measured<M>]) -> Run {
        Run {
            machine: Machine::here(),
            rounds: turns.rounds(),
            quick: turns.quick,
            seconds: began.elapsed().as_secs_f64(),
            disturbed: measured.iter().map(|m| m.disturbed).sum(),
            repeated: measured.iter().map(|m| m.repeated).sum(),
        }
    }

    /// The head of a page. `more` follows the version of cygnet and the number of rounds.
    pub fn head(&self, more: [&str; 2]) -> String {
        let Machine { cygnet, rustc, date, .. } = &self.machine;
        let quick =
            if self.quick { ", in a hurry and in smaller sizes: not for publication" } else { "" };
        format!(
            "cygnet {cygnet}{}; {rustc}, {date}\n{}\n{} rounds{}{quick}, in {:.1} min; {} repeats of \
             disturbed measurements, {} disturbed ones kept\n",
            more[0],
            self.machine.line(),
            self.rounds,
            more[1],
            self.seconds / 60.0,
            self.repeated,
            self.disturbed,
        )
    }
}

/// Something that is measured in turn with other subjects.
pub trait Subject {
    /// The name for the progress bar.
    fn name(&self) -> String;

    /// Whether the subject is measured in round `round` (from 0) of `of` rounds.
    fn is_due(&self, _round: u32, _of: u32) -> bool {
        true
    }

    /// Whether other processes on the processor disturb the measurement.
    fn wants_quiet(&self) -> bool {
        true
    }
}

/// One measurement by a process of its own.
pub struct Attempt<M> {
    /// The result.
    pub measurement: M,
    /// Its duration.
    pub seconds: f64,
    /// Processor time that other processes used meanwhile, above the allowance, as a part of the
    /// duration.
    pub disturbance: f64,
}

impl<M> Attempt<M> {
    /// An attempt that took `seconds`, while other processes used `foreign` seconds of processor
    /// time.
    pub fn new(measurement: M, seconds: f64, foreign: f64) -> Attempt<M> {
        let disturbance = (foreign - FOREIGN_SECONDS) / seconds - FOREIGN_PART;
        Attempt { measurement, seconds, disturbance }
    }

    /// The same attempt with another result.
    ///
    /// # Errors
    /// The error of `map`.
    pub fn try_map<N, E>(self, map: impl FnOnce(M) -> Result<N, E>) -> Result<Attempt<N>, E> {
        let Attempt { measurement, seconds, disturbance } = self;
        Ok(Attempt { measurement: map(measurement)?, seconds, disturbance })
    }

    /// Whether the attempt should be repeated.
    fn counts_not(&self, subject: &impl Subject) -> bool {
        subject.wants_quiet() && self.disturbance > 0.0
    }
}

/// The measurements of one subject over all rounds.
pub struct Measured<M> {
    /// In the order of the rounds.
    pub measurements: Vec<M>,
    /// Total duration of its attempts, including discarded ones.
    pub seconds: f64,
    /// Number of measurements that were kept although they were disturbed.
    pub disturbed: u32,
    /// Number of repeats.
    pub repeated: u32,
}

impl<M> Default for Measured<M> {
    fn default() -> Measured<M> {
        Measured { measurements: Vec::new(), seconds: 0.0, disturbed: 0, repeated: 0 }
    }
}

/// Measures all subjects in turn, each by its index. Returns an entry for each subject.
///
/// # Errors
/// The first error of `measure`, which ends the measuring.
pub fn take<S: Subject, M>(
    turns: &Turns,
    subjects: &[S],
    mut measure: impl FnMut(usize) -> anyhow::Result<Attempt<M>>,
) -> anyhow::Result<(Run, Vec<Measured<M>>)> {
    let (began, rounds) = (Instant::now(), turns.rounds());
    let repeats = if turns.quick { 0 } else { REPEATS };
    let due = |round| (0..subjects.len()).filter(move |&at| subjects[at].is_due(round, rounds));
    let progress = Progress::of_measurements((0..rounds).map(|r| due(r).count() as u32).sum());
    let mut all: Vec<Measured<M>> = subjects.iter().map(|_| Measured::default()).collect();
    let mut budget = 0.0;
    for round in 0..rounds {
        let say = |what: &str| progress.say(format!("round {} of {rounds}: {what}", round + 1));
        let mut attempts = Vec::new();
        for at in due(round) {
            say(&subjects[at].name());
            let attempt = measure(at)?;
            budget += attempt.seconds * REPEATS_PART;
            all[at].seconds += attempt.seconds;
            attempts.push((at, attempt));
            progress.step();
        }
        // Subjects with the fewest repeats so far go first.
        attempts.sort_by_key(|&(at, _)| all[at].repeated);
        for _ in 0..repeats {
            for (at, best) in attempts.iter_mut() {
                let (subject, measured) = (&subjects[*at], &mut all[*at]);
                if budget <= 0.0 {
                    break;
                }
                if !best.counts_not(subject) {
                    continue;
                }
                say(&format!("{} again", subject.name()));
                let attempt = measure(*at)?;
                budget -= attempt.seconds;
                measured.seconds += attempt.seconds;
                measured.repeated += 1;
                if attempt.disturbance < best.disturbance {
                    *best = attempt;
                }
            }
        }
        for (at, best) in attempts {
            all[at].disturbed += u32::from(best.counts_not(&subjects[at]));
            all[at].measurements.push(best.measurement);
        }
    }
    Ok((Run::new(turns, began, &all), all))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl Subject for Named {
        fn name(&self) -> String {
            self.0.to_owned()
        }

        fn is_due(&self, round: u32, _of: u32) -> bool {
            self.0 != "first" || round == 0
        }

        fn wants_quiet(&self) -> bool {
            self.0 != "loud"
        }
    }

    /// Measures the subjects for `rounds` rounds. Each attempt takes one second; `outcome` maps
    /// the number of attempts before it to its value and its disturbance.
    fn played(
        names: &[&'static str],
        rounds: u32,
        outcome: impl Fn(u32) -> (u32, f64),
    ) -> Vec<Measured<u32>> {
        let subjects: Vec<Named> = names.iter().map(|&name| Named(name)).collect();
        let mut count = 0;
        take(&Turns { rounds: Some(rounds), quick: false }, &subjects, |_| {
            let (measurement, disturbance) = outcome(count);
            count += 1;
            Ok(Attempt { measurement, seconds: 1.0, disturbance })
        })
        .unwrap()
        .1
    }

    #[test]
    fn a_disturbed_measurement_is_repeated_after_its_round_and_the_least_disturbed_counts() {
        let all = played(&["a", "b"], 3, |n| (n, -0.05));
        assert_eq!(all[0].measurements, [0, 2, 4]);
        assert_eq!(all[1].measurements, [1, 3, 5]);
        assert!(all.iter().all(|m| m.repeated == 0 && m.disturbed == 0));
        let all = played(&["a", "b"], 1, |n| (n, if n == 0 { 0.2 } else { -0.05 }));
        assert_eq!(all[0].measurements, [2]);
        assert_eq!(all[1].measurements, [1]);
        assert_eq!((all[0].repeated, all[0].disturbed, all[0].seconds), (1, 0, 2.0));
        let all = played(&["a", "b"], 1, |n| (n, if n == 2 { 0.1 } else { 0.2 }));
        assert_eq!(all[0].measurements, [2]);
        assert_eq!(all[0].disturbed, 1);
    }

    #[test]
    fn a_machine_that_is_never_quiet_gets_a_bounded_number_of_repeats() {
        let all = played(&["a", "b"], 10, |_| (1, 0.5));
        let repeated: Vec<_> = all.iter().map(|m| m.repeated).collect();
        let parts = f64::from(repeated.iter().sum::<u32>()) / 20.0;
        assert_eq!(parts, REPEATS_PART, "a part of the twenty first attempts");
        assert!(repeated[0].abs_diff(repeated[1]) <= 1, "{repeated:?}");
        assert_eq!(all[0].disturbed, 10);
    }

    #[test]
    fn subjects_that_are_not_due_are_skipped_and_loud_ones_never_repeated() {
        let all = played(&["loud", "first"], 3, |_| (1, 0.5));
        assert_eq!((all[0].measurements.len(), all[0].repeated, all[0].disturbed), (3, 0, 0));
        assert_eq!(all[1].measurements.len(), 1);
    }

    #[test]
    fn others_may_use_two_ticks_and_a_twentieth_of_the_time() {
        assert!(Attempt::new((), 1.0, 0.06).disturbance < 0.0);
        assert!(Attempt::new((), 1.0, 0.08).disturbance > 0.0);
    }
}
