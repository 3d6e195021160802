//! No task waits for ever: neither a woken task behind endless spawns, nor a fresh one behind
//! endless yields, nor an injected one behind either.

use crate::common::prelude::*;

type Flood = (&'static str, fn(Flag));

/// Ways to keep a worker busy for ever without ever waiting.
const FLOODS: [Flood; 4] = [
    ("spawn and join", |stop| {
        while !stop.get() {
            spawn(|| ()).join().unwrap();
        }
    }),
    ("detached spawns that spawn", |stop| {
        while !stop.get() {
            // In rounds, so that the queue does not grow for ever.
            let round = spawn(|| (0..100).for_each(|_| spawn(|| ()).detach()));
            round.join().unwrap();
        }
    }),
    ("yields", |stop| {
        while !stop.get() {
            yield_now().unwrap();
        }
    }),
    ("scopes", |stop| {
        while !stop.get() {
            scope(|s| (0..4).for_each(|_| drop(s.spawn(|| ()))));
        }
    }),
];

/// Floods every worker (and one more, so that none is without) while `meanwhile` runs on this
/// thread.
fn flooded(rt: &Runtime, flood: fn(Flag), meanwhile: impl FnOnce()) {
    let stop = Flag::new();
    let (floods, started) = floods(rt, rt.workers() + 1, flood, stop);
    eventually("the floods have started", || started.get() > rt.workers());
    meanwhile();
    stop.set();
    join_all(floods);
}

/// Spawns `count` tasks that flood, and counts those that have started.
fn floods(rt: &Runtime, count: usize, flood: fn(Flag), stop: Flag) -> (Vec<Task<()>>, Count) {
    let started = Count::new();
    let spawned = (0..count).map(|_| rt.spawn(move || (started.up(), flood(stop)).1));
    (spawned.collect(), started)
}

/// How often a task gets its turn in each flood.
fn turns() -> usize {
    scaled(10).max(3)
}

/// Shows that `meanwhile` ends in each flood, with these numbers of workers.
fn in_every_flood(workers: &[usize], meanwhile: impl Fn(&Runtime) + Sync) {
    with(workers, |rt| {
        for (_, flood) in FLOODS {
            flooded(rt, flood, || meanwhile(rt));
        }
    });
}

#[test]
fn injected_woken_and_yielded_tasks_get_their_turn_in_every_flood() {
    for workers in [&WORKERS[..], &[MANY]] {
        in_every_flood(workers, |rt| {
            (0..turns()).for_each(|i| assert_eq!(rt.spawn(move || i).join().unwrap(), i));
        });
        in_every_flood(workers, |rt| {
            let (tell, told) = channel();
            let sleeper = rt.spawn(move || {
                tell.send(unparker()).unwrap();
                for _ in 0..turns() {
                    park().unwrap();
                    tell.send(unparker()).unwrap();
                }
            });
            (0..turns()).for_each(|_| told.recv().unwrap().unpark());
            told.recv().unwrap();
            sleeper.join().unwrap();
        });
        in_every_flood(workers, |rt| rt.spawn(|| yields(10 * turns())).join().unwrap());
    }
}

/// Spawns a task, and yields until it has started.
fn start_another() {
    let started = Flag::new();
    let child = spawn(move || started.set());
    started.wait();
    child.join().unwrap();
}

#[test]
fn a_fresh_child_is_started_although_its_parent_and_others_yield_for_ever() {
    with_each_and_many(|rt| {
        flooded(rt, FLOODS[2].1, || rt.block_on(|| (0..10).for_each(|_| start_another())));
    });
}

#[test]
fn a_local_and_a_migratable_child_are_started_in_every_flood() {
    in_every_flood(&WORKERS, |rt| {
        rt.block_on(|| {
            let started = Count::new();
            let start = move || started.up();
            spawn_local(start).detach();
            // SAFETY: it holds a counter.
            unsafe { task().migratable() }.spawn(start).detach();
            task().stack_size(1 << 20).unwrap().spawn(start).detach();
            started.wait(3);
        });
    });
}

#[test]
fn a_chain_of_detached_spawns_without_end_keeps_no_task_waiting() {
    fn forever(stop: Flag) {
        if !stop.get() {
            // Not below the task that spawns it: the records would wait for each other's end, and
            // take all memory.
            spawn_unscoped(move || forever(stop)).detach();
        }
    }
    with_each(|rt| {
        let stop = Flag::new();
        let chain = |_| rt.spawn(move || forever(stop));
        let chains: Vec<_> = (0..rt.workers() + 1).map(chain).collect();
        for i in 0..20 {
            assert_eq!(rt.spawn(move || i).join().unwrap(), i);
        }
        stop.set();
        join_all(chains);
    });
}

#[test]
fn tasks_that_were_injected_together_all_start_although_each_floods() {
    with_each(|rt| {
        for (name, flood) in FLOODS {
            // Every worker is busy while they are injected, so that one of them finds several at
            // once.
            let (busy, open) = (Count::new(), Flag::new());
            for _ in 0..rt.workers() {
                rt.spawn(move || {
                    busy.up();
                    open.hold();
                })
                .detach();
            }
            eventually("all are busy", || busy.get() == rt.workers());
            let stop = Flag::new();
            let (floods, started) = floods(rt, 4 * rt.workers(), flood, stop);
            open.set();
            eventually(&format!("all start, flood: {name}"), || started.get() == floods.len());
            stop.set();
            join_all(floods);
        }
    });
}

/// Runs `f` while the other of two workers runs `leaf` again and again and this one has 60 tasks
/// more, which do `wait` until it is over.
fn unbalanced<R>(leaf: fn(), wait: fn(Flag), f: impl FnOnce() -> R) -> R {
    let over = Flag::new();
    let (tell, told) = channel();
    let other = spawn(move || {
        tell.send(()).unwrap();
        while !over.get() {
            leaf();
        }
    });
    told.recv().unwrap(); // Holds this worker, so it is the other one that has started it.
    let (tell, told) = channel();
    let here: Vec<_> = (0..60)
        .map(|_| {
            let task = spawn(own(&tell, move |tell| {
                tell.send(unparker()).unwrap();
                wait(over);
            }));
            assert_eq!(yield_to(&task), Ok(YieldTo::Ran));
            task
        })
        .collect();
    let waiting: Vec<_> = told.try_iter().collect();
    let result = f();
    over.set();
    waiting.iter().for_each(Unparker::unpark);
    join_all(here);
    other.join().unwrap();
    result
}

#[test]
fn a_lone_fresh_task_gets_its_turn_on_a_worker_with_many_more_coroutines_that_all_yield() {
    in_task_with(&[2], |_| {
        let yields = |over: Flag| {
            while !over.get() {
                yield_now().unwrap();
            }
        };
        unbalanced(|| compute(10), yields, start_another);
    });
}

#[test]
fn a_worker_stands_back_for_others_whose_coroutines_come_and_go_and_goes_on() {
    // Its coroutines are one, two, one, two.
    fn comes_and_goes() {
        task().stack_size(1 << 20).unwrap().spawn(|| compute(30)).join().unwrap();
        compute(30);
    }
    // It learns to tolerate it, so each time is the first.
    for _ in 0..9 {
        within(|| {
            let waits = |_: Flag| park().unwrap();
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
