//! What a process shows to those outside: backtraces, reports on stderr, how it dies of a fault, and the examples, as a user runs them.

#[path = "../common/mod.rs"]
mod common;

mod backtrace;
mod examples;
mod overflow;
mod reports;
