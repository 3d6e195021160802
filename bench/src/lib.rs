//! The `cygnet` command: runs compute jobs on the library and measures it.
//!
//! A library, whose measuring part the criterion benches share.

mod cli;
pub mod clock;
pub mod compare;
pub mod figures;
mod files;
mod jobs;
mod names;
mod progress;
mod report;
pub mod soak;
pub mod turns;

use std::io;
use std::process::ExitCode;

use clap::Parser;

/// Does what the command line says.
pub fn command() -> ExitCode {
    let outcome = match cli::Cli::parse().command {
        cli::Command::Run { job } => jobs::run(job),
        cli::Command::Bench(args) => Ok(figures::run(&args)),
        cli::Command::Compare(args) => Ok(compare::run(&args)),
        cli::Command::Soak(args) => Ok(soak::run(&args)),
    };
    match outcome {
        Ok(status) => status,
        Err(error) => {
            // Whoever closed the pipe has read all that it wanted; there is nobody to tell.
            if !is_broken_pipe(&error) {
                report::tell(&format!("cygnet: {error:#}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of the standard output has gone away.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
