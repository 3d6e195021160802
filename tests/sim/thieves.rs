//! What thieves do with their loot.

use cygnet::sim::{Options, check};
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
