//! The result: a row for each runtime in each case with each number of workers, and the targets.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cases::{CASES, Case};
use super::contenders::{Contender, Who, workers};
use super::line::Outcome;
use super::runtimes::RUNTIMES;
use super::targets::{Judged, TARGETS};
use crate::figures::machine::Machine;
use crate::figures::stats;
use crate::output;
use crate::turns::Measured;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub struct Page {
    /// The machine, versions and date.
    pub machine: Machine,
    /// Versions of the measured peers.
    pub versions: Vec<&'static str>,
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
    /// Median over the rounds.
    pub value: f64,
    /// The interval that holds the median with 90 % probability.
    pub low: f64,
    /// The upper bound of that interval.
    pub high: f64,
    /// The ratio to the best value with the same number of workers, serial work excepted. `None`
    /// if there is nothing to compare.
    pub to_best: Option<f64>,
    /// The value of each round.
    pub rounds: Vec<f64>,
}

impl Figure {
    fn new(rounds: Vec<f64>) -> Figure {
        let (low, high) = stats::interval_of_median(&rounds);
        Figure { value: stats::median(&rounds), low, high, to_best: None, rounds }
    }
}

impl Row {
    /// The values of all rounds, or an empty slice if there are none.
    #[must_use]
    pub fn values(&self, key: &str) -> &[f64] {
        self.figures.get(key).map_or(&[], |figure| &figure.rounds)
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
            figures: values.into_iter().map(|(key, rounds)| (key, Figure::new(rounds))).collect(),
            failed,
        })
    }
}

impl Page {
    /// Combines the outcomes of all rounds.
    #[must_use]
    pub fn new(
        machine: Machine,
        rounds: u32,
        quick: bool,
        seconds: f64,
        contenders: &[Contender],
        measured: &[Measured<Outcome>],
    ) -> Page {
        let rows = contenders.iter().zip(measured).filter_map(|(c, m)| Row::new(c, m)).collect();
        let mut page = Page {
            machine,
            versions: versions(contenders),
            rounds,
            quick,
            seconds,
            disturbed: measured.iter().map(|m| m.disturbed).sum(),
            repeated: measured.iter().map(|m| m.repeated).sum(),
            rows,
            targets: Vec::new(),
        };
        page.compare();
        page
    }

    /// Fills in the ratios and the targets.
    fn compare(&mut self) {
        let mut best: BTreeMap<(&str, usize, String), f64> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.runtime != "serial") {
            for (key, figure) in &row.figures {
                let best = best.entry((row.case, row.workers, key.clone())).or_insert(figure.value);
                *best = best.min(figure.value);
            }
        }
        for row in &mut self.rows {
            let (case, workers) = (row.case, row.workers);
            for (key, figure) in &mut row.figures {
                let best = best.get(&(case, workers, key.clone()));
                // A wait may be shorter than the resolution of the clock.
                let comparable = best.filter(|&&best| best > 0.0);
                figure.to_best = comparable.map(|best| figure.value / best);
            }
        }
        let measured = |case: &str| self.rows.iter().any(|row| row.case == case);
        let targets = TARGETS.iter().filter(|target| measured(target.case));
        self.targets = targets.map(|target| target.judge(self)).collect();
    }

    /// The rows of a case.
    pub fn rows_of(&self, case: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.case == case)
    }

    /// The names of runtimes with rows, in the order of `RUNTIMES`, followed by those of
    /// programs.
    #[must_use]
    pub fn runtimes(&self) -> Vec<&str> {
        let known = RUNTIMES.iter().map(|runtime| runtime.name);
        let mut names: Vec<&str> = known.filter(|&name| self.has(name)).collect();
        for row in &self.rows {
            if !names.contains(&row.runtime.as_str()) {
                names.push(&row.runtime);
            }
        }
        names
    }

    fn has(&self, runtime: &str) -> bool {
        self.rows.iter().any(|row| row.runtime == runtime)
    }

    /// The cases that have rows.
    pub fn cases(&self) -> impl Iterator<Item = &'static Case> {
        CASES.iter().filter(|case| self.rows_of(case.name).next().is_some())
    }

    /// A sentence for each contender that could not be measured.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.rows.iter().filter_map(|row| {
            let (case, who, reason) = (row.case, &row.runtime, row.failed.as_ref()?);
            Some(format!("{case} on {who} with {}: {reason}", workers(row.workers)))
        })
    }

    /// Prints the page as one JSON object.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn print_json(&self) -> anyhow::Result<()> {
        output::print(|out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            writeln!(out)
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
    use super::super::cases::find;
    use super::super::runtimes;
    use super::*;
    use crate::figures::cases::{CPU, TIME, Values};

    /// A row with the times of some rounds.
    pub fn row(case: &'static str, runtime: &str, workers: usize, times: &[f64]) -> Row {
        let figures = BTreeMap::from([
            (TIME.to_owned(), Figure::new(times.to_vec())),
            (CPU.to_owned(), Figure::new(times.iter().map(|time| time * 2.0).collect())),
        ]);
        Row { case, runtime: runtime.to_owned(), workers, figures, failed: None }
    }

    /// A page of some rows.
    pub fn page(rows: Vec<Row>) -> Page {
        let mut page = Page::new(Machine::here(), 2, false, 60.0, &[], &[]);
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
        assert_eq!(ratios, [Some(0.5), Some(1.0), Some(4.0), Some(1.0)]);
    }

    #[test]
    fn a_wait_too_short_for_the_clock_has_no_ratios() {
        let page = page(vec![row("fib", "cygnet", 1, &[0.0]), row("fib", "rayon", 1, &[8.0])]);
        assert!(page.rows.iter().all(|row| row.figures[TIME].to_best.is_none()));
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
        let page = Page::new(Machine::here(), 2, true, 1.0, &contenders, &outcomes);
        assert_eq!(page.rows.len(), 1);
        assert_eq!((page.rows[0].runtime.as_str(), page.rows[0].figures[TIME].value), ("go", 4.0));
    }

    #[test]
    fn a_contender_that_failed_once_has_a_sentence_and_no_value() {
        let cygnet = runtimes::find("cygnet").unwrap();
        let contenders = [contender("fib", Who::Runtime(cygnet))];
        let outcomes = [measured(vec![time(3.0, None), Outcome::Failed("it failed".to_owned())])];
        let page = Page::new(Machine::here(), 2, true, 1.0, &contenders, &outcomes);
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
