//! Measuring and reporting, for the figures, the comparison and the soak.
//!
//! * [`harness`], [`busy`], [`work`]: repetition within one process.
//! * [`machine`], [`memory`]: what the kernel says about the machine and the process.
//! * [`process`], [`rounds`], [`progress`]: a process for each measurement, in interleaved rounds.
//! * [`line`](mod@line): the line of JSON that such a process prints.
//! * [`rng`], [`stats`], [`verdict`]: from samples to medians and verdicts.
//! * [`text`], [`plot`]: tables and pictures.

pub mod busy;
pub mod harness;
pub mod line;
pub mod machine;
pub mod memory;
pub mod plot;
pub mod process;
pub mod progress;
pub mod rng;
pub mod rounds;
pub mod stats;
pub mod text;
pub mod verdict;
pub mod work;
