//! The page: a table, or one JSON object.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cases::ROUNDS_OF_BYTES;
use super::floor::{Floor, USUAL};
use super::rows::{Row, Source};
use crate::measure::harness::{TIME, Values};
use crate::measure::line::Line;
use crate::measure::rounds::{Measured, Run};
use crate::measure::stats::{self, Spread};
use crate::measure::text::{Unit, aligned};
use crate::measure::verdict::Verdict;

/// The measurements of all rounds, by case.
pub type Results = BTreeMap<&'static str, Measured<Line>>;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub struct Page {
    #[serde(flatten)]
    run: Run,
    /// Rounds in which memory was measured.
    rounds_of_bytes: u32,
    /// Medians of the floors over all processes, in nanoseconds.
    floors: Values,
    figures: Vec<Figure>,
    cases: Vec<CaseCost>,
}

/// The effort of measuring a case.
#[derive(Debug, Serialize)]
struct CaseCost {
    case: &'static str,
    rounds: usize,
    repeated: u32,
    disturbed: u32,
    seconds: f64,
}

/// A row with its value.
#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    unit: Unit,
    #[serde(flatten)]
    spread: Spread,
    /// Processor time, shown beside the wall time.
    cpu: f64,
    floor: f64,
    target: Option<f64>,
    target_r: Option<f64>,
    verdict: Verdict,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
}

/// The values of a source, one per round.
fn values(source: Source, results: &Results) -> Vec<f64> {
    let of = |case: &str, key: &str| -> Vec<f64> {
        let measured = results.get(case).map_or(&[][..], |all| &all.measurements);
        measured.iter().filter_map(|m| m.values.get(key).copied()).collect()
    };
    match source {
        Source::Value(case, key) => of(case, key),
        Source::Ratio(first, second) => {
            of(first, TIME).iter().zip(of(second, TIME)).map(|(a, b)| a / b).collect()
        }
    }
}

/// The median of a floor over some processes; NaN if none has measured it.
fn floor_of(floor: Floor, measured: &[&Line]) -> f64 {
    stats::median(&measured.iter().filter_map(|m| floor.of(&m.floors)).collect::<Vec<_>>())
}

impl Figure {
    fn new(row: &Row, results: &Results) -> Figure {
        let measured = row.cases().filter_map(|case| results.get(case.name));
        let measured: Vec<_> = measured.flat_map(|measured| &measured.measurements).collect();
        let spread = Spread::from(values(row.source, results));
        let cpu = row.cpu().map(|source| values(source, results)).unwrap_or_default();
        Figure {
            name: row.name,
            unit: row.unit,
            cpu: stats::median(&cpu),
            floor: row.floor.map_or(f64::NAN, |floor| floor_of(floor, &measured)),
            target: row.target.most,
            target_r: row.target.most_r,
            verdict: row.target.judge(&spread, floor_of(Floor::Rmw, &measured)),
            skipped: measured.iter().find_map(|m| m.error.clone()),
            spread,
        }
    }

    /// The cells of the figure's line.
    fn cells(&self) -> [String; 7] {
        let show = |value| self.unit.show(value);
        let most = show(self.target.unwrap_or(f64::NAN));
        [
            self.name.to_owned(),
            match &self.skipped {
                Some(_) if self.spread.rounds.is_empty() => "skipped".to_owned(),
                _ => show(self.spread.value),
            },
            self.spread.interval(self.unit),
            show(self.cpu),
            show(self.floor),
            self.target_r.map_or(most.clone(), |r| format!("{most} or {r} r")),
            self.verdict.word().to_owned(),
        ]
    }
}

/// The column headings.
const HEADS: [&str; 7] = ["figure", "median", "90 % of it", "CPU", "floor", "target", "met"];

impl Page {
    /// Combines the results of all rounds.
    pub fn new(run: Run, rows: &[&Row], results: &Results) -> Page {
        let all: Vec<&Line> = results.values().flat_map(|m| &m.measurements).collect();
        let cost = |(&case, measured): (_, &Measured<Line>)| {
            let &Measured { ref measurements, seconds, disturbed, repeated } = measured;
            CaseCost { case, rounds: measurements.len(), repeated, disturbed, seconds }
        };
        Page {
            rounds_of_bytes: run.rounds.min(ROUNDS_OF_BYTES),
            run,
            floors: USUAL.map(|(key, floor)| (key.to_owned(), floor_of(floor, &all))).into(),
            figures: rows.iter().map(|row| Figure::new(row, results)).collect(),
            cases: results.iter().map(cost).collect(),
        }
    }

    /// Formats the page as a table.
    pub fn text(&self) -> String {
        let mut text = self.run.head(["", &format!(", of memory {}", self.rounds_of_bytes)]);
        let floor = |key| Unit::Time.show(self.floors[key]);
        text.push_str(&format!(
            "r = {} (an atomic read-modify-write), a call {}, a load {}, a fresh page {}\n\n",
            floor("rmw"),
            floor("call"),
            floor("load"),
            floor("page"),
        ));
        let mut lines = vec![HEADS.map(str::to_owned)];
        lines.extend(self.figures.iter().map(Figure::cells));
        text.push_str(&aligned(&lines));
        for figure in &self.figures {
            if let Some(reason) = &figure.skipped {
                text.push_str(&format!("{}: {reason}\n", figure.name));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::rows::ROWS;
    use super::*;
    use crate::measure::harness::Measured as Values;
    use crate::measure::rounds::Turns;

    /// The results of a case whose processes measured these values of one key.
    fn results<const N: usize>(case: &'static str, key: &str, values: [f64; N]) -> Results {
        let floors = [("rmw", 8.0), ("call", 1.5), ("load", 0.5), ("page", 2000.0)];
        let line = |value| Line {
            floors: Values::of(floors).values,
            ..Line::from(Ok(Values::of([(key, value)])))
        };
        let measurements = values.into_iter().map(line).collect();
        Results::from([(case, Measured { measurements, ..Measured::default() })])
    }

    fn row(name: &str) -> &'static Row {
        ROWS.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let mut both = results("batch-2", "time", [20.0, 90.0]);
        both.append(&mut results("batch-1", "time", [10.0, 30.0]));
        let spread = Figure::new(row("batch, 2 workers to 1"), &both).spread;
        assert_eq!((spread.value, spread.rounds), (2.5, vec![2.0, 3.0]));
    }

    #[test]
    fn a_figure_stands_beside_its_floor_and_target() {
        let results = results("spawn-join-in-place-1", "time", [24.0]);
        let figure = Figure::new(row("spawn+join in place, 1 worker"), &results);
        let cells = figure.cells();
        assert_eq!(cells[1], "24.0 ns");
        assert_eq!(cells[4..], ["8.00 ns", "25.0 ns or 3 r", "yes"].map(str::to_owned));
    }

    #[test]
    fn a_skipped_figure_gives_its_reason() {
        let case = "memory-queued-1000000";
        let mut results = results(case, "bytes", [0.0]);
        for line in &mut results.get_mut(case).unwrap().measurements {
            line.values.clear();
            line.error = Some("needs 5.0 GiB of memory".to_owned());
        }
        let run = Run::new::<Line>(&Turns::default(), Instant::now(), &[]);
        let page = Page::new(run, &[row("queued task, 1,000,000")], &results);
        let text = page.text();
        assert!(text.contains("skipped") && text.contains("needs 5.0 GiB"), "{text}");
    }
}
