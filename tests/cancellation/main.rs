//! Cancellation: whom it reaches and how often, what it says, and what ignores it for a while.

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod deep;
mod ending;
mod handles;
mod hooks;
mod ignoring;
mod racing;
mod random;
mod tree;
mod unresponsive;
mod unwinding;
mod watching;
mod watching_from_outside;

use common::eventually;
use cygnet::{Cancelled, Runtime, park};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parks until it is cancelled, and says why.
fn parked() -> String {
    park().unwrap_err().reason().to_string()
}

/// The words of a cancel.
fn why(result: Result<(), Cancelled>) -> String {
    result.unwrap_err().reason().to_string()
}

/// Waits until so many waits more than `before` have been waited for.
fn until_parked(rt: &Runtime, before: u64, more: u64) {
    eventually("they wait", || common::parks(rt) >= before + more);
}

/// How many tasks are in a place of the program.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}
