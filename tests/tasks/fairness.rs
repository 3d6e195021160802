//! Nothing waits for ever: neither a woken task behind endless spawns, nor a fresh one behind endless
//! yields, nor an injected one behind either.

use crate::common::mpsc::channel;
use crate::common::{self, give_way_until, scaled, with, with_each, with_each_and_many, within};
use cygnet::{Runtime, Unparker, YieldTo, park, scope, spawn, spawn_unscoped, task, unparker};
use cygnet::{yield_now, yield_to};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Flood = (&'static str, fn(&AtomicBool));

/// Ways to keep a worker busy for ever without ever waiting.
const FLOODS: [Flood; 4] = [
    ("spawn and join", |stop| {
        while !stop.load(Ordering::Relaxed) {
            spawn(|| ()).join().unwrap();
        }
    }),
    ("detached spawns that spawn", |stop| {
        while !stop.load(Ordering::Relaxed) {
            // In rounds, so that the queue does not grow for ever.
            let round = spawn(|| (0..100).for_each(|_| spawn(|| ()).detach()));
            round.join().unwrap();
        }
    }),
    ("yields", |stop| {
        while !stop.load(Ordering::Relaxed) {
            yield_now().unwrap();
        }
    }),
    ("scopes", |stop| {
        while !stop.load(Ordering::Relaxed) {
            scope(|s| (0..4).for_each(|_| drop(s.spawn(|| ()))));
        }
    }),
];

/// Floods every worker (and one more, so that none is without) while `meanwhile` runs on this thread.
fn flooded(rt: &Runtime, flood: fn(&AtomicBool), meanwhile: impl FnOnce()) {
    let stop = Arc::new(AtomicBool::new(false));
    let started = Arc::new(AtomicUsize::new(0));
    let floods: Vec<_> = (0..rt.workers() + 1)
        .map(|_| {
            let (stop, started) = (stop.clone(), started.clone());
            rt.spawn(move || {
                started.fetch_add(1, Ordering::Relaxed);
                flood(&stop);
            })
        })
        .collect();
    common::eventually("the floods have started", || {
        started.load(Ordering::Relaxed) > rt.workers()
    });
    meanwhile();
    stop.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}

/// How often a task gets its turn in each flood.
fn turns() -> usize {
    scaled(10).max(3)
}

#[test]
fn an_injected_task_gets_its_turn_in_every_flood() {
    with_each_and_many(|rt| {
        for (_, flood) in FLOODS {
            flooded(rt, flood, || {
                for i in 0..turns() {
                    assert_eq!(rt.spawn(move || i).join().unwrap(), i);
                }
            });
        }
    });
}

#[test]
fn a_woken_task_gets_its_turn_in_every_flood() {
    with_each_and_many(|rt| {
        for (_, flood) in FLOODS {
            flooded(rt, flood, || {
                let (tell, told) = channel();
                let sleeper = rt.spawn(move || {
                    tell.send(unparker()).unwrap();
                    (0..turns()).for_each(|_| {
                        park().unwrap();
                        tell.send(unparker()).unwrap();
                    });
                });
                for _ in 0..turns() {
                    told.recv().unwrap().unpark();
                }
                told.recv().unwrap();
                sleeper.join().unwrap();
            });
        }
    });
}

#[test]
fn a_yielded_task_gets_its_turn_in_every_flood() {
    with_each_and_many(|rt| {
        for (_, flood) in FLOODS {
            flooded(rt, flood, || {
                let yields = || (0..10 * turns()).for_each(|_| yield_now().unwrap());
                rt.spawn(yields).join().unwrap();
            });
        }
    });
}

#[test]
fn a_fresh_child_is_started_although_its_parent_and_others_yield_for_ever() {
    with_each_and_many(|rt| {
        flooded(rt, FLOODS[2].1, || {
            rt.block_on(|| {
                for _ in 0..10 {
                    let started = Arc::new(AtomicBool::new(false));
                    let child = spawn({
                        let started = started.clone();
                        move || started.store(true, Ordering::Relaxed)
                    });
                    give_way_until(|| started.load(Ordering::Relaxed));
                    child.join().unwrap();
                }
            });
        });
    });
}

#[test]
fn a_local_and_a_migratable_child_are_started_in_every_flood() {
    with_each(|rt| {
        for (_, flood) in FLOODS {
            flooded(rt, flood, || {
                rt.block_on(|| {
                    let started = Arc::new(AtomicUsize::new(0));
                    let start = |started: &Arc<AtomicUsize>| {
                        let started = started.clone();
                        move || {
                            started.fetch_add(1, Ordering::Relaxed);
                        }
                    };
                    cygnet::spawn_local(start(&started)).detach();
                    // SAFETY: it holds a counter.
                    unsafe { cygnet::spawn_migratable(start(&started)) }.detach();
                    let large = cygnet::task().stack_size(1 << 20).unwrap();
                    large.spawn(start(&started)).detach();
                    give_way_until(|| started.load(Ordering::Relaxed) == 3);
                });
            });
        }
    });
}

#[test]
fn a_chain_of_detached_spawns_without_end_keeps_nobody_waiting() {
    fn forever(stop: Arc<AtomicBool>) {
        if !stop.load(Ordering::Relaxed) {
            // Not below the task that spawns it: the records would wait for each other's end, and
            // take all memory.
            spawn_unscoped(move || forever(stop)).detach();
        }
    }
    with_each(|rt| {
        let stop = Arc::new(AtomicBool::new(false));
        let chains: Vec<_> = (0..rt.workers() + 1)
            .map(|_| {
                let stop = stop.clone();
                rt.spawn(move || forever(stop))
            })
            .collect();
        for i in 0..20 {
            assert_eq!(rt.spawn(move || i).join().unwrap(), i);
        }
        stop.store(true, Ordering::Relaxed);
        chains.into_iter().for_each(|chain| chain.join().unwrap());
    });
}

#[test]
fn tasks_that_were_injected_together_all_start_although_each_floods() {
    with_each(|rt| {
        for (name, flood) in FLOODS {
            // Every worker is busy while they are injected, so that one of them finds several at once.
            let (busy, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            for _ in 0..rt.workers() {
                let (busy, open) = (busy.clone(), open.clone());
                rt.spawn(move || {
                    busy.fetch_add(1, Ordering::Relaxed);
                    while !open.load(Ordering::Relaxed) {
                        common::thread::yield_now();
                    }
                })
                .detach();
            }
            common::eventually("all are busy", || busy.load(Ordering::Relaxed) == rt.workers());
            let (started, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let floods: Vec<_> = (0..4 * rt.workers())
                .map(|_| {
                    let (started, stop) = (started.clone(), stop.clone());
                    rt.spawn(move || {
                        started.fetch_add(1, Ordering::Relaxed);
                        flood(&stop);
                    })
                })
                .collect();
            open.store(true, Ordering::Relaxed);
            common::eventually(&format!("all start, flood: {name}"), || {
                started.load(Ordering::Relaxed) == floods.len()
            });
            stop.store(true, Ordering::Relaxed);
            floods.into_iter().for_each(|flood| flood.join().unwrap());
        }
    });
}

/// Runs `f` while the other of two workers runs `leaf` again and again and this one has 60 tasks more,
/// which do `wait` until it is over.
fn unbalanced<R>(leaf: fn(), wait: fn(&AtomicBool), f: impl FnOnce() -> R) -> R {
    let over = Arc::new(AtomicBool::new(false));
    let (tell, told) = channel();
    let other = spawn({
        let over = over.clone();
        move || {
            tell.send(()).unwrap();
            while !over.load(Ordering::Relaxed) {
                leaf();
            }
        }
    });
    told.recv().unwrap(); // Holds this worker, so it is the other one that has started it.
    let (tell, told) = channel();
    let here: Vec<_> = (0..60)
        .map(|_| {
            let (over, tell) = (over.clone(), tell.clone());
            let task = spawn(move || {
                tell.send(unparker()).unwrap();
                wait(&over);
            });
            assert_eq!(yield_to(&task), Ok(YieldTo::Ran));
            task
        })
        .collect();
    let waiting: Vec<_> = told.try_iter().collect();
    let result = f();
    over.store(true, Ordering::Relaxed);
    waiting.iter().for_each(Unparker::unpark);
    here.into_iter().for_each(|task| task.join().unwrap());
    other.join().unwrap();
    result
}

#[test]
fn a_lone_fresh_task_gets_its_turn_on_a_worker_with_many_more_coroutines_that_all_yield() {
    with(&[2], |rt| {
        rt.block_on(|| {
            let yields = |over: &AtomicBool| {
                while !over.load(Ordering::Relaxed) {
                    yield_now().unwrap();
                }
            };
            unbalanced(
                || common::compute(10),
                yields,
                || {
                    let started = Arc::new(AtomicBool::new(false));
                    let lone = spawn({
                        let started = started.clone();
                        move || started.store(true, Ordering::Relaxed)
                    });
                    give_way_until(|| started.load(Ordering::Relaxed));
                    lone.join().unwrap();
                },
            );
        });
    });
}

#[test]
fn a_worker_stands_back_for_others_whose_coroutines_come_and_go_and_goes_on() {
    // Its coroutines are one, two, one, two.
    fn comes_and_goes() {
        task().stack_size(1 << 20).unwrap().spawn(|| common::compute(30)).join().unwrap();
        common::compute(30);
    }
    // It learns to tolerate it, so each time is the first.
    for _ in 0..9 {
        within(|| {
            let waits = |_: &AtomicBool| park().unwrap();
            common::runtime(2).block_on(|| {
                unbalanced(comes_and_goes, waits, || {
                    let me = unparker();
                    let lone = spawn(move || me.unpark());
                    park().unwrap();
                    lone.join().unwrap();
                });
            });
        });
    }
}
