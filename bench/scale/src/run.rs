//! A run and its result, as they are stored.

use crate::cases::{Case, Kind};
use crate::world::{Counts, MODELLED, Outcome};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is to be run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub struct Spec {
    pub case: Case,
    pub work_ns: u64,
    /// Number of cores for the workers.
    pub cores: usize,
    pub workers: usize,
    pub sockets: usize,
    pub seed: u64,
    /// Number of items, if it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_wanted: Option<u64>,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec { work_ns, cores, workers, sockets, seed, .. } = self;
        write!(f, "{} with {work_ns} ns of work, {cores} cores", self.case.name())?;
        if workers != cores {
            write!(f, ", {workers} workers")?;
        }
        if *sockets > 1 {
            write!(f, ", {sockets} sockets")?;
        }
        if *seed > 0 {
            write!(f, ", seed {seed}")?;
        }
        Ok(())
    }
}

/// The figures of a run.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Figures {
    pub items: u64,
    pub time_ns: u64,
    pub ideal_ns: u64,
    /// There is none if the figure of the workload is its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// There is none on the real machine.
    #[serde(flatten)]
    pub counted: Option<Counted>,
}

/// What a modelled machine has counted in the whole run.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Counted {
    pub moves: u64,
    pub barriers: u64,
    pub wakes: u64,
    pub steps: u64,
    pub moves_per_item: f64,
    pub barriers_per_item: f64,
    pub wakes_per_item: f64,
}

/// Rounds to `digits` digits after the point, so that differences of tables can be read.
fn rounded(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

impl Figures {
    pub fn new(case: Case, outcome: &Outcome) -> Figures {
        let timed = outcome.timed;
        let efficiency = timed.ideal.as_secs_f64() / timed.took.as_secs_f64().max(1e-9);
        let counted = |counts: Counts| {
            let per_item = |count: u64| rounded(count as f64 / timed.items.max(1) as f64, 3);
            let Counts { moves, barriers, wakes, steps } = counts;
            Counted {
                moves,
                barriers,
                wakes,
                steps,
                moves_per_item: per_item(moves),
                barriers_per_item: per_item(barriers),
                wakes_per_item: per_item(wakes),
            }
        };
        Figures {
            items: timed.items,
            time_ns: timed.took.as_nanos() as u64,
            ideal_ns: timed.ideal.as_nanos() as u64,
            efficiency: (case.kind() != Kind::Times).then(|| rounded(efficiency, 6)),
            counted: outcome.counts.map(counted),
        }
    }
}

/// The mean of runs that differ in their seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mean {
    Efficiency(f64),
    Nanos(f64),
}

impl Mean {
    /// The mean of the times. For efficiencies that is the harmonic mean. Returns `None` if there
    /// are no figures.
    pub fn of<'a>(figures: impl Iterator<Item = &'a Figures>) -> Option<Mean> {
        let figures: Vec<_> = figures.collect();
        let mean = |of: fn(&Figures) -> f64| {
            figures.iter().map(|figures| of(figures)).sum::<f64>() / figures.len() as f64
        };
        Some(match figures.first()?.efficiency {
            Some(_) => Mean::Efficiency(
                1.0 / mean(|figures| 1.0 / figures.efficiency.unwrap_or_default().max(1e-9)),
            ),
            None => Mean::Nanos(mean(|figures| figures.time_ns as f64)),
        })
    }

    /// How much better this is than another one: above 1 if it is.
    pub fn over(self, other: Mean) -> f64 {
        match (self, other) {
            (Mean::Efficiency(now), Mean::Efficiency(then)) => now / then.max(1e-9),
            (Mean::Nanos(now), Mean::Nanos(then)) => then / now.max(1.0),
            _ => 0.0,
        }
    }
}

impl fmt::Display for Mean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mean::Efficiency(efficiency) => f.pad(&format!("{efficiency:.3}")),
            Mean::Nanos(nanos) => f.pad(&format!("{:.0}", nanos / 1e3)),
        }
    }
}

/// A run with its result.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Run {
    #[serde(flatten)]
    pub spec: Spec,
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// The first line of the report, if the run has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// All runs: the table that `--json` writes and `--check` reads.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Runs {
    pub modelled: bool,
    pub runs: Vec<Run>,
}

impl Runs {
    pub fn new(runs: Vec<Run>) -> Runs {
        Runs { modelled: MODELLED, runs }
    }

    pub fn any_failed(&self) -> bool {
        self.runs.iter().any(|run| run.figures.is_none())
    }

    /// JSON with a line per run.
    pub fn to_json(&self) -> String {
        let line = |run| serde_json::to_string(run).expect("plain fields");
        let lines: Vec<String> = self.runs.iter().map(line).collect();
        format!("{{\"modelled\":{},\"runs\":[\n{}\n]}}\n", self.modelled, lines.join(",\n"))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use clap::ValueEnum;

    pub fn run(cores: usize, efficiency: f64) -> Run {
        let spec = Spec {
            case: Case::Join,
            work_ns: 1_000,
            cores,
            workers: cores,
            sockets: 1,
            seed: 0,
            items_wanted: None,
        };
        let figures = Figures {
            items: 10,
            time_ns: 1_000,
            ideal_ns: (1_000.0 * efficiency) as u64,
            efficiency: Some(efficiency),
            counted: None,
        };
        Run { spec, figures: Some(figures), failed: None }
    }

    #[test]
    fn a_table_that_is_written_can_be_read() {
        let failed = Run { figures: None, failed: Some("it \"hung\"".to_owned()), ..run(4, 0.5) };
        let mut counted = run(2, 0.25);
        counted.figures.as_mut().unwrap().counted = Some(Counted {
            moves: 1,
            barriers: 2,
            wakes: 3,
            steps: 4,
            moves_per_item: 0.1,
            barriers_per_item: 0.2,
            wakes_per_item: 0.3,
        });
        let runs = Runs::new(vec![run(1, 0.125), counted, failed]);
        let text = runs.to_json();
        assert_eq!(text.lines().count(), 2 + runs.runs.len());
        assert_eq!(serde_json::from_str::<Runs>(&text).unwrap(), runs);
        assert!(runs.any_failed());
    }

    #[test]
    fn a_case_is_stored_by_its_name() {
        for case in Case::value_variants() {
            assert_eq!(serde_json::to_value(case).unwrap(), case.name());
        }
    }

    #[test]
    fn the_mean_of_seeds_is_that_of_their_times() {
        let figures = |efficiency| run(1, efficiency).figures.unwrap();
        let Some(Mean::Efficiency(mean)) = Mean::of([figures(0.5), figures(0.25)].iter()) else {
            panic!("the figure of a join is an efficiency");
        };
        assert!((mean - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(Mean::of([].iter()), None);
    }

    #[test]
    fn less_time_is_better_and_so_is_more_efficiency() {
        assert_eq!(Mean::Efficiency(0.5).over(Mean::Efficiency(0.25)), 2.0);
        assert_eq!(Mean::Nanos(50.0).over(Mean::Nanos(100.0)), 2.0);
    }
}
