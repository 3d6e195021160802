//! The scheduler in simulation.

mod cancels;
mod chooser;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod machine;
mod misuse;
mod panicking;
mod planted;
mod programs;
mod random;
mod shutdown;
mod thieves;
mod tree;
mod types;

use common::prelude::*;
use common::rerun::{command, rerun, role, run, test_of};
use cygnet::sim::{self, Machine, Measured, Options, Reason};
use cygnet::sync::Mutex;
use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

/// Runs `f` in a task of a runtime on a machine, and returns its result with what was measured.
fn on_machine<R: Send>(
    machine: &Machine,
    workers: usize,
    f: impl FnOnce() -> R + Send,
) -> (R, Measured) {
    let mut result = None;
    let measured = machine.run(|| result = Some(runtime(workers).block_on(f))).unwrap();
    (result.expect("the run has ended"), measured)
}

/// A bit of everything.
fn program() {
    let rt = runtime(3);
    let sum = rt.block_on(|| {
        let tasks: Vec<_> = (0..10_u64).map(|n| spawn(move || n * n)).collect();
        let (left, right) = cygnet::join(|| 1, || 2);
        sleep(Duration::from_millis(5)).unwrap();
        let squares = tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>();
        squares + left + right + cygnet::blocking(|| 4)
    });
    assert_eq!(sum, 292);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..200 {
        let [first, second] = [(); 2].map(|()| sim::run(seed, program).unwrap());
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    let hashes = (0..100).map(|seed| sim::run(seed, program).unwrap().trace_hash);
    let different: BTreeSet<_> = hashes.collect();
    assert!(different.len() > 90, "{} of 100", different.len());
}

#[test]
fn time_is_virtual() {
    let day = Duration::from_secs(86_400);
    let run = sim::run(1, move || {
        let rt = runtime(2);
        let before = sim::now();
        rt.block_on(|| sleep(day).unwrap());
        assert!(sim::now() - before >= day);
        sim::thread::sleep(day);
    });
    let time = run.unwrap().time;
    assert!(time >= 2 * day && time < 2 * day + Duration::from_secs(1), "{time:?}");
}

/// The chunks of a loop grow until they take some time, and would grow for ever if items took none.
#[test]
fn the_items_of_a_loop_take_time_so_that_a_timeout_reaches_it() {
    sim::check(&Options::new().seeds(0..50), || {
        let done = AtomicU32::new(0);
        runtime(2).block_on(|| {
            let visit = |_| _ = done.fetch_add(1, Ordering::Relaxed);
            let visits = || par::for_each(0..1 << 30, visit);
            timeout(Duration::from_millis(1), visits).unwrap_err();
        });
        // A nanosecond each, on both workers, and a chunk that had begun.
        assert!(done.into_inner() < 4_000_000);
    });
}

#[test]
fn a_deadlock_is_found() {
    let failed = sim::explore(&Options::new(), || {
        let locks = [Mutex::new(()), Mutex::new(())];
        let lock_both = |first: usize| {
            let _first = locks[first].lock().unwrap();
            let _second = locks[1 - first].lock().unwrap();
        };
        runtime(2).block_on(|| scope(|s| (0..2).for_each(|n| _ = s.spawn(move || lock_both(n)))));
    });
    let failed = failed.unwrap_err();
    assert_eq!(failed.reason, Reason::Deadlock);
    println!("{failed}");
}

fn counted_twice() {
    let visits = AtomicU32::new(0);
    runtime(2).block_on(|| {
        let visit = || {
            let before = visits.load(Ordering::Relaxed);
            yield_now().unwrap();
            visits.store(before + 1, Ordering::Relaxed);
        };
        scope(|s| (0..2).for_each(|_| _ = s.spawn(visit)));
    });
    assert_eq!(visits.into_inner(), 2, "a visit was not counted");
}

#[test]
fn a_lost_update_is_found_and_found_again() {
    let failed = sim::explore(&Options::new(), counted_twice).unwrap_err();
    let Reason::Panicked(text) = &failed.reason else { panic!("{failed}") };
    assert!(text.contains("a visit was not counted"), "{text}");
    let seed = failed.seed.parse().unwrap();
    let again = sim::run(seed, counted_twice).unwrap_err();
    assert_eq!(again.run, failed.run);
}

#[test]
fn all_runs_with_a_preemption_are_tried() {
    let options = Options::new().seeds(0..0).preemptions(1, 100_000);
    let explored = sim::explore(&options, || {
        let event = Event::new();
        runtime(1).block_on(|| {
            scope(|s| {
                s.spawn(|| event.wait().unwrap());
                event.set();
            });
        });
    });
    let explored = explored.unwrap();
    println!("{explored:?}");
    assert!(explored.is_complete);
}

#[test]
fn a_run_without_an_end_is_given_up() {
    let options = Options::new().most_steps(10_000);
    let failed = sim::explore(&options, || {
        runtime(1).block_on(|| while yield_now().is_ok() {});
    });
    assert_eq!(failed.unwrap_err().reason, Reason::TooManySteps);
}

#[test]
fn threads_of_the_test_are_simulated() {
    let explored = sim::explore(&Options::new().seeds(0..200), || {
        let rt = runtime(2);
        let (to, from) = cygnet::sync::bounded(1);
        let sum = sim::thread::scope(|s| {
            let sums = s.spawn(|| from.iter().sum::<u32>());
            for _ in 0..2 {
                s.spawn(own(&to, move |to| (0..5).for_each(|n| to.send(n).unwrap())));
            }
            rt.block_on(move || to.send(100).unwrap());
            sums.join().unwrap()
        });
        assert_eq!(sum, 120);
    });
    let explored = explored.unwrap();
    // The thread of the test, two workers, and three threads that the test has started.
    assert_eq!(explored.threads, 200 * 6);
}

/// The clock goes on to the next thread's time only if the resting thread is not up before.
#[test]
fn a_rest_of_no_time_takes_none() {
    let rests: [fn(Duration); 2] = [sim::thread::park_timeout, sim::thread::sleep];
    sim::check(&Options::new().seeds(0..100), || {
        sim::thread::scope(|s| {
            s.spawn(|| sim::thread::sleep(Duration::from_secs(10)));
            sim::thread::sleep(Duration::from_millis(1));
            for (rest, nanos) in rests.into_iter().flat_map(|rest| [(rest, 0), (rest, 1)]) {
                let start = sim::now();
                rest(Duration::from_nanos(nanos));
                let took = sim::now() - start;
                assert!(took < Duration::from_millis(1), "{nanos} ns took {took:?}");
            }
        });
    });
}

#[test]
fn an_exploration_repeats_its_runs() {
    let twice = [(); 2].map(|()| sim::explore(&Options::new().seeds(0..5), program).unwrap());
    assert_eq!(twice[0], twice[1]);
    let others = sim::explore(&Options::new().seeds(1..6), program).unwrap();
    assert_ne!(twice[0].trace_hash, others.trace_hash);
}

/// Tasks are spawned from outside and cancelled. The place where they are kept must not depend on
/// their addresses.
#[test]
fn addresses_make_no_difference() {
    let run = |kept: &mut Vec<Vec<u8>>| {
        let run = sim::run(3, || {
            let rt = runtime(3);
            let tasks: Vec<_> = (0..20).map(|_| rt.spawn(cygnet::park)).collect();
            rt.block_on(|| yield_now().unwrap());
            tasks.iter().for_each(|task| task.cancel("enough"));
            tasks.into_iter().for_each(|task| drop(task.join()));
        });
        // The next allocations lie elsewhere.
        kept.extend((0..50).map(|n| vec![0; 100 + 37 * n]));
        run.unwrap()
    };
    let mut kept = Vec::new();
    let first = run(&mut kept);
    (0..20).for_each(|_| assert_eq!(run(&mut kept), first));
}

/// Runs the calling test's `program` in processes with different addresses, and asserts that all
/// results are the same.
#[track_caller]
fn assert_same_in_processes(count: usize, program: impl Fn() -> String) {
    if role().is_some() {
        return println!("[{}]", program());
    }
    let result = || {
        let said = String::from_utf8(rerun(test_of(&program), "once").stdout).unwrap();
        let (_, result) = said.split_once('[').unwrap();
        result.split_once(']').unwrap().0.to_owned()
    };
    let results: BTreeSet<_> = (0..count).map(|_| result()).collect();
    assert_eq!(results.len(), 1, "{results:#?}");
}

#[test]
fn a_hundred_processes_have_the_same_run() {
    assert_same_in_processes(100, || sim::run(7, program).unwrap().trace_hash.to_string());
}

/// Fails in runs in which a thread finds that the other thread has the lock.
fn comes_too_early() {
    let mutex = Mutex::new(0);
    sim::thread::scope(|s| {
        (0..2).for_each(|_| drop(s.spawn(|| *mutex.try_lock().expect("it is free") += 1)));
    });
}

/// Both by a seed and by a plan, as a failed run has named them.
#[test]
fn the_environment_names_a_run_to_repeat() {
    let fails = || sim::check(&Options::new(), comes_too_early);
    let name = test_of(&fails);
    if role().is_some() {
        return fails();
    }
    let by_plan = Options::new().seeds(0..0).preemptions(1, 10_000);
    for options in [by_plan, Options::new()] {
        let failed = sim::explore(&options, comes_too_early).unwrap_err();
        let said = said_by(command(name, "again").env("CYGNET_SIM_SEED", failed.seed));
        assert!(said.contains("run 1 of the simulation has failed"), "{said}");
        let steps = format!("after {} steps", failed.run.steps);
        assert!(said.contains(&steps), "{steps} is not in {said}");
        // The line of the test beside the line of the library.
        assert!(said.contains("comes_too_early"), "{said}");
    }
}

/// Runs a test in a process that must fail, and returns what it writes.
#[track_caller]
fn said_by(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = run(command);
    assert!(!status.success(), "{command:?}");
    String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap()
}

#[test]
fn a_real_thread_that_wakes_a_simulated_one_panics() {
    let told = Arc::new(OnceLock::new());
    let tells = Arc::clone(&told);
    let failed = sim::run(1, move || {
        runtime(1).block_on(|| {
            let event = Arc::new(Event::new());
            let sets = Arc::clone(&event);
            scope(|s| {
                s.spawn(|| event.wait());
                while !format!("{event:?}").contains(".rs:") {
                    yield_now().unwrap();
                }
                let panic = std::thread::spawn(move || sets.set()).join().unwrap_err();
                tells.set(panic.downcast::<String>().unwrap()).unwrap();
            });
        });
    });
    let text = told.get().unwrap();
    assert!(text.contains("start threads by `cygnet::sim::thread`"), "{text}");
    // The thread that would have been woken waits for ever.
    assert_eq!(failed.unwrap_err().reason, Reason::Deadlock);
}

#[test]
fn a_std_lock_that_is_held_over_a_suspension_is_named() {
    let hang = || {
        let _ = sim::run(3, || {
            let lock = std::sync::Mutex::new(());
            runtime(1).block_on(|| {
                let _held = lock.lock().unwrap();
                scope(|s| {
                    s.spawn(|| drop(lock.lock().unwrap()));
                    yield_now().unwrap();
                });
            });
        });
    };
    let Some(output) = in_child(hang) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("has not made a step for 10s: thread `cygnet-0`"), "{said}");
    assert!(said.contains("CYGNET_SIM_SEED=3"), "{said}");
}

/// A plain thread stops the actor, while the actor's task and its parent end on a worker.
#[test]
fn a_binding_of_an_actor_that_a_thread_stops_is_dropped_before_the_parent_ends() {
    struct Tells(Flag);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.set();
        }
    }
    static BOUND: TaskLocal<Tells> = TaskLocal::new();
    sim::check(&Options::new(), || {
        let dropped = Flag::new();
        let thread = runtime(2).block_on(|| {
            let (actor, owner) = BOUND.scope(Tells(dropped), || TaskActor::start(0));
            owner.detach();
            sim::thread::spawn(move || actor.stop())
        });
        assert!(dropped.get(), "the value outlives the parent");
        thread.join().unwrap();
    });
}
