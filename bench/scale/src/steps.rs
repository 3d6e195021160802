//! Values that pass through the stages of one `cygnet::pipeline`.
//!
//! The compiler must know the number of stages, so that is a power of two: two stages per core,
//! or more if the number of cores is not a power of two.

use crate::cases::Bench;
use crate::world::compute;
use cygnet::{Pipeline, Stages};
use std::convert::Infallible;
use std::time::Duration;

/// Number of values in flight.
const IN_FLIGHT: usize = 64;

/// Defines a workload with stages of one kind. Each helper function has twice as many stages as
/// the one before.
macro_rules! stages {
    ($kind:ident) => {
        pub fn $kind(on: Bench<'_>) {
            mod many {
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
            }
            measure(on, |stages, values, sum| {
                let sum = |value| *sum += value;
                let source = cygnet::pipeline(0..values).in_flight(IN_FLIGHT);
                match stages {
                    2 => many::two(source, on.size.work).ordered(sum).run(),
                    4 => many::four(source, on.size.work).ordered(sum).run(),
                    8 => many::eight(source, on.size.work).ordered(sum).run(),
                    16 => many::sixteen(source, on.size.work).ordered(sum).run(),
                    32 => many::thirty_two(source, on.size.work).ordered(sum).run(),
                    64 => many::sixty_four(source, on.size.work).ordered(sum).run(),
                    _ => panic!("steps support at most 32 cores"),
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
    let stages = (2 * on.size.cores).next_power_of_two() as u64;
    let values = on.size.items(4_000);
    on.measure(values * stages, || {
        let mut sum = 0;
        pass(stages, values, &mut sum);
        assert_eq!(sum, values * stages + values * (values - 1) / 2);
    });
}
