//! Values that pass through the stages of one `cygnet::pipeline`.
//!
//! The compiler must know the number of stages, so that is a power of two: two stages per core,
//! or more if the number of cores is not a power of two. It is 128 at most, as the compiler takes
//! a minute for more; so there is one stage per core with 128 cores.

use super::Bench;
use crate::world::compute;
use cygnet::{Pipeline, Stages};
use std::convert::Infallible;
use std::time::Duration;

/// The largest number of cores that has enough stages.
pub const MOST_CORES: usize = MOST_STAGES;
const MOST_STAGES: usize = 128;
/// Number of values in flight, on up to 16 cores. More cores need more.
const IN_FLIGHT: usize = 64;

/// Defines a workload with stages of one kind. Each helper function has twice as many stages as
/// the one before.
macro_rules! stages {
    ($kind:ident) => {
        pub fn $kind(on: Bench<'_>) {
            mod stages_of {
                use super::*;

                type Values<S> = Pipeline<S, Infallible>;

                fn one(
                    values: Values<impl Stages<Infallible, Item = u64>>,
                    work: Duration,
                ) -> Values<impl Stages<Infallible, Item = u64>> {
                    values.$kind(stage(work))
                }

                stages!(two, one);
                stages!(four, two);
                stages!(eight, four);
                stages!(sixteen, eight);
                stages!(thirty_two, sixteen);
                stages!(sixty_four, thirty_two);
                stages!(one_twenty_eight, sixty_four);
            }
            measure(on, |stages, values, sum| {
                let sum = |value| *sum += value;
                let source =
                    cygnet::pipeline(0..values).in_flight(IN_FLIGHT.max(4 * on.size.cores));
                match stages {
                    2 => stages_of::two(source, on.size.work).ordered(sum).run(),
                    4 => stages_of::four(source, on.size.work).ordered(sum).run(),
                    8 => stages_of::eight(source, on.size.work).ordered(sum).run(),
                    16 => stages_of::sixteen(source, on.size.work).ordered(sum).run(),
                    32 => stages_of::thirty_two(source, on.size.work).ordered(sum).run(),
                    64 => stages_of::sixty_four(source, on.size.work).ordered(sum).run(),
                    128 => stages_of::one_twenty_eight(source, on.size.work).ordered(sum).run(),
                    _ => panic!("steps need 1 to {MOST_CORES} cores"),
                }
                .expect("it is never cancelled");
            });
        }
    };
    ($twice:ident, $once:ident) => {
        pub(super) fn $twice(
            values: Values<impl Stages<Infallible, Item = u64>>,
            work: Duration,
        ) -> Values<impl Stages<Infallible, Item = u64>> {
            $once($once(values, work), work)
        }
    };
}

stages!(ordered);
stages!(parallel);

/// This is not a closure in the function that adds the stage: its type would then contain the
/// types of all stages before.
fn stage(work: Duration) -> impl Fn(u64) -> u64 + Send + Sync {
    move |value| {
        compute(work);
        value + 1
    }
}

fn measure(on: Bench<'_>, pass: impl Fn(u64, u64, &mut u64) + Send + Sync) {
    let stages = (2 * on.size.cores).next_power_of_two().min(MOST_STAGES) as u64;
    let values = on.size.items(4_000);
    on.measure(values.saturating_mul(stages), || {
        let mut sum = 0;
        pass(stages, values, &mut sum);
        assert_eq!(sum, values * stages + values * (values - 1) / 2);
    });
}
