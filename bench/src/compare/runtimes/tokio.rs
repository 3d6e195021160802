//! tokio's multi-threaded scheduler.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::Table;
use super::futures::{Executor, with_tasks};
use crate::compare::cases::{self, ASKED, ENDED};
use crate::compare::measure::{
    ControlJob, Measured, Setting, Size, cancelled_nodes, control_loop, repeated,
};

/// What it runs: tasks. It has no forks.
pub const TABLE: Table = with_tasks!(build;
    ("block-on", block_on),
    ("ask", |s| Ok(repeated(s, asks))),
    ("scope", |s| {
        let siblings = s.size(cases::SIBLINGS);
        Ok(repeated(s, |n| child_tokens(n, siblings)))
    }),
    ("cancel-10k", |s| Ok(cancelled(s, cases::CANCELLED_TREE))),
    ("cancel-100k", |s| Ok(cancelled(s, cases::CANCELLED_FOREST))),
    ("cancel-waiting-10k", |s| cancelled_with_waiters(s, cases::CANCELLED_TREE)),
    ("cancel-waiting-100k", |s| cancelled_with_waiters(s, cases::CANCELLED_FOREST)),
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

fn asks(n: u64) -> Duration {
    let token = CancellationToken::new();
    let began = Instant::now();
    for _ in 0..n {
        black_box(black_box(&token).is_cancelled());
    }
    began.elapsed()
}

fn child_tokens(n: u64, siblings: usize) -> Duration {
    let parent = CancellationToken::new();
    let _siblings: Vec<_> = (0..siblings).map(|_| parent.child_token()).collect();
    let began = Instant::now();
    for _ in 0..n {
        black_box(parent.child_token());
    }
    began.elapsed()
}

/// So many tokens in a tree, as that of cygnet's groups.
fn tokens(count: usize) -> Vec<CancellationToken> {
    const FAN: usize = 10;
    let mut tokens = vec![CancellationToken::new()];
    let mut parent = 0;
    while tokens.len() < count {
        let below = FAN.min(count - tokens.len());
        for _ in 0..below {
            tokens.push(tokens[parent].child_token());
        }
        parent += 1;
    }
    tokens
}

fn cancelled(setting: &Setting, size: Size) -> Measured {
    cancelled_nodes(setting, setting.size(size), ASKED, |count| {
        let tokens = tokens(count);
        let began = Instant::now();
        tokens[0].cancel();
        let between = Instant::now();
        assert!(tokens.iter().all(CancellationToken::is_cancelled));
        (between - began, between.elapsed())
    })
}

fn cancelled_with_waiters(setting: &Setting, size: Size) -> anyhow::Result<Measured> {
    let runtime = build(setting)?;
    Ok(cancelled_nodes(setting, setting.size(size), ENDED, |count| {
        runtime.run(async move {
            let tokens = tokens(count);
            let waiting = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = tokens
                .iter()
                .map(|token| {
                    let (token, waiting) = (token.clone(), Arc::clone(&waiting));
                    tokio::spawn(async move {
                        waiting.fetch_add(1, Ordering::Relaxed);
                        token.cancelled().await;
                    })
                })
                .collect();
            while waiting.load(Ordering::Relaxed) < count {
                tokio::task::yield_now().await;
            }
            let began = Instant::now();
            tokens[0].cancel();
            let between = Instant::now();
            for task in tasks {
                task.await.expect("no task panics");
            }
            (between - began, between.elapsed())
        })
    }))
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
