//! The comparison: the same work on cygnet and on other runtimes, side by side.
//!
//! * [`cases`]: what is compared; [`kernels`]: the work, written once over what can fork.
//! * [`runtimes`]: which of them runs what, and how.
//! * [`measure`]: repetition within one process.

pub mod cases;
pub mod kernels;
pub mod measure;
pub mod runtimes;
