//! async-executor, the executor of smol, on threads of its own.

use std::sync::Arc;
use std::thread;

use async_executor::Executor as AsyncExecutor;
use futures_lite::future;
use tokio_util::sync::CancellationToken;

use super::futures::{Executor, with_tasks};
use crate::compare::prelude::*;

/// The cases that async-executor runs. It has tasks but no forks.
pub const TABLE: Table = with_tasks!(build;
    ("block-on", block_on),
    ("runtime", |s| {
        let nothing = |smol: Smol, i| future::block_on(smol.executor.run(async { black_box(i) }));
        let run = |i| build(s).map(|smol| nothing(smol, i));
        Ok(repeated(s, |n| time(n, |i| run(i).expect("threads can be started"))))
    }),
    ("control-loop", |s| {
        let smol = build(s)?;
        control_loop(s, |job: ControlJob| smol.executor.spawn(async { job.run() }).detach())
    }),
);

#[derive(Clone)]
struct Smol {
    executor: Arc<AsyncExecutor<'static>>,
    _threads: Arc<Threads>,
}

/// Threads that run an executor's tasks until this is dropped.
struct Threads {
    stop: CancellationToken,
    threads: Vec<thread::JoinHandle<()>>,
}

fn build(setting: &Setting) -> anyhow::Result<Smol> {
    let (executor, stop) = (Arc::new(AsyncExecutor::new()), CancellationToken::new());
    let mut threads = Vec::new();
    for _ in 0..setting.workers {
        let (executor, stop) = (Arc::clone(&executor), stop.clone());
        let run = move || future::block_on(executor.run(stop.cancelled()));
        threads.push(thread::Builder::new().spawn(run)?);
    }
    Ok(Smol { executor, _threads: Arc::new(Threads { stop, threads }) })
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            thread.join().expect("no task panics");
        }
    }
}

impl Executor for Smol {
    fn spawn<T, F>(&self, task: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.executor.spawn(task)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        future::yield_now()
    }

    fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        future::block_on(self.executor.spawn(task))
    }
}

fn block_on(setting: &Setting) -> CaseResult {
    let smol = build(setting)?;
    let nothing = |i| future::block_on(smol.executor.run(async { black_box(i) }));
    Ok(repeated(setting, |n| time(n, nothing)))
}
