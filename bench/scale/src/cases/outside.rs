//! Threads that spawn tasks from outside the runtime.

use super::Bench;
use crate::world::{compute, now, thread};

pub fn outside(on: Bench<'_>) {
    let (each, work) = (on.size.items(10_000).div_ceil(on.cores()), on.work());
    let items = each * on.cores();
    on.clock.measure(on.size.ideal(items), items, || {
        let start = |_| {
            let handle = on.rt.handle();
            thread::spawn(move || {
                for _ in 0..each {
                    let task = handle.spawn(move || compute(work));
                    task.expect("a running runtime").join().expect("a task");
                }
            })
        };
        let threads: Vec<_> = (0..on.cores()).map(start).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    });
}

pub fn beside(on: Bench<'_>) {
    let (items, work) = (on.size.items(500), on.work());
    let job = move || {
        while cygnet::checkpoint().is_ok() {
            compute(work)
        }
    };
    let jobs: Vec<_> = (0..on.size.workers).map(|_| on.rt.spawn(job)).collect();
    let mut delays: Vec<_> = (0..items)
        .map(|_| {
            thread::sleep(work * 7 / 3);
            let before = now();
            on.rt.spawn(now).join().expect("a task") - before
        })
        .collect();
    delays.sort_unstable();
    on.clock.record(delays[delays.len() * 99 / 100], work, items);
    drop(jobs);
}
