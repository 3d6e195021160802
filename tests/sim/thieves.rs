//! Stealing: how tasks are shared out, offered, taken and started.

use crate::common::prelude::*;
use crate::{on_machine, runtime};
use cygnet::sim::{self, Machine, Options, check};
use cygnet::sync::Barrier;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// With many workers, tasks were passed from thief to thief: runs of these seeds had not ended
/// after two million steps.
#[test]
fn a_task_is_not_stolen_for_ever_with_many_workers() {
    for seed in [32, 34, 36, 40] {
        let options = Options::new().seeds(seed..seed + 1).most_steps(2_000_000);
        check(&options, || {
            let ended = AtomicUsize::new(0);
            runtime(32).block_on(|| {
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

fn join_tree(depth: u32, leaf: Duration) -> u32 {
    if depth == 0 {
        sim::compute(leaf);
        return 1;
    }
    let (a, b) = join(|| join_tree(depth - 1, leaf), || join_tree(depth - 1, leaf));
    a + b
}

/// Each look at its processor gives a worker of such a simulation another one.
#[test]
fn workers_that_move_between_neighbourhoods_find_all_tasks() {
    check(&Options::new().seeds(0..40), || {
        let leaves = runtime(12).block_on(|| {
            let ended = AtomicUsize::new(0);
            scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        yield_now().unwrap();
                        ended.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(ended.into_inner(), 20);
            join_tree(5, US)
        });
        assert_eq!(leaves, 32);
    });
}

#[test]
fn two_or_three_sockets_lose_at_most_a_fifth_in_a_tree_of_joins() {
    let took = |sockets| {
        let seeds = (0..3).map(|seed| {
            let machine = Machine::new(16).sockets(sockets).seed(seed);
            let measured = on_machine(&machine, 16, || {
                let start = sim::now();
                assert_eq!(join_tree(12, US), 4_096);
                sim::now() - start
            });
            measured.0
        });
        seeds.sum::<Duration>()
    };
    let one = took(1);
    for sockets in [2, 3] {
        let several = took(sockets);
        assert!(several * 4 <= one * 5, "{several:?} instead of {one:?} with {sockets} sockets");
    }
}

#[test]
fn more_workers_than_cores_of_several_sockets_run_all_tasks() {
    for (cores, sockets) in [(1, 1), (3, 3), (5, 2)] {
        let machine = Machine::new(cores).sockets(sockets);
        let (leaves, _) = on_machine(&machine, 12, || join_tree(8, US));
        assert_eq!(leaves, 256);
    }
}

/// Workers that have enough tasks stand back for a while before they start another one. They stole
/// a task from each other meanwhile, and began to stand back anew each time: runs took up to half a
/// million steps.
#[test]
fn a_task_is_started_in_the_end_by_a_worker_that_stands_back() {
    check(&Options::new().seeds(0..300).most_steps(450_000), || {
        let (begun, go) = (AtomicUsize::new(0), Event::new());
        runtime(3).block_on(|| {
            scope(|s| {
                for i in 0..120 {
                    s.spawn(|| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        go.wait().unwrap();
                    });
                    // A long computation.
                    spin_until(|| begun.load(Ordering::Relaxed) > i);
                }
                go.set();
            });
        });
    });
}

/// Returns how long tasks of one place take that meet as soon as they have started, and then
/// compute.
fn meet_and_compute(cores: usize, tasks: usize, time: Duration, seed: u64) -> Duration {
    let machine = Machine::new(cores).seed(seed);
    let (took, _) = on_machine(&machine, cores, || {
        let start = sim::now();
        let all_are_here = Barrier::new(tasks);
        let meet_and_compute = || {
            all_are_here.wait().unwrap();
            sim::compute(time);
        };
        scope(|s| (0..tasks).for_each(|_| _ = s.spawn(meet_and_compute)));
        sim::now() - start
    });
    took
}

#[test]
fn tasks_that_wait_before_they_compute_are_shared_out_evenly() {
    for cores in [2, 4, 8] {
        for seed in 0..8 {
            let took = meet_and_compute(cores, 2 * cores, 10 * MS, seed);
            // Two each; a third one somewhere would make it 30 ms.
            assert!(took < 22 * MS, "{took:?} on {cores} cores, seed {seed}");
        }
    }
}

#[test]
fn two_that_may_be_a_pair_stay_together() {
    let took = meet_and_compute(2, 2, 10 * MS, 0);
    assert!(took > 20 * MS, "{took:?}");
}

/// Tasks that live for less than it takes to wake a worker are not spread, once that is known.
#[test]
fn tasks_of_short_lives_wake_no_worker() {
    const ROUNDS: u64 = 300;
    let ((), measured) = on_machine(&Machine::new(4), 4, || {
        for _ in 0..ROUNDS {
            let all_are_here = Barrier::new(8);
            scope(|s| (0..8).for_each(|_| _ = s.spawn(|| _ = all_are_here.wait().unwrap())));
        }
    });
    let wakes = measured.wakes;
    assert!(wakes < ROUNDS / 2, "{wakes} wake-ups in {ROUNDS} rounds");
}

/// On two workers, 500 values pass through four stages, which compute for 10 us, between a source
/// and a sink, which do not compute. Returns in how many of eight rounds one worker has more than
/// two stages.
fn uneven_pipelines(seed: u64) -> usize {
    let round = || {
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
        // With three stages on a worker a round takes 15 ms.
        sim::now() - start > 12 * MS
    };
    let machine = Machine::new(2).seed(seed);
    on_machine(&machine, 2, || (0..8).filter(|_| round()).count()).0
}

/// The same worker begins neighbours, so the two stages that compute nothing are not beside each
/// other. The addresses of the process have a part in how long accesses take, so the number differs
/// from process to process: 6 to 24 in 32 of them.
#[test]
fn a_pipeline_whose_ends_compute_nothing_is_shared_evenly() {
    let uneven: usize = (0..48).map(uneven_pipelines).sum();
    assert!(uneven <= 36, "{uneven} of 384");
}

/// A worker that has its share offers the other tasks. If the other workers compute for long it
/// starts them itself.
#[test]
fn offered_tasks_that_are_not_taken_are_started_where_they_are() {
    for seed in 0..8 {
        let (took, _) = on_machine(&Machine::new(2).seed(seed), 2, || {
            let (begun, all_are_here) = (AtomicUsize::new(0), Barrier::new(8));
            scope(|s| {
                s.spawn(|| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    sim::compute(1_000 * MS);
                });
                while begun.load(Ordering::Relaxed) == 0 {
                    sim::compute(US);
                }
                let start = sim::now();
                scope(|s| (0..8).for_each(|_| _ = s.spawn(|| _ = all_are_here.wait().unwrap())));
                sim::now() - start
            })
        });
        assert!(took < 10 * MS, "{took:?}, seed {seed}");
    }
}

/// A worker stands back for one that computes for a second, and its own task is woken again and
/// again meanwhile.
#[test]
fn a_task_is_started_in_the_end_although_its_worker_is_interrupted() {
    for gap in [100 * US, 300 * US, 700 * US] {
        let (took, _) = on_machine(&Machine::new(3), 2, || start_of_a_late_task(gap));
        assert!(took < 10 * MS, "{took:?} with an interruption each {gap:?}");
    }
}

/// Five tasks of a place: some compute on the other worker, and one here echoes pings that come
/// from outside each `gap`. Returns how long a sixth task waits for its start.
fn start_of_a_late_task(gap: Duration) -> Duration {
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
    let sleep_until_begun = |count, nap: Duration| {
        while begun.load(Ordering::Relaxed) < count {
            cygnet::sleep(nap).unwrap();
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
            sleep_until_begun(5, 100 * US);
            go.set();
            cygnet::sleep(5 * MS).unwrap();
            let start = sim::now();
            spawn(true);
            sleep_until_begun(6, 50 * US);
            let took = sim::now() - start;
            done.store(true, Ordering::Relaxed);
            pings.close();
            took
        })
    })
}

/// A worker with a task that is woken each few microseconds takes its part of the other worker's
/// tasks.
#[test]
fn a_worker_steals_between_wake_ups_of_its_own() {
    for gap in [4 * US, 16 * US] {
        let mut took = Duration::ZERO;
        Machine::new(3).run(|| took = beside_wake_ups(gap)).unwrap();
        // It takes 20 ms if one worker computes alone.
        assert!(took < 15 * MS, "{took:?} with a wake-up each {gap:?}");
    }
}

/// Returns how long 200 tasks of 100 us on one worker take, while a task on the other worker is
/// woken each `gap`.
fn beside_wake_ups(gap: Duration) -> Duration {
    let rt = runtime(2);
    let [stop, begun] = &[(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (pings, pinged) = bounded(64);
    let stops = Arc::clone(stop);
    let thread = sim::thread::spawn(move || {
        while !stops.load(Ordering::Relaxed) {
            let _ = pings.send(());
            sim::compute(gap);
        }
    });
    let may_begin = Arc::clone(begun);
    let compute = rt.spawn(move || {
        while !may_begin.load(Ordering::Relaxed) {
            sim::compute(US);
        }
        sim::compute(200 * US);
        let start = sim::now();
        scope(|s| (0..200).for_each(|_| _ = s.spawn(|| sim::compute(100 * US))));
        sim::now() - start
    });
    let begins = Arc::clone(begun);
    let echo = rt.spawn(move || {
        while pinged.recv().is_ok() {
            begins.store(true, Ordering::Relaxed);
            sim::compute(US);
        }
    });
    let took = rt.block_on(|| compute.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    rt.block_on(|| echo.join().unwrap());
    took
}

/// A worker forgets the tasks that it counts, also if a task changes workers, or has a stack of its
/// own. The end of a runtime checks that.
#[test]
fn tasks_that_have_ended_are_counted_no_longer() {
    check(&Options::new().seeds(0..200), || {
        runtime(3).block_on(|| {
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
                    (0..3).map(|_| unsafe { task().migratable() }.spawn(wanders)).collect();
                large.into_iter().chain(migratable).for_each(|task| task.join().unwrap());
            }
        });
    });
}

/// Each task is cancelled or dropped at some moment while others are begun, offered and taken.
#[test]
fn the_end_of_a_runtime_finds_tasks_that_are_offered() {
    check(&Options::new().seeds(0..500), || {
        let rt = runtime(3);
        let closures = Drops::new();
        let go = Arc::new(Event::new());
        for _ in 0..9 {
            let (closure, go) = (closures.guard(), Arc::clone(&go));
            let task = rt.spawn(move || {
                let _closure = closure;
                let _ = go.wait();
                sim::compute(MS);
            });
            task.detach();
        }
        sim::compute(20 * US);
        drop(rt);
        // Called or not, all closures have gone.
        assert_eq!(closures.count(), 9);
    });
}

#[test]
fn a_thief_goes_back_to_its_victim_without_a_search() {
    let ((), measured) = on_machine(&Machine::new(2), 2, || {
        scope(|s| (0..4_000).for_each(|_| _ = s.spawn(|| sim::compute(10 * US))));
    });
    let thief = measured.threads.iter().find(|thread| thread.name == "cygnet-1").unwrap();
    assert!(thief.computing > MS, "it has stolen nothing");
    // Of its 260 loots, each with a search of its own, 120 us would be spent on searches.
    assert!(thief.searching < 60 * US, "{:?}", thief.searching);
}

/// A worker that takes offered tasks, one after the other, runs its own tasks in between.
#[test]
fn offered_tasks_do_not_keep_ready_ones_waiting() {
    let (longest, _) = on_machine(&Machine::new(2), 2, longest_gap_beside_offers);
    // Fifty offered tasks in a row compute for 5 ms.
    assert!(longest < MS, "{longest:?}");
}

/// A task of the other worker gives way all the time, while a hundred tasks are shared out that
/// compute for 100 us before they wait. Returns the task's longest time without a turn.
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
        // The other worker takes the task meanwhile.
        sim::compute(MS);
        // These tasks wait as soon as they start, so such tasks are shared out from now on.
        spawn_some(8, Duration::ZERO, MS);
        offers.store(true, Ordering::Relaxed);
        spawn_some(100, 100 * US, US);
        stop.store(true, Ordering::Relaxed);
        gives_way.join().unwrap()
    })
}
