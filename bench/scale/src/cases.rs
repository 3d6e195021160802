//! The workloads.

use crate::steps;
use crate::world::{Clock, compute, thread};
use clap::ValueEnum;
use cygnet::sync::{Barrier, Mutex, RwLock, Semaphore, bounded};
use std::sync::OnceLock;
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
        self.work * u32::try_from(items).unwrap_or(u32::MAX) / self.used()
    }

    fn used(&self) -> u32 {
        self.cores.min(self.workers) as u32
    }
}

impl Case {
    pub fn all() -> Vec<Case> {
        Case::value_variants().to_vec()
    }

    pub fn name(self) -> String {
        self.to_possible_value().expect("no case is hidden").get_name().to_owned()
    }

    /// Computing time of an item, in nanoseconds.
    pub fn usual_work(self) -> u64 {
        match self {
            Case::Pipeline | Case::Steps | Case::ParallelSteps => 2_000,
            Case::Phases | Case::EightPhases | Case::Late => 20_000,
            Case::Pinned => 1_000_000,
            _ => 1_000,
        }
    }

    pub fn run(self, size: &Size, clock: &Clock) {
        let rt = cygnet::Runtime::builder().workers(size.workers).build().expect("workers");
        let work = size.work;
        let cores = size.cores as u64;
        match self {
            Case::Join => {
                let depth = size.items(65_536).ilog2();
                let ideal = size.ideal(1 << depth);
                rt.block_on(|| clock.measure(ideal, || tree(depth, work)));
            }
            Case::Flood => {
                let items = size.items(50_000);
                rt.block_on(|| {
                    clock.measure(size.ideal(items), || {
                        let tasks: Vec<_> =
                            (0..items).map(|_| cygnet::spawn(move || compute(work))).collect();
                        tasks.into_iter().for_each(|task| task.join().expect("a task of a flood"));
                    });
                });
            }
            Case::ScopeFlood => {
                let items = size.items(50_000);
                rt.block_on(|| {
                    clock.measure(size.ideal(items), || {
                        cygnet::scope(|s| {
                            for _ in 0..items {
                                s.spawn(move || compute(work));
                            }
                        });
                    });
                });
            }
            Case::Phases => phases(&rt, size, clock, 4 * cores),
            Case::EightPhases => phases(&rt, size, clock, 8),
            Case::Outside => {
                let each = size.items(10_000) / cores;
                clock.measure(size.ideal(each * cores), || {
                    let threads: Vec<_> = (0..cores)
                        .map(|_| {
                            let handle = rt.handle();
                            thread::spawn(move || {
                                for _ in 0..each {
                                    let task = handle.spawn(move || compute(work));
                                    task.expect("a running runtime").join().expect("a task");
                                }
                            })
                        })
                        .collect();
                    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
                });
            }
            Case::Pipeline => pipeline(&rt, size, clock, 2 * cores),
            Case::Steps => steps::ordered(&rt, size, clock),
            Case::ParallelSteps => steps::parallel(&rt, size, clock),
            Case::Mutex => {
                let tasks = 4 * cores;
                let each = size.items(20_000) / tasks;
                let count = Mutex::new(0_u64);
                on_all(&rt, size, clock, tasks, each, || {
                    *count.lock().expect("it is never cancelled") += 1;
                    compute(work);
                });
                assert_eq!(count.into_inner(), tasks * each);
            }
            Case::RwLock => {
                let tasks = 4 * cores;
                let each = size.items(20_000) / tasks;
                let lock = RwLock::new(0_u64);
                let turn = std::sync::atomic::AtomicU64::new(0);
                on_all(&rt, size, clock, tasks, each, || {
                    if turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed).is_multiple_of(20) {
                        *lock.write().expect("it is never cancelled") += 1;
                    } else {
                        let _ = *lock.read().expect("it is never cancelled");
                    }
                    compute(work);
                });
            }
            Case::Semaphore => {
                let tasks = 4 * cores;
                let each = size.items(20_000) / tasks;
                let permits = Semaphore::new(size.cores);
                on_all(&rt, size, clock, tasks, each, || {
                    let _permit = permits.acquire().expect("it is never cancelled");
                    compute(work);
                });
            }
            Case::Channel => {
                let each = size.items(20_000) / cores;
                let (sender, receiver) = bounded(1_024);
                rt.block_on(|| {
                    clock.measure(size.ideal(each * cores), || {
                        cygnet::scope(|s| {
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
                    });
                });
            }
            Case::Request => {
                let pairs = 2 * cores;
                let each = size.items(20_000) / pairs;
                rt.block_on(|| {
                    clock.measure(size.ideal(each * pairs), || {
                        cygnet::scope(|s| {
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
                    });
                });
            }
            Case::Late => {
                let tasks = size.items(8 * cores);
                let start = cygnet::sync::Event::new();
                rt.block_on(|| {
                    clock.measure(size.ideal(tasks), || {
                        cygnet::scope(|s| {
                            for _ in 0..tasks {
                                s.spawn(|| {
                                    start.wait().expect("it is never cancelled");
                                    compute(work);
                                });
                            }
                            cygnet::yield_now().expect("it is never cancelled");
                            start.set();
                        });
                    });
                });
            }
            Case::Pinned => {
                let tasks = 4 * cores;
                let all_are_here = Barrier::new(tasks as usize);
                let first = OnceLock::new();
                rt.block_on(|| {
                    // Ideally, one worker has an even share of the tasks.
                    clock.measure(size.ideal(tasks / cores), || {
                        cygnet::scope(|s| {
                            for _ in 0..tasks {
                                s.spawn(|| {
                                    all_are_here.wait().expect("it is never cancelled");
                                    let me = thread::current().id();
                                    if *first.get_or_init(|| me) == me {
                                        compute(work);
                                    }
                                });
                            }
                        });
                    });
                });
            }
            Case::For => {
                let items = size.items(100_000);
                rt.block_on(|| {
                    clock.measure(size.ideal(items), || {
                        cygnet::par::for_each(0..items as usize, |_| compute(work)).expect("all");
                    });
                });
            }
        }
    }
}

fn tree(depth: u32, work: Duration) {
    if depth == 0 {
        return compute(work);
    }
    cygnet::join(|| tree(depth - 1, work), || tree(depth - 1, work));
}

fn phases(rt: &cygnet::Runtime, size: &Size, clock: &Clock, tasks: u64) {
    let rounds = size.items(200);
    let work = size.work;
    rt.block_on(|| {
        clock.measure(size.ideal(rounds * tasks), || {
            for _ in 0..rounds {
                cygnet::scope(|s| {
                    for _ in 0..tasks {
                        s.spawn(move || compute(work));
                    }
                });
            }
        });
    });
}

fn pipeline(rt: &cygnet::Runtime, size: &Size, clock: &Clock, stages: u64) {
    let values = size.items(4_000);
    let work = size.work;
    rt.block_on(|| {
        clock.measure(size.ideal(values * stages), || {
            cygnet::scope(|s| {
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
        });
    });
}

/// Calls `f` in `tasks` tasks, `each` times in each task.
fn on_all(
    rt: &cygnet::Runtime,
    size: &Size,
    clock: &Clock,
    tasks: u64,
    each: u64,
    f: impl Fn() + Sync,
) {
    rt.block_on(|| {
        clock.measure(size.ideal(tasks * each), || {
            cygnet::scope(|s| {
                for _ in 0..tasks {
                    s.spawn(|| (0..each).for_each(|_| f()));
                }
            });
        });
    });
}
