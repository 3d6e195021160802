//! Random trees of tasks that wait, wake, join, are dropped and cut short by the runtime's end. All
//! tasks end, and everything that was captured, bound or returned is dropped.

mod common;

use crate::common::Mutex;
use common::drops::Guard;
use common::{Drops, Random, runtime, scaled_in_debug, within};
use cygnet::{
    Task, TaskLocal, Unparker, park, scope, spawn, spawn_local, spawn_migratable, unparker,
    yield_now, yield_to,
};
use std::sync::Arc;

static BOUND: TaskLocal<Bound> = TaskLocal::new();

struct Bound {
    _guard: Guard,
}

/// What all tasks of a round share.
#[derive(Clone, Default)]
struct Round {
    /// Tasks that wait, or have waited, for any other task to wake them.
    parked: Arc<Mutex<Vec<Unparker>>>,
    drops: Drops,
}

impl Round {
    fn wake_one(&self) -> bool {
        let woken = self.parked.lock().unwrap().pop();
        woken.inspect(Unparker::unpark).is_some()
    }
}

/// Does a few random things, with children and their children, and returns a guard that counts its
/// drop.
fn work(round: &Round, seed: u64, depth: u32) -> Guard {
    let mut random = Random(seed | 1);
    let mut children: Vec<Task<Guard>> = Vec::new();
    for _ in 0..random.below(6) {
        let child = {
            let (round, seed, captured) = (round.clone(), random.seed(), round.drops.guard());
            move || {
                let _captured = captured;
                work(&round, seed, depth.saturating_sub(1))
            }
        };
        let choice = random.below(14);
        match if depth == 0 { 7 + choice % 3 } else { choice } {
            0..3 => children.push(spawn(child)),
            3 => drop(spawn(child)),
            4 => spawn(child).detach(),
            // SAFETY: what it holds over its suspensions is Send: handles, counters and numbers.
            5 => children.push(unsafe { spawn_migratable(child) }),
            6 => match random.below(2) {
                0 => drop(spawn_local(child).join()),
                _ => spawn_local(child).detach(),
            },
            7 => drop(yield_now()),
            8 => {
                round.parked.lock().unwrap().push(unparker());
                let _ = park();
            }
            9 => drop(round.wake_one()),
            10 => scope(|s| {
                let (left, right) = (random.seed(), random.seed());
                s.spawn(move || work(round, left, depth - 1));
                let right = s.spawn(move || work(round, right, depth - 1));
                if random.below(2) == 0 {
                    let _ = right.join();
                }
            }),
            11 => drop(children.last().map(yield_to)),
            12 => {
                let bound = Bound { _guard: round.drops.guard() };
                drop(BOUND.scope(bound, || spawn(child).join()));
            }
            _ => drop(children.pop().map(Task::join)),
        }
    }
    for child in children {
        if random.below(4) != 0 {
            let _ = child.join();
        }
    }
    round.drops.guard()
}

#[test]
fn random_trees_of_tasks_that_are_cut_short_anywhere_end_and_drop_everything() {
    for workers in [1, 2, 3, 8] {
        within(|| {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            for number in 0..scaled_in_debug(300) {
                let round = Round::default();
                let rt = runtime(workers);
                for _ in 0..10 {
                    let (own, seed) = (round.clone(), random.seed());
                    rt.spawn(move || drop(work(&own, seed, 5))).detach();
                }
                // The runtime ends at once, or after some have been woken from outside.
                for _ in 0..random.below(4) * 50 {
                    if !round.wake_one() {
                        common::thread::yield_now();
                    }
                }
                drop(rt);
                round.parked.lock().unwrap().clear();
                assert_eq!(round.drops.left(), 0, "round {number} with {workers} workers");
            }
        });
    }
}
