//! Costs of switching from one task to another.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use cygnet_bench::figures::ops;

type Operation = fn(u64) -> Duration;

fn coroutine(c: &mut Criterion) {
    c.bench_function("coroutine, one way", |b| b.iter_custom(ops::coroutine_switches));
}

fn yields(c: &mut Criterion) {
    let runtime = ops::runtime(1);
    let mut group = c.benchmark_group("yield");
    for tasks in [2, 1000] {
        group.bench_function(format!("{tasks} tasks"), |b| {
            b.iter_custom(|n| runtime.block_on(|| ops::yields(n, tasks)));
        });
    }
    group.finish();
}

fn ping_pong(c: &mut Criterion) {
    let cases: [(&str, usize, Operation); 2] =
        [("one worker", 1, ops::ping_pong_at_home), ("across two", 2, ops::ping_pong_across)];
    let mut group = c.benchmark_group("park and unpark");
    for (name, workers, operation) in cases {
        let runtime = ops::runtime(workers);
        group.bench_function(name, |b| b.iter_custom(|n| runtime.block_on(|| operation(n))));
    }
    group.finish();
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
    targets = coroutine, yields, ping_pong
}
criterion_main!(benches);
