//! The result: a Markdown report with its picture, and a closing line on the terminal.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Context;

use super::faults::Fault;
use super::plot;
use super::sample::{Sample, Unit};
use super::slope::Fit;
use super::state::{Failure, Length, State, lock};
use super::verdict::{self, Row};
use crate::measure::machine::Machine;
use crate::measure::text::markdown_line;
use crate::output;
use crate::report::counted;

/// The facts about a run that are known beforehand.
#[derive(Clone)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) workers: Vec<usize>,
    /// The requested kinds or program; empty for all kinds.
    pub(crate) restricted: String,
    /// The files of the report and of the picture.
    pub(crate) out: Option<(PathBuf, PathBuf)>,
    /// Growth of the heap in use, from before the lasting runtime to after its end.
    pub(crate) left: Option<f64>,
}

impl Report {
    /// Writes or prints the report. Returns whether the run passed.
    ///
    /// # Errors
    /// A file or the standard output cannot be written.
    pub(crate) fn finish(&self, state: &State, cut_short: bool) -> anyhow::Result<bool> {
        let samples = lock(&state.samples).all().to_vec();
        let rows = verdict::rows(&samples);
        let failures = state.failures();
        let verdict = Verdict::new(&rows, &failures);
        let text = self.markdown(state, &samples, &rows, &failures, cut_short);
        let text = format!("# Soak\n\n**{}**\n\n{text}", verdict.text);
        if let Some((report, picture)) = &self.out {
            fs::write(report, text)
                .with_context(|| format!("cannot write {}", report.display()))?;
            let drawn = plot::svg(&samples)?;
            let written = fs::write(picture, drawn);
            written.with_context(|| format!("cannot write {}", picture.display()))?;
            let programs = state.programs();
            let minutes = state.elapsed().as_secs_f64() / 60.0;
            let closing = format!(
                "{}\n{programs} programs in {minutes:.1} minutes: {}\n",
                verdict.text,
                report.display()
            );
            output::print_text(&closing)?;
        } else {
            output::print_text(&text)?;
        }
        Ok(verdict.passed)
    }

    /// The report below its verdict.
    fn markdown(
        &self,
        state: &State,
        samples: &[Sample],
        rows: &[Row],
        failures: &[Failure],
        cut_short: bool,
    ) -> String {
        let mut text = String::new();
        self.head(&mut text, state, cut_short);
        programs(&mut text, state);
        slopes(&mut text, samples, rows);
        if let Some(left) = self.left.filter(|left| left.is_finite()) {
            let left = number(Unit::Bytes, left);
            let _ = writeln!(
                text,
                "\nAfter the end of the lasting runtime, the heap in use was {left} above its size before that runtime. Memory kept by the runtime's pools is not part of it."
            );
        }
        if let Some((_, picture)) = &self.out
            && let Some(name) = picture.file_name()
        {
            let _ = writeln!(text, "\n![memory and counters over time]({})", name.display());
        }
        if !failures.is_empty() {
            text.push_str("\n## Failures\n");
        }
        for failure in failures {
            let _ = writeln!(text, "\n{}:\n\n```text\n{}\n```", failure.step, failure.what.trim());
        }
        text
    }

    fn head(&self, text: &mut String, state: &State, cut_short: bool) {
        let Machine { cygnet, rustc, date, .. } = &self.machine;
        let build = if cfg!(debug_assertions) { ", debug build" } else { "" };
        let workers: Vec<_> = self.workers.iter().map(usize::to_string).collect();
        let minutes = state.elapsed().as_secs_f64() / 60.0;
        let ended = if cut_short { ", cut short" } else { "" };
        let rounds = state.rounds.load(Ordering::Relaxed);
        let _ = writeln!(text, "- {date}, cygnet {cygnet}, {rustc}{build}");
        let _ = writeln!(text, "- {}", self.machine.line());
        let (done, asked) = match state.length {
            Length::Time(length) => {
                let asked = length.as_secs_f64() / 60.0;
                let done = format!("{minutes:.1} of {asked:.1} minutes{ended}: {rounds} rounds");
                (done, format!("--minutes {asked}"))
            }
            Length::Rounds(asked) => {
                let done = format!("{rounds} of {asked} rounds{ended}, in {minutes:.1} minutes");
                (done, format!("--rounds {asked}"))
            }
        };
        let _ = writeln!(text, "- {done}, {} programs", state.programs());
        let _ = writeln!(text, "- seed {}, workers {} in turn", state.seed, workers.join(", "));
        let program = &self.restricted;
        let option = if program.contains(':') { "program" } else { "only" };
        let mut only = String::new();
        if !program.is_empty() {
            let _ = writeln!(text, "- only {program}");
            only = format!(" --{option} {program}");
        }
        let _ = writeln!(
            text,
            "- again: `cygnet soak {asked} --seed {} --workers {}{only}`\n",
            state.seed,
            workers.join(",")
        );
    }
}

/// The verdict in one line.
struct Verdict {
    passed: bool,
    text: String,
}

impl Verdict {
    fn new(rows: &[Row], failures: &[Failure]) -> Verdict {
        let leaks: Vec<_> =
            rows.iter().filter(|row| row.leaks()).map(|row| row.series.name).collect();
        let judged = rows.iter().any(|row| row.by_program.is_some());
        let mut faults = Vec::new();
        if !failures.is_empty() {
            faults.push(counted(failures.len() as u64, "failure"));
        }
        if !leaks.is_empty() {
            faults.push(format!("grows beyond its limit: {}", leaks.join(", ")));
        }
        let text = match (faults.is_empty(), judged) {
            (false, _) => format!("FAILED: {}", faults.join("; ")),
            (true, true) => "passed: no failure, and nothing grows beyond its limit".to_owned(),
            (true, false) => {
                "passed: no failure; too short to tell whether anything grows".to_owned()
            }
        };
        Verdict { passed: faults.is_empty(), text }
    }
}

fn programs(text: &mut String, state: &State) {
    text.push_str("| program | runs |\n| --- | ---: |\n");
    for (name, count) in state.counts().filter(|(_, count)| *count > 0) {
        text.push_str(&markdown_line(&[name, &count.to_string()]));
    }
    text.push_str("\n| fault | times |\n| --- | ---: |\n");
    for (fault, what) in Fault::ALL {
        text.push_str(&markdown_line(&[what, &*fault.counted().to_string()]));
    }
}

fn slopes(text: &mut String, samples: &[Sample], rows: &[Row]) {
    let at_rest = samples.iter().filter(|sample| sample.at_rest).count();
    let _ = writeln!(
        text,
        "\nOf {} samples {at_rest} were taken at rest, between rounds, when only the lasting runtime \
         exists; the counters are those of that runtime. The slopes belong to the second half of these \
         samples (Theil and Sen), with the interval of 99 %. The *sure* growth, the interval's lower end \
         times the programs of the second half, must stay below the limit.\n",
        samples.len()
    );
    text.push_str(
        "| at rest | first | last | per minute | per program | surely grown | limit | |\n",
    );
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n");
    rows.iter().for_each(|row| text.push_str(&markdown_line(&cells(row))));
}

/// The cells of a series' line.
fn cells(row: &Row) -> [String; 8] {
    let show = |value| number(row.series.unit, value);
    let mut cells = [const { String::new() }; 8];
    cells[0] = row.series.name.to_owned();
    cells[6] = show(row.series.limit);
    let Some(fit) = row.by_program else {
        cells[7] = "too few samples".to_owned();
        return cells;
    };
    cells[1] = show(fit.ends.0);
    cells[2] = show(fit.ends.1);
    // A run that stood still most of its time has too few samples over time.
    if let Some(Fit { slope, low, high, .. }) = row.by_minute {
        cells[3] = format!("{} ({} to {})", show(slope), show(low), show(high));
    }
    cells[4] = small(row.series.unit, fit.slope);
    cells[5] = show(fit.sure_growth().max(0.0));
    cells[7] = if row.leaks() { "**grows**" } else { "ok" }.to_owned();
    cells
}

/// Formats a number in a readable unit.
fn number(unit: Unit, value: f64) -> String {
    // Avoids a minus sign before zero.
    let value = if value.abs() < 0.005 { 0.0 } else { value };
    match unit {
        Unit::Bytes if value.abs() >= 10.0 * 1_048_576.0 => {
            format!("{:.1} MiB", value / 1_048_576.0)
        }
        Unit::Bytes => format!("{:.1} KiB", value / 1024.0),
        Unit::Count if value == value.trunc() => format!("{value:.0}"),
        Unit::Count => format!("{value:.2}"),
    }
}

/// Formats the small amounts that a single program may leave.
fn small(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Bytes => format!("{value:.2} B"),
        Unit::Count => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::some;
    use super::super::state::Step;
    use super::*;

    #[test]
    fn the_verdict_names_what_went_wrong() {
        let fine = verdict::rows(some(400, 0.0).all());
        assert!(Verdict::new(&fine, &[]).text.contains("nothing grows"));
        let leak = verdict::rows(some(400, 1e6).all());
        let step = Step { kind: "join", seed: 1, round: "round 0".to_owned() };
        let failures = vec![Failure { step, what: "no".to_owned() }];
        let both = Verdict::new(&leak, &failures);
        assert_eq!(both.text, "FAILED: 1 failure; grows beyond its limit: heap in use");
        assert!(!both.passed && !Verdict::new(&fine, &failures).passed);
        let short = Verdict::new(&verdict::rows(some(4, 1e9).all()), &[]);
        assert!(short.passed && short.text.contains("too short"));
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(Unit::Bytes, -0.0), "0.0 KiB");
        assert_eq!(number(Unit::Bytes, 20.0 * 1_048_576.0), "20.0 MiB");
        assert_eq!(number(Unit::Count, 3.0), "3");
        assert_eq!(number(Unit::Count, 0.25), "0.25");
    }
}
