//! Sequence barriers, sequencers, and the rings that are made of them: numbers that wrap around, claims that are given back, and that a wait which is cut short leaves nothing.

mod arithmetic;
mod barrier;
#[path = "../common/mod.rs"]
mod common;
mod group;
mod model;
mod multi;
mod random;
mod ring;
mod single;
mod spinning;
mod storm;

use common::{choices, eventually};
use std::fmt::Debug;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(10_000);

/// How many wait, as the object's own debug output says.
fn waiting(object: &impl Debug) -> usize {
    format!("{object:?}").matches(".rs:").count()
}

/// On a thread: until so many wait.
#[track_caller]
fn until_waiting(object: &impl Debug, count: usize) {
    eventually("they wait", || waiting(object) == count);
}

/// What a future is at its first poll.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
