//! Tests in simulation: with CYGNET_SIM_SEEDS each is run by so many seeds.

use cygnet::sim::{self, Options};

/// Of each test, if it is to be simulated.
pub(crate) fn seeds() -> Option<u64> {
    let seeds = std::env::var("CYGNET_SIM_SEEDS").ok()?;
    Some(seeds.parse().expect("CYGNET_SIM_SEEDS is a number"))
}

pub(crate) fn check(seeds: u64, test: impl Fn()) {
    sim::check(&Options::new().seeds(0..seeds).most_steps(20_000_000), test);
}
