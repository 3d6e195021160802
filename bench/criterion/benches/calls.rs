//! Costs of tasks, from spawn to join, and of switching from one task to another.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use cygnet_bench::figures::ops;

type Operation = fn(u64) -> Duration;

/// Operations inside a task, by name, on runtimes of these numbers of workers.
fn inside(c: &mut Criterion, name: &str, workers: &[usize], operations: &[(&str, Operation)]) {
    let mut group = c.benchmark_group(name);
    for &workers in workers {
        let runtime = ops::runtime(workers);
        for (name, operation) in operations {
            group.bench_function(format!("{name}, {workers} workers"), |b| {
                b.iter_custom(|n| runtime.block_on(|| operation(n)));
            });
        }
    }
    group.finish();
}

fn tasks(c: &mut Criterion) {
    let operations: [(_, Operation); 4] = [
        ("in place", ops::spawn_join_in_place),
        ("own stack", ops::spawn_join_own_stack),
        ("through the loop", ops::spawn_join_through_loop),
        ("child yields", ops::spawn_join_yielding),
    ];
    inside(c, "spawn+join", &[1, 2], &operations);
}

fn batch(c: &mut Criterion) {
    const SIZE: usize = 10_000;
    let mut group = c.benchmark_group("batch");
    group.throughput(Throughput::Elements(SIZE as u64));
    for workers in [1, 2] {
        let runtime = ops::runtime(workers);
        group.bench_function(format!("{SIZE} tasks, {workers} workers"), |b| {
            b.iter_custom(|n| runtime.block_on(|| ops::batches(n, SIZE)));
        });
    }
    group.finish();
}

fn from_outside(c: &mut Criterion) {
    let runtime = ops::runtime(2);
    c.bench_function("spawn from outside and wait", |b| {
        b.iter_custom(|n| ops::spawn_from_outside(&runtime, n));
    });
    c.bench_function("life of a runtime of 2 workers", |b| {
        b.iter_custom(|n| ops::life_of_a_runtime(n, 2));
    });
}

fn switches(c: &mut Criterion) {
    c.bench_function("coroutine, one way", |b| b.iter_custom(ops::coroutine_switches));
    let yields: [(_, Operation); 2] =
        [("2 tasks", |n| ops::yields(n, 2)), ("1000 tasks", |n| ops::yields(n, 1000))];
    inside(c, "yield", &[1], &yields);
    inside(c, "park and unpark at home", &[1], &[("step", ops::ping_pong_at_home)]);
    inside(c, "park and unpark across two", &[2], &[("step", ops::ping_pong_across)]);
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
    targets = tasks, batch, from_outside, switches
}
criterion_main!(benches);
