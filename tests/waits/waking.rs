//! Sleeping workers are woken while others compute: for tasks from outside, and for tasks that a
//! busy worker has spawned.

use crate::common::prelude::*;

/// Shows a behaviour with several workers whose threads have a name of their own.
fn with_named(name: &str, show: impl Fn(&Runtime) + Sync) {
    for workers in [2, 3, 8] {
        within(|| {
            let rt = Runtime::builder().workers(workers).thread_name(name).build().unwrap();
            show(&rt);
        });
    }
}

/// Waits until at least `sleepers` of the workers' threads sleep.
fn await_sleepers(name: &str, sleepers: usize) {
    // An emulator's threads have states of their own.
    if !common::emulated() {
        eventually("they sleep", || {
            let threads = proc::threads_named(name).into_iter();
            threads.filter(|(id, _)| proc::thread_state(*id).contains("S (sleeping)")).count()
                >= sleepers
        });
    }
}

#[test]
fn a_task_from_outside_starts_although_all_woken_workers_compute() {
    common::real!("what the system says of threads");
    with_named("outside", |rt| {
        for _ in 0..scaled(20) {
            let (started, open) = (Count::new(), Flag::new());
            let tasks: Vec<_> = (0..rt.workers())
                .map(|busy| {
                    await_sleepers("outside", rt.workers() - busy);
                    let task = rt.spawn(move || {
                        started.up();
                        open.hold();
                    });
                    eventually("it has started", || started.get() == busy + 1);
                    task
                })
                .collect();
            open.set();
            join_all(tasks);
        }
    });
}

#[test]
fn a_task_from_outside_starts_although_its_finder_runs_a_task_woken_just_then() {
    with_named("finder", |rt| {
        let (started, rounds) = (Count::new(), Count::new());
        let (tell, told) = channel();
        let computes = rt.spawn(move || {
            tell.send(unparker()).unwrap();
            while park().is_ok() {
                // Keeps its worker until another has started the task from outside.
                let round = rounds.get();
                spin_until(|| started.get() > round);
                rounds.up();
            }
        });
        let computing = told.recv().unwrap();
        for round in 0..scaled_in_debug(4_000) {
            // Time to fall asleep, and another moment of the waking for each round.
            common::thread::sleep(Duration::from_micros(250));
            let task = rt.spawn(move || started.up());
            let woken = common::now();
            while (common::now() - woken) < Duration::from_nanos(round as u64 * 7_919 % 60_000) {
                common::spin_loop();
            }
            computing.unpark();
            spin_until(|| rounds.get() > round);
            task.join().unwrap();
        }
        drop(computes);
    });
}

#[test]
fn children_are_started_by_workers_that_slept_while_their_parent_computes() {
    common::real!("what the system says of threads");
    with_named("inside", |rt| {
        for _ in 0..scaled(20) {
            await_sleepers("inside", rt.workers());
            let all = rt.workers();
            // Each keeps its worker until all have started, so each needs one of its own.
            let started = Count::new();
            rt.block_on(|| {
                let child = |_| spawn(move || started.meet(all));
                let children: Vec<_> = (1..all).map(child).collect();
                started.meet(all);
                join_all(children);
            });
        }
    });
}
