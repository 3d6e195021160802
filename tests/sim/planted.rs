//! Planted bugs of the library, and programs by which simulation finds them.

use crate::common::prelude::*;
use cygnet::sim::{self, Bug, Options, Reason};
use cygnet::sync::Mutex;
use std::sync::atomic::AtomicU32;

/// Runs in which each bug has to be found. Without the bug as many runs find nothing.
const RUNS: u64 = 2_000;

/// Asserts that the program fails for that reason with the bug, and never without it.
fn finds(bug: Bug, is_it: impl Fn(&Reason) -> bool, program: impl Fn()) {
    let options = Options::new().seeds(0..RUNS).most_steps(200_000);
    sim::check(&options, &program);
    let failed = match sim::explore(&options.bug(bug), &program) {
        Ok(explored) => panic!("{bug:?} is not found: {explored:?}"),
        Err(failed) => failed,
    };
    assert!(is_it(&failed.reason), "{bug:?}: {failed}");
    println!("{bug:?}: found by run {} of seed {}", failed.runs, failed.seed);
}

fn deadlock(reason: &Reason) -> bool {
    *reason == Reason::Deadlock
}

fn says(text: &'static str) -> impl Fn(&Reason) -> bool {
    move |reason| matches!(reason, Reason::Panicked(said) if said.contains(text))
}

/// A task is joined while it ends.
#[test]
fn a_lost_wake() {
    finds(Bug::LostWake, deadlock, || {
        let rt = runtime(2);
        rt.block_on(|| {
            let tasks: Vec<_> = (0..3).map(|n| spawn(move || yield_now().map(|()| n))).collect();
            let sum: u32 = tasks.into_iter().map(|task| task.join().unwrap().unwrap()).sum();
            assert_eq!(sum, 3);
        });
    });
}

/// Three tasks lock a mutex, and check that they are alone.
#[test]
fn a_double_grant() {
    finds(Bug::DoubleGrant, says("the lock is held alone"), || {
        let (lock, inside) = (Mutex::fifo(()), AtomicBool::new(false));
        runtime(2).block_on(|| {
            crowd(3, |_| {
                let _held = lock.lock().unwrap();
                assert!(!inside.swap(true, Ordering::Relaxed), "the lock is held alone");
                yield_now().unwrap();
                inside.store(false, Ordering::Relaxed);
            });
        });
    });
}

/// A waiter gives up while it is handed the lock, and another task locks it afterwards.
#[test]
fn a_leaked_lock() {
    finds(Bug::LeakedLock, deadlock, || {
        let lock = Mutex::fifo(());
        runtime(2).block_on(|| {
            scope(|s| {
                let held = lock.lock().unwrap();
                let impatient = s.spawn(|| lock.lock().map(drop).is_ok());
                s.spawn(move || impatient.cancel("enough"));
                yield_now().unwrap();
                drop(held);
            });
            drop(lock.lock().unwrap());
        });
    });
}

/// A parent is joined, and its child must have ended too.
#[test]
fn a_child_that_outlives_its_parent() {
    finds(Bug::OutlivingChild, says("the child has ended"), || {
        runtime(2).block_on(|| {
            let ended = Flag::new();
            let parent = spawn(move || {
                spawn(move || {
                    let _ = yield_now();
                    ended.set();
                })
                .detach();
            });
            parent.join().unwrap();
            assert!(ended.get(), "the child has ended");
        });
    });
}

/// A task is cancelled while it begins a wait that nothing else ends.
#[test]
fn a_missing_look_after_a_wait_was_published() {
    finds(Bug::NoLookAfterPublishing, deadlock, || {
        runtime(2).block_on(|| {
            let begun = Flag::new();
            let waits = spawn(move || {
                begun.set();
                cygnet::park()
            });
            while !begun.get() {
                yield_now().unwrap();
            }
            waits.cancel("enough");
            let _ = waits.join();
        });
    });
}

/// Work comes while the workers go to sleep.
#[test]
fn a_missing_look_before_a_worker_sleeps() {
    finds(Bug::NoLookBeforeSleep, deadlock, || {
        let rt = runtime(1);
        let done = AtomicU32::new(0);
        for _ in 0..3 {
            rt.block_on(|| done.fetch_add(1, Ordering::Relaxed));
        }
        assert_eq!(done.into_inner(), 3);
    });
}
