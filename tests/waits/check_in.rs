//! What comes to its turn beside tasks that compute, and check in by `checkpoint`, at the ends of chunks, or with the values of channels.

use crate::common::{self, with, with_each};
use cygnet::sync::bounded;
use cygnet::{
    Wait, checkpoint, no_suspend, par, scope, scope_with, sleep, spawn, spawn_local, task, timeout,
    yield_now,
};
use std::rc::Rc;
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

/// No task here ever waits for a value or a place.
#[test]
fn a_sleeper_wakes_beside_tasks_that_only_send_and_receive() {
    for room in [4, usize::MAX] {
        with_each(|rt| {
            keep_all_workers_busy_until_a_sleeper_has_woken(rt, |woken| {
                let (sender, receiver) = bounded(room);
                while !woken.load(Ordering::Relaxed) {
                    sender.send(1).unwrap();
                    assert_eq!(receiver.recv(), Ok(1));
                }
            });
        });
    }
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
            let begun = Arc::new(AtomicBool::new(false));
            let computing = spawn({
                let begun = Arc::clone(&begun);
                move || {
                    begun.store(true, Ordering::Relaxed);
                    while checkpoint().is_ok() {}
                }
            });
            // Cancelled before its start, the task would never run.
            while !begun.load(Ordering::Relaxed) {
                sleep(short()).unwrap();
            }
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

/// Goes over a loop whose first items compute on this thread alone, in the depth of a recursion: the other workers soon have nothing to do
/// and ask for work, and there is no room for forks. Ends early when the flag is up.
fn loop_that_cannot_fork(flag: &AtomicBool) {
    #[inline(never)]
    fn deep(f: impl FnOnce()) {
        let mut array = [0_u8; ROOMY / 3 * 2];
        std::hint::black_box(&mut array);
        f();
        std::hint::black_box(&mut array);
    }
    let here = std::thread::current().id();
    let item = |n| {
        if n < 90 && std::thread::current().id() == here && !flag.load(Ordering::Relaxed) {
            common::compute(3_000);
        }
    };
    deep(|| par::for_each(0..1_600, item).unwrap());
}

const ROOMY: usize = 1 << 20;

#[test]
fn a_fresh_local_task_begins_beside_a_parallel_loop_that_cannot_fork() {
    common::real!("it takes milliseconds, and a step of a simulation ten nanoseconds");
    with_each(|rt| {
        let loops = || {
            let flag = Rc::new(AtomicBool::new(false));
            let raised = flag.clone();
            spawn_local(move || raised.store(true, Ordering::Relaxed)).detach();
            loop_that_cannot_fork(&flag);
            assert!(flag.load(Ordering::Relaxed), "it has not begun beside the loop");
        };
        rt.block_on(|| task().stack_size(ROOMY).unwrap().spawn(loops).join().unwrap());
    });
}

#[test]
fn a_fresh_descendant_begins_beside_checkpoints_where_nothing_else_may_run() {
    with_each(|rt| {
        rt.block_on(|| {
            scope_with(Wait::DescendantsOnly, |_| {
                let flag = Rc::new(AtomicBool::new(false));
                let raised = flag.clone();
                spawn_local(move || raised.store(true, Ordering::Relaxed)).detach();
                compute_until(|| flag.load(Ordering::Relaxed));
            });
        });
    });
}

/// Two tasks on one stack: the one that forks has called the one that computes.
#[test]
fn the_second_half_of_a_join_below_a_child_in_place_does_not_begin_at_a_checkpoint() {
    common::real!("it takes milliseconds, and a step of a simulation ten nanoseconds");
    with(&[1], |rt| {
        let compute = || {
            yield_now().unwrap();
            let handle = rt.handle();
            let child = spawn(move || {
                let switches = || handle.metrics().workers[0].switches;
                let (before, end) = (switches(), common::now() + Duration::from_millis(20));
                while common::now() < end {
                    checkpoint().unwrap();
                }
                switches() - before
            });
            child.join().unwrap()
        };
        assert_eq!(rt.block_on(|| cygnet::join(compute, || ())), (0, ()));
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
