//! `join`: both halves run once each and to their end, whoever runs the second; what either of them borrows,
//! throws or waits for.

mod depth;
mod endings;
mod halves;
mod places;

use crate::common::{self, spin_loop};
use cygnet::join;
use std::sync::atomic::{AtomicBool, Ordering};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// Spins, without a suspension, until it is so: somebody else must make it so.
fn spin_until(so: &AtomicBool) {
    while !so.load(Ordering::Acquire) {
        spin_loop();
        common::thread::yield_now();
    }
}
