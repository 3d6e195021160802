//! The orders of events that seeds bring.

use crate::common::prelude::*;
use cygnet::sim::{self, Reason};
use cygnet::sync::Mutex;

/// Two tasks take two locks in different orders: one at its beginning, the other one after it has
/// taken a third lock many times.
fn one_task_must_stand_still_for_long() {
    let (left, right, work) = (Mutex::new(()), Mutex::new(()), Mutex::new(0));
    let works = || (0..20).for_each(|_| *work.lock().unwrap() += 1);
    runtime(2).block_on(|| {
        scope(|s| {
            s.spawn(|| {
                works();
                let _left = left.lock().unwrap();
                let _right = right.lock().unwrap();
            });
            s.spawn(|| {
                {
                    let _right = right.lock().unwrap();
                    let _left = left.lock().unwrap();
                }
                works();
            });
        });
    });
}

/// With any rate of switches alone, one run in a thousand deadlocks.
#[test]
fn seeds_often_let_one_task_stand_still_while_others_go_far() {
    let deadlock = |seed: &u64| match sim::run(*seed, one_task_must_stand_still_for_long) {
        Ok(_) => false,
        Err(failed) => failed.reason == Reason::Deadlock,
    };
    let found = (0..3_000).filter(deadlock).count();
    assert!(found >= 8, "{found} of 3,000");
}
