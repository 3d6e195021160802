//! The page: a table, or one JSON object.

use serde::Serialize;

use super::cases::{Kind, Measurement};
use super::floor::Floor;
use super::machine::Machine;
use super::rounds::{Measured, Results};
use super::rows::{Row, Source, Unit};
use super::stats;
use super::verdict::Verdict;
use crate::output;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub struct Page {
    machine: Machine,
    rounds: u32,
    /// Rounds in which memory was measured.
    rounds_of_bytes: u32,
    /// Measured for a shorter time and with fewer tasks: not for publication.
    quick: bool,
    /// Total duration.
    seconds: f64,
    /// Measurements that other processes disturbed and that were kept nevertheless.
    disturbed: u32,
    /// Repeats of disturbed measurements.
    repeated: u32,
    floors: FloorMedians,
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

/// Medians of the floors over all processes, in nanoseconds.
#[derive(Debug, Serialize)]
struct FloorMedians {
    rmw: f64,
    call: f64,
    load: f64,
    page: f64,
}

/// A row with its value.
#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    #[serde(skip)]
    unit: Unit,
    #[serde(rename = "unit")]
    unit_name: &'static str,
    /// Median over the rounds; `None` if nothing could be measured.
    value: Option<f64>,
    /// The interval that holds the median with 90 % probability.
    low: Option<f64>,
    high: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    /// Processor time, shown beside the wall time.
    cpu: Option<f64>,
    floor: Option<f64>,
    target: Option<f64>,
    target_r: Option<f64>,
    verdict: Verdict,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
    /// The value of each round.
    rounds: Vec<f64>,
}

/// The values of a source, one per round.
fn values(source: Source, results: &Results) -> Vec<f64> {
    let of = |(case, key): (&str, &str)| -> Vec<f64> {
        let measured = results.by_case.get(case).map_or(&[][..], |all| &all.measurements);
        measured.iter().filter_map(|m| m.values.get(key).copied()).collect()
    };
    match source {
        Source::Value(case, key) => of((case, key)),
        Source::Ratio(first, second) => {
            of(first).into_iter().zip(of(second)).map(|(a, b)| a / b).collect()
        }
    }
}

/// The measurements behind a row.
fn measurements<'a>(row: &Row, results: &'a Results) -> Vec<&'a Measurement> {
    let measured = row.cases().filter_map(|case| results.by_case.get(case.name));
    measured.flat_map(|measured| &measured.measurements).collect()
}

fn floor_of(floor: Floor, measured: &[&Measurement]) -> Option<f64> {
    let floors: Vec<f64> = measured.iter().filter_map(|m| m.floors.get(floor)).collect();
    if floors.is_empty() { None } else { Some(stats::median(&floors)) }
}

impl Figure {
    fn new(row: &Row, results: &Results) -> Figure {
        let rounds = values(row.source, results);
        let measured = measurements(row, results);
        let some = |value: f64| if rounds.is_empty() { None } else { Some(value) };
        let median = stats::median(&rounds);
        let (low, high) = stats::interval_of_median(&rounds);
        let r = floor_of(Floor::Rmw, &measured).unwrap_or(f64::NAN);
        let cpu = row.cpu().map(|source| values(source, results)).unwrap_or_default();
        let verdict = if rounds.is_empty() {
            Verdict::Stated
        } else {
            row.target.judge(median, high, rounds.len(), r)
        };
        Figure {
            name: row.name,
            unit: row.unit,
            unit_name: match row.unit {
                Unit::Time => "ns",
                Unit::Bytes => "bytes",
                Unit::Ratio => "ratio",
            },
            value: some(median),
            low: some(low),
            high: some(high),
            min: some(stats::quantile(&rounds, 0.0)),
            max: some(stats::quantile(&rounds, 1.0)),
            cpu: if cpu.is_empty() { None } else { Some(stats::median(&cpu)) },
            floor: row.floor.and_then(|floor| floor_of(floor, &measured)),
            target: row.target.most,
            target_r: row.target.most_r,
            verdict,
            skipped: measured.iter().find_map(|m| m.skipped.clone()),
            rounds,
        }
    }

    /// The cells of the figure's line.
    fn cells(&self) -> [String; 7] {
        let show = |value: Option<f64>| value.map_or_else(String::new, |v| amount(v, self.unit));
        let spread = match (self.low, self.high) {
            (Some(low), Some(high)) => {
                format!("{} .. {}", amount(low, self.unit), amount(high, self.unit))
            }
            _ => String::new(),
        };
        let target = match (self.target, self.target_r) {
            (Some(most), Some(r)) => format!("{} or {r} r", amount(most, self.unit)),
            (most, _) => show(most),
        };
        let value = match &self.skipped {
            Some(_) if self.value.is_none() => "skipped".to_owned(),
            _ => show(self.value),
        };
        [
            self.name.to_owned(),
            value,
            spread,
            show(self.cpu),
            show(self.floor),
            target,
            self.verdict.word().to_owned(),
        ]
    }
}

/// The column headings.
const HEADS: [&str; 7] = ["figure", "median", "90 % of it", "CPU", "floor", "target", "met"];

impl CaseCost {
    fn new(case: &'static str, measured: &Measured) -> CaseCost {
        let &Measured { ref measurements, seconds, disturbed, repeated } = measured;
        CaseCost { case, rounds: measurements.len(), repeated, disturbed, seconds }
    }
}

impl Page {
    /// Combines the results of all rounds.
    #[must_use]
    pub fn new(
        machine: Machine,
        rounds: u32,
        quick: bool,
        rows: &[&Row],
        results: &Results,
    ) -> Page {
        let by_case = || results.by_case.iter();
        let all: Vec<&Measurement> = by_case().flat_map(|(_, m)| &m.measurements).collect();
        let floor = |floor| floor_of(floor, &all).unwrap_or(f64::NAN);
        Page {
            machine,
            rounds,
            rounds_of_bytes: Kind::Bytes.rounds(rounds),
            quick,
            seconds: results.seconds,
            disturbed: by_case().map(|(_, m)| m.disturbed).sum(),
            repeated: by_case().map(|(_, m)| m.repeated).sum(),
            floors: FloorMedians {
                rmw: floor(Floor::Rmw),
                call: floor(Floor::Call),
                load: floor(Floor::Load),
                page: floor(Floor::Page),
            },
            figures: rows.iter().map(|row| Figure::new(row, results)).collect(),
            cases: by_case().map(|(&case, measured)| CaseCost::new(case, measured)).collect(),
        }
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

    /// Prints the page as a table.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn print_table(&self) -> anyhow::Result<()> {
        output::print_text(&self.text())
    }

    fn text(&self) -> String {
        let Machine { cygnet, rustc, cpu, cores, kernel, date } = &self.machine;
        let mut text = format!(
            "cygnet {cygnet}, {rustc}, {date}\n{cpu}, {cores} cores, Linux {kernel}\n\
             {} rounds, of memory {}{}, in {:.1} min; {} repeats of disturbed measurements, {} \
             disturbed ones kept\n\
             r = {} (an atomic read-modify-write), a call {}, a load {}, a fresh page {}\n\n",
            self.rounds,
            self.rounds_of_bytes,
            if self.quick { ", in a hurry and with fewer tasks: not for publication" } else { "" },
            self.seconds / 60.0,
            self.repeated,
            self.disturbed,
            amount(self.floors.rmw, Unit::Time),
            amount(self.floors.call, Unit::Time),
            amount(self.floors.load, Unit::Time),
            amount(self.floors.page, Unit::Time),
        );
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

/// Lays out lines of cells in columns: the first and the last column flush left, the others flush
/// right.
pub(crate) fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            if column > 0 {
                row.push_str("  ");
            }
            if column == 0 || column == N - 1 {
                row.push_str(&format!("{cell:<width$}"));
            } else {
                row.push_str(&format!("{cell:>width$}"));
            }
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// Formats a value with its unit, in three or four digits.
pub(crate) fn amount(value: f64, unit: Unit) -> String {
    let digits = |value: f64| {
        let places = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        format!("{value:.places$}")
    };
    match unit {
        Unit::Ratio => digits(value),
        Unit::Bytes if value >= 100_000.0 => format!("{:.0} KiB", value / 1024.0),
        Unit::Bytes => format!("{value:.0} B"),
        Unit::Time if value >= 1e6 => format!("{} ms", digits(value / 1e6)),
        Unit::Time if value >= 1e3 => format!("{} us", digits(value / 1e3)),
        Unit::Time => format!("{} ns", digits(value)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::floor::Floors;
    use super::super::rows::ROWS;
    use super::*;

    fn measurement(case: &str, key: &str, value: f64) -> Measurement {
        Measurement {
            case: case.to_owned(),
            values: BTreeMap::from([(key.to_owned(), value)]),
            skipped: None,
            floors: Floors { rmw: 8.0, call: 1.5, load: 0.5, page: 2000.0, other: None },
            cpu_seconds: 0.1,
        }
    }

    fn measured(measurements: Vec<Measurement>) -> Measured {
        Measured { measurements, ..Measured::default() }
    }

    fn row(name: &str) -> &'static Row {
        ROWS.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn amounts_keep_three_digits() {
        assert_eq!(amount(23.44, Unit::Time), "23.4 ns");
        assert_eq!(amount(4512.0, Unit::Time), "4.51 us");
        assert_eq!(amount(4369.4, Unit::Bytes), "4369 B");
        assert_eq!(amount(1.023, Unit::Ratio), "1.02");
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let mut results = Results::default();
        results.by_case.insert(
            "batch-2",
            measured(vec![
                measurement("batch-2", "time", 20.0),
                measurement("batch-2", "time", 90.0),
            ]),
        );
        results.by_case.insert(
            "batch-1",
            measured(vec![
                measurement("batch-1", "time", 10.0),
                measurement("batch-1", "time", 30.0),
            ]),
        );
        let figure = Figure::new(row("batch, 2 workers to 1"), &results);
        assert_eq!(figure.rounds, [2.0, 3.0]);
        assert_eq!(figure.value, Some(2.5));
    }

    #[test]
    fn a_figure_stands_beside_its_floor_and_target() {
        let mut results = Results::default();
        let case = "spawn-join-in-place-1";
        results.by_case.insert(case, measured(vec![measurement(case, "time", 24.0)]));
        let figure = Figure::new(row("spawn+join in place, 1 worker"), &results);
        let cells = figure.cells();
        assert_eq!(cells[1], "24.0 ns");
        assert_eq!(cells[4..], ["8.00 ns", "25.0 ns or 3 r", "yes"].map(str::to_owned));
    }

    #[test]
    fn a_skipped_figure_gives_its_reason() {
        let case = "memory-queued-1000000";
        let mut nothing = measurement(case, "bytes", 0.0);
        nothing.values.clear();
        nothing.skipped = Some("needs 5.0 GiB of memory".to_owned());
        let mut results = Results::default();
        results.by_case.insert(case, measured(vec![nothing]));
        let rows = [row("queued task, 1,000,000")];
        let page = Page::new(Machine::here(), 1, true, &rows, &results);
        let text = page.text();
        assert!(text.contains("skipped") && text.contains("needs 5.0 GiB"), "{text}");
    }

    #[test]
    fn columns_are_aligned() {
        let line = |a: &str, b: &str, c: &str| [a, b, c].map(str::to_owned);
        let text = aligned(&[line("name", "1", "x"), line("n", "100", "")]);
        assert_eq!(text, "name    1  x\nn     100\n");
    }
}
