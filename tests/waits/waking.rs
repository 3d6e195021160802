//! Sleeping workers are woken while others compute: for tasks from outside, and for those that a busy
//! worker has spawned.

use crate::common::{self, eventually, proc, scaled, scaled_in_debug, within};
use cygnet::{Runtime, park, spawn, unparker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Shows a behaviour with several workers whose threads have a name of their own.
fn with_named(name: &str, show: impl Fn(&Runtime) + Sync) {
    for workers in [2, 3, 8] {
        within(|| {
            let rt = Runtime::builder().workers(workers).thread_name(name).build().unwrap();
            show(&rt);
        });
    }
}

/// Waits until so many of the workers' threads sleep.
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
fn a_task_from_outside_starts_although_all_that_were_woken_before_compute() {
    common::real!("what the system says of threads");
    with_named("outside", |rt| {
        for _ in 0..scaled(20) {
            let (started, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let tasks: Vec<_> = (0..rt.workers())
                .map(|busy| {
                    await_sleepers("outside", rt.workers() - busy);
                    let (begun, open) = (started.clone(), open.clone());
                    let task = rt.spawn(move || {
                        begun.fetch_add(1, Ordering::Relaxed);
                        while !open.load(Ordering::Relaxed) {
                            common::thread::yield_now();
                        }
                    });
                    eventually("it has started", || started.load(Ordering::Relaxed) == busy + 1);
                    task
                })
                .collect();
            open.store(true, Ordering::Relaxed);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        }
    });
}

#[test]
fn a_task_from_outside_starts_although_its_finder_goes_on_with_one_that_is_woken_just_then() {
    with_named("finder", |rt| {
        let [started, rounds] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (tell, told) = common::mpsc::channel();
        let (begun, ended) = (started.clone(), rounds.clone());
        let computes = rt.spawn(move || {
            tell.send(unparker()).unwrap();
            while park().is_ok() {
                // Keeps its worker until another has started what came from outside at the same time.
                let round = ended.load(Ordering::Relaxed);
                while begun.load(Ordering::Relaxed) <= round {
                    common::thread::yield_now();
                }
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        let computing = told.recv().unwrap();
        for round in 0..scaled_in_debug(4_000) {
            // Time to fall asleep, and another moment of the waking for each round.
            common::thread::sleep(Duration::from_micros(250));
            let begun = started.clone();
            let task = rt.spawn(move || begun.fetch_add(1, Ordering::Relaxed));
            let woken = common::now();
            while (common::now() - woken) < Duration::from_nanos(round as u64 * 7_919 % 60_000) {
                common::spin_loop();
            }
            computing.unpark();
            while rounds.load(Ordering::Relaxed) <= round {
                common::thread::yield_now();
            }
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
            let started = Arc::new(AtomicUsize::new(0));
            let meet = move |started: &AtomicUsize| {
                started.fetch_add(1, Ordering::Relaxed);
                while started.load(Ordering::Relaxed) < all {
                    common::thread::yield_now();
                }
            };
            rt.block_on(|| {
                let children: Vec<_> = (1..all)
                    .map(|_| {
                        let started = started.clone();
                        spawn(move || meet(&started))
                    })
                    .collect();
                meet(&started);
                children.into_iter().for_each(|child| child.join().unwrap());
            });
        }
    });
}
