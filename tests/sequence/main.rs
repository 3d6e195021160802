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
mod ring;
mod single;
mod spinning;
mod storm;

use common::{LONG, MOMENT, choices, own, poll_once, until_waiting, waiting, waits};
use cygnet::ring::sequence::WaitStrategy;

const STRATEGIES: [WaitStrategy; 3] =
    [WaitStrategy::Park, WaitStrategy::SpinThenPark, WaitStrategy::Spin];
