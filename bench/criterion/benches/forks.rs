//! Costs and speed-ups of forks: the kernels of `compare`, in small sizes. With the feature
//! `peers`, also on rayon and chili.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use cygnet_bench::compare::kernels::{Fork, Serial, data, leaves, search};
use cygnet_bench::compare::runtimes::cygnet::Cygnet;
use cygnet_bench::figures::ops;
use cygnet_bench::measure::harness;

/// A kernel and its size.
#[derive(Clone, Copy)]
enum Kernel {
    Nothing,
    Fib(u32),
    Queens(u32),
    Tree(u64),
    Items { count: u64, steps: u64 },
    Sum(&'static [u64]),
}

/// The time of `n` calls.
fn time<F: Fork>(kernel: Kernel, n: u64, scope: &mut F::Scope<'_>) -> Duration {
    match kernel {
        Kernel::Nothing => many(n, || leaves::nothing::<F>(scope)),
        Kernel::Fib(size) => many(n, || search::fib::<F>(scope, black_box(size))),
        Kernel::Queens(size) => many(n, || search::queens::<F>(scope, black_box(size))),
        Kernel::Tree(size) => many(n, || search::tree::<F>(scope, black_box(1), size)),
        Kernel::Items { count, steps } => {
            many(n, || data::items::<F>(scope, 0..black_box(count), steps))
        }
        Kernel::Sum(numbers) => many(n, || data::sum::<F>(scope, black_box(numbers))),
    }
}

fn many<T>(n: u64, mut call: impl FnMut() -> T) -> Duration {
    harness::time(n, |_| black_box(call()))
}

fn all(c: &mut Criterion, name: &str, kernel: Kernel) {
    let mut group = c.benchmark_group(name);
    group.bench_function("serial", |b| b.iter_custom(|n| time::<Serial>(kernel, n, &mut ())));
    for workers in [1, 2] {
        let runtime = ops::runtime(workers);
        group.bench_function(format!("cygnet, {workers} workers"), |b| {
            b.iter_custom(|n| runtime.block_on(|| time::<Cygnet>(kernel, n, &mut ())));
        });
        peers(&mut group, kernel, workers);
    }
    group.finish();
}

#[cfg(feature = "peers")]
fn peers(group: &mut BenchmarkGroup<'_, WallTime>, kernel: Kernel, workers: usize) {
    use cygnet_bench::compare::runtimes::peers::{chili::Chili, rayon::Rayon};

    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("a small pool");
    group.bench_function(format!("rayon, {workers} workers"), |b| {
        b.iter_custom(|n| pool.install(|| time::<Rayon>(kernel, n, &mut ())));
    });
    let thread_count = std::num::NonZero::new(workers);
    let config = chili::Config { thread_count, ..chili::Config::default() };
    let pool = chili::ThreadPool::with_config(config);
    group.bench_function(format!("chili, {workers} workers"), |b| {
        b.iter_custom(|n| time::<Chili>(kernel, n, &mut pool.scope()));
    });
}

#[cfg(not(feature = "peers"))]
fn peers(_group: &mut BenchmarkGroup<'_, WallTime>, _kernel: Kernel, _workers: usize) {}

fn forks(c: &mut Criterion) {
    all(c, "join of two that do nothing", Kernel::Nothing);
    all(c, "fib 20", Kernel::Fib(20));
    all(c, "8 queens", Kernel::Queens(8));
    all(c, "tree of 10,000 nodes", Kernel::Tree(10_000));
}

fn loops(c: &mut Criterion) {
    all(c, "10,000 items", Kernel::Items { count: 10_000, steps: 20 });
    all(c, "sum of 1 Mi numbers", Kernel::Sum(Vec::leak(data::numbers(1 << 20))));
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
}

criterion_group! {
    name = benches;
    config = short();
    targets = forks, loops
}
criterion_main!(benches);
