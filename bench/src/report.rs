//! Runs a job, measures it and reports its outcome.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use cygnet::Runtime;
use serde::Serialize;

use crate::cli::Common;
use crate::files::Failure;
use crate::measure::machine::cpu_time;
use crate::measure::progress::Progress;
use crate::output;

/// The result of a job.
///
/// Serialised, it is the job's part of the JSON object.
pub(crate) trait Outcome: PartialEq + Send + Serialize {
    /// The result as text, for the standard output.
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()>;

    /// The beginning of the closing line.
    fn summary(&self) -> String;

    /// The files that could not be read. Any failure makes the exit status 1.
    fn failures(&self) -> &[Failure] {
        &[]
    }
}

/// What one run cost.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    workers: usize,
    tasks: u64,
    steals: u64,
    parks: u64,
    wall_seconds: f64,
    cpu_seconds: f64,
}

/// A job's outcome and cost, and its cost with one worker if that was requested.
#[derive(Serialize)]
pub(crate) struct Report<'a, T> {
    job: &'a str,
    /// The result of the job.
    #[serde(flatten)]
    pub(crate) outcome: T,
    figures: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<Figures>,
    /// Wall time with one worker divided by wall time with all.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// Runs `work` on a runtime built from the options, and once more on one worker if they ask for
/// it. The progress bar counts things called `unit`.
///
/// # Errors
///
/// The runtime cannot be built, or the results of the two runs differ.
pub(crate) fn measure<'a, T: Outcome>(
    job: &'a str,
    unit: &str,
    options: &Common,
    work: impl Fn(&Progress) -> T + Sync,
) -> anyhow::Result<Report<'a, T>> {
    let progress = Progress::new(!options.quiet, unit);
    let run = |workers| {
        progress.restart();
        run(workers, &|| work(&progress))
    };
    let (outcome, figures) = run(options.workers)?;
    let mut report = Report { job, outcome, figures, serial: None, ratio: None };
    if options.compare_serial {
        let (outcome, serial) = run(Some(1))?;
        if outcome != report.outcome {
            bail!("the run with one worker had a different result: did the input change?");
        }
        report.ratio = Some(serial.wall_seconds / report.figures.wall_seconds);
        report.serial = Some(serial);
    }
    Ok(report)
}

/// Runs `work` once, on a runtime of its own.
fn run<T: Send>(
    workers: Option<usize>,
    work: &(impl Fn() -> T + Sync),
) -> anyhow::Result<(T, Figures)> {
    let mut builder = Runtime::builder();
    if let Some(workers) = workers {
        builder = builder.workers(workers);
    }
    let runtime = builder.build().context("cannot start the workers")?;
    let (began, used_before) = (Instant::now(), cpu_time());
    let outcome = runtime.block_on(work);
    let (wall, used) = (began.elapsed(), cpu_time().saturating_sub(used_before));
    let metrics = runtime.metrics();
    let figures = Figures {
        workers: runtime.workers(),
        tasks: metrics.tasks(),
        steals: metrics.steals(),
        parks: metrics.workers.iter().map(|worker| worker.parks).sum(),
        wall_seconds: wall.as_secs_f64(),
        cpu_seconds: used.as_secs_f64(),
    };
    Ok((outcome, figures))
}

impl<T: Outcome> Report<'_, T> {
    /// Prints the failures and the closing line on the standard error, and the result on the
    /// standard output.
    ///
    /// # Errors
    ///
    /// The standard output cannot be written.
    pub(crate) fn publish(&self, options: &Common) -> anyhow::Result<ExitCode> {
        // Failures come first, so that they are reported even if the reader closes the pipe
        // early.
        for failure in self.outcome.failures() {
            output::tell(&failure.message());
        }
        if options.json {
            output::print_json(self, false)?;
        } else {
            output::print(|out| self.outcome.write_text(out))?;
        }
        if !options.quiet {
            output::tell(&self.closing_line());
        }
        let clean = self.outcome.failures().is_empty();
        Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The closing line.
    fn closing_line(&self) -> String {
        let Figures { workers, tasks, steals, wall_seconds, cpu_seconds, .. } = self.figures;
        let mut line = format!(
            "cygnet: {}; {}, {} on {}; wall {}, CPU {}",
            self.outcome.summary(),
            counted(tasks, "task"),
            counted(steals, "steal"),
            counted(workers as u64, "worker"),
            seconds(wall_seconds),
            seconds(cpu_seconds),
        );
        if let (Some(serial), Some(ratio)) = (&self.serial, self.ratio) {
            line += &format!(
                "; one worker: wall {}, CPU {}, {ratio:.2} times as long",
                seconds(serial.wall_seconds),
                seconds(serial.cpu_seconds),
            );
        }
        line
    }
}

/// Formats a time to the millisecond, or to the microsecond if it is short.
fn seconds(time: f64) -> String {
    if time < 0.1 { format!("{time:.6} s") } else { format!("{time:.3} s") }
}

/// Formats a number with the noun it counts.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats a number of bytes in the unit that fits.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_the_unit_that_fits() {
        let told = [1, 1023, 1024, 1_048_575, 1_048_576, u64::MAX].map(human_bytes);
        assert_eq!(told, ["1 byte", "1023 bytes", "1.0 KiB", "1.0 MiB", "1.0 MiB", "16384.0 PiB"]);
    }
}
