//! The process as its users see it: backtraces, the end by a fault or a filter, and the examples.

#[path = "../common/mod.rs"]
mod common;

mod backtrace;
mod examples;
mod overflow;
mod seccomp;
#[cfg(feature = "signals")]
mod signals;
