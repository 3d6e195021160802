//! Behaviour without a free stack: tasks wait, and those that others wait for exceed the limit.

#[path = "../common/mod.rs"]
mod common;
mod deep;
mod extra;
mod others;
mod waiting;

use cygnet::Runtime;
use std::hint::black_box;
use std::mem::MaybeUninit;

const STACK: usize = if common::SANITIZED { 1 << 20 } else { 128 << 10 };

/// The size of the stack that a task really has. On ARM64 the guard is so large that it comes on
/// top of the size that was asked for, and the whole is rounded up.
const ROOM: usize = if cfg!(target_arch = "aarch64") { STACK / 2 * 3 } else { STACK };

fn runtime(workers: usize, stacks: usize) -> Runtime {
    Runtime::builder().workers(workers).max_stacks(stacks).stack_size(STACK).build().unwrap()
}

/// There were never more stacks at a time.
#[track_caller]
fn assert_stacks(rt: &Runtime, most: usize) {
    let metrics = rt.metrics();
    let (were, workers) = (metrics.stacks_high_water, metrics.workers.len());
    assert!(were <= most, "{were} stacks with {workers} workers");
}

/// Fills more than half of a stack, so that no child is run in place.
#[inline(never)]
fn deep<R>(f: impl FnOnce() -> R) -> R {
    let mut ballast = MaybeUninit::<[u8; ROOM / 8 * 5]>::uninit();
    black_box(&mut ballast);
    let result = f();
    black_box(&mut ballast);
    result
}
