//! Nothing but the benches of this package, which `cargo bench -p cygnet-criterion` runs: a package needs a library or a program.
