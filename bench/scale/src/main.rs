//! Workloads of cygnet on machines with many cores: on modelled ones, or on the real one without
//! the feature `model`.
//!
//! ```text
//! cargo run --release --package cygnet-scale -- flood phases --cores 2,8,16 --work 1000
//! cargo run --release --package cygnet-scale --no-default-features -- flood --cores 2
//! ```
//!
//! Exit status: 0 on success, 1 if a run failed, an efficiency fell or a file could not be read or
//! written, 2 if the command line is wrong.

// For pipelines of 128 stages.
#![recursion_limit = "512"]

mod arguments;
mod cases;
mod check;
#[cfg(feature = "model")]
mod heap;
mod measure;
mod plan;
mod plot;
mod run;
mod table;
mod world;

use arguments::Arguments;
use clap::{CommandFactory, Parser, error::ErrorKind};
use plan::Plan;
use run::Runs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use table::Table;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.alone {
        return measure::alone(&arguments);
    }
    done(&arguments).unwrap_or_else(|error| {
        eprintln!("cygnet-scale: {error}");
        ExitCode::FAILURE
    })
}

/// Does what the command line says.
fn done(arguments: &Arguments) -> Result<ExitCode, String> {
    if let Some(file) = &arguments.check {
        return check::check(file, arguments);
    }
    if let Some(file) = &arguments.store {
        return check::store(file, arguments);
    }
    let plan = Plan::new(arguments).unwrap_or_else(|mistake| refuse(&mistake));
    plan.impossible.iter().for_each(|reason| eprintln!("cygnet-scale: {reason}"));
    let files: Vec<_> = [&arguments.json, &arguments.svg].into_iter().flatten().collect();
    files.iter().try_for_each(|file| can_write(file))?;
    let shows = !files.iter().any(|file| is_stdout(file));
    let mut table = Table::new(&plan);
    let show = |text: &str| if shows { print(text) } else { Ok(()) };
    let runs = measure::all(&plan.specs, arguments, |at, done| {
        if let Err(report) = &done.result {
            eprintln!("cygnet-scale: {} has failed:\n{report}", done.spec);
        }
        table.add(at, &done.result);
        show(&table.finished_rows())?;
        done.places.as_ref().map_or(Ok(()), |places| show(places))
    })?;
    let runs = Runs::new(runs);
    if let Some(file) = &arguments.json {
        write(file, &runs.to_json())?;
    }
    if let Some(file) = &arguments.svg {
        write(file, &plot::svg(&runs)?)?;
    }
    Ok(ExitCode::from(u8::from(runs.any_failed())))
}

/// Ends the program because the command line is wrong.
fn refuse(mistake: &str) -> ! {
    Arguments::command().error(ErrorKind::ValueValidation, mistake).exit()
}

fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Fails if the file cannot be written, before any time is spent.
fn can_write(file: &Path) -> Result<(), String> {
    if is_stdout(file) {
        return Ok(());
    }
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    if is_stdout(file) {
        return print(text);
    }
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// Prints to the standard output. A reader that has gone away is an error, not a panic.
fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| format!("cannot write the standard output: {error}"))
}
