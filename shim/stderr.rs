//! The library's own sentences on stderr, and the end of a process that cannot go on.

use std::io::Write;

/// Prints a line on stderr, if there is one: `eprintln!` panics where it cannot write, and is kept
/// from the terminal by the harness of tests.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints `cygnet: SENTENCE; aborting` on stderr and aborts the process. For a state in which going
/// on would lose tasks, or use memory that has gone.
#[cold]
#[inline(never)]
pub(crate) fn abort_with(sentence: &str) -> ! {
    say(&format!("cygnet: {sentence}; aborting"));
    std::process::abort()
}
