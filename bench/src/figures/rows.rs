//! The table of figures: the value of each row, its floor and its target.

use super::cases::{BEYOND, CASES, Case, find};
use super::floor::Floor;
use crate::measure::harness::{CPU, TIME};
use crate::measure::text::{self, Unit};
use crate::measure::verdict::Target;
use crate::output;

/// The source of a row's value.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A value of a case, by the case's name and the value's key.
    Value(&'static str, &'static str),
    /// The ratio of the times of two cases, taken within each round.
    Ratio(&'static str, &'static str),
}

/// A row.
pub struct Row {
    /// Its label.
    pub name: &'static str,
    /// The source of its value.
    pub source: Source,
    /// The unit of its value.
    pub unit: Unit,
    /// The floor beside it.
    pub floor: Option<Floor>,
    /// Its target. A row without one is only stated.
    pub target: Target,
}

impl Row {
    /// The cases that must be measured for it.
    pub fn cases(&self) -> impl Iterator<Item = &'static Case> {
        let (first, second) = match self.source {
            Source::Value(case, _) => (case, None),
            Source::Ratio(first, second) => (first, Some(second)),
        };
        [Some(first), second].into_iter().flatten().filter_map(find)
    }

    /// The source of the processor time that is shown beside its wall time.
    pub fn cpu(&self) -> Option<Source> {
        match self.source {
            Source::Value(case, TIME) => Some(Source::Value(case, CPU)),
            _ => None,
        }
    }

    /// Whether the row matches one of the filters, or there are none.
    pub fn matches(&self, filters: &[String]) -> bool {
        text::matches(self.name, filters)
    }
}

type Name = &'static str;

const fn time(name: Name, case: Name, key: Name, floor: Floor, target: Target) -> Row {
    Row { name, source: Source::Value(case, key), unit: Unit::Time, floor: Some(floor), target }
}

const fn bytes(name: Name, case: Name, key: Name, floor: u32, target: Target) -> Row {
    let floor = if floor == 0 { None } else { Some(Floor::Given(floor)) };
    Row { name, source: Source::Value(case, key), unit: Unit::Bytes, floor, target }
}

/// A ratio of the times of two cases.
const fn ratio(name: Name, first: Name, second: Name, target: Target) -> Row {
    Row { name, source: Source::Ratio(first, second), unit: Unit::Ratio, floor: None, target }
}

use Floor::{Call, Handoff, Load, Page, Rmw, Threads};

/// One page of stack, and the page-table entries of its 64 KiB (eight bytes per 4 KiB).
const PARKED: u32 = 4096 + 128;
/// The captured word.
const QUEUED: u32 = 8;

/// Computing time of the balance's tasks, on one worker and on two.
const COMPUTING: Floor = Floor::Given(100_000_000);
const COMPUTING_HALF: Floor = Floor::Given(50_000_000);

const STATED: Target = Target::STATED;
const IN_PLACE: Target = Target::most(25.0).in_r(3.0);
const OWN_STACK: Target = Target::most(55.0).in_r(6.0);
const BATCH: Target = Target::most(30.0);
const BALANCE: Target = Target::ratio(0.6);
const INTERRUPT: Target = Target::most(1.5);

/// All rows, in the order of the printed table.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    time("coroutine resume + yield, one way", "coroutine-switch", TIME, Call, Target::most(3.0)),
    time("spawn+join in place, 1 worker", "spawn-join-in-place-1", TIME, Rmw, IN_PLACE),
    time("spawn+join in place, 2 workers", "spawn-join-in-place-2", TIME, Rmw, IN_PLACE),
    time("spawn+join own stack, 1 worker", "spawn-join-own-stack-1", TIME, Rmw, OWN_STACK),
    time("spawn+join own stack, 2 workers", "spawn-join-own-stack-2", TIME, Rmw, OWN_STACK),
    time("spawn+join through the loop, 1 worker", "spawn-join-loop-1", TIME, Rmw, OWN_STACK),
    time("spawn+join through the loop, 2 workers", "spawn-join-loop-2", TIME, Rmw, OWN_STACK),
    time("spawn+join, child yields, 1 worker", "spawn-join-yielding-1", TIME, Rmw, STATED),
    time("spawn+join, child yields, 2 workers", "spawn-join-yielding-2", TIME, Rmw, STATED),
    time("spawn to start, in place, p50", "start-in-place", "p50", Rmw, STATED),
    time("spawn to start, in place, p99", "start-in-place", "p99", Rmw, STATED),
    time("spawn to start, parks once, p50", "start-own-stack", "p50", Rmw, STATED),
    time("spawn to start, parks once, p99", "start-own-stack", "p99", Rmw, STATED),
    time("spawn to start, other worker searches, p50", "start-elsewhere-searching", "p50", Rmw, STATED),
    time("spawn to start, other worker searches, p99", "start-elsewhere-searching", "p99", Rmw, STATED),
    time("spawn to start, other worker naps, p50", "start-elsewhere-napping", "p50", Rmw, STATED),
    time("spawn to start, other worker naps, p99", "start-elsewhere-napping", "p99", Rmw, STATED),
    time("spawn to start, other worker sleeps, p50", "start-elsewhere-asleep", "p50", Rmw, STATED),
    time("spawn to start, other worker sleeps, p99", "start-elsewhere-asleep", "p99", Rmw, STATED),
    time("spawn to start, foreign thread, p50", "start-from-outside", "p50", Handoff, STATED),
    time("spawn to start, foreign thread, p99", "start-from-outside", "p99", Handoff, STATED),
    time("spawn to start, foreign, asleep, p50", "start-from-outside-asleep", "p50", Handoff, STATED),
    time("spawn to start, foreign, asleep, p99", "start-from-outside-asleep", "p99", Handoff, STATED),
    time("spawn to start, foreign, beside a job, 1 worker, p50", "start-beside-jobs-1", "p50", Handoff, STATED),
    time("spawn to start, foreign, beside a job, 1 worker, p99", "start-beside-jobs-1", "p99", Handoff, Target::most(1_000_000.0)),
    time("spawn to start, foreign, beside jobs, 2 workers, p50", "start-beside-jobs-2", "p50", Handoff, STATED),
    time("spawn to start, foreign, beside jobs, 2 workers, p99", "start-beside-jobs-2", "p99", Handoff, Target::most(1_000_000.0)),
    time("batch, a task, first round, 1 worker", "batch-1", "first", Rmw, STATED),
    time("batch, a task, first round, 2 workers", "batch-2", "first", Rmw, STATED),
    time("batch, a task, later rounds, 1 worker", "batch-1", TIME, Rmw, BATCH),
    time("batch, a task, later rounds, 2 workers", "batch-2", TIME, Rmw, BATCH),
    ratio("batch, 2 workers to 1", "batch-2", "batch-1", Target::ratio(1.0)),
    time("yield, 2 tasks", "yield-2", TIME, Call, Target::most(10.0)),
    time("yield, 1,000 tasks", "yield-1000", TIME, Call, Target::most(15.0)),
    time("park/unpark step, one worker", "ping-pong-home", TIME, Rmw, Target::most(45.0)),
    time("park/unpark step, across two", "ping-pong-across", TIME, Handoff, Target::most(1000.0)),
    time("spawn from outside and wait, 2 workers", "spawn-from-outside", TIME, Handoff, Target::most(5000.0)),
    time("balance, woken together, 1 worker", "balance-together-1", TIME, COMPUTING, STATED),
    time("balance, woken together, 2 workers", "balance-together-2", TIME, COMPUTING_HALF, STATED),
    ratio("balance, woken together, 2 workers to 1", "balance-together-2", "balance-together-1", BALANCE),
    time("balance, woken at once, 1 worker", "balance-at-once-1", TIME, COMPUTING, STATED),
    time("balance, woken at once, 2 workers", "balance-at-once-2", TIME, COMPUTING_HALF, STATED),
    ratio("balance, woken at once, 2 workers to 1", "balance-at-once-2", "balance-at-once-1", BALANCE),
    bytes("parked task, 100,000", "memory-parked-100000", "bytes", PARKED, Target::most(4400.0)),
    bytes("parked task, 1,000,000", "memory-parked-1000000", "bytes", PARKED, Target::most(4400.0)),
    bytes("process, 1,000,000 ended, over its start", "memory-parked-1000000", "left", 0, STATED),
    bytes("parked task that was 32 KiB deep", "memory-deep-100000", "deep", DEEP, STATED),
    bytes("parked task, stacks once deep, trimmed", "memory-deep-100000", "bytes", PARKED, STATED),
    bytes("queued task, 1,000,000", "memory-queued-1000000", "bytes", QUEUED, Target::most(160.0)),
    time("runtime of 2 workers, built and dropped", "runtime", TIME, Threads, Target::most(60_000.0)),
    time("first start and park, fresh page", "first-start", "fresh", Page, Target::most(2500.0)),
    time("first start and park, warm stack", "first-start", "warm", Page, STATED),
    time("is_cancelled of a handle", "asked-by-a-handle", TIME, Load, STATED),
    ratio("is_cancelled of a handle to a load", "asked-by-a-handle", "load", Target::ratio(2.0)),
    time("is_cancelled of the calling task", "asked", TIME, Load, Target::most(4.0)),
    time("scope opened and closed", "scope", TIME, Rmw, STATED),
    ratio("scope among 1,000 siblings to alone", "scope-among-siblings", "scope", Target::ratio(1.1)),
    time("timeout around nothing", "timeout", TIME, Rmw, Target::most(150.0)),
    time("timer set and taken back, 1,000,000 pending", "timer-1000000", "timer", Rmw, Target::most(100.0)),
    time("sleeper of 1,000,000, CPU, fresh stacks", "sleepers-1000000", "fresh", Page, Target::most(3500.0)),
    time("sleeper of 1,000,000, CPU, warm stacks", "sleepers-1000000", CPU, Page, STATED),
    time("cancel of 100,000 groups, a node", "cancelled-tree", TIME, Rmw, STATED),
    time("the same, each asked afterwards", "cancelled-tree", "asked", Rmw, STATED),
    time("cancel of 100,000 groups with handles, a node", "cancelled-tree-handles", TIME, Rmw, STATED),
    time("mutex of one's own, locked and unlocked", "mutex", TIME, Rmw, STATED),
    ratio("mutex of one's own to std's", "mutex", "mutex-std", Target::ratio(1.0)),
    time("mutex of 64 tasks, 1 worker", "mutex-64-1", TIME, Rmw, STATED),
    time("mutex of 64 tasks, 2 workers", "mutex-64-2", TIME, Rmw, STATED),
    time("channel, a value, 1 sender, 1 worker", "channel-1-1", TIME, Rmw, STATED),
    time("channel, a value, 1 sender, 2 workers", "channel-1-2", TIME, Rmw, STATED),
    time("channel, a value, 4 senders, 1 worker", "channel-4-1", TIME, Rmw, STATED),
    time("channel, a value, 4 senders, 2 workers", "channel-4-2", TIME, Rmw, STATED),
    time("oneshot, made and used", "oneshot", TIME, Rmw, STATED),
    time("send, and select of two channels", "select", TIME, Rmw, STATED),
    time("blocking call", "blocking", TIME, Handoff, STATED),
    time("ring without cancellation, a message", "ring-bare", TIME, Rmw, STATED),
    time("ring without cancellation, in batches of 32", "ring-bare-batch", TIME, Rmw, STATED),
    time("ring of one producer, a message", "ring-single", TIME, Rmw, STATED),
    time("ring of one producer, in batches of 32", "ring-single-batch", TIME, Rmw, STATED),
    time("ring of many producers, a message", "ring-multi", TIME, Rmw, STATED),
    time("ring of many producers, in batches of 32", "ring-multi-batch", TIME, Rmw, STATED),
    time("guard of a root, on a worker", "guard", TIME, Rmw, STATED),
    time("guard of a root, on a foreign thread", "guard-outside", TIME, Rmw, STATED),
    time("guard of a root, on a foreign thread after 256 others", "guard-outside-late", TIME, Rmw, STATED),
    time("guard of a root, on two workers at once", "guard-two", TIME, Rmw, STATED),
    time("guard of a root, on two foreign threads at once", "guard-two-outside", TIME, Rmw, STATED),
    time("guard of a child, on two workers at once", "guard-two-child", TIME, Rmw, STATED),
    time("guard four levels down, beside another", "guard-deep", TIME, Rmw, STATED),
    time("guard four levels down, alone in the tree", "guard-deep-alone", TIME, Rmw, STATED),
    time("interrupt, poll of a ready future", "interrupt-future", TIME, Load, STATED),
    time("interrupt, poll of a ready future, beyond a bare one", "interrupt-future", BEYOND, Load, INTERRUPT),
    #[cfg(feature = "futures")]
    time("interrupt, poll of a stream", "interrupt-stream", TIME, Load, STATED),
    #[cfg(feature = "futures")]
    time("interrupt, poll of a stream, beyond a bare one", "interrupt-stream", BEYOND, Load, INTERRUPT),
    time("interrupt, step of an iterator", "interrupt-iterator", TIME, Load, STATED),
    time("interrupt, step of an iterator, beyond a bare one", "interrupt-iterator", BEYOND, Load, INTERRUPT),
    time("swansong's child, made and dropped", "child", TIME, Rmw, STATED),
    time("swansong's child among 1,000 siblings", "child-siblings", TIME, Rmw, STATED),
    time("swansong's child with one guard", "child-guard", TIME, Rmw, STATED),
    time("shut_down with 10,000 children, a child", "shut-down-10000", TIME, Rmw, STATED),
];

/// The pages of a stack that was 32 KiB deep, and their page-table entries.
const DEEP: u32 = (32 << 10) + 128;

/// Prints the names of the rows.
///
/// # Errors
/// The output cannot be written.
pub fn list(filters: &[String]) -> anyhow::Result<()> {
    let mut rows = ROWS.iter().filter(|row| row.matches(filters));
    output::print(|out| rows.try_for_each(|row| writeln!(out, "{}", row.name)))
}

/// The cases that the rows need, each once, in the order of [`CASES`].
pub fn cases_of(rows: &[&Row]) -> Vec<&'static Case> {
    let wanted =
        |case: &&Case| rows.iter().any(|row| row.cases().any(|needed| needed.name == case.name));
    CASES.iter().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_case_and_every_case_has_a_row() {
        for row in ROWS {
            let expected = if matches!(row.source, Source::Ratio(..)) { 2 } else { 1 };
            assert_eq!(row.cases().count(), expected, "{}", row.name);
        }
        let all: Vec<&Row> = ROWS.iter().collect();
        assert_eq!(cases_of(&all).len(), CASES.len());
    }

    #[test]
    fn the_targets_are_these() {
        let in_two_units = |time: f64, r: f64| Target::most(time).in_r(r);
        let expected = [
            ("coroutine resume + yield, one way", Target::most(3.0)),
            ("spawn+join in place, 1 worker", in_two_units(25.0, 3.0)),
            ("spawn+join in place, 2 workers", in_two_units(25.0, 3.0)),
            ("spawn+join own stack, 1 worker", in_two_units(55.0, 6.0)),
            ("spawn+join own stack, 2 workers", in_two_units(55.0, 6.0)),
            ("spawn+join through the loop, 1 worker", in_two_units(55.0, 6.0)),
            ("spawn+join through the loop, 2 workers", in_two_units(55.0, 6.0)),
            ("spawn to start, foreign, beside a job, 1 worker, p99", Target::most(1e6)),
            ("spawn to start, foreign, beside jobs, 2 workers, p99", Target::most(1e6)),
            ("batch, a task, later rounds, 1 worker", Target::most(30.0)),
            ("batch, a task, later rounds, 2 workers", Target::most(30.0)),
            ("batch, 2 workers to 1", Target::ratio(1.0)),
            ("yield, 2 tasks", Target::most(10.0)),
            ("yield, 1,000 tasks", Target::most(15.0)),
            ("park/unpark step, one worker", Target::most(45.0)),
            ("park/unpark step, across two", Target::most(1e3)),
            ("spawn from outside and wait, 2 workers", Target::most(5e3)),
            ("balance, woken together, 2 workers to 1", Target::ratio(0.6)),
            ("balance, woken at once, 2 workers to 1", Target::ratio(0.6)),
            ("parked task, 100,000", Target::most(4400.0)),
            ("parked task, 1,000,000", Target::most(4400.0)),
            ("queued task, 1,000,000", Target::most(160.0)),
            ("runtime of 2 workers, built and dropped", Target::most(60e3)),
            ("first start and park, fresh page", Target::most(2.5e3)),
            ("is_cancelled of a handle to a load", Target::ratio(2.0)),
            ("is_cancelled of the calling task", Target::most(4.0)),
            ("scope among 1,000 siblings to alone", Target::ratio(1.1)),
            ("timeout around nothing", Target::most(150.0)),
            ("timer set and taken back, 1,000,000 pending", Target::most(100.0)),
            ("sleeper of 1,000,000, CPU, fresh stacks", Target::most(3.5e3)),
            ("mutex of one's own to std's", Target::ratio(1.0)),
            ("interrupt, poll of a ready future, beyond a bare one", Target::most(1.5)),
            #[cfg(feature = "futures")]
            ("interrupt, poll of a stream, beyond a bare one", Target::most(1.5)),
            ("interrupt, step of an iterator, beyond a bare one", Target::most(1.5)),
        ];
        let with_target = ROWS.iter().filter(|row| row.target != STATED);
        let with_target: Vec<_> = with_target.map(|row| (row.name, row.target)).collect();
        assert_eq!(with_target, expected);
    }

    #[test]
    fn a_floor_of_its_own_is_one_that_the_case_measures() {
        for row in ROWS {
            if let Some(floor @ (Floor::Handoff | Floor::Threads)) = row.floor {
                assert!(row.cases().all(|case| case.floor == floor), "{}", row.name);
            }
        }
    }

    #[test]
    fn filters_ignore_case_and_any_of_them_suffices() {
        let wanted = |filters: &[&str]| {
            let filters: Vec<String> = filters.iter().map(|&f| f.to_owned()).collect();
            ROWS.iter().filter(|row| row.matches(&filters)).count()
        };
        assert_eq!(wanted(&[]), ROWS.len());
        assert_eq!(wanted(&["YIELD, 2", "yield, 1,000"]), 2);
        assert_eq!(wanted(&["nothing of the kind"]), 0);
    }
}
