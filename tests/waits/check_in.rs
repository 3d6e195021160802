//! What comes to its turn beside tasks that compute, and check in by `checkpoint` or at the ends of chunks.

use crate::common::{self, with, with_each};
use cygnet::{checkpoint, no_suspend, par, scope, sleep, spawn, spawn_local, timeout, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How long those who sleep do so: some ticks of the timers. A step of a simulation takes ten nanoseconds.
fn short() -> Duration {
    Duration::from_micros(if common::in_simulation() { 300 } else { 2_000 })
}

/// Computes, and checks in, until it is so.
fn compute_until(so: impl Fn() -> bool) {
    while !so() {
        checkpoint().unwrap();
    }
}

/// Goes over a loop that has no end until it is so, in chunks.
fn loop_until(so: impl Fn() -> bool + Sync) {
    let found = par::find_any(0..usize::MAX, |_| so());
    assert!(found.unwrap().is_some());
}

/// Keeps all workers in loops until a sleeper has woken.
fn keep_all_workers_busy_until_a_sleeper_has_woken(
    rt: &cygnet::Runtime,
    compute: impl Fn(&AtomicBool) + Sync,
) {
    rt.block_on(|| {
        let (workers, woken) = (rt.metrics().workers.len(), AtomicBool::new(false));
        scope(|s| {
            s.spawn(|| {
                sleep(short()).unwrap();
                woken.store(true, Ordering::Relaxed);
            });
            for _ in 0..workers {
                s.spawn(|| compute(&woken));
            }
        });
    });
}

#[test]
fn a_sleeper_wakes_beside_tasks_that_only_call_checkpoint() {
    with_each(|rt| {
        keep_all_workers_busy_until_a_sleeper_has_woken(rt, |woken| {
            compute_until(|| woken.load(Ordering::Relaxed));
        });
    });
}

#[test]
fn a_sleeper_wakes_beside_parallel_loops() {
    with_each(|rt| {
        keep_all_workers_busy_until_a_sleeper_has_woken(rt, |woken| {
            loop_until(|| woken.load(Ordering::Relaxed));
        });
    });
}

#[test]
fn a_loop_of_checkpoints_is_cancelled_by_one_that_sleeps() {
    with_each(|rt| {
        rt.block_on(|| {
            let computing = spawn(|| while checkpoint().is_ok() {});
            sleep(short()).unwrap();
            computing.cancel("it has had its time");
            assert!(computing.join().is_ok());
        });
    });
}

#[test]
fn a_timeout_elsewhere_ends_beside_a_loop_of_checkpoints() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let over = AtomicBool::new(false);
            scope(|s| {
                s.spawn(|| {
                    assert!(timeout(short(), cygnet::park).unwrap_err().into_inner().is_err());
                    over.store(true, Ordering::Relaxed);
                });
                s.spawn(|| compute_until(|| over.load(Ordering::Relaxed)));
            });
        });
    });
}

/// Keeps the only worker busy by `compute` until a timer has fired that a plain thread sets meanwhile.
fn a_timer_of_a_plain_thread_fires_beside(compute: fn(&AtomicBool)) {
    with(&[1], |rt| {
        let (busy, fired) = (AtomicBool::new(false), AtomicBool::new(false));
        common::thread::scope(|threads| {
            threads.spawn(|| {
                while !busy.load(Ordering::Relaxed) {
                    common::thread::yield_now();
                }
                cygnet::wait(rt.handle().sleep_async(short())).unwrap().unwrap();
                fired.store(true, Ordering::Relaxed);
            });
            rt.block_on(|| {
                busy.store(true, Ordering::Relaxed);
                compute(&fired);
            });
        });
    });
}

#[test]
fn a_timer_of_a_plain_thread_fires_beside_a_loop_of_checkpoints() {
    a_timer_of_a_plain_thread_fires_beside(|fired| compute_until(|| fired.load(Ordering::Relaxed)));
}

#[test]
fn a_timer_fires_beside_checkpoints_inside_no_suspend() {
    a_timer_of_a_plain_thread_fires_beside(|fired| {
        no_suspend(|| compute_until(|| fired.load(Ordering::Relaxed)));
    });
}

/// Keeps the only worker busy until a task has been begun that `spawn` spawns beside it.
fn begins_beside(spawn: impl Fn(Box<dyn FnOnce() + Send>) + Sync, compute: fn(&AtomicBool)) {
    with(&[1], |rt| {
        rt.block_on(|| {
            let flag = Arc::new(AtomicBool::new(false));
            let raised = flag.clone();
            spawn(Box::new(move || raised.store(true, Ordering::Relaxed)));
            compute(&flag);
        });
    });
}

#[test]
fn a_fresh_task_begins_beside_a_loop_of_checkpoints() {
    begins_beside(|f| spawn(f).detach(), |flag| compute_until(|| flag.load(Ordering::Relaxed)));
}

#[test]
fn a_fresh_local_task_begins_beside_a_loop_of_checkpoints() {
    begins_beside(
        |f| spawn_local(f).detach(),
        |flag| compute_until(|| flag.load(Ordering::Relaxed)),
    );
}

#[test]
fn a_fresh_task_begins_beside_a_parallel_loop() {
    begins_beside(|f| spawn(f).detach(), |flag| loop_until(|| flag.load(Ordering::Relaxed)));
}

#[test]
fn a_task_that_a_plain_thread_spawns_begins_beside_a_loop_of_checkpoints() {
    with(&[1], |rt| {
        let (begun, flag) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
        common::thread::scope(|threads| {
            threads.spawn(|| {
                while !begun.load(Ordering::Relaxed) {
                    common::thread::yield_now();
                }
                let flag = flag.clone();
                rt.spawn(move || flag.store(true, Ordering::Relaxed)).join().unwrap();
            });
            rt.block_on(|| {
                begun.store(true, Ordering::Relaxed);
                compute_until(|| flag.load(Ordering::Relaxed));
            });
        });
    });
}

/// The oldest of many: the newest are called first where tasks have a turn, but none waits for ever.
#[test]
fn all_fresh_tasks_begin_beside_a_loop_of_checkpoints() {
    const TASKS: usize = 40;
    with(&[1], |rt| {
        rt.block_on(|| {
            let begun = AtomicUsize::new(0);
            scope(|s| {
                for _ in 0..TASKS {
                    s.spawn(|| begun.fetch_add(1, Ordering::Relaxed));
                }
                compute_until(|| begun.load(Ordering::Relaxed) == TASKS);
            });
        });
    });
}

/// It would lie on a stack of its own for nothing, where no other worker could take it.
#[test]
fn the_second_half_of_a_join_in_progress_does_not_begin_at_a_checkpoint() {
    common::real!("it takes milliseconds, and a step of a simulation ten nanoseconds");
    with(&[1], |rt| {
        let switches = || rt.metrics().workers[0].switches;
        let compute = || {
            // The second half becomes a task by that, as others may have to wait for it.
            yield_now().unwrap();
            let (before, end) = (switches(), common::now() + Duration::from_millis(20));
            while common::now() < end {
                checkpoint().unwrap();
            }
            switches() - before
        };
        assert_eq!(rt.block_on(|| cygnet::join(compute, || ())), (0, ()));
    });
}
