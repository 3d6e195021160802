//! The `cygnet` command: runs compute jobs on the library and measures it.

fn main() {}
