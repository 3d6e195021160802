//! Taking turns: each subject measured once, one after the other, again and again.
//!
//! A measurement during which others used the processor is repeated when its round is over, a few
//! times, and the least disturbed one counts. What is still disturbed then is kept and counted, so
//! that the page says how quiet it was. Repeats have a budget, a part of the time that the rounds
//! themselves take: on a machine that is never quiet they would take three times as long as all else.

use std::time::Instant;

use crate::figures::progress::Progress;

/// How often a disturbed measurement is repeated.
const REPEATS: u32 = 3;
/// What repeats may take of the time of first attempts.
const REPEATS_PART: f64 = 0.75;
/// What others may use: this part of the time, and two ticks of the kernel's clock for rounding.
const FOREIGN_PART: f64 = 0.05;
const FOREIGN_SECONDS: f64 = 0.02;

/// How many rounds, and how picky.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// Rounds.
    pub rounds: u32,
    /// How often a disturbed measurement is repeated.
    pub repeats: u32,
}

impl Turns {
    /// So many rounds; in a hurry nothing is repeated.
    #[must_use]
    pub fn new(rounds: u32, quick: bool) -> Turns {
        Turns { rounds, repeats: if quick { 0 } else { REPEATS } }
    }
}

/// Something that is measured in turn with others.
pub trait Subject {
    /// As the progress bar says it.
    fn name(&self) -> String;

    /// Whether it is measured in this one (from 0) of so many rounds.
    fn is_due(&self, round: u32, of: u32) -> bool;

    /// Whether it makes a difference if others use the processor.
    fn wants_quiet(&self) -> bool;
}

/// A process that has measured something.
#[derive(Debug)]
pub struct Attempt<M> {
    /// What it brought.
    pub measurement: M,
    /// How long it took.
    pub seconds: f64,
    /// Processor time of others meanwhile, above what is allowed, as a part of it.
    pub disturbance: f64,
}

impl<M> Attempt<M> {
    /// What a process brought that took so long, while others used so many seconds of processor time.
    #[must_use]
    pub fn new(measurement: M, seconds: f64, foreign: f64) -> Attempt<M> {
        let disturbance = (foreign - FOREIGN_SECONDS) / seconds - FOREIGN_PART;
        Attempt { measurement, seconds, disturbance }
    }

    /// Whether it should be repeated.
    fn counts_not(&self, subject: &impl Subject) -> bool {
        subject.wants_quiet() && self.disturbance > 0.0
    }
}

/// What all rounds have brought of one subject.
#[derive(Debug)]
pub struct Measured<M> {
    /// In the order of the rounds.
    pub measurements: Vec<M>,
    /// How long its processes took, those that do not count included.
    pub seconds: f64,
    /// Measurements that were kept although they were disturbed.
    pub disturbed: u32,
    /// Measurements that were repeated.
    pub repeated: u32,
}

impl<M> Default for Measured<M> {
    fn default() -> Measured<M> {
        Measured { measurements: Vec::new(), seconds: 0.0, disturbed: 0, repeated: 0 }
    }
}

/// Measures all subjects in turn. The result has an entry for each subject, and the seconds it took.
///
/// # Errors
/// The first error of `measure`, which ends it.
pub fn take<S: Subject, M>(
    turns: Turns,
    subjects: &[S],
    progress: &Progress,
    mut measure: impl FnMut(&S) -> anyhow::Result<Attempt<M>>,
) -> anyhow::Result<(Vec<Measured<M>>, f64)> {
    let Turns { rounds, repeats } = turns;
    let began = Instant::now();
    let mut all: Vec<Measured<M>> = subjects.iter().map(|_| Measured::default()).collect();
    let mut budget = 0.0;
    for round in 0..rounds {
        let say = |what: &str| progress.say(format!("round {} of {rounds}: {what}", round + 1));
        let mut attempts = Vec::new();
        for (at, subject) in subjects.iter().enumerate().filter(|(_, s)| s.is_due(round, rounds)) {
            say(&subject.name());
            let attempt = measure(subject)?;
            budget += attempt.seconds * REPEATS_PART;
            all[at].seconds += attempt.seconds;
            attempts.push((at, attempt));
            progress.step();
        }
        // Those first that have had the least of the budget.
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
                let attempt = measure(subject)?;
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
    Ok((all, began.elapsed().as_secs_f64()))
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

    /// Measures subjects for so many rounds; the attempts take a second each, show what `outcome`
    /// says (a value and a disturbance), and are told how many there were before.
    fn played(
        names: &[&'static str],
        rounds: u32,
        outcome: impl Fn(u32) -> (u32, f64),
    ) -> Vec<Measured<u32>> {
        let subjects: Vec<Named> = names.iter().map(|&name| Named(name)).collect();
        let mut count = 0;
        take(Turns::new(rounds, false), &subjects, &Progress::hidden(), |_| {
            let (measurement, disturbance) = outcome(count);
            count += 1;
            Ok(Attempt { measurement, seconds: 1.0, disturbance })
        })
        .unwrap()
        .0
    }

    #[test]
    fn a_quiet_machine_repeats_nothing() {
        let all = played(&["a", "b"], 3, |n| (n, -0.05));
        assert_eq!(all[0].measurements, [0, 2, 4]);
        assert_eq!(all[1].measurements, [1, 3, 5]);
        assert!(all.iter().all(|m| m.repeated == 0 && m.disturbed == 0));
    }

    #[test]
    fn a_disturbed_measurement_is_repeated_when_its_round_is_over() {
        let all = played(&["a", "b"], 1, |n| (n, if n == 0 { 0.2 } else { -0.05 }));
        assert_eq!(all[0].measurements, [2]);
        assert_eq!(all[1].measurements, [1]);
        assert_eq!((all[0].repeated, all[0].disturbed, all[0].seconds), (1, 0, 2.0));
    }

    #[test]
    fn if_all_are_disturbed_the_least_disturbed_one_counts() {
        let all = played(&["a", "b"], 1, |n| (n, if n == 2 { 0.1 } else { 0.2 }));
        assert_eq!(all[0].measurements, [2]);
        assert_eq!(all[0].disturbed, 1);
    }

    #[test]
    fn a_machine_that_is_never_quiet_gets_a_bounded_number_of_repeats() {
        let all = played(&["a", "b"], 10, |_| (1, 0.5));
        let repeated: Vec<_> = all.iter().map(|m| m.repeated).collect();
        let parts = f64::from(repeated.iter().sum::<u32>()) / 20.0;
        assert_eq!(parts, REPEATS_PART, "of the twenty that there are");
        assert!(repeated[0].abs_diff(repeated[1]) <= 1, "{repeated:?}");
        assert_eq!(all[0].disturbed, 10);
    }

    #[test]
    fn what_does_not_mind_others_is_not_repeated_and_what_is_not_due_not_measured() {
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
