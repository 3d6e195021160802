//! The result: a row for each runtime in each case with each number of workers, and the targets.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cases::{CASES, Case, Part};
use super::contenders::{Contender, Who, workers};
use super::outcome::Outcome;
use super::runtimes::runtimes;
use super::targets::{Judged, TARGETS};
use crate::measure::rounds::{Measured, Run};
use crate::measure::stats::Spread;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub struct Page {
    /// The machine, the number of rounds and so on.
    #[serde(flatten)]
    pub run: Run,
    /// Versions of the measured peers.
    pub versions: Vec<&'static str>,
    /// The measured contenders.
    pub rows: Vec<Row>,
    /// The targets of the measured cases.
    pub targets: Vec<Judged>,
}

/// A runtime in a case with a number of workers.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub case: &'static str,
    /// The runtime.
    pub runtime: String,
    /// Number of worker threads.
    pub workers: usize,
    /// Median and spread of each of the case's values and of the processor time.
    pub figures: BTreeMap<String, Figure>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A value over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Median and spread over the rounds.
    #[serde(flatten)]
    pub spread: Spread,
    /// The ratio to the best value with the same number of workers, serial work excepted. NaN if
    /// there is nothing to compare.
    pub to_best: f64,
}

impl From<Vec<f64>> for Figure {
    fn from(rounds: Vec<f64>) -> Figure {
        Figure { spread: rounds.into(), to_best: f64::NAN }
    }
}

impl Row {
    /// The values of all rounds, or an empty slice if there are none.
    pub fn values(&self, key: &str) -> &[f64] {
        self.figures.get(key).map_or(&[], |figure| &figure.spread.rounds)
    }

    fn new(contender: &Contender, measured: &Measured<Outcome>) -> Option<Row> {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let (mut name, mut failed) = (None, None);
        for outcome in &measured.measurements {
            match outcome {
                Outcome::Unknown => return None,
                Outcome::Failed(reason) => failed = Some(reason.clone()),
                Outcome::Values(round, runtime) => {
                    name = runtime.clone();
                    for (key, &value) in round {
                        values.entry(key.clone()).or_default().push(value);
                    }
                }
            }
        }
        if failed.is_some() {
            values.clear();
        }
        // A program may omit a value once if it is not one of the case's parts. Such a value is
        // dropped.
        values.retain(|_, rounds| rounds.len() == measured.measurements.len());
        Some(Row {
            case: contender.case.name,
            runtime: name.unwrap_or_else(|| contender.runtime().to_owned()),
            workers: contender.workers,
            figures: values.into_iter().map(|(key, rounds)| (key, rounds.into())).collect(),
            failed,
        })
    }
}

impl Page {
    /// Combines the outcomes of all rounds.
    pub fn new(run: Run, contenders: &[Contender], measured: &[Measured<Outcome>]) -> Page {
        let rows = contenders.iter().zip(measured).filter_map(|(c, m)| Row::new(c, m)).collect();
        let mut page = Page { run, versions: versions(contenders), rows, targets: Vec::new() };
        page.compare();
        page
    }

    /// Fills in the ratios and the targets.
    fn compare(&mut self) {
        let mut best: BTreeMap<(&str, usize, String), f64> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.runtime != "serial") {
            for (key, figure) in &row.figures {
                let best =
                    best.entry((row.case, row.workers, key.clone())).or_insert(figure.spread.value);
                *best = best.min(figure.spread.value);
            }
        }
        for row in &mut self.rows {
            let (case, workers) = (row.case, row.workers);
            for (key, figure) in &mut row.figures {
                let best = best.get(&(case, workers, key.clone())).copied().unwrap_or_default();
                // A wait may be shorter than the resolution of the clock.
                figure.to_best = if best > 0.0 { figure.spread.value / best } else { f64::NAN };
            }
        }
        let measured = |case: &str| self.rows.iter().any(|row| row.case == case);
        let targets = TARGETS.iter().copied().flatten().filter(|target| measured(target.case));
        self.targets = targets.map(|target| target.judge(self)).collect();
    }

    /// The rows of a case.
    pub fn rows_of(&self, case: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.case == case)
    }

    /// The names of runtimes with rows, in the order of [`runtimes`], followed by those of
    /// programs.
    pub fn runtimes(&self) -> Vec<&str> {
        let has = |name: &&str| self.rows.iter().any(|row| row.runtime == *name);
        let mut names: Vec<&str> = runtimes().map(|runtime| runtime.name).filter(has).collect();
        for row in &self.rows {
            if !names.contains(&row.runtime.as_str()) {
                names.push(&row.runtime);
            }
        }
        names
    }

    /// The parts of all cases that have rows, in order.
    pub fn parts(&self) -> impl Iterator<Item = (&'static Case, &'static Part)> {
        let cases = CASES.iter().filter(|case| self.rows_of(case.name).next().is_some());
        cases.flat_map(|case| case.parts.iter().map(move |part| (case, part)))
    }

    /// A sentence for each contender that could not be measured.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.rows.iter().filter_map(|row| {
            let (case, who, reason) = (row.case, &row.runtime, row.failed.as_ref()?);
            Some(format!("{case} on {who} with {}: {reason}", workers(row.workers)))
        })
    }
}

/// The versions of the measured peers.
fn versions(contenders: &[Contender]) -> Vec<&'static str> {
    let measured = |name: &str| {
        contenders.iter().any(|c| matches!(c.who, Who::Runtime(runtime) if runtime.name == name))
    };
    let versions = env!("CYGNET_BENCH_PEERS").split(", ");
    versions.filter(|version| version.split(' ').next().is_some_and(measured)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use super::super::cases::find;
    use super::super::runtimes;
    use super::*;
    use crate::measure::harness::{CPU, TIME, Values};
    use crate::measure::rounds::Turns;

    /// A row with the times of some rounds.
    pub fn row(case: &'static str, runtime: &str, workers: usize, times: &[f64]) -> Row {
        let figures = BTreeMap::from([
            (TIME.to_owned(), times.to_vec().into()),
            (CPU.to_owned(), times.iter().map(|time| time * 2.0).collect::<Vec<_>>().into()),
        ]);
        Row { case, runtime: runtime.to_owned(), workers, figures, failed: None }
    }

    fn page_of(contenders: &[Contender], measured: &[Measured<Outcome>]) -> Page {
        Page::new(Run::new(&Turns::default(), Instant::now(), measured), contenders, measured)
    }

    /// A page of some rows.
    pub fn page(rows: Vec<Row>) -> Page {
        let mut page = page_of(&[], &[]);
        page.rows = rows;
        page.compare();
        page
    }

    fn contender(case: &str, who: Who) -> Contender {
        Contender { case: find(case).unwrap(), workers: 1, who }
    }

    fn measured(measurements: Vec<Outcome>) -> Measured<Outcome> {
        Measured { measurements, ..Measured::default() }
    }

    fn time(time: f64, name: Option<&str>) -> Outcome {
        Outcome::Values(Values::from([(TIME.to_owned(), time)]), name.map(str::to_owned))
    }

    #[test]
    fn the_best_is_one_and_the_serial_work_does_not_take_part() {
        let page = page(vec![
            row("fib", "serial", 1, &[1.0]),
            row("fib", "cygnet", 1, &[2.0]),
            row("fib", "rayon", 1, &[8.0]),
            row("fib", "rayon", 2, &[4.0]),
        ]);
        let ratios: Vec<_> = page.rows.iter().map(|row| row.figures[TIME].to_best).collect();
        assert_eq!(ratios, [0.5, 1.0, 4.0, 1.0]);
        // A wait too short for the clock has no ratios.
        let page =
            self::page(vec![row("fib", "cygnet", 1, &[0.0]), row("fib", "rayon", 1, &[8.0])]);
        assert!(page.rows.iter().all(|row| row.figures[TIME].to_best.is_nan()));
    }

    #[test]
    fn programs_come_after_the_runtimes() {
        let rows = ["go", "threads", "cygnet"].map(|name| row("fib", name, 1, &[1.0]));
        assert_eq!(page(rows.to_vec()).runtimes(), ["cygnet", "threads", "go"]);
    }

    #[test]
    fn a_program_gives_its_name_and_is_left_out_of_unknown_cases() {
        let program = || Who::Program("./a b".to_owned());
        let contenders = [contender("fib", program()), contender("tree", program())];
        let outcomes = [
            measured(vec![time(3.0, Some("go")), time(5.0, Some("go"))]),
            measured(vec![Outcome::Unknown; 2]),
        ];
        let page = page_of(&contenders, &outcomes);
        assert_eq!(page.rows.len(), 1);
        assert_eq!(
            (page.rows[0].runtime.as_str(), page.rows[0].figures[TIME].spread.value),
            ("go", 4.0)
        );
    }

    #[test]
    fn a_contender_that_failed_once_has_a_sentence_and_no_value() {
        let cygnet = runtimes::find("cygnet").unwrap();
        let contenders = [contender("fib", Who::Runtime(cygnet))];
        let outcomes = [measured(vec![time(3.0, None), Outcome::Failed("it failed".to_owned())])];
        let page = page_of(&contenders, &outcomes);
        assert!(page.rows[0].figures.is_empty());
        let failures: Vec<_> = page.failures().collect();
        assert_eq!(failures, ["fib on cygnet with 1 worker: it failed"]);
    }

    #[test]
    fn the_versions_of_the_measured_peers_are_listed() {
        if let Some(rayon) = runtimes::find("rayon") {
            let contenders = [contender("fib", Who::Runtime(rayon))];
            let versions = versions(&contenders);
            assert!(versions.len() == 1 && versions[0].starts_with("rayon 1."), "{versions:?}");
        }
    }
}
