//! Sequence barriers, sequencers, and the rings that are made of them: numbers that wrap around,
//! claims that are given back, and waits that are cut short and leave nothing.

mod arithmetic;
mod barrier;
#[path = "../common/mod.rs"]
mod common;
mod group;
mod model;
mod multi;
mod random;
mod single;
mod spinning;
mod storm;
mod typed;

use common::prelude::*;
use cygnet::ring::sequence::WaitStrategy;

/// Shows a behaviour with each strategy and each of the usual numbers of workers.
fn with_each_strategy(show: impl Fn(&Runtime, WaitStrategy) + Sync) {
    STRATEGIES.into_iter().for_each(|strategy| with_each(|rt| show(rt, strategy)));
}

const STRATEGIES: [WaitStrategy; 3] =
    [WaitStrategy::Park, WaitStrategy::SpinThenPark, WaitStrategy::Spin];
