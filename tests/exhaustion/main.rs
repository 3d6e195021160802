//! Behaviour without a free stack: tasks wait, children are run in place, and only a true
//! deadlock is an error, which says what ran out.

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod guests;
mod waiting;

use cygnet::Runtime;

/// Guests have a quarter of it, which must do for a sanitizer too.
const STACK: usize = if common::SANITIZED { 1 << 20 } else { 128 << 10 };

fn runtime(workers: usize, stacks: usize) -> Runtime {
    Runtime::builder().workers(workers).max_stacks(stacks).stack_size(STACK).build().unwrap()
}
