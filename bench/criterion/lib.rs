//! An empty library, as a package needs a library or a program. `cargo bench -p cygnet-criterion`
//! runs the benches.
