//! Cases: each one is measured by a process, which prints a line of JSON.

use std::time::Duration;

use anyhow::Context;
use cygnet::shutdown::Swansong;

use super::floor::Floor;
use super::ops::{inside, looped, runtime};
use super::stops::Number;
use super::stops::measured::{
    guard, guards_of_a_child, guards_of_two, guards_of_two_workers, late_guard,
};
use super::{balance, memory, ops, rings, stops, tree, waits};
use crate::measure::harness::{
    CPU, CaseResult, Delay, Measured, Run, Setting, Size, TIME, repeated, single_delays,
};
use crate::measure::line::Line;
use crate::measure::rounds::Subject;
use crate::measure::stats::median;
use crate::measure::work::{Speed, Work};
use crate::output;

/// Key of the median time of an interrupted poll, less that of a bare one.
pub const BEYOND: &str = "beyond";

/// Tasks in a batch.
const BATCH: Size = Size(100_000, 10_000);
/// How long a worker is left idle: until it surely sleeps, and while it still searches.
const ASLEEP: Duration = Duration::from_millis(3);
const SEARCHING: Duration = Duration::from_micros(5);
/// Duration of a stolen task after which its thief goes on searching, with a margin.
const LOOT: Duration = Duration::from_micros(20);
/// Number of tasks that wait and then compute, and how long each of them computes.
const BALANCED: u32 = 1000;
const BALANCED_WORK: Duration = Duration::from_micros(100);
/// What a job computes between two check-ins.
const CHECKED: Duration = Duration::from_micros(100);
/// Tasks that sleep at the same time.
const SLEEPERS: Size = Size(1_000_000, 20_000);

/// One thing to measure.
pub struct Case {
    /// Its name for `--measure`.
    pub name: &'static str,
    /// Number of worker threads.
    workers: usize,
    /// The floor that is measured in the same process, in addition to the usual ones.
    pub floor: Floor,
    /// Number of rounds beyond which nothing is learnt. Times differ from round to round and with
    /// the load of the machine. Bytes hardly vary, whatever the load.
    most_rounds: u32,
    run: Run,
}

/// Number of rounds that measure bytes.
pub const ROUNDS_OF_BYTES: u32 = 3;

/// A case that measures times.
const fn timed(name: &'static str, workers: usize, run: Run) -> Case {
    Case { name, workers, floor: Floor::Rmw, most_rounds: u32::MAX, run }
}

/// A case with a step between two threads as its floor.
const fn handed(name: &'static str, workers: usize, run: Run) -> Case {
    Case { floor: Floor::Handoff, ..timed(name, workers, run) }
}

/// A case that measures bytes.
const fn sized(name: &'static str, run: Run) -> Case {
    Case { most_rounds: ROUNDS_OF_BYTES, ..timed(name, 1, run) }
}

/// All cases, in the order of a round.
#[rustfmt::skip]
pub const CASES: &[Case] = &[
    timed("coroutine-switch", 1, |s| Ok(repeated(s, ops::coroutine_switches))),
    timed("spawn-join-in-place-1", 1, |s| looped(s, ops::spawn_join_in_place)),
    timed("spawn-join-in-place-2", 2, |s| looped(s, ops::spawn_join_in_place)),
    timed("spawn-join-own-stack-1", 1, |s| looped(s, ops::spawn_join_own_stack)),
    timed("spawn-join-own-stack-2", 2, |s| looped(s, ops::spawn_join_own_stack)),
    timed("spawn-join-loop-1", 1, |s| looped(s, ops::spawn_join_through_loop)),
    timed("spawn-join-loop-2", 2, |s| looped(s, ops::spawn_join_through_loop)),
    timed("spawn-join-yielding-1", 1, |s| looped(s, ops::spawn_join_yielding)),
    timed("spawn-join-yielding-2", 2, |s| looped(s, ops::spawn_join_yielding)),
    timed("start-in-place", 1, |s| started(s, ops::start_in_place)),
    timed("start-own-stack", 1, |s| started(s, ops::start_on_own_stack)),
    timed("start-elsewhere-searching", 2, |s| start_elsewhere(s, SEARCHING, LOOT)),
    timed("start-elsewhere-napping", 2, |s| start_elsewhere(s, Duration::ZERO, Duration::ZERO)),
    timed("start-elsewhere-asleep", 2, |s| start_elsewhere(s, ASLEEP, LOOT)),
    handed("start-from-outside", 2, |s| start_from_outside(s, Duration::ZERO)),
    handed("start-from-outside-asleep", 2, |s| start_from_outside(s, ASLEEP)),
    handed("start-beside-jobs-1", 1, start_beside_jobs),
    handed("start-beside-jobs-2", 2, start_beside_jobs),
    timed("batch-1", 1, batch),
    timed("batch-2", 2, batch),
    timed("yield-2", 1, |s| looped(s, |n| ops::yields(n, 2))),
    timed("yield-1000", 1, |s| looped(s, |n| ops::yields(n, 1000))),
    timed("ping-pong-home", 1, |s| looped(s, ops::ping_pong_at_home)),
    handed("ping-pong-across", 2, |s| looped(s, ops::ping_pong_across)),
    handed("spawn-from-outside", 2, ops::from_outside),
    Case { floor: Floor::Threads, ..timed("runtime", 2, |s| Ok(repeated(s, |n| ops::life_of_a_runtime(n, s.workers)))) },
    timed("balance-together-1", 1, |s| balance(s, balance::woken_together)),
    timed("balance-together-2", 2, |s| balance(s, balance::woken_together)),
    timed("balance-at-once-1", 1, |s| balance(s, balance::woken_at_once)),
    timed("balance-at-once-2", 2, |s| balance(s, balance::woken_at_once)),
    timed("first-start", 1, first_start),
    timed("load", 1, |s| looped(s, tree::loads)),
    timed("asked-by-a-handle", 1, |s| looped(s, tree::asks_of_a_handle)),
    timed("asked", 1, |s| looped(s, tree::asks)),
    timed("scope", 1, |s| looped(s, |n| tree::scopes(n, 0))),
    timed("scope-among-siblings", 1, |s| looped(s, |n| tree::scopes(n, 1000))),
    timed("timeout", 1, |s| looped(s, tree::timeouts)),
    timed("timer-1000000", 1, timer_beside_sleepers),
    timed("sleepers-1000000", 1, sleepers),
    timed("cancelled-tree", 1, |s| cancelled_tree(s, tree::cancelled_tree)),
    timed("cancelled-tree-handles", 1, |s| cancelled_tree(s, tree::cancelled_tree_with_handles)),
    timed("mutex", 1, |s| looped(s, waits::locks)),
    timed("mutex-std", 1, |s| looped(s, waits::locks_of_std)),
    timed("mutex-64-1", 1, |s| looped(s, waits::contended_locks)),
    timed("mutex-64-2", 2, |s| looped(s, waits::contended_locks)),
    timed("channel-1-1", 1, |s| looped(s, |n| waits::passed_values(n, 1))),
    timed("channel-1-2", 2, |s| looped(s, |n| waits::passed_values(n, 1))),
    timed("channel-4-1", 1, |s| looped(s, |n| waits::passed_values(n, 4))),
    timed("channel-4-2", 2, |s| looped(s, |n| waits::passed_values(n, 4))),
    timed("oneshot", 1, |s| looped(s, waits::oneshots)),
    timed("select", 1, |s| looped(s, waits::selects)),
    handed("blocking", 1, |s| looped(s, waits::blocking_calls)),
    timed("ring-bare", 1, |s| looped(s, rings::bare_messages)),
    timed("ring-bare-batch", 1, |s| looped(s, rings::bare_batches)),
    timed("ring-single", 1, |s| looped(s, rings::single_messages)),
    timed("ring-single-batch", 1, |s| looped(s, rings::single_batches)),
    timed("ring-multi", 1, |s| looped(s, rings::multi_messages)),
    timed("ring-multi-batch", 1, |s| looped(s, rings::multi_batches)),
    timed("guard", 1, |s| looped(s, stops::guards::<Swansong>)),
    timed("guard-outside", 1, guard::<Swansong>),
    timed("guard-outside-late", 1, late_guard::<Swansong>),
    timed("guard-two", 2, guards_of_two_workers::<Swansong>),
    timed("guard-two-outside", 2, guards_of_two::<Swansong>),
    timed("guard-two-child", 2, guards_of_a_child::<Swansong>),
    timed("guard-deep", 1, |s| looped(s, stops::deep_guards::<Swansong>)),
    timed("guard-deep-alone", 1, |s| looped(s, stops::deep_guards_alone::<Swansong>)),
    timed("interrupt-future", 1, |s| interrupted(s, |n| stops::polls(Number::some(), n), stops::interrupted_polls::<Swansong>)),
    #[cfg(feature = "futures")]
    timed("interrupt-stream", 1, |s| interrupted(s, |n| stops::stream_polls(Number::some(), n), stops::interrupted_stream_polls::<Swansong>)),
    timed("interrupt-iterator", 1, |s| interrupted(s, |n| stops::steps(Number::some(), n), stops::interrupted_steps::<Swansong>)),
    timed("child", 1, |s| looped(s, |n| stops::children::<Swansong>(n, 0))),
    timed("child-siblings", 1, |s| looped(s, |n| stops::children::<Swansong>(n, 1000))),
    timed("child-guard", 1, |s| looped(s, stops::guarded_children::<Swansong>)),
    timed("shut-down-10000", 1, |s| {
        let count = s.size(Size(10_000, 1_000));
        inside(s, |s| stops::measured::stops::<Swansong>(s, count).each(count))
    }),
    sized("memory-parked-100000", |s| memory::parked(s.size(Size(100_000, 10_000)))),
    sized("memory-parked-1000000", |s| memory::parked(s.size(Size(1_000_000, 20_000)))),
    sized("memory-deep-100000", |s| memory::deep(s.size(Size(100_000, 10_000)))),
    sized("memory-queued-1000000", |s| memory::queued(s.size(Size(1_000_000, 100_000)))),
];

impl Subject for &'static Case {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    /// The measuring rounds are spread evenly.
    fn is_due(&self, round: u32, of: u32) -> bool {
        let due = u64::from(of.min(self.most_rounds));
        u64::from(round) * due % u64::from(of) < due
    }

    fn wants_quiet(&self) -> bool {
        self.most_rounds > ROUNDS_OF_BYTES
    }
}

/// Finds the case of that name.
pub fn find(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}

/// Measures a case and prints its line.
///
/// # Errors
/// No case has that name, or the output cannot be written.
pub fn measure(name: &str, quick: bool) -> anyhow::Result<()> {
    let case = find(name).with_context(|| format!("no case is called {name}"))?;
    let setting = Setting::new(quick, case.workers, Speed::measure());
    let floors = case.floor.measure(&setting);
    output::print_json(&Line { floors, ..Line::from((case.run)(&setting)) }, false)
}

fn started(setting: &Setting, start: impl FnMut() -> Delay + Send) -> CaseResult {
    inside(setting, |setting| single_delays(setting, start))
}

fn start_elsewhere(setting: &Setting, gap: Duration, work: Duration) -> CaseResult {
    let work = setting.work(work);
    started(setting, || ops::start_elsewhere(gap, work))
}

/// Every worker has a job that checks in now and then.
fn start_beside_jobs(setting: &Setting) -> CaseResult {
    let runtime = runtime(setting.workers);
    let work = setting.work(CHECKED);
    let job = move || {
        while cygnet::checkpoint().is_ok() {
            work.run(1);
        }
    };
    let jobs: Vec<_> = (0..setting.workers).map(|_| runtime.spawn(job)).collect();
    let delays = single_delays(setting, || ops::start_from_outside(&runtime, CHECKED));
    drop(jobs);
    Ok(delays)
}

fn start_from_outside(setting: &Setting, gap: Duration) -> CaseResult {
    let runtime = runtime(setting.workers);
    Ok(single_delays(setting, || ops::start_from_outside(&runtime, gap)))
}

/// Cost per task of a process's first batch, and of its later batches.
fn batch(setting: &Setting) -> CaseResult {
    let size = setting.size(BATCH);
    inside(setting, |setting| {
        let first = ops::batches(1, size).as_nanos() as f64;
        repeated(setting, |n| ops::batches(n, size)).and("first", first).each(size)
    })
}

/// Time of one run of `variant`, from the first spawn to the end of the last child.
fn balance(setting: &Setting, variant: fn(u32, Work) -> Duration) -> CaseResult {
    let work = setting.work(BALANCED_WORK);
    looped(setting, |n| (0..n).map(|_| variant(BALANCED, work)).sum())
}

/// Cost of a spawn, first start and park: on unused stacks, and again on the same stacks.
fn first_start(setting: &Setting) -> CaseResult {
    let count = setting.size(Size(100_000, 5_000));
    let time = || {
        let (time, tasks) = ops::park_many(count, || ());
        ops::release_many(tasks);
        time.as_nanos() as f64
    };
    let is_short = |times: &[f64]| times.iter().sum::<f64>() < setting.measured.as_nanos() as f64;
    let (mut fresh, mut warm) = (Vec::new(), Vec::new());
    while is_short(&fresh) || is_short(&warm) {
        runtime(setting.workers).block_on(|| {
            fresh.push(time());
            warm.push(time());
            while is_short(&warm) {
                warm.push(time());
            }
        });
    }
    Ok(Measured::of([("fresh", median(&fresh)), ("warm", median(&warm))]).each(count))
}

/// Cost of a timeout beside a million sleepers, and the part of its timer.
fn timer_beside_sleepers(setting: &Setting) -> CaseResult {
    inside(setting, |setting| {
        tree::beside_sleepers(setting.size(SLEEPERS), || {
            let with = repeated(setting, tree::timeouts);
            let without = repeated(setting, tree::timeouts_without_a_timer);
            let timer = with.values[TIME] - without.values[TIME];
            with.and("timer", timer)
        })
    })
}

/// Processor time of a million tasks that sleep once: on unused stacks, and again.
fn sleepers(setting: &Setting) -> CaseResult {
    inside(setting, |setting| {
        let times = ["fresh", CPU].map(|key| (key, tree::cpu_of_sleepers(setting.size(SLEEPERS))));
        Measured::of(times)
    })
}

/// Cost of an interrupted poll, and its excess over a bare poll. Bare polls are measured in the
/// same process before and after, so that a change of clock speed affects both.
fn interrupted(
    setting: &Setting,
    mut bare: impl FnMut(u64) -> Duration + Send,
    interrupted: impl FnMut(u64) -> Duration + Send,
) -> CaseResult {
    inside(setting, |setting| {
        let before = repeated(setting, &mut bare).values[TIME];
        let with = repeated(setting, interrupted);
        let after = repeated(setting, &mut bare).values[TIME];
        let beyond = with.values[TIME] - (before + after) / 2.0;
        with.and(BEYOND, beyond)
    })
}

/// Cost of cancelling a tree of 100,000 nodes, per node.
fn cancelled_tree(setting: &Setting, cancelled: fn(usize) -> (Duration, Duration)) -> CaseResult {
    let count = setting.size(Size(100_000, 1_000));
    inside(setting, |setting| tree::of_a_node(setting, count, "asked", cancelled))
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
    fn bytes_do_not_need_quiet_and_are_measured_in_a_few_rounds_spread_evenly() {
        let bytes = find("memory-parked-100000").unwrap();
        let times = find("yield-2").unwrap();
        assert!(times.wants_quiet() && !bytes.wants_quiet());
        let due = |case: &'static Case, of: u32| -> Vec<u32> {
            (0..of).filter(|&round| case.is_due(round, of)).collect()
        };
        assert_eq!(due(bytes, 15), [0, 5, 10]);
        assert_eq!(due(bytes, 4), [0, 2, 3]);
        assert_eq!(due(bytes, 2), [0, 1]);
        assert_eq!(due(times, 4), [0, 1, 2, 3]);
        assert_eq!(due(times, 15).len(), 15);
    }

    #[test]
    fn a_name_that_no_case_has_is_refused() {
        assert!(measure("nothing", true).unwrap_err().to_string().contains("nothing"));
    }
}
