//! The effect of a cancel on a call: on a call that waits for a thread, on one that runs, and in
//! between.

use crate::common::prelude::*;
use crate::{block_until_cancelled, leaving, runtime, with_plug};

fn queued() -> usize {
    Handle::current().metrics().blocking.queued
}

#[test]
fn a_cancelled_call_in_the_queue_ends_at_once_and_its_worker_drops_its_closure() {
    with_plug(&[1, 2], |rt, plug| {
        rt.block_on(|| {
            let (tell, told) = channel();
            let here = || thread::current().name().unwrap().to_owned();
            let place = OnDrop(move || tell.send(here()).unwrap());
            let task = spawn_blocking(move || drop(place));
            give_way_until(|| queued() == 1);
            task.cancel("enough");
            let Err(JoinError::NotStarted(why)) = task.join() else { panic!("it has run") };
            assert_eq!(*why.reason(), Reason::Explicit("enough".into()));
            let place = told.recv().unwrap();
            assert!(place.starts_with("cygnet-") && place != "cygnet-blocking", "{place}");
            assert_eq!(queued(), 0);
        });
        assert_eq!(rt.metrics().blocking.done, 0);
        plug.pull();
        assert_eq!(rt.metrics().blocking.done, 1);
    });
}

#[test]
fn a_cancel_of_an_ancestor_takes_all_calls_out_of_the_queue_wherever_they_are_in_it() {
    with_plug(&[2], |rt, plug| {
        let drops = Drops::new();
        rt.block_on(|| {
            let kept = spawn_blocking(|| 7);
            give_way_until(|| queued() == 1);
            let guards: Vec<_> = (0..100).map(|_| drops.guard()).collect();
            let call = |guard| spawn_blocking(move || drop(guard)).detach();
            let parent = spawn(move || guards.into_iter().for_each(call));
            give_way_until(|| queued() == 101);
            drop(parent);
            give_way_until(|| drops.left() == 0);
            assert_eq!(queued(), 1);
            plug.pull();
            assert_eq!(kept.join().unwrap(), 7);
        });
        assert_eq!(rt.metrics().blocking.done, 2);
    });
}

#[test]
fn a_call_that_runs_is_told_and_waited_for_and_gives_its_value() {
    in_task(|_| {
        let (begin, begun) = channel();
        let task = spawn_blocking(move || {
            assert!(!is_cancelled());
            begin.send(()).unwrap();
            block_until_cancelled();
            7
        });
        blocking(move || begun.recv().unwrap());
        task.cancel("enough");
        assert_eq!(task.join().unwrap(), 7);
        assert!(!blocking(is_cancelled));
    });
}

#[test]
fn a_call_is_told_of_the_cancels_of_its_task() {
    with_each(|rt| {
        rt.block_on(|| {
            let until_told = || blocking(block_until_cancelled);
            assert!(timeout(Duration::from_millis(1), until_told).is_err());
            scope(|s| {
                s.cancel_handle().cancel("the scope");
                until_told();
            });
            let me = cancel_handle();
            let told = ignore_cancellation(|| {
                me.cancel("myself");
                blocking(is_cancelled)
            });
            assert_eq!(told, Ok(false));
            until_told();
        });
        assert!(!is_cancelled());
    });
}

#[test]
fn a_call_that_borrows_runs_although_its_task_is_cancelled_in_the_queue() {
    with_plug(&[2], |rt, plug| {
        let (tell, told) = channel();
        let task = rt.spawn(move || {
            let mut told = None;
            blocking(|| told = Some(is_cancelled()));
            tell.send(told).unwrap();
        });
        eventually("it is queued", || rt.metrics().blocking.queued == 1);
        drop(task);
        plug.pull();
        assert_eq!(told.recv().unwrap(), Some(true));
    });
}

#[test]
fn a_closure_that_is_dropped_uncalled_may_panic_and_one_that_runs_may_unwind_its_task() {
    with_plug(&[1], |rt, plug| {
        rt.block_on(|| {
            let bomb = Bomb("dropped");
            let task = spawn_blocking(move || std::mem::forget(bomb));
            give_way_until(|| queued() == 1);
            task.cancel("enough");
            assert_eq!(text(&*task.join().unwrap_err().into_panic().unwrap()), "dropped");
            plug.pull();
            let task = spawn_blocking(|| {
                let cancelled = Runtime::builder().workers(1).build().unwrap().block_on(|| {
                    cancel_handle().cancel("unwinds");
                    checkpoint().unwrap_err()
                });
                cancelled.unwind()
            });
            let task: Result<(), _> = task.join();
            assert!(matches!(task, Err(JoinError::Unwound(_))), "{task:?}");
        });
    });
}

/// A thread begins with a call at the moment of its cancel.
#[test]
fn a_call_is_either_run_or_taken_back() {
    for (workers, threads) in [(1, 1), (2, 1), (2, 2), (3, 8)] {
        within(|| {
            let rt = runtime(workers, threads);
            let (drops, ran) = (Drops::new(), Count::new());
            let mut random = Random(7);
            let mut values = 0;
            rt.block_on(|| {
                for _ in 0..scaled_in_debug(1_500) {
                    let tasks = [(); 3].map(|()| spawn_blocking(drops.around(move || ran.up())));
                    (0..random.below(4)).for_each(|_| yield_now().unwrap());
                    tasks.iter().for_each(|task| task.cancel("races"));
                    for task in tasks {
                        match task.join() {
                            Ok(()) => values += 1,
                            Err(JoinError::NotStarted(_)) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                    assert_eq!(drops.left(), 0);
                }
            });
            assert_eq!(values, ran.get());
            assert_eq!(rt.metrics().blocking.done, values as u64);
        });
    }
}

/// All at once, with threads that leave at once.
#[test]
fn calls_cancels_and_leaving_threads_in_any_mix_lose_nothing() {
    for (workers, threads) in [(1, 1), (2, 3), (8, 2)] {
        within(|| {
            let rt = leaving(workers, threads, 5);
            let drops = &Drops::new();
            let (borrowed, made) = (Count::new(), Count::new());
            let calls = |seed| {
                let mut random = Random(seed);
                for _ in 0..scaled_in_debug(500) {
                    let task = spawn_blocking(drops.around(|| ()));
                    match random.below(4) {
                        0 => task.cancel("random"),
                        1 => drop(task),
                        2 => drop(task.join()),
                        _ => task.detach(),
                    }
                    if random.below(2) == 0 {
                        made.up();
                        blocking(|| borrowed.up());
                    }
                }
            };
            rt.block_on(|| scope(|s| (1..5).for_each(|seed| drop(s.spawn(move || calls(seed))))));
            assert_eq!(drops.left(), 0);
            assert_eq!(borrowed.get(), made.get());
        });
    }
}
