//! Handles that are dropped: a task that has not started never does, and one that has is told by its waits.

use crate::common::Mutex;
use crate::common::mpsc::channel;
use crate::common::{self, Drops, eventually, give_way_until, with, with_each};
use cygnet::{park, spawn, unparker, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn dropping_a_task_before_its_start_prevents_the_start_and_drops_its_captures() {
    // With one worker nobody can start the child while its parent runs.
    with(&[1], |rt| {
        let (drops, starts) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
        rt.block_on(|| {
            for _ in 0..100 {
                let (guard, starts) = (drops.guard(), starts.clone());
                drop(spawn(move || {
                    starts.fetch_add(1, Ordering::Relaxed);
                    drop(guard);
                }));
            }
            yield_now().unwrap();
        });
        assert_eq!((starts.load(Ordering::Relaxed), drops.count()), (0, 100));
    });
}

#[test]
fn dropping_a_task_that_was_spawned_from_outside_prevents_its_start() {
    with(&[1], |rt| {
        let (drops, starts) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
        let (open, gate) = channel::<()>();
        let (running, runs) = channel();
        let busy = rt.spawn(move || {
            running.send(()).unwrap();
            gate.recv().unwrap();
        });
        runs.recv().unwrap();
        for _ in 0..100 {
            let (guard, starts) = (drops.guard(), starts.clone());
            drop(rt.spawn(move || {
                starts.fetch_add(1, Ordering::Relaxed);
                drop(guard);
            }));
        }
        open.send(()).unwrap();
        busy.join().unwrap();
        rt.block_on(|| ());
        eventually("the captures have been dropped", || drops.count() == 100);
        assert_eq!(starts.load(Ordering::Relaxed), 0);
    });
}

/// Spawns a child that runs `wait` as soon as its handle has been dropped, and what came of it.
fn after_the_drop<R: Send + 'static>(wait: impl FnOnce() -> R + Send + 'static) -> R {
    let result = Arc::new(Mutex::new(None));
    let dropped = Arc::new(AtomicBool::new(false));
    let started = Arc::new(AtomicBool::new(false));
    let child = spawn({
        let (result, dropped, started) = (result.clone(), dropped.clone(), started.clone());
        move || {
            started.store(true, Ordering::Release);
            while !dropped.load(Ordering::Acquire) {
                // A cancelled task's yield is an error, which is what is waited for.
                let _ = yield_now();
            }
            *result.lock().unwrap() = Some(wait());
        }
    });
    give_way_until(|| started.load(Ordering::Acquire));
    drop(child);
    dropped.store(true, Ordering::Release);
    give_way_until(|| result.lock().unwrap().is_some());
    result.lock().unwrap().take().unwrap()
}

#[test]
fn dropping_a_task_after_its_start_is_seen_by_every_wait_of_it() {
    with_each(|rt| {
        rt.block_on(|| {
            assert!(after_the_drop(yield_now).is_err());
            assert!(after_the_drop(park).is_err());
            assert!(after_the_drop(cygnet::checkpoint).is_err());
            assert!(after_the_drop(cygnet::is_cancelled));
            let join = || spawn(|| yield_now().is_ok()).join();
            assert!(after_the_drop(join).is_err_and(|error| error.is_cancelled()));
        });
    });
}

#[test]
fn cancellation_beats_a_permit_that_is_ready() {
    with_each(|rt| {
        rt.block_on(|| {
            let park_with_permit = || {
                unparker().unpark();
                (park().is_err(), park().is_err())
            };
            assert_eq!(after_the_drop(park_with_permit), (true, true));
        });
    });
}

#[test]
fn dropping_a_task_wakes_it_out_of_its_park() {
    with_each(|rt| {
        rt.block_on(|| {
            let woken = Arc::new(AtomicBool::new(false));
            let before = common::parks(rt);
            let parked = spawn({
                let woken = woken.clone();
                move || woken.store(park().is_err(), Ordering::Release)
            });
            give_way_until(|| common::parks(rt) > before);
            drop(parked);
            give_way_until(|| woken.load(Ordering::Acquire));
        });
    });
}

#[test]
fn a_cancelled_task_that_goes_on_calling_waits_does_not_keep_its_worker_from_others() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (started, stop) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let stubborn = spawn({
                let (started, stop) = (started.clone(), stop.clone());
                move || {
                    started.store(true, Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {
                        let _ = park();
                    }
                }
            });
            give_way_until(|| started.load(Ordering::Relaxed));
            drop(stubborn);
            assert_eq!(spawn(|| 3).join().unwrap(), 3);
            stop.store(true, Ordering::Relaxed);
        });
    });
}
