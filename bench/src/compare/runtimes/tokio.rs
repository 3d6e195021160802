//! tokio's multi-threaded scheduler.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::Table;
use super::futures::{Executor, with_tasks};
use crate::compare::measure::{ControlJob, Measured, Setting, control_loop, repeated};

/// What it runs: tasks. It has no forks.
pub const TABLE: Table = with_tasks!(build;
    ("block-on", block_on),
    ("control-loop", |s| {
        let Tokio(runtime) = build(s)?;
        control_loop(s, |job: ControlJob| drop(runtime.spawn(async { job.run() })))
    }),
);

#[derive(Clone)]
struct Tokio(Arc<Runtime>);

fn build(setting: &Setting) -> anyhow::Result<Tokio> {
    let runtime = Builder::new_multi_thread().worker_threads(setting.workers).build()?;
    Ok(Tokio(Arc::new(runtime)))
}

impl Executor for Tokio {
    /// Inside, as a program would call it.
    fn spawn<T, F>(&self, task: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let task = tokio::spawn(task);
        async { task.await.expect("no task panics") }
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        self.0.block_on(self.0.spawn(task)).expect("no task panics")
    }
}

fn block_on(setting: &Setting) -> anyhow::Result<Measured> {
    let Tokio(runtime) = build(setting)?;
    Ok(repeated(setting, |n| {
        let began = Instant::now();
        for i in 0..n {
            runtime.block_on(async { black_box(i) });
        }
        began.elapsed()
    }))
}
