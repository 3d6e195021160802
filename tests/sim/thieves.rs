//! What thieves do with their loot.

use cygnet::sim::{self, Machine, Options, check};
use cygnet::sync::{Barrier, Event, bounded};
use cygnet::{Runtime, scope, spawn, task, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// With many workers tasks were passed from thief to thief: runs of these seeds had not come to their ends after two million steps, one of a similar program
/// not after two hundred million.
#[test]
fn a_task_is_not_stolen_for_ever_with_many_workers() {
    for seed in [32, 34, 36, 40] {
        let options = Options::new().seeds(seed..seed + 1).most_steps(2_000_000);
        check(&options, || {
            let rt = Runtime::builder().workers(32).build().unwrap();
            let ended = AtomicUsize::new(0);
            rt.block_on(|| {
                scope(|s| {
                    for turns in 0..10 {
                        let ended = &ended;
                        s.spawn(move || {
                            (0..turns).for_each(|_| yield_now().unwrap());
                            spawn(|| yield_now().unwrap()).detach();
                            ended.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            });
            assert_eq!(ended.into_inner(), 10);
        });
    }
}

/// With as many tasks as they like to have, none of them starts another one before it has stood back for a while. They stole a task from each other meanwhile,
/// and began to stand back anew each time: runs took up to half a million steps.
#[test]
fn a_task_is_started_in_the_end_by_one_of_those_who_stand_back() {
    let options = Options::new().seeds(0..300).most_steps(450_000);
    check(&options, || {
        let rt = Runtime::builder().workers(3).build().unwrap();
        let (begun, go) = (AtomicUsize::new(0), Event::new());
        rt.block_on(|| {
            scope(|s| {
                for i in 0..120 {
                    s.spawn(|| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        go.wait().unwrap();
                    });
                    // A long computation.
                    while begun.load(Ordering::Relaxed) <= i {
                        sim::thread::yield_now();
                    }
                }
                go.set();
            });
        });
    });
}

/// So many tasks of one place that meet as soon as they have started, and compute afterwards; how long that takes.
fn meet_and_compute(cores: usize, tasks: usize, time: Duration, seed: u64) -> (Duration, u64) {
    let mut took = Duration::ZERO;
    let measured = Machine::new(cores).seed(seed).run(|| {
        let rt = Runtime::builder().workers(cores).build().unwrap();
        let start = sim::now();
        rt.block_on(|| {
            let all_are_here = Barrier::new(tasks);
            scope(|s| {
                for _ in 0..tasks {
                    s.spawn(|| {
                        all_are_here.wait().unwrap();
                        sim::compute(time);
                    });
                }
            });
        });
        took = sim::now() - start;
    });
    (took, measured.unwrap().wakes())
}

#[test]
fn tasks_that_wait_before_they_compute_are_shared_out_evenly() {
    for cores in [2, 4, 8] {
        for seed in 0..8 {
            let (took, _) = meet_and_compute(cores, 2 * cores, 10 * MS, seed);
            // Two each; a third one somewhere would make it 30 ms.
            assert!(took < 22 * MS, "{took:?} on {cores} cores, seed {seed}");
        }
    }
}

#[test]
fn two_that_may_be_a_pair_stay_together() {
    let (took, _) = meet_and_compute(2, 2, 10 * MS, 0);
    assert!(took > 20 * MS, "{took:?}");
}

/// Tasks that live for less than it takes to wake a worker are not spread, once that is known.
#[test]
fn tasks_of_short_lives_wake_nobody() {
    const ROUNDS: u64 = 300;
    let machine = Machine::new(4);
    let measured = machine.run(|| {
        let rt = Runtime::builder().workers(4).build().unwrap();
        rt.block_on(|| {
            for _ in 0..ROUNDS {
                let all_are_here = Barrier::new(8);
                scope(|s| {
                    for _ in 0..8 {
                        s.spawn(|| _ = all_are_here.wait().unwrap());
                    }
                });
            }
        });
    });
    let wakes = measured.unwrap().wakes();
    assert!(wakes < ROUNDS / 2, "{wakes} wake-ups in {ROUNDS} rounds");
}

/// On two workers, again and again: 500 values pass through four stages, which compute for 10 us, between a source and
/// a sink, which do not. In how many of eight rounds more than two stages are on one worker.
fn uneven_pipelines(seed: u64) -> usize {
    let mut uneven = 0;
    let measured = Machine::new(2).seed(seed).run(|| {
        let rt = Runtime::builder().workers(2).build().unwrap();
        rt.block_on(|| {
            for _ in 0..8 {
                let start = sim::now();
                let (to, mut from) = bounded(64);
                let source = move || (0..500).for_each(|value| to.send(value).unwrap());
                let mut tasks: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(source)];
                for _ in 0..4 {
                    let (to, next) = bounded(64);
                    let from = std::mem::replace(&mut from, next);
                    tasks.push(Box::new(move || {
                        while let Ok(value) = from.recv() {
                            sim::compute(10 * US);
                            to.send(value).unwrap();
                        }
                    }));
                }
                tasks.push(Box::new(move || while from.recv().is_ok() {}));
                scope(|s| {
                    let tasks: Vec<_> = tasks.into_iter().map(|task| s.spawn(task)).collect();
                    tasks.into_iter().for_each(|task| task.join().unwrap());
                });
                // With three it takes 15 ms.
                uneven += usize::from(sim::now() - start > 12 * MS);
            }
        });
    });
    measured.unwrap();
    uneven
}

/// Neighbours are begun by the same worker, so the two that compute nothing are not beside each other.
#[test]
fn a_pipeline_whose_ends_compute_nothing_is_shared_evenly() {
    let uneven: usize = (0..8).map(uneven_pipelines).sum();
    assert!(uneven <= 6, "{uneven} of 64");
}

/// A worker that has its share offers the others theirs. If they compute for long it starts them itself.
#[test]
fn tasks_that_nobody_comes_to_take_are_started_where_they_are() {
    for seed in 0..8 {
        let mut took = Duration::ZERO;
        let measured = Machine::new(2).seed(seed).run(|| {
            let rt = Runtime::builder().workers(2).build().unwrap();
            let (begun, all_are_here) = (AtomicUsize::new(0), Barrier::new(8));
            rt.block_on(|| {
                scope(|s| {
                    s.spawn(|| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        sim::compute(1_000 * MS);
                    });
                    while begun.load(Ordering::Relaxed) == 0 {
                        sim::compute(US);
                    }
                    let start = sim::now();
                    scope(|s| {
                        (0..8).for_each(|_| _ = s.spawn(|| _ = all_are_here.wait().unwrap()))
                    });
                    took = sim::now() - start;
                });
            });
        });
        measured.unwrap();
        assert!(took < 10 * MS, "{took:?}, seed {seed}");
    }
}

/// A worker stands back for one that computes for a second, and its own task is woken again and again meanwhile.
#[test]
fn a_task_is_started_in_the_end_also_if_its_worker_is_interrupted() {
    for gap in [100 * US, 300 * US, 700 * US] {
        let mut took = Duration::ZERO;
        let measured = Machine::new(3).run(|| took = start_of_a_late_task(gap));
        measured.unwrap();
        assert!(took < 10 * MS, "{took:?} with an interruption each {gap:?}");
    }
}

/// Five tasks of a place: some compute on the other worker, and one here echoes what comes from outside each `gap`. How
/// long a sixth one waits for its start.
fn start_of_a_late_task(gap: Duration) -> Duration {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.block_on(|| {
        let me = sim::thread::current().id();
        let (go, done, begun) = (Event::new(), AtomicBool::new(false), AtomicUsize::new(0));
        let (pings, pinged) = bounded(64);
        let run = |late: bool| {
            begun.fetch_add(1, Ordering::Relaxed);
            go.wait().unwrap();
            if sim::thread::current().id() != me {
                sim::compute(1_000 * MS);
            } else if !late {
                while !done.load(Ordering::Relaxed) && pinged.recv().is_ok() {
                    sim::compute(5 * US);
                }
            }
        };
        sim::thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = pings.try_send(());
                    sim::thread::sleep(gap);
                }
            });
            scope(|s| {
                let run = &run;
                let spawn = |late| _ = s.spawn(move || run(late));
                (0..5).for_each(|_| spawn(false));
                while begun.load(Ordering::Relaxed) < 5 {
                    cygnet::sleep(100 * US).unwrap();
                }
                go.set();
                cygnet::sleep(5 * MS).unwrap();
                let start = sim::now();
                spawn(true);
                while begun.load(Ordering::Relaxed) < 6 {
                    cygnet::sleep(50 * US).unwrap();
                }
                let took = sim::now() - start;
                done.store(true, Ordering::Relaxed);
                pings.close();
                took
            })
        })
    })
}

/// A worker whose own task is woken each few microseconds takes its part of what the other one has to do.
#[test]
fn a_worker_steals_between_wake_ups_of_its_own() {
    for gap in [4 * US, 16 * US] {
        let mut took = Duration::ZERO;
        let measured = Machine::new(3).run(|| took = beside_wake_ups(gap));
        measured.unwrap();
        // It takes 20 ms if one worker computes alone.
        assert!(took < 15 * MS, "{took:?} with a wake-up each {gap:?}");
    }
}

/// 200 tasks of 100 us on one worker, while a task on the other one is woken each `gap`; how long they take.
fn beside_wake_ups(gap: Duration) -> Duration {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (pings, pinged) = bounded(64);
    let thread = {
        let stop = Arc::clone(&stop);
        sim::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let _ = pings.send(());
                sim::compute(gap);
            }
        })
    };
    let compute = {
        let begun = Arc::clone(&begun);
        rt.spawn(move || {
            while !begun.load(Ordering::Relaxed) {
                sim::compute(US);
            }
            sim::compute(200 * US);
            let start = sim::now();
            scope(|s| (0..200).for_each(|_| _ = s.spawn(|| sim::compute(100 * US))));
            sim::now() - start
        })
    };
    let echo = rt.spawn(move || {
        while pinged.recv().is_ok() {
            begun.store(true, Ordering::Relaxed);
            sim::compute(US);
        }
    });
    let took = rt.block_on(|| compute.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    rt.block_on(|| echo.join().unwrap());
    took
}

/// What a worker counts it forgets, also if a task changes workers, or has a stack of its own. The end of a runtime
/// checks that.
#[test]
fn tasks_that_have_ended_are_counted_no_longer() {
    check(&Options::new().seeds(0..200), || {
        let rt = Runtime::builder().workers(3).build().unwrap();
        rt.block_on(|| {
            let wanders = || {
                scope(|s| _ = s.spawn(|| cygnet::sleep(20 * US).unwrap()));
                (0..4).for_each(|_| cygnet::sleep(5 * US).unwrap());
            };
            for _ in 0..4 {
                let all_are_here = Arc::new(Barrier::new(6));
                let waits = |_| {
                    let all_are_here = Arc::clone(&all_are_here);
                    spawn(|| sim::compute(US)).detach();
                    let task = task().stack_size(256 << 10).unwrap();
                    task.spawn(move || _ = all_are_here.wait().unwrap())
                };
                let large: Vec<_> = (0..6).map(waits).collect();
                // SAFETY: nothing in it is tied to a thread.
                let migratable: Vec<_> =
                    (0..3).map(|_| unsafe { cygnet::spawn_migratable(wanders) }).collect();
                large.into_iter().chain(migratable).for_each(|task| task.join().unwrap());
            }
        });
    });
}

/// Each of them is cancelled or let go at some moment while others are begun, offered and taken.
#[test]
fn the_end_of_a_runtime_finds_tasks_that_are_offered() {
    check(&Options::new().seeds(0..500), || {
        let rt = Runtime::builder().workers(3).build().unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let go = Arc::new(Event::new());
        for _ in 0..9 {
            let (ended, go) = (Ended(Arc::clone(&ended)), Arc::clone(&go));
            let task = rt.spawn(move || {
                let _ended = ended;
                let _ = go.wait();
                sim::compute(MS);
            });
            task.detach();
        }
        sim::compute(20 * US);
        drop(rt);
        assert_eq!(ended.load(Ordering::Relaxed), 9);
    });
}

/// Counts the closures that have gone, called or not.
struct Ended(Arc<AtomicUsize>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_thief_goes_back_to_its_victim_without_a_search() {
    let measured = Machine::new(2).run(|| {
        let rt = Runtime::builder().workers(2).build().unwrap();
        rt.block_on(|| scope(|s| (0..4_000).for_each(|_| _ = s.spawn(|| sim::compute(10 * US)))));
    });
    let measured = measured.unwrap();
    let thief = measured.threads().find(|thread| thread.name() == "cygnet-1").unwrap();
    assert!(thief.computing() > MS, "it has stolen nothing");
    // Of its 260 loots, each with a search of its own, 120 us would be spent on those.
    assert!(thief.searching() < 60 * US, "{:?}", thief.searching());
}

/// A worker that takes what others offer, one task after the other, lets its own run in between.
#[test]
fn tasks_that_are_offered_do_not_keep_ready_ones_waiting() {
    let mut longest = Duration::ZERO;
    let measured = Machine::new(2).run(|| {
        let rt = Runtime::builder().workers(2).build().unwrap();
        longest = rt.block_on(longest_gap_beside_offers);
    });
    measured.unwrap();
    // Fifty of them in a row compute for 5 ms.
    assert!(longest < MS, "{longest:?}");
}

/// A task of the other worker gives way all the time, while a hundred tasks are shared out that
/// compute for 100 us before they wait. Its longest time without a turn.
fn longest_gap_beside_offers() -> Duration {
    let here = sim::thread::current().id();
    let (stop, offers) = (AtomicBool::new(false), AtomicBool::new(false));
    let run = |before: Duration, after: Duration, go: &Event| {
        sim::compute(before);
        go.wait().unwrap();
        sim::compute(after);
    };
    let spawn_some = |count, before, after| {
        let go = Event::new();
        scope(|s| {
            let tasks: Vec<_> = (0..count).map(|_| s.spawn(|| run(before, after, &go))).collect();
            s.spawn(|| {
                cygnet::sleep(10 * MS).unwrap();
                go.set();
            });
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    };
    scope(|s| {
        let gives_way = s.spawn(|| {
            let (mut longest, mut last) = (Duration::ZERO, sim::now());
            while !stop.load(Ordering::Relaxed) {
                yield_now().unwrap();
                let time = sim::now();
                if offers.load(Ordering::Relaxed) {
                    longest = longest.max(time - last);
                }
                last = time;
                sim::compute(US);
            }
            assert_ne!(sim::thread::current().id(), here, "it is to be on the other worker");
            longest
        });
        // The other worker takes it meanwhile.
        sim::compute(MS);
        // They wait as soon as they start, so such tasks are shared out from now on.
        spawn_some(8, Duration::ZERO, MS);
        offers.store(true, Ordering::Relaxed);
        spawn_some(100, 100 * US, US);
        stop.store(true, Ordering::Relaxed);
        gives_way.join().unwrap()
    })
}
