//! The library's own messages on stderr, and the abort of a process that cannot go on.

use std::io::Write;

/// Prints a line on stderr, ignoring errors. `eprintln!` panics if it cannot write, and the test
/// harness captures it.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints `cygnet: SENTENCE; aborting` on stderr and aborts the process. For a state in which going
/// on would lose tasks or use freed memory.
#[cold]
#[inline(never)]
pub(crate) fn abort_with(sentence: &str) -> ! {
    say(&format!("cygnet: {sentence}; aborting"));
    std::process::abort()
}
