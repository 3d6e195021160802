//! Cases: the work that is compared. docs/compare.md describes them in more words for programs in
//! other languages, and a test checks that it names each case.

use std::time::Duration;

use crate::measure::busy::LONGEST;
use crate::measure::harness::{BYTES, CPU, P50, P99, Size, TIME};
use crate::measure::text::{self, Unit};

/// Work by which runtimes are compared.
#[derive(Debug)]
pub struct Case {
    /// Its name on the command line and for `--external` programs.
    pub name: &'static str,
    /// The work, and the part of it to which a value belongs.
    pub about: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// The values that are compared.
    pub parts: &'static [Part],
    /// Numbers of worker threads.
    pub workers: &'static [usize],
    /// Whether the work has parts for each worker. If so, threads without a runtime are measured
    /// with each number of workers.
    pub has_parts_for_each_worker: bool,
    /// The results of the work in the sizes for figures and for a quick look, if it has results
    /// that do not depend on the machine.
    pub checksum: Option<(u64, u64)>,
}

/// A value of a case.
#[derive(Debug)]
pub struct Part {
    /// Its key in the line that a process prints.
    pub key: &'static str,
    /// Its name, if the case has several values.
    pub label: &'static str,
}

impl Case {
    /// Whether the case matches one of the filters, or there are none.
    pub fn matches(&self, filters: &[String]) -> bool {
        text::matches(self.name, filters)
    }

    /// The result that the work must have.
    pub fn expected(&self, quick: bool) -> Option<u64> {
        self.checksum.map(|(full, look)| if quick { look } else { full })
    }
}

/// Children of a batch, and of a batch that parks.
pub const BATCH: Size = Size(100_000, 1_000);
/// See [`BATCH`].
pub const PARKED_BATCH: Size = Size(10_000, 500);
/// The same for may, as each of its stacks takes two mappings. A process has some 65,000 mappings.
pub const MAY_BATCH: Size = Size(10_000, 1_000);
/// See [`MAY_BATCH`].
pub const MAY_PARKED: Size = Size(10_000, 1_000);
/// Yields of each task per repetition, enough to hide the task's start and end.
pub const YIELDS: Size = Size(300, 10);
/// Parked tasks and threads for measuring memory.
pub const PARKED: Size = Size(100_000, 2_000);
/// See [`PARKED`].
pub const PARKED_THREADS: Size = Size(1_000, 100);
/// The argument of fib.
pub const FIB: Size = Size(35, 15);
/// Size of the board.
pub const QUEENS: Size = Size(12, 7);
/// Nodes of the tree.
pub const TREE: Size = Size(4_000_000, 10_000);
/// Seed of the tree's root.
pub const TREE_SEED: u64 = 1;
/// Numbers to add up, and to sort.
pub const NUMBERS: Size = Size(8 << 20, 100_000);
/// See [`NUMBERS`].
pub const SORTED: Size = Size(1 << 20, 10_000);
/// Items of some 20 ns each.
pub const ITEMS: Size = Size(1_000_000, 10_000);
/// Microseconds of the shortest uneven leaf; the longest takes eight times as long.
pub const UNEVEN: Size = Size(10_000, 100);
/// How many times each of [`CONTENDERS`] locks the mutex.
pub const LOCKS: Size = Size(2_000, 50);
/// Tasks that lock one mutex.
pub const CONTENDERS: usize = 64;
/// Values that go through a channel.
pub const VALUES: Size = Size(200_000, 2_000);
/// Messages that go through a ring.
pub const MESSAGES: Size = Size(1_000_000, 3_200);
/// Messages per batch.
pub const MESSAGE_BATCH: usize = 32;
/// Capacity of a channel or ring.
pub const ROOM: usize = 1024;
/// Uneven leaves.
pub const UNEVEN_LEAVES: u64 = 8;
/// Tasks that wait once and then compute, and their computing time.
pub const WAITERS: Size = Size(1_000, 50);
/// See [`WAITERS`].
pub const WAITER_WORK: Duration = Duration::from_micros(100);

/// Stages of a pipeline.
pub const STAGES: usize = 4;
/// Nanoseconds of the stages in the case `uneven-stages`.
pub const UNEVEN_STAGES: [u64; STAGES] = [500, 4_000, 1_000, 2_000];
/// Values that pass through a pipeline.
pub const PIPED: Size = Size(4_000, 200);
/// Capacity of a channel between two computing tasks, and number of values in flight in a
/// one-call pipeline.
pub const BUSY_ROOM: usize = 64;
/// Jobs of a phase.
pub const JOBS: usize = 8;
/// Tasks that one task spawns in a flood.
pub const FLOOD: Size = Size(20_000, 500);
/// Number of tasks per worker that share a lock or send through a channel.
pub const TASKS_PER_WORKER: usize = 4;
/// Turns of all tasks at a reader-writer lock.
pub const READ_TURNS: Size = Size(64_000, 1_600);
/// Nanoseconds of computation inside the lock, and outside.
pub const READ_WORK: u64 = 300;
/// Values of all senders to one receiver.
pub const SENT: Size = Size(40_000, 1_600);
/// Nanoseconds of the receiver's computation per value.
pub const SENT_WORK: u64 = 500;
/// Number of asking and answering pairs per worker.
pub const PAIRS_PER_WORKER: usize = 2;
/// Requests of all pairs.
pub const REQUESTS: Size = Size(16_000, 400);
/// Nanoseconds of computation per answer.
pub const ANSWER_WORK: u64 = 1_000;

/// Round trips of two tasks.
pub const ROUND_TRIPS: Size = Size(20_000, 400);
/// Turns of all tasks at a lock, a condition variable or a barrier.
pub const TURNS: Size = Size(64_000, 1_280);
/// Nanoseconds of computation inside the lock, and outside.
pub const TURN_WORK: u64 = 300;
/// Tasks that sleep once, and the milliseconds of the shortest sleep: long enough to start all
/// tasks meanwhile. The longest sleep takes a second more. A million tasks take 15 s on a busy
/// machine.
pub const SLEEPERS: Size = Size(300_000, 1_000);
/// See [`SLEEPERS`].
pub const SLEEP: Size = Size(3_000, 200);

/// The number of rounds of phases with jobs of `nanos` nanoseconds: 16 ms of computation in all.
pub const fn rounds(nanos: u64) -> Size {
    Size(2_000_000 / nanos as usize, 2)
}

/// Nodes of a tree that is cancelled.
pub const fn cancelled(count: u64) -> Size {
    Size(count as usize, count as usize / 100)
}

/// Turns of all tasks at a mutex, with `outside` nanoseconds of computation between two turns.
pub const fn turns(outside: u64) -> Size {
    match outside {
        0 => Size(800_000, 1_600),
        1..=300 => Size(160_000, 1_600),
        301..=1_000 => Size(80_000, 1_600),
        _ => Size(16_000, 1_600),
    }
}

/// Number of jobs over all rounds of a phase, in both sizes.
const fn jobs(nanos: u64) -> (u64, u64) {
    let Size(full, look) = rounds(nanos);
    ((full * JOBS) as u64, (look * JOBS) as u64)
}

/// The sum of all numbers below `count`.
const fn sum_below(count: usize) -> u64 {
    (count * (count - 1) / 2) as u64
}

/// The sum of the numbers below `count` after each stage has added one to each of them.
const fn piped(count: usize) -> u64 {
    sum_below(count) + (count * STAGES) as u64
}

const ONE_TIME: &[Part] = &[Part { key: TIME, label: "" }];
const DELAYS: &[Part] = &[Part { key: P50, label: "p50" }, Part { key: P99, label: "p99" }];
const WITH_WAITS: &[Part] = &[
    Part { key: TIME, label: "time" },
    Part { key: P50, label: "wait, p50" },
    Part { key: P99, label: "wait, p99" },
    Part { key: LONGEST, label: "longest wait" },
];
/// Key of the time per node to query the nodes of a cancelled tree.
pub const ASKED: &str = "asked";
const CANCELLED: &[Part] =
    &[Part { key: TIME, label: "cancelled" }, Part { key: ASKED, label: "asked" }];
/// Key of the time per node from the cancellation to the end of all tasks.
pub const ENDED: &str = "ended";
const CANCELLED_WAITERS: &[Part] =
    &[Part { key: TIME, label: "cancelled" }, Part { key: ENDED, label: "ended" }];
/// Key of the ratio of the slowest to the fastest contender.
pub const SPREAD_OF: &str = "spread";
const SPREAD: &[Part] = &[Part { key: SPREAD_OF, label: "" }];
const ONE: &[usize] = &[1];
const TWO: &[usize] = &[2];
const BOTH: &[usize] = &[1, 2];
/// More workers than any of our machines has processors.
pub const MANY: usize = 64;
const AND_MANY: &[usize] = &[1, 2, MANY];
/// Numbers of workers of cases that keep every core busy.
pub const UP_TO_FOUR: &[usize] = &[1, 2, 4];
/// Numbers of workers of cases in which tasks lock one mutex.
pub const LOCKING: &[usize] = &[1, 2, 4, 8, 16];

const fn timed(name: &'static str, about: &'static str, workers: &'static [usize]) -> Case {
    Case {
        name,
        about,
        unit: Unit::Time,
        parts: ONE_TIME,
        workers,
        has_parts_for_each_worker: false,
        checksum: None,
    }
}

/// A case of computing tasks.
const fn busy(name: &'static str, about: &'static str) -> Case {
    timed(name, about, UP_TO_FOUR)
}

/// A case of tasks that compute and wait for each other, with some tasks for each worker.
const fn shared(name: &'static str, about: &'static str) -> Case {
    Case { parts: WITH_WAITS, has_parts_for_each_worker: true, ..busy(name, about) }
}

/// A case of tasks that take turns.
const fn turning(name: &'static str, about: &'static str) -> Case {
    Case { parts: WITH_WAITS, ..timed(name, about, TWO) }
}

/// A case of round trips between two tasks.
const fn round_trip(name: &'static str, about: &'static str) -> Case {
    let Size(full, look) = ROUND_TRIPS;
    let case = Case { parts: WITH_WAITS, ..timed(name, about, BOTH) };
    case.resulting(sum_below(full) + full as u64, sum_below(look) + look as u64)
}

const fn delay(name: &'static str, about: &'static str, workers: &'static [usize]) -> Case {
    Case { parts: DELAYS, ..timed(name, about, workers) }
}

impl Case {
    const fn resulting(self, full: u64, look: u64) -> Case {
        Case { checksum: Some((full, look)), ..self }
    }
}

/// All cases, in the order of a round.
#[rustfmt::skip]
pub const CASES: &[Case] = &[
    timed("switch", "a coroutine is resumed and suspends: half of it, no scheduler", ONE),
    timed("spawn-join", "one child at a time, spawned and joined at once", BOTH),
    timed("spawn-join-parked", "the same; the child tells its parent that it has started, waits to be woken by it, and ends", BOTH),
    timed("batch", "100,000 children (may: 10,000) are spawned, then joined: a child", AND_MANY),
    timed("batch-parked", "10,000 children are spawned, each waits once, all are woken, all are joined: a child", BOTH),
    delay("start-here", "from the spawn of a child that is joined at once to its first instruction", ONE),
    delay("start-elsewhere", "the same while the parent computes for up to 2 ms beside another worker", TWO),
    delay("start-outside", "the same from a thread that is not a worker", TWO),
    timed("spawn-outside", "one child at a time, spawned and joined by a thread that is not a worker", BOTH),
    timed("block-on", "nothing is called inside the runtime, by a thread that is not a worker", TWO),
    timed("yield-2", "two tasks take turns: a yield", ONE),
    timed("yield-1000", "a thousand tasks take turns: a yield", ONE),
    timed("ping-pong", "two tasks wake each other and wait in turn: a step of one of them", BOTH),
    timed("ping-pong-across", "the same with each on a worker of its own", TWO),
    Case {
        unit: Unit::Bytes,
        parts: &[Part { key: BYTES, label: "" }],
        ..timed("parked-memory", "100,000 waiting tasks (may: 10,000; threads: 1,000), everything counted: a task", ONE)
    },
    timed("ask", "whether a handle is cancelled (serial: a load of an atomic word)", ONE),
    timed("scope", "a scope is opened and closed while 1,000 siblings live (tokio: a child token)", ONE),
    Case { parts: CANCELLED, ..timed("cancel-10k", "a tree of 10,000 groups, ten below each, is cancelled, and each is queried (tokio: tokens): a node", ONE) },
    Case { parts: CANCELLED, ..timed("cancel-100k", "the same of 100,000", ONE) },
    Case { parts: CANCELLED, ..timed("cancel-handles-100k", "the same with a handle of each, by which it is queried (tokio: clones of the tokens)", ONE) },
    Case { parts: CANCELLED_WAITERS, ..timed("cancel-waiting-10k", "a tree of 10,000 waiting tasks, ten below each, is cancelled, and all end (tokio: tokens, a task waits for each): a node", ONE) },
    Case { parts: CANCELLED_WAITERS, ..timed("cancel-waiting-100k", "the same of 100,000", ONE) },
    timed("mutex", "an uncontended mutex is locked and unlocked (serial: that of std)", ONE),
    timed("mutex-64", "64 tasks lock one mutex 2,000 times each, for a few instructions: a lock", TWO),
    Case { unit: Unit::Ratio, parts: SPREAD, ..timed("mutex-64-spread", "the same: the time of the slowest of them to that of the fastest", TWO) },
    timed("channel-1", "200,000 values from one task to another, room for 1,024: a value (threads: crossbeam-channel)", BOTH),
    timed("channel-4", "the same from four tasks", BOTH),
    timed("ring-batch-1", "a million messages through a ring of 1,024 from one producer in batches of 32, waiters spin: a message (threads: crossbeam-channel, one at a time)", BOTH),
    timed("ring-batch-4", "the same from four producers", BOTH),
    timed("ring-1", "the same as the first, one at a time", BOTH),
    timed("ring-4", "the same from four producers", BOTH),
    timed("ring-park-1", "the same from one, one at a time; waiters park after a few microseconds (disruptor: the consumer sleeps)", BOTH),
    timed("ring-park-4", "the same from four producers", BOTH),
    timed("guard", "a guard of a root is made and dropped, on a worker (swansong, tokio's TaskTracker: on a thread)", ONE),
    timed("guard-outside", "the same on a thread that is not a worker", ONE),
    timed("guard-outside-late", "the same after 256 other threads have made one each and ended", ONE),
    timed("guard-two", "two workers make and drop guards of one root at the same time: one of them (swansong, tokio: two threads)", TWO),
    timed("guard-two-outside", "the same on two threads that are not workers", TWO),
    timed("guard-two-child", "two workers make and drop guards of one child of a root at the same time: one of them", TWO),
    timed("guard-deep", "a guard four levels below a root, while that has another one", ONE),
    timed("guard-deep-alone", "the same while there is no other guard in the tree", ONE),
    timed("interrupt-future", "a poll of an interrupted future that is ready each time (serial: of the future itself)", ONE),
    #[cfg(feature = "futures")]
    timed("interrupt-stream", "the same of a stream that has an item each time", ONE),
    timed("interrupt-iterator", "the same of an iterator", ONE),
    timed("child", "a child of a root is made and dropped (tokio: a child token)", ONE),
    timed("child-siblings", "the same while 1,000 siblings live", ONE),
    timed("child-guard", "a child is made, a guard of it made and dropped, and the child dropped", ONE),
    timed("shut-down-10k", "a root with 10,000 children is stopped (tokio: a token is cancelled): the call", ONE),
    timed("join-empty", "a fork of two closures that do nothing", BOTH),
    timed("fib", "fib(35), a fork in each call, no cut-off", BOTH).resulting(9_227_465, 610),
    timed("queens", "12 queens, all ways; a fork for each candidate of a row but one", AND_MANY).resulting(14_200, 40),
    timed("tree", "an unbalanced binary tree of 4,000,000 hashed nodes, a fork where a node has two children", AND_MANY)
        .resulting(912_965_680_234_969_020, 18_292_284_088_205_663_409),
    timed("uneven", "8 leaves of 10, 20 .. 80 ms, forked by halves", AND_MANY).resulting(UNEVEN_LEAVES, UNEVEN_LEAVES),
    timed("join-10us", "a fork of two leaves of 10 us each", BOTH).resulting(2, 2),
    timed("join-100us", "a fork of two leaves of 100 us each", BOTH).resulting(2, 2),
    timed("join-1ms", "a fork of two leaves of 1 ms each", BOTH).resulting(2, 2),
    timed("wait-once", "1,000 tasks that wait, are woken when all of them wait, and compute for 100 us each", AND_MANY),
    busy("pipeline-500", "4,000 values through four stages of 500 ns each, a task each, with room for 64 between them: a value (threads: crossbeam-channel)").resulting(piped(PIPED.0), piped(PIPED.1)),
    busy("pipeline-2000", "the same with stages of 2 us").resulting(piped(PIPED.0), piped(PIPED.1)),
    busy("pipeline-10000", "the same with stages of 10 us").resulting(piped(PIPED.0), piped(PIPED.1)),
    busy("uneven-stages", "the same with stages of 500 ns, 4 us, 1 us and 2 us").resulting(piped(PIPED.0), piped(PIPED.1)),
    busy("steps-500", "4,000 values through four ordered stages of 500 ns each of one call, cygnet's pipeline, with 64 under way (cygnet alone): a value").resulting(piped(PIPED.0), piped(PIPED.1)),
    busy("steps-2000", "the same with stages of 2 us").resulting(piped(PIPED.0), piped(PIPED.1)),
    busy("steps-10000", "the same with stages of 10 us").resulting(piped(PIPED.0), piped(PIPED.1)),
    busy("phases-1000", "a scope of 8 jobs of 1 us each, again and again: a round (tokio: join handles)").resulting(jobs(1_000).0, jobs(1_000).1),
    busy("phases-5000", "the same with jobs of 5 us").resulting(jobs(5_000).0, jobs(5_000).1),
    busy("phases-20000", "the same with jobs of 20 us").resulting(jobs(20_000).0, jobs(20_000).1),
    busy("phases-100000", "the same with jobs of 100 us").resulting(jobs(100_000).0, jobs(100_000).1),
    busy("flood-500", "one task spawns 20,000 that compute for 500 ns each, and joins them all by their handles: a task").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("flood-1000", "the same with tasks of 1 us").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("flood-2000", "the same with tasks of 2 us").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("flood-4000", "the same with tasks of 4 us").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("flood-10000", "the same with tasks of 10 us").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("scope-flood-500", "one task spawns 20,000 in a scope, which compute for 500 ns each: a task (tokio: join handles)").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("scope-flood-1000", "the same with tasks of 1 us").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("scope-flood-2000", "the same with tasks of 2 us").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("scope-flood-4000", "the same with tasks of 4 us").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    busy("scope-flood-10000", "the same with tasks of 10 us").resulting(FLOOD.0 as u64, FLOOD.1 as u64),
    Case { workers: LOCKING, ..shared("contended-0", "four tasks a worker lock one mutex in turn, for a few instructions: a turn, and the wait for the lock (parking_lot, threads with the mutex of std: one thread a worker)") }.resulting(turns(0).0 as u64, turns(0).1 as u64),
    Case { workers: LOCKING, ..shared("contended-300", "the same, and each task computes for 300 ns outside") }.resulting(turns(300).0 as u64, turns(300).1 as u64),
    Case { workers: LOCKING, ..shared("contended-1000", "the same with 1 us outside") }.resulting(turns(1_000).0 as u64, turns(1_000).1 as u64),
    Case { workers: LOCKING, ..shared("contended-5000", "the same with 5 us outside") }.resulting(turns(5_000).0 as u64, turns(5_000).1 as u64),
    shared("readers-95", "four tasks a worker use one reader-writer lock, for reading in 19 turns of 20, and compute for 300 ns inside and outside: a turn, and the wait for the lock (parking_lot: one thread a worker)").resulting(READ_TURNS.0 as u64 / 20, READ_TURNS.1 as u64 / 20),
    Case { has_parts_for_each_worker: true, ..busy("many-senders", "40,000 values from four tasks a worker, room for 64, to a task that computes for 500 ns each: a value (threads: crossbeam-channel)") }.resulting(sum_below(SENT.0), sum_below(SENT.1)),
    shared("request-reply", "two pairs of tasks a worker, each over two channels with room for one; one asks, the other computes for 1 us and answers: an exchange, and the wait for the answer (threads: crossbeam-channel)").resulting(sum_below(REQUESTS.0) + REQUESTS.0 as u64, sum_below(REQUESTS.1) + REQUESTS.1 as u64),
    round_trip("round-trip-bounded", "two tasks, one asks, the other answers, over two channels with room for one: a round trip (threads: crossbeam-channel; may: spsc)"),
    round_trip("round-trip-rendezvous", "the same over channels without room"),
    round_trip("round-trip-unbounded", "the same over channels with unlimited room (may: mpsc)"),
    round_trip("round-trip-oneshot", "the same; a request goes over a channel with room for one, with a oneshot sender for the answer (may: spsc)"),
    turning("turns-mutex-2", "two tasks lock one mutex in turn, and compute for 300 ns inside and outside: a turn, and the wait for the lock (threads: one a task)").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-mutex-8", "the same with 8 tasks").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-mutex-64", "the same with 64 tasks").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-mutex-fifo-2", "two tasks do the same with a mutex that is handed over in order (tokio, may: the same as above)").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-mutex-fifo-8", "the same with 8 tasks").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-mutex-fifo-64", "the same with 64 tasks").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-rwlock-2", "two tasks do the same with a reader-writer lock, for reading in 19 turns of 20").resulting(TURNS.0 as u64 / 20, TURNS.1 as u64 / 20),
    turning("turns-rwlock-8", "the same with 8 tasks").resulting(TURNS.0 as u64 / 20, TURNS.1 as u64 / 20),
    turning("turns-rwlock-64", "the same with 64 tasks").resulting(TURNS.0 as u64 / 20, TURNS.1 as u64 / 20),
    turning("turns-semaphore-2", "two tasks do the same with a semaphore that has one permit").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-semaphore-8", "the same with 8 tasks").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-semaphore-64", "the same with 64 tasks").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-condvar-2", "one of two tasks fills a place for one value, the other empties it, with a mutex and two condition variables: a turn, and the wait for it").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-condvar-8", "the same with 8 tasks, half of which fill the place").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-condvar-64", "the same with 64 tasks").resulting(TURNS.0 as u64, TURNS.1 as u64),
    turning("turns-barrier-2", "two tasks pass a barrier together, again and again: a turn of one task, and its wait").resulting(TURNS.0 as u64 / 2, TURNS.1 as u64 / 2),
    turning("turns-barrier-8", "the same with 8 tasks").resulting(TURNS.0 as u64 / 8, TURNS.1 as u64 / 8),
    turning("turns-barrier-64", "the same with 64 tasks").resulting(TURNS.0 as u64 / 64, TURNS.1 as u64 / 64),
    timed("sum", "the sum of 8 Mi numbers of 64 bits", BOTH).resulting(18_010_239_844_405_602, 214_281_280_960_332),
    timed("items", "the sum of 1,000,000 items that take 20 ns each", BOTH),
    timed("quicksort", "1 Mi numbers of 32 bits, a fork at each partition", BOTH)
        .resulting(3_342_084_223_961_700_098, 12_071_605_399_815_494_997),
    Case {
        parts: &[Part { key: CPU, label: "CPU" }],
        ..timed("control-loop", "a thread submits a job of 100 us every 10 ms: processor time of the process for each", TWO)
    },
    Case {
        parts: &[Part { key: CPU, label: "CPU" }],
        ..timed("sleepers", "300,000 tasks that each sleep once, for three to four seconds, all at the same time: processor time of the process for each", ONE)
    },
    timed("runtime", "a runtime is started, runs nothing inside it, and is dropped", TWO),
];

/// Finds the case of that name.
pub fn find(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_words_of_a_command_line_and_differ() {
        let names: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(is_plain)));
    }

    #[test]
    fn the_results_of_pipelines_and_phases_are_those_of_their_definitions() {
        assert_eq!(piped(3), (0..3).map(|value| value + STAGES as u64).sum::<u64>());
        assert_eq!(jobs(1_000), (16_000, 16));
        assert_eq!(jobs(100_000), (160, 16));
    }

    #[test]
    fn the_document_for_other_languages_names_each_case() {
        let document = include_str!("../../../docs/compare.md");
        for case in CASES {
            let name = format!("`{}`", case.name);
            let has_name = |cases: &str| cases.split([' ', ',']).any(|other| other == name);
            let line = document.lines().find(|line| line.split('|').nth(1).is_some_and(has_name));
            let line = line.unwrap_or_else(|| panic!("{} is not documented", case.name));
            if let Some(result) = case.expected(false) {
                assert!(line.contains(&result.to_string()), "{} should have {result}", case.name);
            }
        }
    }
}
