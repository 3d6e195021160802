//! Tests that need a process of their own: they change limits or handlers, measure the process, or
//! end it by a signal. Such a test runs the test binary again for itself alone.

use std::env;
use std::process::{Command, Output};

const ROLE: &str = "CYGNET_TEST_ROLE";

/// In the child: the role it was started for.
pub(crate) fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// Runs the test `name` (its full path without the crate) again, in a role.
pub(crate) fn rerun(name: &str, role: &str) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1", "--include-ignored"])
        .env(ROLE, role)
        .output()
        .unwrap()
}

/// Runs `body` in a process of its own, as the test `name`, and passes its failure on.
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
