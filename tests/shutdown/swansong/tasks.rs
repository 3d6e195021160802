//! Inside of tasks: a wait parks the task, and not the worker.

use super::{completion_of, is_stopped};
use crate::common::prelude::*;
use cygnet::shutdown::ShutdownState::{Complete, Running};
use cygnet::shutdown::Swansong;

/// A wait of a task.
type Wait = fn(&Swansong);

/// The workers run as many turns as it takes for all tasks to wait.
fn take_turns() {
    (0..10).for_each(|_| yield_now().unwrap());
}

/// S54.
#[test]
fn a_task_that_waits_for_the_completion_lets_others_run() {
    let waits: [Wait; 4] = [
        |swansong| wait(completion_of(swansong)).unwrap(),
        |swansong| completion_of(swansong).block(),
        |swansong| wait(swansong.clone()).unwrap(),
        |swansong| swansong.clone().block_on_shutdown_completion(),
    ];
    in_task(|_| {
        for waits in waits {
            let (root, ended) = (Swansong::new(), Count::new());
            let guard = root.child().guard();
            scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        waits(&root);
                        ended.up();
                    });
                }
                take_turns();
                root.shut_down();
                take_turns();
                assert_eq!(ended.get(), 0);
                drop(guard);
            });
            assert_eq!(ended.get(), 3);
        }
    });
}

#[test]
fn a_task_that_waits_for_the_stop_lets_others_run() {
    let waits: [Wait; 2] =
        [|it| wait(it.shutting_down()).unwrap(), |it| it.shutting_down().block()];
    in_task(|_| {
        for waits in waits {
            let root = Swansong::new();
            let guard = root.guard();
            scope(|s| {
                s.spawn(|| waits(&root));
                take_turns();
                root.shut_down();
            });
            drop(guard);
        }
    });
}

#[test]
fn interrupted_tasks_end_and_guarded_tasks_are_waited_for() {
    in_task(|_| {
        let (root, worked) = (Swansong::new(), Count::new());
        scope(|s| {
            for n in 0..20 {
                let child = root.child();
                // The guard is taken before the task has started, and goes with it.
                let guard = child.guard();
                s.spawn(move || {
                    let _guard = guard;
                    if n % 2 == 0 {
                        assert_eq!(wait(child.interrupt(pending::<()>())), Ok(None));
                    } else {
                        for () in child.interrupt(std::iter::repeat(())) {
                            yield_now().unwrap();
                        }
                    }
                    worked.up();
                });
            }
            yield_now().unwrap();
            assert_eq!((root.state(), root.guard_count()), (Running, 20));
            wait(root.shut_down()).unwrap();
            assert_eq!(worked.get(), 20);
        });
        assert_eq!((root.state(), root.guard_count()), (Complete, 0));
    });
}

/// S55.
#[test]
fn a_cancelled_wait_for_the_completion_changes_nothing() {
    with_each(|rt| {
        let root = Swansong::new();
        let guard = root.guard();
        let task = parked(rt, 1, own(&root, |handle| wait(completion_of(&handle)).is_err()));
        task.cancel("enough");
        assert!(task.join().unwrap());
        assert_eq!((root.state(), root.guard_count()), (Running, 1));
        root.shut_down();
        drop(guard);
        assert_eq!(root.state(), Complete);
    });
}

/// S83.
#[test]
fn guards_of_tasks_that_are_cancelled_or_panic_are_dropped() {
    with_each(|rt| {
        let root = Swansong::new();
        let (first, second) = (root.guard(), root.child().guard());
        let never = rt.spawn(move || {
            let _first = first;
            let _ = cygnet::park();
        });
        let panics = rt.spawn(move || {
            let _second = second;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panics.join().is_err());
        assert_eq!(root.guard_count(), 1);
        let completion = root.shut_down();
        never.cancel("it is over");
        completion.block();
        drop(never);
    });
}

/// Makes guards below `at` until it is stopped, and a minimum number in any case.
fn work(at: &Swansong, give_way: fn()) {
    let (mut taken, count) = (0, scaled_in_debug(500));
    while taken < count || !is_stopped(at) {
        let guard = at.child().guard();
        let clone = guard.clone();
        drop(guard);
        taken += 1;
        if taken % 50 == 0 {
            give_way();
        }
        drop(clone);
    }
}

/// S57.
#[test]
fn tasks_of_two_runtimes_and_threads_share_a_tree() {
    with_each(|rt| {
        let (root, other) = (Swansong::new(), runtime(2));
        let in_tasks = |rt: &cygnet::Runtime| {
            scope_on(rt, |tasks| {
                for _ in 0..3 {
                    tasks.spawn(|| work(&root, || yield_now().unwrap()));
                }
            });
        };
        thread::scope(|s| {
            s.spawn(|| in_tasks(rt));
            s.spawn(|| in_tasks(&other));
            s.spawn(|| work(&root.child(), thread::yield_now));
            s.spawn(|| root.shut_down().block());
        });
        assert_eq!((root.state(), root.guard_count()), (Complete, 0));
    });
}

/// A guard may be dropped on another worker than it was made on.
#[test]
fn guards_go_from_worker_to_worker() {
    in_task(|_| {
        let root = Swansong::new();
        let guards = join_all((0..scaled_in_debug(1000)).map(|_| {
            let guard = root.guard();
            spawn(move || guard.clone())
        }));
        assert_eq!(root.guard_count(), guards.len());
        root.shut_down();
        assert!(!root.state().is_complete());
        drop(guards);
        assert_eq!((root.guard_count(), root.state()), (0, Complete));
    });
}
