//! Which orders of events the seeds bring.

use crate::runtime;
use cygnet::scope;
use cygnet::sim::{self, Reason};
use cygnet::sync::Mutex;

/// Two locks that are taken in both orders: by the one at its beginning, by the other one after it has taken a third lock many times.
fn one_has_to_stand_still_for_long() {
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

/// By a rate of switches alone, however large, it is one run of a thousand.
#[test]
fn that_one_stands_still_while_others_come_far_is_no_rarity() {
    let deadlock = |seed: &u64| match sim::run(*seed, one_has_to_stand_still_for_long) {
        Ok(_) => false,
        Err(failed) => *failed.reason() == Reason::Deadlock,
    };
    let found = (0..3_000).filter(deadlock).count();
    assert!(found >= 8, "{found} of 3,000");
}
