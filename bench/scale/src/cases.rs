//! The workloads.

use crate::steps;
use crate::world::{Clock, compute, now, thread};
use clap::ValueEnum;
use cygnet::sync::{Barrier, Event, Mutex, RwLock, Semaphore, bounded};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Case {
    /// A tree of joins with computing leaves.
    Join,
    /// A task spawns all other tasks and joins them by their handles.
    Flood,
    /// A task spawns all other tasks in a scope.
    ScopeFlood,
    /// Scopes of four tasks per core, one after the other.
    Phases,
    /// Scopes of eight tasks, one after the other.
    EightPhases,
    /// A thread per core spawns a task and joins it, again and again.
    Outside,
    /// Two stages per core, with bounded channels between them.
    Pipeline,
    /// Two ordered stages per core of one `cygnet::pipeline`.
    Steps,
    /// Two parallel stages per core of one `cygnet::pipeline`.
    ParallelSteps,
    /// Four tasks per core lock a mutex, and compute outside it.
    Mutex,
    /// Four tasks per core use a reader-writer lock, writing in one turn of twenty, and compute
    /// outside it.
    RwLock,
    /// Four tasks per core share one permit per core, and compute while they hold one.
    Semaphore,
    /// A sender per core computes values and sends them to one receiver.
    Channel,
    /// Pairs of tasks: one asks, the other one computes and replies.
    Request,
    /// Tasks that wait for a moment and then compute for long.
    Late,
    /// Four tasks per core that wait; afterwards only the tasks of one worker compute.
    Pinned,
    /// A parallel loop.
    For,
    /// A job per worker that checks in after each item. Beside them a thread spawns tasks, one
    /// after the other. The time is the 99th percentile from a spawn to the start. Needs a core
    /// more than workers.
    Beside,
}

pub struct Size {
    pub cores: usize,
    pub workers: usize,
    pub work: Duration,
    pub items: Option<u64>,
}

impl Size {
    pub fn items(&self, usual: u64) -> u64 {
        self.items.unwrap_or(usual)
    }

    /// The ideal time of `items` items: their computing time divided by the number of cores in
    /// use.
    pub fn ideal(&self, items: u64) -> Duration {
        let used = self.cores.min(self.workers) as u32;
        self.work * u32::try_from(items).unwrap_or(u32::MAX) / used
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
            Case::Pinned => 1_000_000,
            Case::Beside => 100_000,
            _ => 1_000,
        }
    }

    pub fn run(self, size: &Size, clock: &Clock) {
        let rt = cygnet::Runtime::builder().workers(size.workers).build().expect("workers");
        let (rt, work, cores) = (&rt, size.work, size.cores as u64);
        let on = Bench { rt, size, clock };
        match self {
            Case::Join => {
                let depth = size.items(65_536).ilog2();
                on.measure(1 << depth, || tree(depth, work));
            }
            Case::Flood => {
                let items = size.items(50_000);
                on.measure(items, || {
                    let tasks: Vec<_> =
                        (0..items).map(|_| cygnet::spawn(move || compute(work))).collect();
                    tasks.into_iter().for_each(|task| task.join().expect("a task of a flood"));
                });
            }
            Case::ScopeFlood => {
                let items = size.items(50_000);
                on.measure(items, || scope_of(items, work));
            }
            Case::Phases => phases(on, 4 * cores),
            Case::EightPhases => phases(on, 8),
            Case::Outside => {
                let each = size.items(10_000) / cores;
                clock.measure(size.ideal(each * cores), || {
                    let start = |_| {
                        let handle = rt.handle();
                        thread::spawn(move || {
                            for _ in 0..each {
                                let task = handle.spawn(move || compute(work));
                                task.expect("a running runtime").join().expect("a task");
                            }
                        })
                    };
                    let threads: Vec<_> = (0..cores).map(start).collect();
                    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
                });
            }
            Case::Pipeline => pipeline(on, 2 * cores),
            Case::Steps => steps::ordered(on),
            Case::ParallelSteps => steps::parallel(on),
            Case::Mutex => {
                let count = Mutex::new(0_u64);
                let turns = on_all(on, 4 * cores, || {
                    *count.lock().expect(UNDISTURBED) += 1;
                    compute(work);
                });
                assert_eq!(count.into_inner(), turns);
            }
            Case::RwLock => {
                let (lock, turn) = (RwLock::new(0_u64), AtomicU64::new(0));
                on_all(on, 4 * cores, || {
                    if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(20) {
                        *lock.write().expect(UNDISTURBED) += 1;
                    } else {
                        let _ = *lock.read().expect(UNDISTURBED);
                    }
                    compute(work);
                });
            }
            Case::Semaphore => {
                let permits = Semaphore::new(size.cores);
                on_all(on, 4 * cores, || {
                    let _permit = permits.acquire().expect(UNDISTURBED);
                    compute(work);
                });
            }
            Case::Channel => {
                let each = size.items(20_000) / cores;
                let (sender, receiver) = bounded(1_024);
                on.measure_scope(each * cores, |s| {
                    for _ in 0..cores {
                        let sender = sender.clone();
                        s.spawn(move || {
                            for value in 0..each {
                                compute(work);
                                sender.send(value).expect("the receiver is there");
                            }
                        });
                    }
                    drop(sender);
                    assert_eq!(receiver.iter().count() as u64, each * cores);
                });
            }
            Case::Request => {
                let pairs = 2 * cores;
                let each = size.items(20_000) / pairs;
                on.measure_scope(each * pairs, |s| {
                    for _ in 0..pairs {
                        let (ask, asked) = bounded(1);
                        let (reply, replies) = bounded(1);
                        s.spawn(move || {
                            for value in asked.iter() {
                                compute(work);
                                reply.send(value).expect("the asking task waits for it");
                            }
                        });
                        s.spawn(move || {
                            for value in 0..each {
                                ask.send(value).expect("the replying task is there");
                                replies.recv().expect("a reply");
                            }
                        });
                    }
                });
            }
            Case::Late => {
                let tasks = size.items(8 * cores);
                let start = Event::new();
                on.measure_scope(tasks, |s| {
                    for _ in 0..tasks {
                        s.spawn(|| {
                            start.wait().expect(UNDISTURBED);
                            compute(work);
                        });
                    }
                    cygnet::yield_now().expect(UNDISTURBED);
                    start.set();
                });
            }
            Case::Pinned => {
                let tasks = 4 * cores;
                let (all_are_here, first) = (Barrier::new(tasks as usize), OnceLock::new());
                // Ideally, one worker has an even share of the tasks.
                on.measure_scope(tasks / cores, |s| {
                    for _ in 0..tasks {
                        s.spawn(|| {
                            all_are_here.wait().expect(UNDISTURBED);
                            let me = thread::current().id();
                            if *first.get_or_init(|| me) == me {
                                compute(work);
                            }
                        });
                    }
                });
            }
            Case::For => {
                let items = size.items(100_000);
                on.measure(items, || {
                    cygnet::par::for_each(0..items as usize, |_| compute(work)).expect("all");
                });
            }
            Case::Beside => {
                let job = move || {
                    while cygnet::checkpoint().is_ok() {
                        compute(work)
                    }
                };
                let jobs: Vec<_> = (0..size.workers).map(|_| rt.spawn(job)).collect();
                let mut delays: Vec<_> = (0..size.items(500))
                    .map(|_| {
                        thread::sleep(work * 7 / 3);
                        let before = now();
                        rt.spawn(now).join().expect("a task") - before
                    })
                    .collect();
                delays.sort_unstable();
                clock.record(delays[delays.len() * 99 / 100], work);
                drop(jobs);
            }
        }
    }
}

/// Holds for every wait in this module.
const UNDISTURBED: &str = "it is never cancelled";

/// What a workload runs on.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    rt: &'a cygnet::Runtime,
    pub size: &'a Size,
    clock: &'a Clock,
}

impl Bench<'_> {
    /// Measures a call of `f` in a task, which computes `items` items.
    pub fn measure(self, items: u64, f: impl FnOnce() + Send) {
        self.rt.block_on(|| self.clock.measure(self.size.ideal(items), f));
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

fn tree(depth: u32, work: Duration) {
    if depth == 0 {
        return compute(work);
    }
    cygnet::join(|| tree(depth - 1, work), || tree(depth - 1, work));
}

/// A scope of `tasks` tasks.
fn scope_of(tasks: u64, work: Duration) {
    cygnet::scope(|s| {
        for _ in 0..tasks {
            s.spawn(move || compute(work));
        }
    });
}

fn phases(on: Bench<'_>, tasks: u64) {
    let rounds = on.size.items(200);
    on.measure(rounds * tasks, || (0..rounds).for_each(|_| scope_of(tasks, on.size.work)));
}

fn pipeline(on: Bench<'_>, stages: u64) {
    let (values, work) = (on.size.items(4_000), on.size.work);
    on.measure_scope(values * stages, |s| {
        let (first, mut before) = bounded(64);
        for _ in 0..stages {
            let (sender, receiver) = bounded(64);
            let from = std::mem::replace(&mut before, receiver);
            s.spawn(move || {
                for value in from.iter() {
                    compute(work);
                    sender.send(value).expect("the next stage");
                }
            });
        }
        s.spawn(move || {
            for value in 0..values {
                first.send(value).expect("the first stage");
            }
        });
        assert_eq!(before.iter().count() as u64, values);
    });
}

/// Shares 20,000 calls of `f` among `tasks` tasks. Returns the number of calls.
fn on_all(on: Bench<'_>, tasks: u64, f: impl Fn() + Sync) -> u64 {
    let each = on.size.items(20_000) / tasks;
    on.measure_scope(tasks * each, |s| {
        for _ in 0..tasks {
            s.spawn(|| (0..each).for_each(|_| f()));
        }
    });
    tasks * each
}
