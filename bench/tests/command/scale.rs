//! `cygnet scale`, which runs the program `cygnet-scale` beside it.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::common::{Scratch, assert_ends, run, stderr, stdout};

/// A directory with the command and nothing else.
fn alone(name: &str) -> Scratch {
    let dir = Scratch::new(name);
    std::fs::hard_link(env!("CARGO_BIN_EXE_cygnet"), dir.at("cygnet")).expect("one file system");
    dir
}

#[test]
fn scale_without_its_program_says_how_to_build_it() {
    let dir = alone("scale-alone");
    let output = Command::new(dir.at("cygnet")).args(["scale", "join"]).output().expect("it runs");
    assert_ends(&output, 1);
    let said = stderr(&output);
    for part in
        [dir.text("cygnet-scale").as_str(), "`cargo build --release --package cygnet-scale`"]
    {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn scale_passes_arguments_and_the_exit_status_on() {
    let dir = alone("scale-passes");
    // A program that was just written might still be open for writing in another test's child.
    symlink("/bin/sh", dir.at("cygnet-scale")).expect("a link");
    let script = r#"printf '%s;' "$@"; exit 7"#;
    let args = ["scale", "-c", script, "sh", "--help", "-x", "a b", "--", "--version"];
    let output = Command::new(dir.at("cygnet")).args(args).output().expect("it runs");
    assert_eq!(stdout(&output), "--help;-x;a b;--;--version;");
    assert_ends(&output, 7);
}

#[test]
fn scale_that_cannot_be_executed_is_an_error() {
    let dir = alone("scale-no-program");
    dir.write("cygnet-scale", "not a program");
    let output = Command::new(dir.at("cygnet")).arg("scale").output().expect("it runs");
    assert_ends(&output, 1);
    assert!(stderr(&output).contains("cannot execute"), "{}", stderr(&output));
}

#[test]
fn scale_is_in_the_help() {
    let output = run(["help"]);
    assert!(stdout(&output).contains("  scale "), "{}", stdout(&output));
    let output = run(["help", "scale"]);
    assert!(stdout(&output).contains("--package cygnet-scale"), "{}", stdout(&output));
}
