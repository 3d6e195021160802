//! How the command behaves if its standard output or standard error cannot be written.

use std::fs::{File, OpenOptions};
use std::process::{Output, Stdio};

use crate::common::{Scratch, assert_ends, cygnet, stderr};

/// Command lines that print, one for each place in the code that prints.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "run"],
    &["run", "nqueens", "--help"],
    &["run", "nqueens", "4"],
    &["run", "nqueens", "4", "--json"],
    &["run", "hash", "/dev/null"],
    &["run", "wordcount", "/dev/null"],
    &["bench", "--list"],
    &["bench", "--measure", "yield-2", "--quick"],
    &["bench", "--quick", "--rounds", "1", "in place, p50"],
    &["bench", "--quick", "--rounds", "1", "--json", "in place, p50"],
    &["compare", "--list"],
    &["compare", "--measure", "join-10us", "serial", "1", "--quick"],
    &["compare", "--quick", "--rounds", "1", "block-on"],
    &["compare", "--quick", "--rounds", "1", "--json", "block-on"],
    &["compare", "--quick", "--rounds", "1", "--markdown", "block-on"],
    &["soak", "--list"],
    &["soak", "--rounds", "1", "--workers", "1", "--only", "join"],
];

/// A device that is always full, if the system has one.
fn full() -> Option<File> {
    OpenOptions::new().write(true).open("/dev/full").ok()
}

fn end_on(stdout: impl Into<Stdio>, args: &[&str]) -> Output {
    cygnet(args).stdout(stdout).output().expect("the binary runs")
}

#[test]
fn a_full_disk_is_an_error_whatever_is_printed() {
    for args in PRINTING {
        let Some(full) = full() else { return };
        let output = end_on(full, args);
        assert_ends(&output, 1);
        let sentence = "cygnet: cannot write to the standard output: No space left on device";
        let said = stderr(&output);
        assert!(said.lines().last().is_some_and(|l| l.starts_with(sentence)), "{args:?}: {said}");
    }
}

#[test]
fn a_closed_pipe_ends_the_command_without_a_message() {
    for args in PRINTING {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = end_on(writer, args);
        let said = stderr(&output);
        assert_ends(&output, 1);
        let quiet = !said.contains("panicked") && !said.contains("cannot write");
        assert!(quiet, "{args:?}: {said}");
    }
}

#[test]
fn a_report_in_a_file_is_there_although_the_closing_lines_cannot_be_printed() {
    let Some(full) = full() else { return };
    let scratch = Scratch::new("output-soak");
    let file = scratch.text("soak.md");
    let output = end_on(full, &["soak", "--rounds", "1", "--only", "join", "--out", &file]);
    assert_ends(&output, 1);
    assert_eq!(scratch.names(), ["soak.md", "soak.svg"]);
}

#[test]
fn a_standard_error_that_cannot_be_written_changes_nothing() {
    for (args, status) in [
        (&["run", "nqueens", "4"][..], 0),
        (&["run", "hash", "/nonexistent"], 1),
        (&["bench", "nonsense"], 1),
        (&["compare", "--list", "nonsense"], 1),
        (&["compare", "--quick", "--rounds", "1", "block-on"], 0),
        (&["soak", "--rounds", "1", "--only", "join"], 0),
        (&["soak", "--minutes", "1", "--only", "nonsense"], 1),
        (&["nonsense"], 2),
    ] {
        let Some(full) = full() else { return };
        let output = cygnet(args).stderr(full).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(status), "{args:?}");
    }
}
