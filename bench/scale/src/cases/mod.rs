//! The workloads.

mod ends;
mod outside;
mod steps;
mod tasks;
mod values;
mod waits;

use crate::world::{Clock, thread};
use clap::ValueEnum;
use cygnet::Runtime;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Holds for every wait in these modules.
const UNDISTURBED: &str = "it is never cancelled";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// A tree of joins with computing leaves.
    Join,
    /// A tree of scopes. Each node computes, then opens a scope that spawns its two children.
    ScopeTree,
    /// A parallel loop.
    For,
    /// A task spawns all other tasks and joins them by their handles.
    Flood,
    /// A task spawns all other tasks in a scope.
    ScopeFlood,
    /// A task spawns all other tasks and sends their handles to a joiner per core, so that the
    /// memory of a task is freed on another worker than the one that allocated it.
    Elsewhere,
    /// Scopes of four tasks per core, one after the other.
    Phases,
    /// Scopes of eight tasks, one after the other.
    EightPhases,
    /// Scopes of four tasks per core, each begun when all workers have gone to sleep. Only the
    /// time of the scopes counts.
    WideFork,
    /// Calls of `Handle::broadcast`, one after the other: each computes once on every worker.
    Broadcast,
    /// Two stages per core, with bounded channels between them.
    Pipeline,
    /// Two ordered stages per core of one `cygnet::pipeline`.
    Steps,
    /// Two parallel stages per core of one `cygnet::pipeline`.
    ParallelSteps,
    /// A sender per core computes values and sends them to one receiver.
    Channel,
    /// A producer per core computes values and sends them through one ring to one reader.
    Rings,
    /// One task sends values by `sync::broadcast` to a receiver per core, which computes for each
    /// value.
    FanOut,
    /// Pairs of tasks: one asks, the other one computes and replies.
    Request,
    /// Four tasks per core lock a mutex, and compute outside it.
    Mutex,
    /// Four tasks per core use a reader-writer lock, writing in one turn of twenty, and compute
    /// outside it.
    RwLock,
    /// Four tasks per core share one permit per core, and compute while they hold one.
    Semaphore,
    /// Four tasks per core take a shutdown guard, compute, and drop the guard.
    Guards,
    /// Tasks that wait for a moment and then compute for long.
    Late,
    /// Tasks that sleep until the same moment and then compute. The time between the last start of
    /// a sleep and that moment does not count.
    Timers,
    /// Four tasks per core that wait; afterwards only the tasks of one worker compute.
    Pinned,
    /// A thread per core spawns a task and joins it, again and again. The threads have cores of
    /// their own.
    Outside,
    /// Shuts down a runtime with 16 tasks per core that hold a shutdown guard, and compute once
    /// the shutdown has begun.
    Stop,
    /// A job per worker that checks in after each item. Beside them a thread with a core of its
    /// own spawns tasks, one after the other. The time is the 99th percentile from a spawn to the
    /// start.
    Beside,
    /// A thousand tasks per core, which wait in a scope per core. The time is from the cancel of
    /// them all to the end of the last one.
    Cancel,
}

/// A part of the picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Tasks,
    Values,
    Waits,
    /// The result is a time, as the tasks compute nothing or the time of one of them counts.
    Times,
}

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of cores for the workers.
    pub cores: usize,
    pub workers: usize,
    pub work: Duration,
    /// Number of items, if it is not the usual one.
    pub items: Option<u64>,
}

impl Size {
    pub fn items(&self, usual: u64) -> u64 {
        self.items.unwrap_or(usual)
    }

    /// The ideal time of `items` items: their computing time divided by the number of cores in
    /// use.
    pub fn ideal(&self, items: u64) -> Duration {
        let used = self.cores.min(self.workers) as u128;
        let nanos = self.work.as_nanos() * u128::from(items) / used;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn runtime(&self) -> Runtime {
        Runtime::builder().workers(self.workers).build().expect("threads for the workers")
    }
}

impl Case {
    pub fn name(self) -> String {
        self.to_possible_value().expect("no case is hidden").get_name().to_owned()
    }

    /// Computing time of an item, in nanoseconds.
    pub fn usual_work(self) -> u64 {
        match self {
            Case::Pipeline | Case::Steps | Case::ParallelSteps => 2_000,
            Case::Phases | Case::EightPhases | Case::Late => 20_000,
            Case::WideFork | Case::Broadcast | Case::Stop => 20_000,
            Case::Pinned => 1_000_000,
            Case::Beside => 100_000,
            Case::Cancel => 0,
            _ => 1_000,
        }
    }

    pub fn kind(self) -> Kind {
        match self {
            Case::Join | Case::ScopeTree | Case::For | Case::Flood | Case::ScopeFlood => {
                Kind::Tasks
            }
            Case::Elsewhere | Case::Phases | Case::EightPhases | Case::WideFork => Kind::Tasks,
            Case::Broadcast => Kind::Tasks,
            Case::Pipeline | Case::Steps | Case::ParallelSteps | Case::Channel => Kind::Values,
            Case::Rings | Case::FanOut | Case::Request => Kind::Values,
            Case::Mutex | Case::RwLock | Case::Semaphore | Case::Guards | Case::Late => Kind::Waits,
            Case::Timers | Case::Pinned | Case::Outside | Case::Stop => Kind::Waits,
            Case::Beside | Case::Cancel => Kind::Times,
        }
    }

    /// The number of cores of a machine with `cores` cores for the workers. The threads that a
    /// workload adds to them have cores of their own.
    pub fn machine(self, cores: usize) -> usize {
        match self {
            Case::Outside => 2 * cores,
            Case::Beside => cores + 1,
            _ => cores,
        }
    }

    /// The largest number of cores for the workers.
    pub fn most_cores(self) -> usize {
        match self {
            Case::Steps | Case::ParallelSteps => steps::MOST_CORES,
            Case::Outside => 2_048,
            Case::Beside => 4_095,
            _ => 4_096,
        }
    }

    /// The number of seeds in a stored table, by how much the times differ, and the number of items
    /// if a usual run takes long.
    pub fn stored(self) -> (u64, Option<u64>) {
        match self {
            Case::Phases => (2, Some(50)),
            Case::Pipeline => (2, Some(2_000)),
            Case::Cancel => (2, Some(200)),
            Case::Flood | Case::Steps => (2, None),
            Case::Elsewhere | Case::ScopeFlood => (8, Some(5_000)),
            Case::Timers => (4, Some(20_000)),
            Case::FanOut => (8, Some(500)),
            Case::ScopeTree | Case::Rings => (8, None),
            Case::Late | Case::RwLock => (8, None),
            Case::Request | Case::Guards => (16, None),
            _ => (4, None),
        }
    }

    pub fn run(self, size: &Size, clock: &Clock) {
        let rt = size.runtime();
        let on = Bench { rt: &rt, size, clock };
        match self {
            Case::Join => tasks::join(on),
            Case::ScopeTree => tasks::scope_tree(on),
            Case::For => tasks::parallel_loop(on),
            Case::Flood => tasks::flood(on),
            Case::ScopeFlood => tasks::scope_flood(on),
            Case::Elsewhere => tasks::elsewhere(on),
            Case::Phases => tasks::phases(on, 4 * on.cores()),
            Case::EightPhases => tasks::phases(on, 8),
            Case::WideFork => tasks::wide_fork(on),
            Case::Broadcast => tasks::broadcast(on),
            Case::Pipeline => values::pipeline(on),
            Case::Steps => steps::ordered(on),
            Case::ParallelSteps => steps::parallel(on),
            Case::Channel => values::channel(on),
            Case::Rings => values::rings(on),
            Case::FanOut => values::fan_out(on),
            Case::Request => values::request(on),
            Case::Mutex => waits::mutex(on),
            Case::RwLock => waits::rw_lock(on),
            Case::Semaphore => waits::semaphore(on),
            Case::Guards => waits::guards(on),
            Case::Late => waits::late(on),
            Case::Timers => waits::timers(on),
            Case::Pinned => waits::pinned(on),
            Case::Outside => outside::outside(on),
            Case::Beside => outside::beside(on),
            Case::Cancel => ends::cancel(on),
            Case::Stop => ends::stop(rt, size, clock),
        }
    }
}

/// What a workload runs on.
#[derive(Clone, Copy)]
struct Bench<'a> {
    rt: &'a Runtime,
    size: &'a Size,
    clock: &'a Clock,
}

impl Bench<'_> {
    fn cores(self) -> u64 {
        self.size.cores as u64
    }

    fn work(self) -> Duration {
        self.size.work
    }

    /// Measures a call of `f` in a task, which computes `items` items.
    fn measure(self, items: u64, f: impl FnOnce() + Send) {
        self.rt.block_on(|| self.clock.measure(self.size.ideal(items), items, f));
    }

    /// Measures a scope in a task, in which `items` items are computed.
    fn measure_scope<'env>(
        self,
        items: u64,
        f: impl for<'scope> FnOnce(&'scope cygnet::Scope<'scope, 'env>) + Send + 'env,
    ) {
        self.measure(items, || cygnet::scope(f));
    }
}

/// Waits until `so` returns true, and then for a moment that lets the workers go to sleep.
fn until(so: impl Fn() -> bool) {
    const MOMENT: Duration = Duration::from_millis(1);
    while !so() {
        thread::sleep(MOMENT);
    }
    thread::sleep(MOMENT);
}
