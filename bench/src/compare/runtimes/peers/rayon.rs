//! rayon, in a pool of its own.

use std::sync::{OnceLock, mpsc};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::compare::kernels::data::CHUNK;
use crate::compare::prelude::*;

/// The cases that rayon runs: none with waits, as rayon's jobs cannot wait.
pub const TABLE: Table = with_forks!(Rayon, inside;
    ("spawn-join", |s| inside(s, |s, ()| repeated(s, spawn_join))),
    ("batch", batch),
    ("start-here", |s| inside(s, |s, ()| starts(s, start_here))),
    ("start-elsewhere", start_elsewhere),
    ("start-outside", |s| {
        let pool = pool(s)?;
        Ok(start_outside(s, || pool.install(Instant::now)))
    }),
    ("spawn-outside", spawn_outside),
    ("block-on", spawn_outside),
    ("runtime", |s| {
        let run = |i| short_lived(s, i).expect("threads can be started");
        Ok(repeated(s, |n| time(n, run)))
    }),
    ("phases-", |s| inside(s, |s, ()| busy::phases::<Rayon>(s))),
    ("scope-flood-", |s| inside(s, |s, ()| busy::scope_flood::<Rayon>(s))),
    ("sum", sum),
    ("items", items),
    ("control-loop", |s| {
        let pool = pool(s)?;
        control_loop(s, |job: ControlJob| pool.spawn(|| job.run()))
    }),
);

/// Forks of jobs: [`rayon::join`]. Scopes: [`rayon::scope`].
pub struct Rayon;

fork!(Rayon, |a, b| rayon::join(a, b));

impl Scopes for Rayon {
    fn each(slots: &mut [Slot], job: impl Fn(&mut Slot) + Sync) {
        let job = &job;
        rayon::scope(|scope| {
            slots.iter_mut().for_each(|slot| scope.spawn(move |_| job(slot)));
        });
    }
}

fn pool(setting: &Setting) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(setting.workers).build()?)
}

/// Starts a pool, runs nothing in it, drops it, and waits for its threads, for which the drop does
/// not wait.
fn short_lived(setting: &Setting, i: u64) -> anyhow::Result<u64> {
    let (ending, ended) = mpsc::channel();
    let end = move |_| ending.send(()).expect("the starting thread waits");
    let pool = ThreadPoolBuilder::new().num_threads(setting.workers).exit_handler(end).build()?;
    let result = pool.install(|| black_box(i));
    drop(pool);
    assert_eq!(ended.iter().count(), setting.workers);
    Ok(result)
}

/// Measures on one of the pool's threads.
fn inside(
    setting: &Setting,
    kernel: impl FnOnce(&Setting, &mut ()) -> Measured + Send,
) -> CaseResult {
    Ok(pool(setting)?.install(|| kernel(setting, &mut ())))
}

/// A scope has no handles, so the child stores its result where the parent finds it after the
/// scope.
fn spawn_join(n: u64) -> Duration {
    time(n, |i| {
        let mut result = None;
        rayon::scope(|scope| scope.spawn(|_| result = Some(black_box(i))));
        black_box(result);
    })
}

fn batch(setting: &Setting) -> CaseResult {
    let size = setting.size(cases::BATCH);
    inside(setting, |setting, ()| {
        let mut results = vec![0; size];
        shared_out(setting, size, |n| {
            time(n, |_| {
                rayon::scope(|scope| {
                    for (i, result) in results.iter_mut().enumerate() {
                        scope.spawn(move |_| *result = black_box(i));
                    }
                });
                black_box(&results);
            })
        })
    })
}

fn start_here() -> Delay {
    let mut started = None;
    let before = Instant::now();
    rayon::scope(|scope| scope.spawn(|_| started = Some(Instant::now())));
    (before, started.expect("a scope waits for its jobs"))
}

fn start_elsewhere(setting: &Setting) -> CaseResult {
    let work = setting.work(ELSEWHERE_WORK);
    let start = || -> Delay {
        spin(ELSEWHERE_GAP);
        let (started, done) = (OnceLock::new(), OnceLock::new());
        let before = Instant::now();
        rayon::scope(|scope| {
            scope.spawn(|_| {
                let _ = started.set(Instant::now());
                let _ = done.set(work.run(1));
            });
            spin_until(ELSEWHERE_LIMIT, || done.get().is_some());
        });
        (before, *started.get().expect("a scope waits for its jobs"))
    };
    inside(setting, |setting, ()| starts(setting, start))
}

fn spawn_outside(setting: &Setting) -> CaseResult {
    let pool = pool(setting)?;
    let install = |i| black_box(pool.install(|| black_box(i)));
    Ok(repeated(setting, |n| time(n, install)))
}

fn sum(setting: &Setting) -> CaseResult {
    let numbers = numbers(setting.size(cases::NUMBERS));
    let sum = || black_box(&numbers).par_chunks(CHUNK).map(|part| part.iter().sum::<u64>()).sum();
    inside(setting, |setting, ()| timed(setting, sum))
}

fn items(setting: &Setting) -> CaseResult {
    let (count, steps) = item_size(setting);
    let sum = || (0..black_box(count)).into_par_iter().map(|at| item(at, steps)).sum();
    inside(setting, |setting, ()| timed(setting, sum))
}
