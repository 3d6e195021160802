//! `cygnet scale`, which is a program of its own.
//!
//! The model of a machine is part of the library's simulation, which a build switches on for
//! everything that it builds. A program with the simulation in it is no measure of speed, so
//! `cygnet` itself must not contain it.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow};

use crate::cli::ScaleArgs;

/// The program, which lies beside this one.
const PROGRAM: &str = "cygnet-scale";

/// Becomes the program, so that its exit status and its signals are those of this process.
///
/// # Errors
/// The program is not there, or cannot be executed.
pub(crate) fn run(args: &ScaleArgs) -> anyhow::Result<ExitCode> {
    let here = std::env::current_exe().context("cannot find this program's file")?;
    let program = here.with_file_name(PROGRAM);
    // Returns only if it fails.
    let error = Command::new(&program).args(&args.args).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "scale needs the program {}, which is not there; `cargo build --release --package \
             {PROGRAM}` builds it (a program of its own, because the simulation in it would make \
             this one slower)",
            program.display(),
        ),
        _ => anyhow!(error).context(format!("cannot execute {}", program.display())),
    })
}
