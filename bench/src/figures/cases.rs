//! Cases: each one is measured by a process, which prints a line of JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use cygnet::shutdown::Swansong;
use serde::{Deserialize, Serialize};

use super::floor::{Floor, Floors};
use super::harness::{Cost, Delays, Plan, repeat, sample};
use super::work::Work;
use super::{balance, memory, ops, rings, stops, tree, waits};
use crate::clock::cpu_time;
use crate::output;

/// The values of a case by their keys: nanoseconds per operation, or bytes per task.
pub type Values = BTreeMap<String, f64>;

/// Median time of an operation.
pub const TIME: &str = "time";
/// Processor time of an operation, on all threads.
pub const CPU: &str = "cpu";
/// Median time of an interrupted poll, less that of a bare one.
pub const BEYOND: &str = "beyond";

/// Tasks in a batch.
const BATCH: usize = 100_000;
/// How long a worker is left idle: until it surely sleeps, and while it still searches.
const ASLEEP: Duration = Duration::from_millis(3);
const SEARCHING: Duration = Duration::from_micros(5);
/// Duration of a stolen task after which its thief goes on searching, with a margin.
const LOOT: Duration = Duration::from_micros(20);
/// Number of tasks that wait and then compute, and how long each of them computes.
const BALANCED: u32 = 1000;
const BALANCED_WORK: Duration = Duration::from_micros(100);

/// One thing to measure.
pub struct Case {
    /// Its name for `--measure`.
    pub name: &'static str,
    /// The floor that is measured in the same process, in addition to the usual ones.
    pub floor: Floor,
    /// What it measures: times or bytes.
    pub kind: Kind,
    run: fn(&Plan) -> anyhow::Result<Values>,
}

/// What a case measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Times, which differ from round to round and with the load of the machine.
    Times,
    /// Bytes, which hardly vary, whatever the load.
    Bytes,
}

impl Kind {
    /// Number of rounds beyond which nothing is learnt.
    const ROUNDS_OF_BYTES: u32 = 3;

    /// How many of `of` rounds measure it.
    #[must_use]
    pub fn rounds(self, of: u32) -> u32 {
        match self {
            Kind::Times => of,
            Kind::Bytes => of.min(Kind::ROUNDS_OF_BYTES),
        }
    }

    /// Whether round `round` (from 0) of `of` measures it. The measuring rounds are spread
    /// evenly.
    #[must_use]
    pub fn is_due(self, round: u32, of: u32) -> bool {
        let due = u64::from(self.rounds(of));
        u64::from(round) * due % u64::from(of) < due
    }
}

/// The line that a measuring process prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The case.
    pub case: String,
    /// The values; empty if nothing could be measured.
    pub values: Values,
    /// Why nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// The floors in the same process.
    pub floors: Floors,
    /// Processor time of the whole process in seconds.
    pub cpu_seconds: f64,
}

/// A case that measures times.
const fn timed(name: &'static str, run: fn(&Plan) -> anyhow::Result<Values>) -> Case {
    Case { name, floor: Floor::Rmw, kind: Kind::Times, run }
}

/// A case that measures bytes.
const fn sized(name: &'static str, run: fn(&Plan) -> anyhow::Result<Values>) -> Case {
    Case { name, floor: Floor::Rmw, kind: Kind::Bytes, run }
}

/// All cases, in the order of a round.
pub const CASES: &[Case] = &[
    timed("coroutine-switch", |p| Ok(values(repeat(p, ops::coroutine_switches)))),
    timed("spawn-join-in-place-1", |p| inside(p, 1, ops::spawn_join_in_place)),
    timed("spawn-join-in-place-2", |p| inside(p, 2, ops::spawn_join_in_place)),
    timed("spawn-join-own-stack-1", |p| inside(p, 1, ops::spawn_join_own_stack)),
    timed("spawn-join-own-stack-2", |p| inside(p, 2, ops::spawn_join_own_stack)),
    timed("spawn-join-loop-1", |p| inside(p, 1, ops::spawn_join_through_loop)),
    timed("spawn-join-loop-2", |p| inside(p, 2, ops::spawn_join_through_loop)),
    timed("spawn-join-yielding-1", |p| inside(p, 1, ops::spawn_join_yielding)),
    timed("spawn-join-yielding-2", |p| inside(p, 2, ops::spawn_join_yielding)),
    timed("start-in-place", |p| delays_inside(p, 1, ops::start_in_place)),
    timed("start-own-stack", |p| delays_inside(p, 1, ops::start_on_own_stack)),
    timed("start-elsewhere-searching", |p| start_elsewhere(p, SEARCHING, LOOT)),
    timed("start-elsewhere-napping", |p| start_elsewhere(p, Duration::ZERO, Duration::ZERO)),
    timed("start-elsewhere-asleep", |p| start_elsewhere(p, ASLEEP, LOOT)),
    Case {
        floor: Floor::Handoff,
        ..timed("start-from-outside", |p| Ok(delays_outside(p, Duration::ZERO)))
    },
    Case {
        floor: Floor::Handoff,
        ..timed("start-from-outside-asleep", |p| Ok(delays_outside(p, ASLEEP)))
    },
    timed("batch-1", |p| Ok(batch(p, 1))),
    timed("batch-2", |p| Ok(batch(p, 2))),
    timed("yield-2", |p| inside(p, 1, |n| ops::yields(n, 2))),
    timed("yield-1000", |p| inside(p, 1, |n| ops::yields(n, 1000))),
    timed("ping-pong-home", |p| inside(p, 1, ops::ping_pong_at_home)),
    Case {
        floor: Floor::Handoff,
        ..timed("ping-pong-across", |p| inside(p, 2, ops::ping_pong_across))
    },
    Case { floor: Floor::Handoff, ..timed("spawn-from-outside", |p| Ok(from_outside(p))) },
    Case {
        floor: Floor::Threads,
        ..timed("runtime", |p| Ok(values(repeat(p, |n| ops::life_of_a_runtime(n, 2)))))
    },
    timed("balance-together-1", |p| balance(p, 1, balance::woken_together)),
    timed("balance-together-2", |p| balance(p, 2, balance::woken_together)),
    timed("balance-at-once-1", |p| balance(p, 1, balance::woken_at_once)),
    timed("balance-at-once-2", |p| balance(p, 2, balance::woken_at_once)),
    timed("first-start", |p| Ok(first_start(p))),
    timed("load", |p| inside(p, 1, tree::loads)),
    timed("asked-by-a-handle", |p| inside(p, 1, tree::asks_of_a_handle)),
    timed("asked", |p| inside(p, 1, tree::asks)),
    timed("scope", |p| inside(p, 1, |n| tree::scopes(n, 0))),
    timed("scope-among-siblings", |p| inside(p, 1, |n| tree::scopes(n, 1000))),
    timed("timeout", |p| inside(p, 1, tree::timeouts)),
    timed("timer-1000000", |p| Ok(timer_beside_sleepers(p))),
    timed("sleepers-1000000", |p| Ok(sleepers(p))),
    timed("cancelled-tree", |p| Ok(cancelled_tree(p, tree::cancelled_tree))),
    timed("cancelled-tree-handles", |p| Ok(cancelled_tree(p, tree::cancelled_tree_with_handles))),
    timed("mutex", |p| inside(p, 1, waits::locks)),
    timed("mutex-std", |p| inside(p, 1, waits::locks_of_std)),
    timed("mutex-64-1", |p| inside(p, 1, waits::contended_locks)),
    timed("mutex-64-2", |p| inside(p, 2, waits::contended_locks)),
    timed("channel-1-1", |p| inside(p, 1, |n| waits::passed_values(n, 1))),
    timed("channel-1-2", |p| inside(p, 2, |n| waits::passed_values(n, 1))),
    timed("channel-4-1", |p| inside(p, 1, |n| waits::passed_values(n, 4))),
    timed("channel-4-2", |p| inside(p, 2, |n| waits::passed_values(n, 4))),
    timed("oneshot", |p| inside(p, 1, waits::oneshots)),
    timed("select", |p| inside(p, 1, waits::selects)),
    Case { floor: Floor::Handoff, ..timed("blocking", |p| inside(p, 1, waits::blocking_calls)) },
    timed("ring-bare", |p| inside(p, 1, rings::bare_messages)),
    timed("ring-bare-batch", |p| inside(p, 1, rings::bare_batches)),
    timed("ring-single", |p| inside(p, 1, rings::single_messages)),
    timed("ring-single-batch", |p| inside(p, 1, rings::single_batches)),
    timed("ring-multi", |p| inside(p, 1, rings::multi_messages)),
    timed("ring-multi-batch", |p| inside(p, 1, rings::multi_batches)),
    timed("guard", |p| inside(p, 1, stops::guards::<Swansong>)),
    timed("guard-outside", |p| Ok(outside(p, stops::guards::<Swansong>))),
    timed("guard-outside-late", |p| {
        let root: Swansong = stops::crowded();
        Ok(outside(p, |n| stops::guards_of(&root, n)))
    }),
    timed("guard-two", |p| {
        inside(p, 2, |n| stops::guards_on_two_workers(&Swansong::new(), n)).map(made_together)
    }),
    timed("guard-two-outside", |p| {
        let operation = |n| stops::guards_on_two_threads(&Swansong::new(), n);
        Ok(made_together(values(repeat(p, operation))))
    }),
    timed("guard-two-child", |p| {
        let line: Vec<Swansong> = stops::line();
        inside(p, 2, |n| stops::guards_on_two_workers(&line[1], n)).map(made_together)
    }),
    timed("guard-deep", |p| inside(p, 1, stops::deep_guards::<Swansong>)),
    timed("guard-deep-alone", |p| inside(p, 1, stops::deep_guards_alone::<Swansong>)),
    timed("interrupt-future", |p| {
        let bare = |n| stops::polls(stops::Number::some(), n);
        Ok(interrupted(p, bare, stops::interrupted_polls::<Swansong>))
    }),
    #[cfg(feature = "futures")]
    timed("interrupt-stream", |p| {
        let bare = |n| stops::stream_polls(stops::Number::some(), n);
        Ok(interrupted(p, bare, stops::interrupted_stream_polls::<Swansong>))
    }),
    timed("interrupt-iterator", |p| {
        let bare = |n| stops::steps(stops::Number::some(), n);
        Ok(interrupted(p, bare, stops::interrupted_steps::<Swansong>))
    }),
    timed("child", |p| inside(p, 1, |n| stops::children::<Swansong>(n, 0))),
    timed("child-siblings", |p| inside(p, 1, |n| stops::children::<Swansong>(n, 1000))),
    timed("child-guard", |p| inside(p, 1, stops::guarded_children::<Swansong>)),
    timed("shut-down-10000", |p| Ok(stop_of_a_root(p))),
    sized("memory-parked-100000", |p| memory::parked(p.size(100_000, 10_000))),
    sized("memory-parked-1000000", |p| memory::parked(p.size(1_000_000, 20_000))),
    sized("memory-deep-100000", |p| memory::deep(p.size(100_000, 10_000))),
    sized("memory-queued-1000000", |p| memory::queued(p.size(1_000_000, 100_000))),
];

/// Finds the case of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}

/// Measures a case and prints its line.
///
/// # Errors
/// No case has that name, or the output cannot be written.
pub fn measure(name: &str, quick: bool) -> anyhow::Result<()> {
    let case = find(name).with_context(|| format!("no case is called {name}"))?;
    let floors = Floors::measure(case.floor);
    let (values, skipped) = match (case.run)(&Plan::new(quick)) {
        Ok(values) => (values, None),
        Err(reason) => (Values::new(), Some(format!("{reason:#}"))),
    };
    let measurement = Measurement {
        case: name.to_owned(),
        values,
        skipped,
        floors,
        cpu_seconds: cpu_time().as_secs_f64(),
    };
    output::print(|out| {
        serde_json::to_writer(&mut *out, &measurement)?;
        writeln!(out)
    })
}

fn values(cost: Cost) -> Values {
    Values::from([(TIME.to_owned(), cost.wall), (CPU.to_owned(), cost.cpu)])
}

/// The cost of an operation inside a task.
fn inside(
    plan: &Plan,
    workers: usize,
    operation: impl FnMut(u64) -> Duration + Send,
) -> anyhow::Result<Values> {
    let runtime = ops::runtime(workers);
    Ok(values(runtime.block_on(|| repeat(plan, operation))))
}

fn percentiles(delays: &Delays) -> Values {
    let (p50, p99) = delays.p50_and_p99();
    Values::from([("p50".to_owned(), p50), ("p99".to_owned(), p99)])
}

fn delays_inside(
    plan: &Plan,
    workers: usize,
    start: impl FnMut() -> (std::time::Instant, std::time::Instant) + Send,
) -> anyhow::Result<Values> {
    let runtime = ops::runtime(workers);
    Ok(percentiles(&runtime.block_on(|| sample(plan, start))))
}

fn start_elsewhere(plan: &Plan, gap: Duration, work: Duration) -> anyhow::Result<Values> {
    let work = if work.is_zero() { Work::NONE } else { Work::calibrate(work) };
    delays_inside(plan, 2, || ops::start_elsewhere(gap, work))
}

fn delays_outside(plan: &Plan, gap: Duration) -> Values {
    let runtime = ops::runtime(2);
    percentiles(&sample(plan, || ops::start_from_outside(&runtime, gap)))
}

/// Cost per task of a process's first batch, and of its later batches.
fn batch(plan: &Plan, workers: usize) -> Values {
    let size = plan.size(BATCH, 10_000);
    let runtime = ops::runtime(workers);
    let (first, later) = runtime.block_on(|| {
        let first = ops::batches(1, size);
        (first, repeat(plan, |n| ops::batches(n, size)))
    });
    Values::from([
        ("first".to_owned(), first.as_nanos() as f64 / size as f64),
        (TIME.to_owned(), later.wall / size as f64),
        (CPU.to_owned(), later.cpu / size as f64),
    ])
}

fn from_outside(plan: &Plan) -> Values {
    let runtime = ops::runtime(2);
    values(repeat(plan, |n| ops::spawn_from_outside(&runtime, n)))
}

/// Time of one run of `variant`, from the first spawn to the end of the last child.
fn balance(
    plan: &Plan,
    workers: usize,
    variant: fn(u32, Work) -> Duration,
) -> anyhow::Result<Values> {
    let work = Work::calibrate(BALANCED_WORK);
    inside(plan, workers, |n| (0..n).map(|_| variant(BALANCED, work)).sum())
}

/// Cost of a spawn, first start and park: on unused stacks, and again on the same stacks.
fn first_start(plan: &Plan) -> Values {
    let count = plan.size(100_000, 5_000);
    let time = || {
        let (time, tasks) = ops::park_many(count);
        ops::release_many(tasks);
        time
    };
    let (mut fresh, mut warm) = (Vec::new(), Vec::new());
    while total(&fresh) < plan.measured || total(&warm) < plan.measured {
        ops::runtime(1).block_on(|| {
            fresh.push(time());
            warm.push(time());
            while total(&warm) < plan.measured {
                warm.push(time());
            }
        });
    }
    let median = |times: &[Duration]| {
        let each: Vec<f64> = times.iter().map(|t| t.as_nanos() as f64 / count as f64).collect();
        super::stats::median(&each)
    };
    Values::from([("fresh".to_owned(), median(&fresh)), ("warm".to_owned(), median(&warm))])
}

/// Cost of a timeout beside a million sleepers, and the part of its timer.
fn timer_beside_sleepers(plan: &Plan) -> Values {
    let count = plan.size(1_000_000, 20_000);
    let (with, without) = ops::runtime(1).block_on(|| {
        tree::beside_sleepers(count, || {
            let with = repeat(plan, tree::timeouts);
            (with, repeat(plan, tree::timeouts_without_a_timer))
        })
    });
    Values::from([
        (TIME.to_owned(), with.wall),
        (CPU.to_owned(), with.cpu),
        ("timer".to_owned(), with.wall - without.wall),
    ])
}

/// Processor time of a million tasks that sleep once: on unused stacks, and again.
fn sleepers(plan: &Plan) -> Values {
    let count = plan.size(1_000_000, 20_000);
    let (fresh, warm) =
        ops::runtime(1).block_on(|| (tree::cpu_of_sleepers(count), tree::cpu_of_sleepers(count)));
    Values::from([("fresh".to_owned(), fresh), (CPU.to_owned(), warm)])
}

/// Cost of an operation on a thread that is not a worker.
fn outside(plan: &Plan, operation: impl FnMut(u64) -> Duration + Send) -> Values {
    values(stops::outside(|| repeat(plan, operation)))
}

/// Cost of one guard, where two threads or workers make guards of the same root.
fn made_together(mut values: Values) -> Values {
    values.values_mut().for_each(|value| *value /= stops::TOGETHER as f64);
    values
}

/// Cost of an interrupted poll, and its excess over a bare poll. Bare polls are measured in the
/// same process before and after, so that a change of clock speed affects both.
fn interrupted(
    plan: &Plan,
    mut bare: impl FnMut(u64) -> Duration + Send,
    interrupted: impl FnMut(u64) -> Duration + Send,
) -> Values {
    let (before, with, after) = ops::runtime(1).block_on(|| {
        let before = repeat(plan, &mut bare);
        let with = repeat(plan, interrupted);
        (before, with, repeat(plan, &mut bare))
    });
    let mut values = values(with);
    values.insert(BEYOND.to_owned(), with.wall - (before.wall + after.wall) / 2.0);
    values
}

/// Cost of stopping a root with 10,000 children, per child. Processor time is left out, as it
/// would mostly be spent on making the children.
fn stop_of_a_root(plan: &Plan) -> Values {
    let count = plan.size(10_000, 1_000);
    let stop = |n| (0..n).map(|_| stops::stop_of_a_root::<Swansong>(count)).sum();
    let cost = ops::runtime(1).block_on(|| repeat(plan, stop));
    Values::from([(TIME.to_owned(), cost.wall / count as f64)])
}

/// Cost of cancelling a tree of 100,000 nodes, per node.
fn cancelled_tree(plan: &Plan, cancelled: fn(usize) -> (Duration, Duration)) -> Values {
    let count = plan.size(100_000, 1_000);
    let (time, asked) = ops::runtime(1).block_on(|| tree::of_a_node(plan, count, cancelled));
    Values::from([(TIME.to_owned(), time), ("asked".to_owned(), asked)])
}

fn total(times: &[Duration]) -> Duration {
    times.iter().sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_cases_have_the_same_name() {
        let names: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
    }

    #[test]
    fn bytes_are_measured_in_a_few_rounds_spread_evenly() {
        let due = |kind: Kind, of: u32| -> Vec<u32> {
            (0..of).filter(|&round| kind.is_due(round, of)).collect()
        };
        assert_eq!(due(Kind::Bytes, 15), [0, 5, 10]);
        assert_eq!(due(Kind::Bytes, 4), [0, 2, 3]);
        assert_eq!(due(Kind::Bytes, 2), [0, 1]);
        assert_eq!(due(Kind::Times, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn a_name_that_no_case_has_is_refused() {
        assert!(measure("nothing", true).unwrap_err().to_string().contains("nothing"));
    }
}
