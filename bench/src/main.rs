//! The `cygnet` command.
//!
//! Exit status: 0 when all went well, 1 when something could not be read, written or done, 2 when
//! the command line is wrong.

use std::process::ExitCode;

fn main() -> ExitCode {
    cygnet_bench::command()
}
