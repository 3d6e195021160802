//! Tasks that compute, and the ways to start them.

use super::{Bench, UNDISTURBED};
use crate::world::{compute, now};
use cygnet::Task;
use cygnet::sync::bounded;
use std::time::Duration;

pub fn join(on: Bench<'_>) {
    fn tree(depth: u32, work: Duration) {
        if depth == 0 {
            return compute(work);
        }
        cygnet::join(|| tree(depth - 1, work), || tree(depth - 1, work));
    }

    let depth = on.size.items(65_536).ilog2();
    on.measure(1 << depth, || tree(depth, on.work()));
}

pub fn scope_tree(on: Bench<'_>) {
    fn tree(depth: u32, work: Duration) {
        compute(work);
        if depth > 0 {
            cygnet::scope(|s| {
                s.spawn(move || tree(depth - 1, work));
                s.spawn(move || tree(depth - 1, work));
            });
        }
    }

    let depth = (on.size.items(16_383).saturating_add(1)).ilog2() - 1;
    on.measure((2 << depth) - 1, || tree(depth, on.work()));
}

pub fn parallel_loop(on: Bench<'_>) {
    let (items, work) = (on.size.items(100_000), on.work());
    on.measure(items, || {
        cygnet::par::for_each(0..items as usize, |_| compute(work)).expect(UNDISTURBED);
    });
}

pub fn flood(on: Bench<'_>) {
    let (items, work) = (on.size.items(50_000), on.work());
    on.measure(items, || {
        let tasks: Vec<_> = (0..items).map(|_| cygnet::spawn(move || compute(work))).collect();
        tasks.into_iter().for_each(|task| task.join().expect("a task of a flood"));
    });
}

pub fn scope_flood(on: Bench<'_>) {
    let items = on.size.items(50_000);
    on.measure(items, || scope_of(items, on.work()));
}

/// Number of handles in a parcel for a joiner.
const PARCEL: u64 = 32;

pub fn elsewhere(on: Bench<'_>) {
    let (items, work) = (on.size.items(20_000), on.work());
    on.measure_scope(items, |s| {
        let joiners: Vec<_> = (0..on.cores())
            .map(|_| {
                let (sender, parcels) = bounded::<Vec<Task<()>>>(4);
                s.spawn(move || {
                    let tasks = parcels.iter().flatten();
                    tasks.for_each(|task| task.join().expect("a task of the flood"));
                });
                sender
            })
            .collect();
        let mut left = items;
        for joiner in joiners.iter().cycle() {
            let now = left.min(PARCEL);
            let parcel = (0..now).map(|_| cygnet::spawn(move || compute(work))).collect();
            joiner.send(parcel).expect("the joiner waits for it");
            left -= now;
            if left == 0 {
                break;
            }
        }
    });
}

pub fn phases(on: Bench<'_>, tasks: u64) {
    let rounds = on.size.items(200);
    on.measure(rounds.saturating_mul(tasks), || {
        (0..rounds).for_each(|_| scope_of(tasks, on.work()));
    });
}

/// The workers have gone to sleep by then.
const LONG: Duration = Duration::from_millis(5);

pub fn wide_fork(on: Bench<'_>) {
    let (rounds, tasks) = (on.size.items(20), 4 * on.cores());
    on.rt.block_on(|| {
        let mut took = Duration::ZERO;
        for _ in 0..rounds {
            cygnet::sleep(LONG).expect(UNDISTURBED);
            let before = now();
            scope_of(tasks, on.work());
            took += now() - before;
        }
        let items = rounds * tasks;
        on.clock.record(took, on.size.ideal(items), items);
    });
}

pub fn broadcast(on: Bench<'_>) {
    let (rounds, workers) = (on.size.items(25), on.size.workers as u64);
    let handle = on.rt.handle();
    on.measure(rounds.saturating_mul(workers), || {
        for _ in 0..rounds {
            handle.broadcast(|_| compute(on.work()));
        }
    });
}

/// A scope of `tasks` tasks.
fn scope_of(tasks: u64, work: Duration) {
    cygnet::scope(|s| {
        for _ in 0..tasks {
            s.spawn(move || compute(work));
        }
    });
}
