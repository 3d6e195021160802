//! Cases for executors of futures. Their tasks wait on tokio's channels, which work on any
//! executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc, oneshot};

use crate::compare::prelude::*;

/// An executor with threads of its own.
pub trait Executor: Clone + Send + Sync + 'static {
    /// Starts a task. The returned future waits for its end.
    fn spawn<T, F>(&self, task: F) -> impl Future<Output = T> + Send + use<Self, T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static;

    /// Lets other tasks run.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// Runs a task on one of the executor's threads, while this thread, which is not one of them,
    /// waits.
    fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T;
}

/// The entries of an executor's table. `$build` builds the executor from a setting.
macro_rules! with_tasks {
    ($build:path; $($more:expr),* $(,)?) => {{
        use $crate::compare::{measure, runtimes::peers::futures};
        &[
            ("spawn-join", |s| Ok(futures::spawn_join(s, &$build(s)?))),
            ("spawn-join-parked", |s| Ok(futures::spawn_join_parked(s, &$build(s)?))),
            ("batch", |s| Ok(futures::batch(s, &$build(s)?))),
            ("batch-parked", |s| Ok(futures::batch_parked(s, &$build(s)?))),
            ("start-here", |s| Ok(futures::start_here(s, &$build(s)?))),
            ("start-elsewhere", |s| Ok(futures::start_elsewhere(s, &$build(s)?))),
            ("start-outside", |s| {
                let executor = $build(s)?;
                Ok(measure::start_outside(s, || executor.run(async { Instant::now() })))
            }),
            ("spawn-outside", |s| Ok(futures::spawn_outside(s, &$build(s)?))),
            ("yield-", |s| Ok(futures::yields(s, &$build(s)?))),
            ("ping-pong", |s| Ok(futures::ping_pong(s, &$build(s)?))),
            ("parked-memory", |s| futures::parked_memory(s, &$build(s)?)),
            ("wait-once", |s| Ok(futures::wait_once(s, &$build(s)?))),
            $($more),*
        ]
    }};
}
pub(super) use with_tasks;

/// Measures a task that performs an operation the given number of times and returns the time
/// taken.
fn looped<E: Executor, F: Future<Output = Duration> + Send + 'static>(
    setting: &Setting,
    executor: &E,
    task: impl Fn(E, u64) -> F,
) -> Measured {
    repeated(setting, |n| executor.run(task(executor.clone(), n)))
}

pub fn spawn_join<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    looped(setting, executor, |executor, n| async move {
        let began = Instant::now();
        for i in 0..n {
            black_box(executor.spawn(async move { black_box(i) }).await);
        }
        began.elapsed()
    })
}

pub fn spawn_join_parked<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    looped(setting, executor, |executor, n| async move {
        let began = Instant::now();
        for i in 0..n {
            let (started, has_started) = oneshot::channel();
            let (wake, woken) = oneshot::channel();
            let child = executor.spawn(async move {
                let _ = started.send(());
                let _ = woken.await;
                black_box(i)
            });
            let _ = has_started.await;
            let _ = wake.send(());
            black_box(child.await);
        }
        began.elapsed()
    })
}

pub fn batch<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    let size = setting.size(cases::BATCH);
    let batch = move |executor: E, n| async move {
        let mut children = Vec::with_capacity(size);
        let began = Instant::now();
        for _ in 0..n {
            for i in 0..size {
                children.push(executor.spawn(async move { black_box(i) }));
            }
            for child in children.drain(..) {
                black_box(child.await);
            }
        }
        began.elapsed()
    };
    shared_out(setting, size, |n| executor.run(batch(executor.clone(), n)))
}

/// Tasks that wait once, are woken when all of them are waiting, and then do some work.
async fn waiters<E: Executor>(executor: E, tasks: usize, work: Work) -> Duration {
    let began = Instant::now();
    let gate = Arc::new((AtomicUsize::new(tasks), Notify::new()));
    let (mut wakers, mut children) = (Vec::with_capacity(tasks), Vec::with_capacity(tasks));
    for seed in 0..tasks as u64 {
        let (wake, woken) = oneshot::channel::<()>();
        let gate = Arc::clone(&gate);
        children.push(executor.spawn(async move {
            if gate.0.fetch_sub(1, Ordering::AcqRel) == 1 {
                gate.1.notify_one();
            }
            let _ = woken.await;
            work.run(seed)
        }));
        wakers.push(wake);
    }
    gate.1.notified().await;
    for wake in wakers {
        let _ = wake.send(());
    }
    for child in children {
        child.await;
    }
    began.elapsed()
}

pub fn batch_parked<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    let size = setting.size(cases::PARKED_BATCH);
    shared_out(setting, size, |n| {
        (0..n).map(|_| executor.run(waiters(executor.clone(), size, Work::NONE))).sum()
    })
}

pub fn wait_once<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    let (tasks, work) = (setting.size(cases::WAITERS), setting.work(cases::WAITER_WORK));
    repeated(setting, |n| {
        (0..n).map(|_| executor.run(waiters(executor.clone(), tasks, work))).sum()
    })
}

pub fn start_here<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    let block = |executor: E, n| async move {
        let mut delays: Vec<Delay> = Vec::with_capacity(n as usize);
        for _ in 0..n {
            let before = Instant::now();
            delays.push((before, executor.spawn(async { Instant::now() }).await));
        }
        delays
    };
    delays(setting, BLOCK, |n| executor.run(block(executor.clone(), n)))
}

pub fn start_elsewhere<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    let work = setting.work(ELSEWHERE_WORK);
    let block = move |executor: E, n| async move {
        let mut delays: Vec<Delay> = Vec::with_capacity(n as usize);
        for _ in 0..n {
            spin(ELSEWHERE_GAP);
            let done = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&done);
            let before = Instant::now();
            let child = executor.spawn(async move {
                let started = Instant::now();
                work.run(1);
                theirs.store(true, Ordering::Release);
                started
            });
            spin_until(ELSEWHERE_LIMIT, || done.load(Ordering::Acquire));
            delays.push((before, child.await));
        }
        delays
    };
    delays(setting, BLOCK, |n| executor.run(block(executor.clone(), n)))
}

pub fn spawn_outside<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    let run = |i| black_box(executor.run(async move { black_box(i) }));
    repeated(setting, |n| time(n, run))
}

pub fn yields<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    let (each, tasks) = (setting.size(cases::YIELDS), setting.number as usize);
    let turns = move |executor: E, rounds: usize| async move {
        let (ready, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut others = Vec::new();
        for _ in 1..tasks {
            let (ready, go) = (Arc::clone(&ready), Arc::clone(&go));
            others.push(executor.spawn(async move {
                ready.fetch_add(1, Ordering::Relaxed);
                while !go.load(Ordering::Relaxed) {
                    E::yield_now().await;
                }
                for _ in 0..rounds {
                    E::yield_now().await;
                }
            }));
        }
        while ready.load(Ordering::Relaxed) < others.len() {
            E::yield_now().await;
        }
        let began = Instant::now();
        go.store(true, Ordering::Relaxed);
        for _ in 0..rounds {
            E::yield_now().await;
        }
        for other in others {
            other.await;
        }
        began.elapsed()
    };
    shared_out(setting, each * tasks, |n| executor.run(turns(executor.clone(), each * n as usize)))
}

pub fn ping_pong<E: Executor>(setting: &Setting, executor: &E) -> Measured {
    let game = |executor: E, n: u64| async move {
        let (ping, mut pinged) = mpsc::channel::<()>(1);
        let (pong, mut ponged) = mpsc::channel::<()>(1);
        let partner = executor.spawn(async move {
            while pinged.recv().await.is_some() {
                let _ = pong.send(()).await;
            }
        });
        let rounds = n.div_ceil(2);
        let began = Instant::now();
        for _ in 0..rounds {
            let _ = ping.send(()).await;
            let _ = ponged.recv().await;
        }
        let time = began.elapsed();
        drop(ping);
        partner.await;
        scale(time, n, rounds * 2)
    };
    looped(setting, executor, game)
}

pub fn parked_memory<E: Executor>(setting: &Setting, executor: &E) -> CaseResult {
    let count = setting.size(cases::PARKED);
    let wake = Arc::new(Notify::new());
    let park = |count| {
        let (executor, wake) = (executor.clone(), Arc::clone(&wake));
        async move {
            let parked = Arc::new(AtomicUsize::new(0));
            let mut tasks = Vec::with_capacity(count);
            for _ in 0..count {
                let (wake, parked) = (Arc::clone(&wake), Arc::clone(&parked));
                tasks.push(executor.spawn(async move {
                    parked.fetch_add(1, Ordering::Relaxed);
                    drop(parked);
                    wake.notified().await;
                }));
            }
            // On one worker, a task that has been counted waits before this task runs again.
            while parked.load(Ordering::Relaxed) < count {
                E::yield_now().await;
            }
            tasks
        }
    };
    let end = |tasks: Vec<_>| {
        wake.notify_waiters();
        executor.run(async move {
            for task in tasks {
                task.await;
            }
        });
    };
    end(executor.run(park(1000)));
    let (measured, tasks) = memory_of(count, 4 << 10, |count| executor.run(park(count)))?;
    end(tasks);
    Ok(measured)
}
