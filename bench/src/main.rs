//! The `cygnet` command.
//!
//! Exit status: 0 on success, 1 if something could not be read, written or done, 2 if the command
//! line is wrong.

use std::process::ExitCode;

fn main() -> ExitCode {
    cygnet_bench::command()
}
