//! Handles that are dropped: a task that has not started never does, and the waits of a task that
//! has started tell it.

use crate::common::prelude::*;

#[test]
fn dropping_a_task_before_its_start_prevents_the_start_and_drops_its_captures() {
    // With one worker the child cannot start while its parent runs.
    with(&[1], |rt| {
        let (drops, starts) = (Drops::new(), Count::new());
        rt.block_on(|| {
            (0..100).for_each(|_| drop(spawn(drops.around(move || starts.up()))));
            yield_now().unwrap();
        });
        assert_eq!((starts.get(), drops.count()), (0, 100));
    });
}

#[test]
fn dropping_a_task_that_was_spawned_from_outside_prevents_its_start() {
    with(&[1], |rt| {
        let (drops, starts) = (Drops::new(), Count::new());
        let (open, gate) = channel::<()>();
        let (running, runs) = channel();
        let busy = rt.spawn(move || {
            running.send(()).unwrap();
            gate.recv().unwrap();
        });
        runs.recv().unwrap();
        (0..100).for_each(|_| drop(rt.spawn(drops.around(move || starts.up()))));
        open.send(()).unwrap();
        busy.join().unwrap();
        rt.block_on(|| ());
        eventually("the captures have been dropped", || drops.count() == 100);
        assert_eq!(starts.get(), 0);
    });
}

/// Spawns a child that calls `wait` as soon as its handle has been dropped. Returns the result of
/// `wait`.
fn after_the_drop<R: Send + 'static>(wait: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = channel();
    let (dropped, started) = (Flag::new(), Flag::new());
    let child = spawn(move || {
        started.set();
        while !dropped.get() {
            // The yield of a cancelled task is an error.
            let _ = yield_now();
        }
        tell.send(wait()).unwrap();
    });
    started.wait();
    drop(child);
    dropped.set();
    received(&told)
}

/// C18, C20.
#[test]
fn dropping_a_task_after_its_start_is_seen_by_every_wait_of_it() {
    in_task(|_| {
        assert!(after_the_drop(yield_now).is_err());
        assert!(after_the_drop(park).is_err());
        assert!(after_the_drop(cygnet::checkpoint).is_err());
        assert!(after_the_drop(cygnet::is_cancelled));
        let join = || spawn(|| yield_now().is_ok()).join();
        assert!(after_the_drop(join).is_err_and(|error| error.is_cancelled()));
        // The cancel beats a token that is ready.
        let park_with_token = || {
            unparker().unpark();
            (park().is_err(), park().is_err())
        };
        assert_eq!(after_the_drop(park_with_token), (true, true));
    });
}
