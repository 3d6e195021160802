//! The `cygnet` command: runs compute jobs on the library and measures it.
//!
//! This is a library so that the criterion benches can share its measuring part.

// These macros panic if they cannot write: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
pub mod compare;
pub mod figures;
mod files;
mod jobs;
pub mod measure;
mod names;
mod output;
mod report;
mod scale;
pub mod soak;

use std::io;
use std::process::ExitCode;

use clap::Parser;

/// Does what the command line says.
pub fn command() -> ExitCode {
    run().unwrap_or_else(|error| {
        // A reader that closed the pipe has read all it wanted.
        if !is_broken_pipe(&error) {
            output::tell(&format!("cygnet: {error:#}"));
        }
        ExitCode::FAILURE
    })
}

fn run() -> anyhow::Result<ExitCode> {
    let command = match cli::Cli::try_parse() {
        Ok(cli) => cli.command,
        // `exit` would report success even if the help could not be written.
        Err(help) if !help.use_stderr() => {
            return output::print_help(&help).map(|()| ExitCode::SUCCESS);
        }
        Err(mistake) => mistake.exit(),
    };
    match command {
        cli::Command::Run { job } => jobs::run(job),
        cli::Command::Bench(args) => figures::run(&args),
        cli::Command::Compare(args) => compare::run(&args),
        cli::Command::Soak(args) => soak::run(&args),
        cli::Command::Scale(args) => scale::run(&args),
    }
}

/// Whether the reader of the standard output has gone away.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_it = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_it))
}
