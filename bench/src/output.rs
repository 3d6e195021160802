//! Everything that the command writes: results on the standard output, messages on the standard
//! error.
//!
//! All output goes through here, because `println!` and `eprintln!` panic if they cannot write,
//! on a full disk or into a closed pipe.

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use serde::Serialize;

/// Writes a result to the standard output.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    // Taken apart after an error, so that a drop does not retry the bytes left in the buffer.
    let written = write(&mut out).and_then(|()| out.flush());
    let (mut stdout, _) = out.into_parts();
    written.and_then(|()| stdout.flush()).context(CANNOT_WRITE)
}

/// Writes a text to the standard output.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    print(|out| out.write_all(text.as_bytes()))
}

/// Writes a value as one object of JSON to the standard output, on one line or on many.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print_json(value: &impl Serialize, lines: bool) -> anyhow::Result<()> {
    print(|mut out| {
        if lines {
            serde_json::to_writer_pretty(&mut out, value)?;
        } else {
            serde_json::to_writer(&mut out, value)?;
        }
        writeln!(out)
    })
}

/// Writes the help or the version that `error` holds to the standard output.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print_help(error: &clap::Error) -> anyhow::Result<()> {
    error.print().and_then(|()| io::stdout().flush()).context(CANNOT_WRITE)
}

const CANNOT_WRITE: &str = "cannot write to the standard output";

/// Writes a line to the standard error. A failure of that write is ignored.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
