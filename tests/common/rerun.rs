//! Tests that need a process of their own, since they change limits or handlers, measure the
//! process, or end it by a signal. Such a test runs the test binary again for itself alone.
//!
//! The library's own tests include this file, too.

#![allow(dead_code)] // no binary of tests uses all of it

use std::env;
use std::ffi::OsString;
use std::process::{Command, Output};

const ROLE: &str = "CYGNET_TEST_ROLE";

/// In the child: the role that it was started for.
pub(crate) fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// The name of the test that the closure `body` is in.
pub(crate) fn test_of<F>(_body: &F) -> &'static str {
    let path = std::any::type_name::<F>();
    let (_crate, test) = path.split_once("::").expect("a test is in a crate");
    test.split("::{{closure}}").next().expect("a closure is in a function")
}

/// Runs the test `name` (its full path without the crate) again, in a role.
#[track_caller]
pub(crate) fn rerun(name: &str, role: &str) -> Output {
    run(&mut command(name, role))
}

/// Runs a `command` to its end. If no test has its name, the harness runs nothing and calls that a
/// success, but this function fails.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("running 1 test\n"), "no test: {command:?}\n{said}\n{complained}");
    output
}

/// The command that runs a binary. A binary of another architecture runs in an emulator.
pub(crate) fn command_of(binary: impl Into<OsString>) -> Command {
    let arch = env::consts::ARCH.to_ascii_uppercase();
    let runner = env::var(format!("CARGO_TARGET_{arch}_UNKNOWN_LINUX_GNU_RUNNER"));
    let words = runner.iter().flat_map(|runner| runner.split_whitespace()).map(OsString::from);
    let mut words = words.chain([binary.into()]);
    let mut command = Command::new(words.next().expect("at least the binary"));
    command.args(words);
    command
}

/// The command of `rerun`. A caller that does not pass it to `run` has to make sure that the test
/// was run.
pub(crate) fn command(name: &str, role: &str) -> Command {
    let mut command = command_of(env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1", "--include-ignored"])
        .env(ROLE, role);
    command
}

/// Runs `body` in a process of its own, as the test `name`, and fails if it fails.
#[track_caller]
pub(crate) fn alone(name: &str, body: impl FnOnce()) {
    if role().is_some() {
        body();
        // The harness would count a test that was filtered out as a success.
        println!("{ROLE} done");
        return;
    }
    let output = rerun(name, "alone");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("done"), "{said}\n{complained}");
    print!("{said}");
}

/// As `alone`, for a body that leaks on purpose: no search for leaks is told of it.
#[track_caller]
pub(crate) fn alone_and_leaking(name: &str, body: impl FnOnce()) {
    alone(name, || {
        body();
        if cfg!(any(cygnet_asan, cygnet_tsan)) {
            // The search begins when the process exits in the usual way.
            println!("{ROLE} done");
            // SAFETY: ends the process at once; nothing that is open here has to be saved.
            unsafe { libc::_exit(0) };
        }
    });
}
