//! How a join ends that does not end with a value: for the caller itself, for one that is cancelled.

use crate::common::Mutex;
use crate::common::{self, give_way_until, with_each};
use cygnet::{JoinError, Runtime, park, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_task_that_joins_itself_is_told_so() {
    with_each(|rt| {
        rt.block_on(|| {
            let place = Arc::new(Mutex::new(None::<cygnet::Task<Result<(), JoinError>>>));
            let (started, mine) = (Arc::new(AtomicBool::new(false)), place.clone());
            let seen = started.clone();
            let task = spawn(move || {
                seen.store(true, Ordering::Release);
                give_way_until(|| mine.lock().unwrap().is_some());
                let own = mine.lock().unwrap().take().unwrap();
                own.join().map(|_| ()).map_err(|error| {
                    assert!(matches!(error, JoinError::OwnEnd), "{error}");
                    seen.store(false, Ordering::Release);
                    error
                })
            });
            give_way_until(|| started.load(Ordering::Acquire));
            *place.lock().unwrap() = Some(task);
            give_way_until(|| !started.load(Ordering::Acquire));
        });
    });
}

/// A task that joins a child which is parked for ever is dropped; how its join ends.
fn join_of_a_dropped_task(rt: &Runtime) -> JoinError {
    let outcome = Arc::new(Mutex::new(None));
    let joining_now = Arc::new(AtomicBool::new(false));
    let before = common::parks(rt);
    let joining = spawn({
        let (outcome, joining_now, handle) = (outcome.clone(), joining_now.clone(), rt.handle());
        move || {
            let parks = move || handle.metrics().workers.iter().map(|w| w.parks).sum::<u64>();
            let joined = spawn(|| park().is_err());
            // Started, so that it is not called in place.
            give_way_until(|| parks() > before);
            joining_now.store(true, Ordering::Release);
            let error = joined.join().unwrap_err();
            *outcome.lock().unwrap() = Some(error);
        }
    });
    give_way_until(|| joining_now.load(Ordering::Acquire) && common::parks(rt) >= before + 2);
    drop(joining);
    give_way_until(|| outcome.lock().unwrap().is_some());
    outcome.lock().unwrap().take().unwrap()
}

#[test]
fn a_join_is_cut_short_when_the_joining_task_is_cancelled_and_cancels_the_joined() {
    with_each(|rt| {
        assert!(rt.block_on(|| join_of_a_dropped_task(rt)).is_cancelled());
    });
}
