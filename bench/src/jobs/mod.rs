//! The jobs of `cygnet run`.

mod colour;
mod hash;
mod mandelbrot;
mod nqueens;
mod picture;
mod wordcount;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use cygnet::JoinError;

use crate::cli::{Common, Job};
use crate::{files, names};

/// Runs a job and prints its result.
pub(crate) fn run(job: Job) -> anyhow::Result<ExitCode> {
    match job {
        Job::Hash(args) => hash::run(&args),
        Job::Mandelbrot(args) => mandelbrot::run(&args),
        Job::Nqueens(args) => nqueens::run(&args),
        Job::Wordcount(args) => wordcount::run(&args),
    }
}

/// Returns the result of a job's task.
///
/// No task of a job is ever cancelled. A task without a result has panicked, and then the job
/// panics too.
fn settled<T>(joined: Result<T, JoinError>) -> T {
    joined.unwrap_or_else(|error| panic!("a task of the job failed: {error}"))
}

/// Refuses to read a pipe twice: the second run would find it empty, or wait for ever.
fn check_repeatable(paths: &[PathBuf], options: &Common) -> anyhow::Result<()> {
    match files::unrepeatable(paths) {
        Some(path) if options.compare_serial => bail!(
            "{}: not a regular file: it can be read only once, and --compare-serial reads twice",
            names::for_message(path)
        ),
        _ => Ok(()),
    }
}
