//! Performs a number of operations and nothing else, for a tool that counts instructions. The
//! difference between runs of N and of 2 N operations is the cost of N operations.

use std::time::Duration;

use anyhow::{Context, bail};
use cygnet::sync::{bounded, unbounded};

use super::{ops, rings, waits};

/// An operation that can be counted: its name, and a function that runs it on one worker.
type Counted = (&'static str, fn(u64) -> Duration);

const COUNTED: &[Counted] = &[
    ("coroutine-switch", ops::coroutine_switches),
    ("join", |n| inside(n, ops::joins)),
    // An operation is a leaf and a fork.
    ("nested-joins", |n| inside(n, ops::nested_joins)),
    ("spawn-join-in-place", |n| inside(n, ops::spawn_join_in_place)),
    ("spawn-join-own-stack", |n| inside(n, ops::spawn_join_own_stack)),
    ("spawn-join-loop", |n| inside(n, ops::spawn_join_through_loop)),
    ("spawn-join-yielding", |n| inside(n, ops::spawn_join_yielding)),
    // An operation is one task; a batch has a thousand.
    ("batch", |n| inside(n, |n| ops::batches(n.div_ceil(1000), 1000))),
    ("yield-2", |n| inside(n, |n| ops::yields(n, 2))),
    ("yield-1000", |n| inside(n, |n| ops::yields(n, 1000))),
    ("checkpoint", |n| inside(n, ops::checkpoints)),
    ("ping-pong", |n| inside(n, ops::ping_pong_at_home)),
    ("round-trip-rendezvous", |n| inside(n, |n| waits::round_trips(n, || bounded(0)))),
    ("round-trip-bounded", |n| inside(n, |n| waits::round_trips(n, || bounded(1)))),
    ("round-trip-unbounded", |n| inside(n, |n| waits::round_trips(n, unbounded))),
    ("request-oneshot", |n| inside(n, waits::requests)),
    ("turn-at-mutex", |n| inside(n, waits::turns)),
    ("ring-bare", |n| inside(n, rings::bare_messages)),
    ("ring-bare-batch", |n| inside(n, rings::bare_batches)),
    ("ring-single", |n| inside(n, rings::single_messages)),
    ("ring-single-batch", |n| inside(n, rings::single_batches)),
    ("ring-multi", |n| inside(n, rings::multi_messages)),
    ("ring-multi-batch", |n| inside(n, rings::multi_batches)),
    ("spawn-from-outside", |n| ops::spawn_from_outside(&ops::runtime(1), n)),
];

/// Runs an operation inside a task of a runtime with one worker.
fn inside(n: u64, operation: fn(u64) -> Duration) -> Duration {
    ops::runtime(1).block_on(move || operation(n))
}

/// Runs the operation of that name `count` times.
///
/// # Errors
/// No operation has that name, or `count` is not a number.
pub fn run(name: &str, count: &str) -> anyhow::Result<()> {
    let count = count.parse().with_context(|| format!("not a number of operations: {count}"))?;
    let Some((_, operation)) = COUNTED.iter().find(|(known, _)| *known == name) else {
        let names: Vec<_> = COUNTED.iter().map(|(name, _)| *name).collect();
        bail!("no operation is called {name}; there are: {}", names.join(", "));
    };
    operation(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_can_be_counted() {
        for (name, _) in COUNTED {
            run(name, "100").unwrap();
        }
        assert!(run("nothing", "1").unwrap_err().to_string().contains("yield-2"));
        assert!(run("yield-2", "many").is_err());
    }
}
