//! Parallel loops and the parallel sort: `cygnet::par`.

#[path = "../common/mod.rs"]
mod common;

mod endings;
mod loops;
mod pipeline;
mod pipeline_endings;
mod sort;
