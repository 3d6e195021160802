//! Turns: who runs after `yield_now`, `yield_to` and `checkpoint`.

use crate::common::Mutex;
use crate::common::mpsc::channel;
use crate::common::{self, give_way_until, parks, scaled, with, with_each, with_each_and_many};
use cygnet::{YieldTo, checkpoint, no_suspend, park, spawn, unparker, yield_now, yield_to};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn yield_now_lets_every_ready_task_run_once() {
    with(&[1], |rt| {
        let order = rt.block_on(|| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let started = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..3)
                .map(|i| {
                    let (order, started) = (order.clone(), started.clone());
                    spawn(move || {
                        started.fetch_add(1, Ordering::Relaxed);
                        give_way_until(|| started.load(Ordering::Relaxed) == 3);
                        for _ in 0..4 {
                            order.lock().unwrap().push(i);
                            yield_now().unwrap();
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            Arc::into_inner(order).unwrap().into_inner().unwrap()
        });
        assert_eq!(order.len(), 12);
        for round in order.chunks(3).skip(1).take(2) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, [0, 1, 2], "{order:?}");
        }
    });
}

#[test]
fn a_thousand_tasks_yield_a_thousand_times() {
    let (tasks, turns) =
        (scaled(1_000), scaled(1_000) / if cfg!(debug_assertions) { 10 } else { 1 });
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..tasks)
                .map(|_| spawn(move || (0..turns).for_each(|_| yield_now().unwrap())))
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn yield_to_a_fresh_task_starts_it_before_the_others() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..5)
                .map(|i| {
                    let order = order.clone();
                    spawn(move || order.lock().unwrap().push(i))
                })
                .collect();
            assert_eq!(yield_to(&tasks[2]), Ok(YieldTo::Ran));
            assert_eq!(order.lock().unwrap()[0], 2);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn yield_to_a_ready_task_brings_it_forward() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let started = Arc::new(AtomicUsize::new(0));
            let go = Arc::new(AtomicBool::new(false));
            let tasks: Vec<_> = (0..5)
                .map(|i| {
                    let (order, started, go) = (order.clone(), started.clone(), go.clone());
                    spawn(move || {
                        started.fetch_add(1, Ordering::Relaxed);
                        give_way_until(|| go.load(Ordering::Relaxed));
                        order.lock().unwrap().push(i);
                    })
                })
                .collect();
            give_way_until(|| started.load(Ordering::Relaxed) == 5);
            go.store(true, Ordering::Relaxed);
            assert_eq!(yield_to(&tasks[3]), Ok(YieldTo::Ran));
            assert_eq!(order.lock().unwrap()[0], 3);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn yield_to_a_parked_a_finished_and_the_calling_task_yields_to_others_instead() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (tell, told) = channel();
            let before = parks(rt);
            let parked = spawn(move || {
                tell.send(unparker()).unwrap();
                park().unwrap();
            });
            give_way_until(|| parks(rt) > before);
            let finished = spawn(|| ());
            give_way_until(|| finished.is_finished());
            let turns = Arc::new(AtomicUsize::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let other = spawn({
                let (turns, stop) = (turns.clone(), stop.clone());
                move || {
                    give_way_until(|| {
                        turns.fetch_add(1, Ordering::Relaxed);
                        stop.load(Ordering::Relaxed)
                    });
                }
            });
            give_way_until(|| turns.load(Ordering::Relaxed) > 0);
            let before = turns.load(Ordering::Relaxed);
            assert_eq!(yield_to(&parked), Ok(YieldTo::Parked));
            assert_eq!(turns.load(Ordering::Relaxed), before + 1);
            assert_eq!(yield_to(&finished), Ok(YieldTo::Finished));
            assert_eq!(turns.load(Ordering::Relaxed), before + 2);
            stop.store(true, Ordering::Relaxed);
            told.recv().unwrap().unpark();
            for task in [parked, finished, other] {
                task.join().unwrap();
            }
            // A task whose handle is in its own hand.
            let place = Arc::new(Mutex::new(None::<cygnet::Task<()>>));
            let answer = Arc::new(Mutex::new(None));
            let (mine, told) = (place.clone(), answer.clone());
            *place.lock().unwrap() = Some(spawn(move || {
                give_way_until(|| mine.lock().unwrap().is_some());
                let own = mine.lock().unwrap().take().unwrap();
                *told.lock().unwrap() = Some(yield_to(&own));
                own.detach();
            }));
            give_way_until(|| answer.lock().unwrap().is_some());
            assert_eq!(*answer.lock().unwrap(), Some(Ok(YieldTo::Itself)));
        });
    });
}

#[test]
fn yield_to_a_task_of_another_worker_says_that_it_is_elsewhere() {
    with(&[2, 3, 8], |rt| {
        rt.block_on(|| {
            let here = common::thread::current().id();
            let (started, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
            let elsewhere = spawn({
                let (started, stop) = (started.clone(), stop.clone());
                move || {
                    *started.lock().unwrap() = Some(common::thread::current().id());
                    while !stop.load(Ordering::Relaxed) {
                        common::thread::yield_now();
                    }
                }
            });
            // Without giving way here, so that it can start on another worker only.
            while started.lock().unwrap().is_none() {
                checkpoint_without_a_turn();
            }
            assert_ne!(*started.lock().unwrap(), Some(here));
            assert_eq!(yield_to(&elsewhere), Ok(YieldTo::Elsewhere));
            stop.store(true, Ordering::Relaxed);
            elsewhere.join().unwrap();
        });
    });
}

#[test]
fn yield_to_a_fresh_task_of_another_runtime_leaves_it_there() {
    with_each(|rt| {
        let other = common::runtime(1);
        let (open, gate) = channel::<()>();
        let (running, runs) = channel();
        let busy = other.spawn(move || {
            running.send(common::thread::current().id()).unwrap();
            gate.recv().unwrap();
        });
        let there = runs.recv().unwrap();
        // Its only worker is busy, so this one stays queued.
        let queued = other.spawn(|| common::thread::current().id());
        assert_eq!(rt.block_on(|| yield_to(&queued)), Ok(YieldTo::Elsewhere));
        assert!(!queued.is_finished());
        open.send(()).unwrap();
        assert_eq!(queued.join().unwrap(), there);
        busy.join().unwrap();
    });
}

/// Lets others take work from this worker, and stays.
fn checkpoint_without_a_turn() {
    no_suspend(checkpoint).unwrap();
    common::thread::yield_now();
}

#[test]
fn a_checkpoint_gives_way_only_if_another_task_is_ready() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let switches = || rt.metrics().workers[0].switches;
            let before = switches();
            (0..1_000).for_each(|_| checkpoint().unwrap());
            assert_eq!(switches(), before, "nobody was ready");

            let turns = Arc::new(AtomicUsize::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let other = spawn({
                let (turns, stop) = (turns.clone(), stop.clone());
                move || {
                    give_way_until(|| {
                        turns.fetch_add(1, Ordering::Relaxed);
                        stop.load(Ordering::Relaxed)
                    });
                }
            });
            give_way_until(|| turns.load(Ordering::Relaxed) > 0);
            let before = turns.load(Ordering::Relaxed);
            (0..100).for_each(|_| checkpoint().unwrap());
            assert!(turns.load(Ordering::Relaxed) >= before + 90);
            stop.store(true, Ordering::Relaxed);
            other.join().unwrap();
        });
    });
}
