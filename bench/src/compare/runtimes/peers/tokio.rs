//! tokio's multi-threaded scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Barrier, Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::futures::{Executor, with_tasks};
use crate::compare::prelude::*;
use crate::figures::stops::measured as stops;
use crate::figures::stops::{Guards, Tree};
use crate::figures::tree::{in_two, of_a_node, tree};

mod busy;
mod waits;

/// The cases that tokio runs. It has tasks but no forks.
pub const TABLE: Table = with_tasks!(build;
    ("block-on", block_on),
    ("ask", |s| Ok(repeated(s, asks))),
    ("scope", stops::child_with_siblings::<CancellationToken>),
    ("cancel-", |s| Ok(cancelled(s, false))),
    ("cancel-handles-", |s| Ok(cancelled(s, true))),
    ("cancel-waiting-", cancelled_with_waiters),
    ("mutex", |s| on(s, |s, tokio| repeated(s, |n| tokio.run(locks(n))))),
    ("mutex-64", |s| on(s, |s, tokio| contended(s, |each| tokio.run(lock_often(each))))),
    ("mutex-64-spread", |s| on(s, |s, tokio| spread(s, |each| tokio.run(lock_often(each))))),
    ("channel-", |s| on(s, |s, tokio| passed(s, |values, senders| tokio.run(pass(values, senders))))),
    ("guard", stops::guard::<TaskTracker>),
    ("guard-outside", stops::guard::<TaskTracker>),
    ("guard-outside-late", stops::late_guard::<TaskTracker>),
    ("guard-two", stops::guards_of_two::<TaskTracker>),
    ("guard-two-outside", stops::guards_of_two::<TaskTracker>),
    ("child", stops::child::<CancellationToken>),
    ("child-siblings", stops::child_with_siblings::<CancellationToken>),
    ("shut-down-10k", stops::shut_down::<CancellationToken>),
    ("ring-batch-", |s| ring_of_messages(s, Traffic::BATCHES)),
    ("ring-", |s| ring_of_messages(s, Traffic::SINGLE)),
    ("ring-park-", |s| ring_of_messages(s, Traffic::PARKED)),
    ("pipeline-", busy::pipeline),
    ("uneven-stages", busy::pipeline),
    ("phases-", busy::phases),
    ("flood-", busy::flood),
    ("scope-flood-", busy::flood),
    ("contended-", waits::contended),
    ("readers-95", waits::readers),
    ("many-senders", busy::many_senders),
    ("request-reply", waits::request_reply),
    ("round-trip-bounded", waits::round_trips_bounded),
    ("round-trip-unbounded", waits::round_trips_unbounded),
    ("round-trip-oneshot", waits::round_trips_oneshot),
    ("turns-mutex-", waits::mutex),
    ("turns-mutex-fifo-", waits::mutex),
    ("turns-rwlock-", waits::rwlock),
    ("turns-semaphore-", waits::semaphore),
    ("turns-barrier-", waits::barrier),
    ("runtime", |s| {
        let run = |i| build(s).map(|tokio| tokio.0.block_on(async { black_box(i) }));
        Ok(repeated(s, |n| time(n, |i| run(i).expect("threads can be started"))))
    }),
    ("sleepers", |s| {
        let mut builder = Builder::new_multi_thread();
        let tokio = builder.worker_threads(s.workers).enable_time().build()?;
        let tokio = Tokio(Arc::new(tokio));
        sleepers(s, |all| tokio.run(sleep_all(all)))
    }),
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

/// Measures on a runtime.
fn on(setting: &Setting, measure: impl FnOnce(&Setting, &Tokio) -> Measured) -> CaseResult {
    Ok(measure(setting, &build(setting)?))
}

fn ring_of_messages(setting: &Setting, traffic: Traffic) -> CaseResult {
    on(setting, |s, tokio| ring(s, traffic, |traffic| tokio.run(pass_messages(traffic))))
}

impl Executor for Tokio {
    /// Spawns from inside the runtime, as a program would.
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
    time(n, |_| black_box(black_box(&token).is_cancelled()))
}

/// A tracker waits for tasks, or for anything else that holds a token.
impl Guards for TaskTracker {
    type Guard = TaskTrackerToken;

    #[inline(always)]
    fn guard(&self) -> TaskTrackerToken {
        self.token()
    }
}

impl Tree for CancellationToken {
    #[inline(always)]
    fn child(&self) -> CancellationToken {
        self.child_token()
    }

    #[inline(always)]
    fn stop(&self) {
        self.cancel();
    }

    fn is_stopped(&self) -> bool {
        self.is_cancelled()
    }
}

/// `count` tokens in a tree of the same shape as that of cygnet's groups.
fn tokens(count: usize) -> Vec<CancellationToken> {
    tree(count, CancellationToken::new(), CancellationToken::child_token)
}

/// Trees of tokens that are cancelled. The tokens are queried, or clones of them.
fn cancelled(setting: &Setting, has_clones: bool) -> Measured {
    of_a_node(setting, setting.size(cases::cancelled(setting.number)), ASKED, |count| {
        let tokens = tokens(count);
        let clones = has_clones.then(|| tokens.clone());
        let queried = clones.as_ref().unwrap_or(&tokens);
        let all = || assert!(queried.iter().all(CancellationToken::is_cancelled));
        in_two(|| tokens[0].cancel(), all)
    })
}

fn cancelled_with_waiters(setting: &Setting) -> CaseResult {
    let runtime = build(setting)?;
    Ok(of_a_node(setting, setting.size(cases::cancelled(setting.number)), ENDED, |count| {
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

async fn sleep_all(all: Arc<Sleepers>) {
    let sleep = |index| {
        let all = Arc::clone(&all);
        tokio::spawn(async move {
            tokio::time::sleep(all.lie_down(index)).await;
            all.rise();
        })
    };
    busy::end_all((0..all.count).map(sleep).collect()).await;
}

async fn locks(n: u64) -> Duration {
    let mutex = Mutex::new(0);
    let began = Instant::now();
    for _ in 0..n {
        *black_box(&mutex).lock().await += 1;
    }
    began.elapsed()
}

/// Contenders for one mutex, which start together.
async fn lock_often(each: usize) -> Vec<Stint> {
    let shared = Arc::new((Mutex::new(0), Barrier::new(CONTENDERS)));
    let tasks: Vec<_> = (0..CONTENDERS)
        .map(|_| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                shared.1.wait().await;
                let began = Instant::now();
                for _ in 0..each {
                    *shared.0.lock().await += 1;
                }
                (began, Instant::now())
            })
        })
        .collect();
    busy::end_all(tasks).await
}

async fn pass(values: usize, senders: usize) {
    let (to, mut from) = mpsc::channel(ROOM);
    for _ in 0..senders {
        let to = to.clone();
        tokio::spawn(async move {
            for i in 0..values / senders {
                to.send(i).await.expect("it is open");
            }
        });
    }
    drop(to);
    while let Some(value) = from.recv().await {
        black_box(value);
    }
}

/// Waiters always park, even in the cases in which they should spin.
async fn pass_messages(traffic: Traffic) {
    let (to, mut from) = mpsc::channel(ROOM);
    for _ in 0..traffic.producers {
        let to = to.clone();
        tokio::spawn(async move {
            for first in (0..traffic.each()).step_by(traffic.batch) {
                let room = to.reserve_many(traffic.batch).await.expect("it is open");
                room.zip(first..).for_each(|(place, n)| place.send(n));
            }
        });
    }
    drop(to);
    let mut batch = Vec::with_capacity(ROOM);
    while from.recv_many(&mut batch, ROOM).await > 0 {
        batch.drain(..).for_each(|message| _ = black_box(message));
    }
}

fn block_on(setting: &Setting) -> CaseResult {
    let Tokio(runtime) = build(setting)?;
    let nothing = |i| runtime.block_on(async { black_box(i) });
    Ok(repeated(setting, |n| time(n, nothing)))
}
