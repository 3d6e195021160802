//! Random programs over the public interface, in simulation: tasks that spawn, join, cancel, lock,
//! send and wait. Each step is compared with a record in plain numbers. At the end each value that
//! was sent was received once, every lock is free, no task is left, and every capture and result is
//! dropped.
//!
//! The program and the seed of its run come from bytes, as in the fuzz target `programs`, which
//! runs the same.

mod plan;
mod play;
mod world;

use crate::choices::Choices;
use cygnet::sim::{self, Bug, Explored, Failed, Faults, Options};
use cygnet::sync::{bounded, unbounded};
use cygnet::{JoinError, Runtime};
use plan::{End, Plan};
use play::{Planned, body, millis};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use world::World;

/// Runs the program that the bytes stand for.
///
/// # Panics
/// If the program does not behave as recorded.
pub(crate) fn run(bytes: &[u8]) {
    let plan = || Plan::decode(&mut Choices::new(bytes));
    let first = run_plan(&plan);
    if plan().twice {
        assert_eq!(run_plan(&plan), first, "the same program and seed make another run");
    }
}

fn run_plan(plan: &dyn Fn() -> Plan) -> Explored {
    let Plan { workers, faults, .. } = plan();
    match explore(plan, None) {
        Ok(explored) => {
            // The test, the collector, the workers, and a thread for blocking calls: several, if
            // the clock jumps.
            let least = workers + 2;
            let most = if faults { usize::MAX } else { least + 1 };
            assert!((least..=most).contains(&explored.threads), "{explored:?}");
            explored
        }
        Err(failed) => panic!("{failed}\nof the program {:?}", plan()),
    }
}

/// Returns whether a program finds a bug that is planted in the library.
#[allow(dead_code, reason = "the fuzz target has none")]
pub(crate) fn finds(bug: Bug, bytes: &[u8]) -> bool {
    explore(&|| Plan::decode(&mut Choices::new(bytes)), Some(bug)).is_err()
}

fn explore(plan: &dyn Fn() -> Plan, bug: Option<Bug>) -> Result<Explored, Box<Failed>> {
    let Plan { seed, faults, .. } = plan();
    let rates = Faults::new().steal(0.2).spurious_unpark(0.1).clock(0.0005);
    let options = Options::new().seeds(seed..seed + 1).most_steps(3_000_000);
    let options = if faults { options.faults(rates) } else { options };
    let options = bug.into_iter().fold(options, Options::bug);
    sim::explore(&options, || program(plan()))
}

fn program(plan: Plan) {
    let channel = plan.capacity.map_or_else(unbounded, bounded);
    let world = Arc::new(World::new(plan.workers, channel));
    // A sender gets rid of its value, whatever the tasks do.
    let collector = sim::thread::spawn({
        let world = Arc::clone(&world);
        move || world.receiver.iter().for_each(|value| world.has_received(value))
    });
    let builder = Runtime::builder().workers(plan.workers).stack_size(256 << 10);
    let rt = builder.max_blocking_threads(1).on_panic(|_| ()).build().unwrap();

    let ticket = world.ticket(None);
    let (node, own) = (ticket.node, Arc::clone(&world));
    let root = move || body(&own, &ticket, plan.root);
    let result = match plan.end {
        End::After => {
            let result = rt.try_block_on(root);
            world.nothing_is_below(node);
            world.ends.store(true, Relaxed);
            drop(rt);
            result
        }
        End::Dropped(after) => {
            let root = rt.spawn(root);
            sim::thread::sleep(millis(after));
            world.ends.store(true, Relaxed);
            drop(rt);
            root.join()
        }
        End::ShutDown(after, grace) => {
            let root = rt.spawn(root);
            sim::thread::sleep(millis(after));
            world.ends.store(true, Relaxed);
            let report = rt.shutdown(millis(grace));
            assert!(report.left() == 0 && !report.is_given_up(), "{report}");
            root.join()
        }
    };
    world.nothing_has_failed();
    match result {
        Ok(outcome) => world.must_have_returned(node, outcome.value),
        Err(JoinError::Panicked(payload)) => assert!(payload.is::<Planned>()),
        Err(JoinError::NotStarted(_)) => world.must_have_a_cause(node),
        Err(JoinError::Unwound(_)) => world.must_have_unwound(node),
        Err(other) => panic!("the end of the root: {other}"),
    }
    world.sender.close();
    collector.join().unwrap();
    world.check();
}
