//! Groups of tasks that come one by one and from everywhere.

use crate::common::rerun::alone_and_leaking;
use crate::common::{
    self, Drops, eventually, panic_of, runtime, scaled_in_debug, with_each, with_each_and_many,
    within,
};
use cygnet::sync::Event;
use cygnet::{
    JoinError, Reason, TaskError, TaskGroup, ignore_cancellation, park, scope, sleep, spawn,
    timeout, yield_now,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn a_join_waits_for_all_members_wherever_they_come_from() {
    with_each_and_many(|rt| {
        let (n, count) = (scaled_in_debug(1_000), Arc::new(AtomicUsize::new(0)));
        let spawn_in = |group: &TaskGroup| {
            for _ in 0..n {
                let count = count.clone();
                group.spawn(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        };
        rt.block_on(|| {
            let group = TaskGroup::new();
            common::thread::scope(|threads| {
                threads.spawn(|| spawn_in(&group));
                threads.spawn(|| spawn_in(&group));
                spawn_in(&group);
            });
            scope(|s| {
                s.spawn(|| spawn_in(&group));
                s.spawn(|| spawn_in(&group));
            });
            group.join().unwrap();
            assert_eq!(count.load(Ordering::Relaxed), 5 * n);
        });
    });
}

#[test]
fn a_group_without_members_ends_at_once() {
    with_each(|rt| {
        rt.block_on(|| {
            TaskGroup::new().join().unwrap();
            TaskGroup::new().cancel_and_join("nobody is there").unwrap();
            drop(TaskGroup::new());
            TaskGroup::<u8>::fallible().fail_fast().join().unwrap();
        });
    });
}

#[test]
fn the_first_failure_is_kept_and_cancels_the_others_if_it_is_to() {
    with_each(|rt| {
        rt.block_on(|| {
            let told = Arc::new(AtomicUsize::new(0));
            let group = TaskGroup::fallible().fail_fast();
            let before = told.clone();
            for _ in 0..3 {
                let told = told.clone();
                group.spawn(move || {
                    let why = park().unwrap_err();
                    assert_eq!(*why.reason(), Reason::SiblingFailed);
                    told.fetch_add(1, Ordering::Relaxed);
                });
            }
            group.spawn(|| {
                yield_now().unwrap();
                Err("the first")
            });
            assert_eq!(group.join().unwrap_err().into_failed().unwrap(), "the first");
            assert!(before.load(Ordering::Relaxed) <= 3);

            let group = TaskGroup::fallible();
            let ended = told.clone();
            group.spawn(|| Err(7));
            group.spawn(move || {
                (0..10).for_each(|_| yield_now().unwrap());
                ended.store(100, Ordering::Relaxed);
                Ok(())
            });
            assert_eq!(group.join().unwrap_err().into_failed().unwrap(), 7);
            assert_eq!(told.load(Ordering::Relaxed), 100, "the other one has run on");
            assert!(cygnet::checkpoint().is_ok(), "the caller is not cancelled");
        });
    });
}

#[test]
fn a_panic_is_a_failure() {
    with_each(|rt| {
        rt.block_on(|| {
            let group = TaskGroup::new().fail_fast();
            group.spawn(|| std::panic::resume_unwind(Box::new("boom")));
            group.spawn(|| assert!(park().is_err()));
            match group.join().unwrap_err() {
                TaskError::Join(JoinError::Panicked(payload)) => {
                    assert_eq!(payload.downcast_ref(), Some(&"boom"));
                }
                other => panic!("{other:?}"),
            }
        });
    });
}

#[test]
fn a_linked_one_is_cancelled_and_waited_for_with_its_scope() {
    with_each(|rt| {
        let drops = Drops::new();
        let before = common::parks(rt);
        let task = rt.spawn({
            let drops = drops.clone();
            move || {
                scope(|_| {
                    let group = TaskGroup::new();
                    let over = Arc::new(Event::new());
                    for n in 0..5 {
                        let (value, over) = (drops.guard(), Arc::clone(&over));
                        group.spawn(move || {
                            let _local = value;
                            // One of them ends after the join: else the group may have ended in time for that.
                            if n == 4 {
                                ignore_cancellation(|| over.wait()).unwrap().unwrap();
                            } else {
                                assert!(park().is_err());
                            }
                        });
                    }
                    let joined = group.join();
                    // The join was cut short; the scope waits nevertheless.
                    assert!(matches!(joined, Err(TaskError::Join(JoinError::Cancelled(_)))));
                    over.set();
                });
                drops.left()
            }
        });
        eventually("they wait", || common::parks(rt) >= before + 6);
        task.cancel("enough");
        assert_eq!(task.join().unwrap(), 0);
    });
}

#[test]
fn dropping_it_cancels_the_members() {
    with_each(|rt| {
        rt.block_on(|| {
            let drops = Drops::new();
            scope(|_| {
                let group = TaskGroup::new();
                for n in 0..5 {
                    let value = drops.guard();
                    group.spawn(move || {
                        let _local = value;
                        assert!(park().is_err());
                    });
                    if n == 2 {
                        yield_now().unwrap();
                    }
                }
                drop(group);
            });
            assert_eq!(drops.left(), 0);
        });
    });
}

#[test]
fn a_cancelled_one_starts_nobody_and_says_so() {
    with_each(|rt| {
        rt.block_on(|| {
            let group = TaskGroup::new();
            assert!(!group.is_cancelled());
            group.cancel_handle().cancel("closed");
            assert!(group.is_cancelled());
            let drops = Drops::new();
            let value = drops.guard();
            group.spawn(move || {
                let _value = value;
                unreachable!("it never starts")
            });
            match group.join() {
                Err(TaskError::Join(JoinError::NotStarted(why))) => {
                    assert_eq!(*why.reason(), Reason::from("closed"));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(drops.left(), 0);
        });
    });
}

#[test]
fn cancel_and_join_has_waited_also_if_the_caller_is_cancelled() {
    with_each(|rt| {
        let before = common::parks(rt);
        let task = rt.spawn(|| {
            let drops = Drops::new();
            let group = TaskGroup::fallible();
            for n in 0..4 {
                let value = drops.guard();
                group.spawn(move || {
                    let _local = value;
                    let _ = park();
                    if n == 3 { Err("a failure counts more than a cancel") } else { Ok(()) }
                });
            }
            assert!(park().is_err());
            let result = group.cancel_and_join("the end");
            assert_eq!(drops.left(), 0);
            result
        });
        eventually("they wait", || common::parks(rt) >= before + 5);
        task.cancel("enough");
        let failed = task.join().unwrap().unwrap_err().into_failed().unwrap();
        assert_eq!(failed, "a failure counts more than a cancel");
    });
}

#[test]
fn a_detached_one_outlives_its_maker_and_ends_with_its_runtime() {
    for workers in common::WORKERS {
        within(|| {
            let rt = runtime(workers);
            let handle = rt.handle();
            let before = common::parks(&rt);
            let group = rt.block_on(|| {
                let group = TaskGroup::detached(&handle).unwrap();
                group.spawn(|| assert!(park().is_err()));
                group
            });
            group.spawn(|| assert!(park().is_err()));
            eventually("they wait", || common::parks(&rt) >= before + 2);
            let dropper = common::thread::spawn(move || drop(rt));
            // From a plain thread.
            eventually("it is told", || group.is_cancelled());
            let joined = group.join();
            assert!(joined.is_ok(), "{joined:?}");
            dropper.join().unwrap();
            assert!(TaskGroup::detached(&handle).is_err());
        });
    }
}

/// Why a member of the group did not start.
fn not_started<E: Send + std::fmt::Debug + 'static>(group: TaskGroup<E>) -> Reason {
    match group.join().unwrap_err() {
        TaskError::Join(JoinError::NotStarted(why)) => why.reason().clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_detached_one_does_not_hold_up_the_end_of_its_runtime() {
    for workers in common::WORKERS {
        within(|| {
            let (rt, drops) = (runtime(workers), Drops::new());
            let handle = rt.handle();
            let before = common::parks(&rt);
            let group = TaskGroup::detached(&handle).unwrap();
            let child: TaskGroup = group.child();
            for group in [&group, &child] {
                let value = drops.guard();
                group.spawn(move || {
                    let _local = value;
                    assert_eq!(*park().unwrap_err().reason(), Reason::RuntimeShutDown);
                });
            }
            let empty: TaskGroup<u8> = group.child();
            eventually("they wait", || common::parks(&rt) >= before + 2);
            // On the thread that has the groups.
            drop(rt);
            assert_eq!(drops.left(), 0, "its members have ended");
            assert!(group.is_cancelled() && child.is_cancelled() && empty.is_cancelled());
            assert!(group.cancel_handle().is_cancelled());
            group.cancel("again");
            child.join().unwrap();
            empty.join().unwrap();

            // What comes too late is dropped, and said.
            let value = drops.guard();
            group.spawn(move || drop(value));
            assert_eq!(drops.left(), 0);
            let late: TaskGroup<u8> = group.child();
            assert!(late.is_cancelled() && late.cancel_handle().is_cancelled());
            late.cancel("again");
            drop(late.child::<u8>());
            late.spawn(|| Err(7));
            assert_eq!(not_started(late), Reason::RuntimeShutDown);
            assert_eq!(not_started(group), Reason::RuntimeShutDown);
            assert!(TaskGroup::detached(&handle).is_err());
        });
    }
}

#[test]
fn a_forgotten_detached_one_does_not_hold_up_the_end_of_its_runtime() {
    common::real!("a process of its own");
    let name = "group::a_forgotten_detached_one_does_not_hold_up_the_end_of_its_runtime";
    alone_and_leaking(name, || {
        for workers in common::WORKERS {
            within(|| {
                let (rt, drops) = (runtime(workers), Drops::new());
                let group = TaskGroup::detached(&rt.handle()).unwrap();
                let value = drops.guard();
                group.spawn(move || {
                    let _local = value;
                    park().unwrap_err();
                });
                std::mem::forget(group);
                drop(rt);
                assert_eq!(drops.left(), 0, "its member has ended");
            });
        }
    });
}

/// The panic of a destructor does not hide that the member did not start.
#[test]
fn a_member_that_comes_too_late_and_whose_captures_panic_is_a_failure() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    with_each(|rt| {
        let group = TaskGroup::detached(&rt.handle()).unwrap();
        group.cancel("enough");
        let bomb = Bomb;
        let spawned = std::panic::catch_unwind(|| group.spawn(move || drop(bomb)));
        assert!(spawned.is_err(), "it was dropped here");
        assert_eq!(not_started(group), Reason::from("enough"));
    });
}

#[test]
fn a_detached_one_that_was_cancelled_takes_no_more_members_and_ends() {
    with_each(|rt| {
        let group = TaskGroup::fallible_detached(&rt.handle()).unwrap().fail_fast();
        let child: TaskGroup = group.child();
        child.spawn(|| assert_eq!(*park().unwrap_err().reason(), Reason::SiblingFailed));
        group.spawn(|| Err("the first"));
        eventually("it has come down", || child.is_cancelled());
        group.spawn(|| Err("too late"));
        child.spawn(|| panic!("it does not start"));
        assert_eq!(not_started(child), Reason::SiblingFailed);
        assert_eq!(group.join().unwrap_err().into_failed().unwrap(), "the first");
    });
}

#[test]
fn spawns_into_detached_ones_race_cancels_and_the_end_of_the_runtime() {
    for workers in common::WORKERS.into_iter().chain([common::MANY]) {
        within(|| {
            let drops = Drops::new();
            let rounds = scaled_in_debug(if workers == common::MANY { 50 } else { 300 });
            for round in 0..rounds {
                let rt = runtime(workers);
                let group = TaskGroup::detached(&rt.handle()).unwrap();
                let handle = group.cancel_handle();
                let spawned = |group: &TaskGroup| {
                    for n in 0..20 {
                        let value = drops.guard();
                        let member = move || {
                            let _local = value;
                            drop(yield_now());
                        };
                        if n % 3 == 0 {
                            let child: TaskGroup = group.child();
                            child.spawn(member);
                            drop(child.join());
                        } else {
                            group.spawn(member);
                        }
                    }
                };
                common::thread::scope(|threads| {
                    let group = &group;
                    threads.spawn(move || spawned(group));
                    threads.spawn(move || spawned(group));
                    if round % 3 == 0 {
                        threads.spawn(move || handle.cancel("enough"));
                    }
                    if round % 2 == 0 {
                        drop(rt);
                    }
                });
                match round % 4 {
                    0 => drop(group),
                    1 => drop(group.cancel_and_join("the end")),
                    _ => drop(group.join()),
                }
                eventually("all have ended", || drops.left() == 0);
            }
        });
    }
}

#[test]
fn members_spawn_members_and_a_time_limit_holds_for_them() {
    with_each(|rt| {
        rt.block_on(|| {
            let group = Arc::new(TaskGroup::new());
            let count = Arc::new(AtomicUsize::new(0));
            let (again, counted) = (Arc::downgrade(&group), count.clone());
            group.spawn(move || {
                for _ in 0..10 {
                    let counted = counted.clone();
                    again.upgrade().unwrap().spawn(move || {
                        counted.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            while count.load(Ordering::Relaxed) < 10 {
                yield_now().unwrap();
            }
            let group = Arc::into_inner(group);
            // A member may hold it for a moment longer.
            if let Some(group) = group {
                group.join().unwrap();
            }
            let late = timeout(Duration::from_millis(2), || {
                let group = TaskGroup::new();
                group.spawn(|| assert_eq!(*park().unwrap_err().reason(), Reason::Deadline));
                let _ = sleep(Duration::from_secs(1000));
            });
            assert!(late.is_err());
        });
    });
}

#[test]
fn task_locals_are_handed_down_and_names_are_kept() {
    static USER: cygnet::TaskLocal<u32> = cygnet::TaskLocal::new();
    with_each(|rt| {
        rt.block_on(|| {
            let group = TaskGroup::new();
            USER.scope(7, || {
                group.spawn_with(cygnet::task().name("reader"), || {
                    USER.with(|user| assert_eq!(user, Some(&7)))
                });
            });
            group.join().unwrap();
        });
    });
}

#[test]
fn joins_cancels_failures_and_drops_race() {
    with_each_and_many(|rt| {
        let drops = Drops::new();
        rt.block_on(|| {
            for round in 0..scaled_in_debug(300) {
                scope(|_| {
                    let group = TaskGroup::fallible();
                    let group = if round % 2 == 0 { group.fail_fast() } else { group };
                    let handle = group.cancel_handle();
                    for n in 0..8 {
                        let value = drops.guard();
                        group.spawn(move || {
                            let _local = value;
                            match (round + n) % 6 {
                                0 => Err(n),
                                1 => yield_now().map_err(|_| n),
                                2 => std::panic::resume_unwind(Box::new("on purpose")),
                                3 => sleep(Duration::from_micros(50)).map_err(|_| n),
                                _ => Ok(()),
                            }
                        });
                    }
                    let canceller =
                        (round % 3 == 0).then(|| spawn(move || handle.cancel("enough")));
                    match round % 4 {
                        0 => drop(group),
                        1 => drop(group.cancel_and_join("the end")),
                        _ => drop(group.join()),
                    }
                    drop(canceller);
                });
                assert_eq!(drops.left(), 0);
            }
        });
    });
}

#[test]
fn outside_a_task_it_says_what_to_do() {
    let text = panic_of(|| drop(TaskGroup::new()));
    assert!(text.contains("outside a task"), "{text}");
}
