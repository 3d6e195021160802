//! What a process shows to those outside: backtraces, how it dies of a fault, and the examples, as a user runs them.

#[path = "../common/mod.rs"]
mod common;

mod backtrace;
mod examples;
mod overflow;
mod seccomp;
