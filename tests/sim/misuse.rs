//! Programs, plans and neighbours in the process that could disturb a simulation.

use crate::common::prelude::*;
use crate::common::proc::status;
use crate::common::rerun::{command, role, test_of};
use crate::{program, runtime, said_by};
use cygnet::coroutine::Coroutine;
use cygnet::sim::{self, Options, Reason};
use std::sync::OnceLock;

/// Bare coroutines take their stacks from memory that the whole process shares.
fn coroutines() {
    let generate = || {
        let doubles = Coroutine::new(|yielder, n: u32| yielder.suspend(2 * n));
        let _ = doubles.resume(1);
    };
    runtime(2).block_on(|| scope(|s| (0..4).for_each(|_| drop(s.spawn(generate)))));
}

fn hashes(seeds: u64, program: fn()) -> Vec<u64> {
    (0..seeds).map(|seed| sim::run(seed, program).unwrap().trace_hash).collect()
}

#[test]
fn simulations_and_real_runtimes_side_by_side_do_not_touch_each_other() {
    let alone = [hashes(100, program), hashes(100, coroutines)];
    std::thread::scope(|s| {
        let sides = [(); 3].map(|()| s.spawn(|| [hashes(100, program), hashes(100, coroutines)]));
        (0..100).for_each(|_| coroutines());
        sides.into_iter().for_each(|side| assert_eq!(side.join().unwrap(), alone));
    });
}

#[test]
fn a_failed_run_changes_nothing_for_later_ones() {
    let before = [hashes(20, program), hashes(20, coroutines)];
    for steps in (0..20).map(|n| 10 + n * 71) {
        let options = Options::new().seeds(steps..steps + 1).most_steps(steps);
        let failed = sim::explore(&options, coroutines).map(|explored| explored.steps);
        assert!(failed.is_err() || failed.unwrap() <= steps);
    }
    assert_eq!([hashes(20, program), hashes(20, coroutines)], before);
}

#[test]
fn a_simulation_inside_another_one_is_refused_and_the_outer_one_goes_on() {
    let run = sim::run(1, || {
        let rt = runtime(2);
        let refused = panic_of(|| sim::run(2, program));
        assert_eq!(refused, "cygnet: a simulation was started inside another simulation");
        assert_eq!(rt.block_on(|| spawn(|| 1).join().unwrap()), 1);
    });
    run.unwrap();
}

#[test]
fn many_runs_take_no_more_address_space_than_a_few() {
    in_own_process(|| {
        let runs = || sim::check(&Options::new().seeds(0..200), program);
        runs();
        let before = status("VmSize:");
        runs();
        // In kilobytes. A signal stack left behind by each run would be ten times as much.
        let more = status("VmSize:") - before;
        assert!(more < 2_000, "{more} kB");
    });
}

/// The plans are for another program, or for none.
#[test]
fn a_plan_that_does_not_fit_the_program_is_reported() {
    let check = || sim::check(&Options::new(), program);
    let name = test_of(&check);
    if role().is_some() {
        return check();
    }
    let said = |seed| said_by(command(name, "plan").env("CYGNET_SIM_SEED", seed));
    // A thread that does not exist, one that cannot go on, and a point that is never reached.
    for plan in ["plan:3-99", "plan:3-0", "plan:100000000-1"] {
        let said = said(plan);
        assert!(said.contains("the run does not follow its schedule"), "{plan}: {said}");
        assert!(said.contains(&format!("CYGNET_SIM_SEED={plan}")), "{said}");
    }
    for nonsense in ["", "-1", "1.5", "planet", "plan:", "plan:1", "plan:1-", "plan:1-2-3"] {
        let said = said(nonsense);
        assert!(said.contains(&format!("CYGNET_SIM_SEED={nonsense} is not a seed")), "{said}");
    }
}

/// The second run cannot repeat the choices of the first one.
#[test]
fn a_program_that_no_plan_can_repeat_is_reported() {
    let runs = std::cell::Cell::new(0);
    let options = Options::new().seeds(0..0).preemptions(1, 1_000);
    let failed = sim::explore(&options, || {
        runs.set(runs.get() + 1);
        if runs.get() == 1 { program() } else { drop(runtime(1)) }
    });
    assert_eq!(failed.unwrap_err().reason, Reason::Another);
}

#[test]
fn waits_beyond_the_end_of_the_clock_never_end() {
    let waits: [fn(); 4] = [
        || sim::thread::sleep(Duration::MAX),
        || drop(Event::new().wait_timeout(Duration::MAX)),
        || drop(runtime(1).block_on(|| sleep(Duration::MAX))),
        // The worker looks at the clock meanwhile.
        || {
            let rt = runtime(1);
            sim::thread::sleep(Duration::from_secs(u64::MAX / 2));
            drop(rt);
        },
    ];
    for wait in waits {
        let failed = sim::run(1, wait).unwrap_err();
        assert_eq!(failed.reason, Reason::Deadlock, "{failed}");
    }
}

#[test]
fn a_scope_ends_although_the_drop_of_a_result_panics() {
    let threads = || {
        let is_detached = AtomicBool::new(false);
        sim::thread::scope(|s| {
            // The result comes after the drop of the handle, which could drop it otherwise.
            drop(s.spawn(|| {
                spin_until(|| is_detached.load(Ordering::Relaxed));
                OnDrop(|| panic!("the drop of a result"))
            }));
            is_detached.store(true, Ordering::Relaxed);
        });
    };
    let failed = sim::run(1, threads).unwrap_err();
    assert_eq!(failed.reason, Reason::Panicked("a scoped thread panicked".to_owned()));
    // And so with real threads.
    assert_eq!(panic_of(threads), "a scoped thread panicked");
}

#[test]
fn a_runtime_has_the_same_workers_on_each_machine() {
    let workers = || {
        let rt = Runtime::builder().build().unwrap();
        rt.block_on(|| yield_now().unwrap());
        assert_eq!(rt.metrics().workers.len(), 4);
    };
    sim::run(1, workers).unwrap();
}

#[test]
fn a_runtime_that_is_never_dropped_is_named_in_the_report() {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let failed = sim::run(1, || RUNTIME.get_or_init(|| runtime(2)).block_on(|| ())).unwrap_err();
    assert_eq!(failed.reason, Reason::Deadlock);
    assert!(failed.to_string().contains("a runtime not dropped"), "{failed}");
}
