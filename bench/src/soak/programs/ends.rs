//! Runtimes made by the programs: their ends, and too few stacks.

use cygnet::Runtime;

use super::prelude::*;

pub(crate) fn ends(p: &mut Program) {
    let builder = Runtime::builder().workers(p.rng.count(1, 4)).max_blocking_threads(2);
    let runtime = builder.build().expect("a runtime can be built");
    let handle = runtime.handle();
    let tally = Arc::new(Tally::default());
    let finished = Arc::new(AtomicU64::new(0));
    let guarded = p.rng.below(4);
    let mut tasks: Vec<Task<()>> = (0..p.rng.between(1, 20))
        .map(|number| {
            let (tally, rng) = (tally.clone(), p.rng.split());
            if number < guarded {
                let finished = finished.clone();
                return cygnet::task().guard(&runtime.swansong()).spawn_in(&runtime, move || {
                    busy_for_a_while(&tally, rng);
                    finished.fetch_add(1, Ordering::Relaxed);
                });
            }
            runtime.spawn(move || busy_until_told(&tally, rng))
        })
        .collect();
    let guarded = guarded.min(tasks.len() as u64);
    if p.rng.one_in(2) {
        tasks.drain(..).for_each(Task::detach);
    }
    stall(&mut p.rng);
    match p.rng.below(4) {
        0 => {
            let report = runtime.shutdown(LONG);
            assert!(report.is_in_time(), "{report}");
            let finished = finished.load(Ordering::Relaxed);
            assert_eq!(finished, guarded, "the shutdown must wait for guarded tasks");
        }
        1 => {
            Fault::InFlight.count();
            let report = runtime.shutdown(p.rng.micros(300));
            assert!(!report.is_given_up());
        }
        2 => {
            Fault::InFlight.count();
            thread::scope(|s| {
                s.spawn(move || drop(runtime));
                // A late spawn fails and gives its closure back.
                for number in 0..20u64 {
                    let Ok(late) = handle.spawn(move || number) else { break };
                    outcome(late.join());
                }
            });
        }
        _ => {
            Fault::InFlight.count();
            drop(runtime);
        }
    }
    tally.assert_balanced();
    assert!(handle.spawn(|| ()).is_err(), "a runtime that has ended must refuse tasks");
    assert!(handle.try_block_on(|| ()).is_err());
    tasks.into_iter().for_each(|task| _ = outcome(task.join()));
}

fn busy_for_a_while(tally: &Tally, mut rng: Rng) {
    let _present = tally.enter();
    for _ in 0..rng.below(5) {
        drop(pause(&mut rng));
    }
}

/// Waits in some way until the end of the runtime cuts the wait short.
fn busy_until_told(tally: &Tally, mut rng: Rng) {
    let _present = tally.enter();
    match rng.below(6) {
        0 => assert!(cygnet::park().is_err()),
        1 => assert!(cygnet::sleep(LONG).is_err()),
        2 => cygnet::blocking(|| thread::sleep(Duration::from_micros(200))),
        3 => cygnet::scope(|s| {
            for _ in 0..3 {
                let own = rng.split();
                s.spawn(move || busy_for_a_while(tally, own));
            }
            drop(cygnet::sleep(LONG));
        }),
        4 => while pause(&mut rng).is_ok() && !cygnet::is_cancelled() {},
        _ => drop(cygnet::wait(std::future::pending::<()>())),
    }
}

/// Every task eventually gets a stack, if need be one beyond the limit for each nested wait.
pub(crate) fn stacks(p: &mut Program) {
    Fault::Stacks.count();
    let workers = p.rng.count(1, 3);
    let limit = workers + p.rng.count(0, 4);
    let runtime = Runtime::builder().workers(workers).stack_size(256 << 10).max_stacks(limit);
    let runtime = runtime.build().expect("a runtime can be built");
    let tally = Arc::new(Tally::default());
    let count = p.rng.between(1, 40);
    let nap = |_| {
        let (tally, mut rng) = (tally.clone(), p.rng.split());
        runtime.spawn(move || {
            let _present = tally.enter();
            for _ in 0..rng.below(4) {
                pause(&mut rng).expect(UNDISTURBED);
            }
        })
    };
    let naps: Vec<_> = (0..count).map(nap).collect();
    let (seed, depth) = (p.rng.next(), p.rng.between(1, 3));
    runtime.block_on(|| family(&tally, Rng::new(seed), depth));
    naps.into_iter().for_each(|task| value(task.join()));
    assert!(tally.assert_balanced() >= count);
    let metrics = runtime.metrics();
    let (most, allowed) = (metrics.stacks_high_water, limit * (1 + depth as usize));
    assert!(most <= allowed, "{most} stacks are more than {allowed}");
}

/// Generations of tasks that wait for each other. A waiting task may have one stack more.
fn family(tally: &Tally, mut rng: Rng, depth: u64) {
    let _present = tally.enter();
    pause(&mut rng).expect(UNDISTURBED);
    if depth > 0 {
        cygnet::scope(|s| {
            for _ in 0..rng.between(1, 3) {
                let own = rng.split();
                s.spawn(move || family(tally, own, depth - 1));
            }
        });
    }
}
