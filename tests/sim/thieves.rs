//! What thieves do with their loot.

use cygnet::sim::{self, Options, check};
use cygnet::sync::Event;
use cygnet::{Runtime, scope, spawn, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering};

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
    let options = Options::new().seeds(0..300).most_steps(150_000);
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
