//! The end of the runtime, with calls that run and calls that wait for a thread.

use crate::common::drops::Guard;
use crate::common::prelude::*;
use crate::{block_until_cancelled, keeping, runtime};

#[test]
fn the_end_of_the_runtime_waits_for_calls_that_run_or_borrow_and_drops_the_others() {
    for workers in [1, 2] {
        within(|| {
            let rt = runtime(workers, 1);
            let handle = rt.handle();
            let (open, gate) = channel::<()>();
            let (begin, begun) = channel();
            let (give, tasks) = channel::<Task<bool>>();
            let (tell, told) = channel();
            rt.spawn(own(&give, |given| {
                let runs = spawn_blocking(move || {
                    begin.send(()).unwrap();
                    gate.recv().unwrap();
                    // The calls that wait may be told before it.
                    eventually("it is told", is_cancelled);
                    is_cancelled()
                });
                given.send(runs).unwrap();
            }))
            .detach();
            begun.recv().unwrap();
            rt.spawn(move || {
                let mut borrowed = 0;
                blocking(|| borrowed = 1);
                tell.send(borrowed).unwrap();
            })
            .detach();
            eventually("one borrows", || handle.metrics().blocking.queued == 1);
            rt.spawn(move || (0..5).for_each(|_| give.send(spawn_blocking(|| true)).unwrap()))
                .detach();
            eventually("the others wait", || handle.metrics().blocking.queued == 6);
            let end = common::thread::spawn(move || drop(rt));
            let mut tasks = tasks.iter();
            let runs = tasks.next().unwrap();
            for _ in 0..5 {
                let Err(JoinError::NotStarted(why)) = tasks.next().unwrap().join() else {
                    panic!("it has run");
                };
                assert_eq!(*why.reason(), Reason::RuntimeShutDown);
            }
            assert!(!runs.is_finished() && !end.is_finished());
            open.send(()).unwrap();
            assert!(runs.join().unwrap(), "it was told");
            assert_eq!(told.recv().unwrap(), 1);
            end.join().unwrap();
            let pool = handle.metrics().blocking;
            assert_eq!((pool.queued, pool.threads, pool.idle, pool.done), (0, 0, 0, 2));
        });
    }
}

#[test]
fn calls_may_be_made_while_the_runtime_ends_and_tasks_from_outside_may_not() {
    within(|| {
        let rt = runtime(1, 1);
        let (begin, begun) = channel();
        let (tell, told) = channel();
        let handle = rt.handle();
        let task = rt.spawn(move || {
            blocking(|| {
                begin.send(()).unwrap();
                block_until_cancelled();
                assert!(handle.spawn(|| ()).is_err());
                panic_of(|| handle.block_on(|| ()));
            });
            let sum: u32 = (0..10).map(|n| blocking(|| n)).sum();
            let never: Result<(), _> = spawn_blocking(|| unreachable!("it is cancelled")).join();
            tell.send((sum, never.is_err())).unwrap();
        });
        task.detach();
        begun.recv().unwrap();
        drop(rt);
        assert_eq!(told.recv().unwrap(), (45, true));
    });
}

/// Also of threads that have left before, or are about to.
#[test]
fn the_drop_of_a_runtime_returns_after_the_end_of_each_thread() {
    crate::common::real!("thread-locals of OS threads");
    thread_local! {
        /// Dropped at the end of the thread.
        static GUARD: RefCell<Option<Guard>> = const { RefCell::new(None) };
    }
    rounds(300, |round| {
        let keep_alive = Duration::from_micros(round as u64 % 3 * 50);
        let rt = keeping(Runtime::builder().workers(2), keep_alive);
        let drops = Drops::new();
        rt.block_on(|| {
            join_all([(); 3].map(|()| {
                let guard = drops.guard();
                spawn_blocking(move || GUARD.replace(Some(guard)).is_none())
            }));
        });
        drop(rt);
        assert_eq!(drops.left(), 0);
    });
}

#[test]
fn a_runtime_that_is_dropped_at_any_moment_drops_or_runs_each_closure_once() {
    within(|| {
        let mut random = Random(3);
        for round in 0..scaled_in_debug(300) {
            let rt = runtime(1 + round % 3, 1 + round % 2);
            let drops = Drops::new();
            let guards: Vec<_> = (0..10).map(|_| drops.guard()).collect();
            let call = |guard| spawn_blocking(move || drop(guard)).detach();
            rt.spawn(move || guards.into_iter().for_each(call)).detach();
            (0..random.below(50)).for_each(|_| common::thread::yield_now());
            drop(rt);
            assert_eq!(drops.left(), 0);
        }
    });
}

#[test]
fn a_runtime_dropped_by_a_thread_local_of_its_own_thread_ends() {
    crate::common::real!("thread-locals of OS threads");
    thread_local! {
        static KEPT: RefCell<Option<Runtime>> = const { RefCell::new(None) };
    }
    within(|| {
        let rt = keeping(Runtime::builder().workers(1), Duration::from_millis(1));
        let handle = rt.handle();
        let task = handle.spawn(move || {
            blocking(move || KEPT.with_borrow_mut(|kept| *kept = Some(rt)));
        });
        task.unwrap().join().unwrap();
        eventually("it has ended", || handle.spawn(|| ()).is_err());
        eventually("its threads have left", || handle.metrics().blocking.threads == 0);
    });
}
