//! Groups of tasks that are spawned one by one and from everywhere.

use crate::common::prelude::*;
use std::fmt::Debug;

/// The failure with which the join of a group ends.
fn failure<E: Send + Debug + 'static>(group: TaskGroup<(), E>) -> E {
    group.join().unwrap_err().into_failed().unwrap()
}

/// Why a member of the group did not start.
fn not_started<E: Send + Debug + 'static>(group: TaskGroup<(), E>) -> Reason {
    match group.join().unwrap_err() {
        TaskError::Join(JoinError::NotStarted(why)) => why.reason().clone(),
        other => panic!("{other:?}"),
    }
}

/// T6.
#[test]
fn a_join_waits_for_all_members_wherever_they_come_from() {
    in_task_and_many(|_| {
        let (n, count) = (scaled_in_debug(1_000), Count::new());
        let spawn_in = |group: &TaskGroup| (0..n).for_each(|_| group.add(move || count.up()));
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
        assert_eq!(count.get(), 5 * n);
    });
}

#[test]
fn a_group_without_members_ends_at_once() {
    in_task(|_| {
        TaskGroup::<()>::new().join().unwrap();
        TaskGroup::<()>::new().cancel_and_join("it has no members").unwrap();
        drop(TaskGroup::<()>::new());
        assert_eq!(TaskGroup::<()>::new().next().unwrap(), None);
        TaskGroup::<(), u8>::fallible().fail_fast().join().unwrap();
    });
}

#[test]
fn the_first_failure_is_kept_and_cancels_the_others_of_a_group_that_fails_fast() {
    in_task(|_| {
        let told = Count::new();
        let group = TaskGroup::fallible().fail_fast();
        for _ in 0..3 {
            group.add(move || {
                assert_eq!(*park().unwrap_err().reason(), Reason::SiblingFailed);
                told.up();
            });
        }
        group.add(|| {
            yield_now().unwrap();
            Err("the first")
        });
        assert_eq!(failure(group), "the first");
        assert!(told.get() <= 3);

        let group = TaskGroup::fallible();
        group.add(|| Err(7));
        group.add(move || {
            yields(10);
            told.put(100);
            Ok(())
        });
        assert_eq!(failure(group), 7);
        assert_eq!(told.get(), 100, "the other one has run on");
        assert!(cygnet::checkpoint().is_ok(), "the caller is not cancelled");

        // A panic is a failure, too.
        let group = TaskGroup::new().fail_fast();
        group.add(|| resume_unwind(Box::new("boom")));
        group.add(|| assert!(park().is_err()));
        let TaskError::Join(JoinError::Panicked(payload)) = group.join().unwrap_err() else {
            panic!("it has not panicked")
        };
        assert_eq!(payload.downcast_ref(), Some(&"boom"));
    });
}

/// T7.
#[test]
fn a_linked_group_is_cancelled_and_waited_for_with_its_scope() {
    with_each(|rt| {
        let drops = Drops::new();
        let members = drops.clone();
        let task = parked(rt, 6, move || {
            scope(|_| {
                let group = TaskGroup::new();
                let over = Arc::new(Event::new());
                (0..4).for_each(|_| group.add(members.parks()));
                // The fifth ends after the join. Else the group might have ended in time for that.
                group.add(members.around(own(&over, |over| {
                    ignore_cancellation(|| over.wait()).unwrap().unwrap();
                })));
                // The join is cut short. The scope waits nevertheless.
                let joined = group.join();
                assert!(matches!(joined, Err(TaskError::Join(JoinError::Cancelled(_)))));
                over.set();
            });
            members.left()
        });
        task.cancel("enough");
        assert_eq!(task.join().unwrap(), 0);
    });
}

#[test]
fn dropping_a_group_cancels_its_members() {
    in_task(|_| {
        let drops = Drops::new();
        scope(|_| {
            let group = TaskGroup::new();
            for n in 0..5 {
                group.add(drops.parks());
                if n == 2 {
                    yield_now().unwrap();
                }
            }
            drop(group);
        });
        assert_eq!(drops.left(), 0);
    });
}

#[test]
fn a_cancelled_group_starts_no_member_and_says_so() {
    in_task(|_| {
        let group = TaskGroup::new();
        assert!(!group.is_cancelled());
        group.cancel_handle().cancel("closed");
        assert!(group.is_cancelled());
        let drops = Drops::new();
        group.add(drops.around(|| unreachable!("it never starts")));
        assert_eq!(not_started(group), Reason::from("closed"));
        assert_eq!(drops.left(), 0);
    });
}

#[test]
fn cancel_and_join_has_waited_also_if_the_caller_is_cancelled() {
    with_each(|rt| {
        let task = parked(rt, 5, || {
            let drops = Drops::new();
            let group = TaskGroup::fallible();
            for n in 0..4 {
                let waits = drops.parks();
                group.add(move || {
                    waits();
                    if n == 3 { Err("a failure counts more than a cancel") } else { Ok(()) }
                });
            }
            assert!(park().is_err());
            let result = group.cancel_and_join("the end");
            assert_eq!(drops.left(), 0);
            result
        });
        task.cancel("enough");
        let failed = task.join().unwrap().unwrap_err().into_failed().unwrap();
        assert_eq!(failed, "a failure counts more than a cancel");
    });
}

#[test]
fn a_detached_group_outlives_its_maker_and_ends_with_its_runtime() {
    with_own(|rt| {
        let handle = rt.handle();
        let before = parks(&rt);
        let group = rt.block_on(|| {
            let group = TaskGroup::detached(&handle).unwrap();
            group.add(|| assert!(park().is_err()));
            group
        });
        group.add(|| assert!(park().is_err()));
        eventually("they wait", || parks(&rt) >= before + 2);
        let dropper = common::thread::spawn(move || drop(rt));
        // From a plain thread.
        eventually("it is told", || group.is_cancelled());
        let joined = group.join();
        assert!(joined.is_ok(), "{joined:?}");
        dropper.join().unwrap();
        assert!(TaskGroup::<()>::detached(&handle).is_err());
    });
}

/// T8.
#[test]
fn a_detached_group_does_not_hold_up_the_end_of_its_runtime() {
    with_own(|rt| {
        let drops = Drops::new();
        let handle = rt.handle();
        let before = parks(&rt);
        let group = TaskGroup::detached(&handle).unwrap();
        let child: TaskGroup = group.child();
        for group in [&group, &child] {
            group.add(drops.around(|| {
                assert_eq!(*park().unwrap_err().reason(), Reason::RuntimeShutDown);
            }));
        }
        let empty: TaskGroup<u8> = group.child();
        eventually("they wait", || parks(&rt) >= before + 2);
        // On the thread that has the groups.
        drop(rt);
        assert_eq!(drops.left(), 0, "its members have ended");
        assert!(group.is_cancelled() && child.is_cancelled() && empty.is_cancelled());
        assert!(group.cancel_handle().is_cancelled());
        group.cancel("again");
        child.join().unwrap();
        empty.join().unwrap();

        // A member that comes too late is dropped, and reported.
        group.add(drops.around(|| ()));
        assert_eq!(drops.left(), 0);
        let late: TaskGroup<(), u8> = group.child();
        assert!(late.is_cancelled() && late.cancel_handle().is_cancelled());
        late.cancel("again");
        drop(late.child::<(), u8>());
        late.add(|| Err(7));
        assert_eq!(not_started(late), Reason::RuntimeShutDown);
        assert_eq!(not_started(group), Reason::RuntimeShutDown);
        assert!(TaskGroup::<()>::detached(&handle).is_err());
    });
}

#[test]
fn a_forgotten_detached_group_does_not_hold_up_the_end_of_its_runtime() {
    in_own_process_leaking(|| {
        with_own(|rt| {
            let drops = Drops::new();
            let group = TaskGroup::detached(&rt.handle()).unwrap();
            group.add(drops.parks());
            std::mem::forget(group);
            drop(rt);
            assert_eq!(drops.left(), 0, "its member has ended");
        });
    });
}

/// The panic of a destructor does not hide that the member did not start.
#[test]
fn a_late_member_whose_captures_panic_is_a_failure() {
    with_each(|rt| {
        let group = TaskGroup::detached(&rt.handle()).unwrap();
        group.cancel("enough");
        let bomb = Bomb("on purpose");
        let spawned = common::payload_of(|| group.add(move || drop(bomb)));
        assert!(spawned.is_some(), "it was dropped here");
        assert_eq!(not_started(group), Reason::from("enough"));
    });
}

#[test]
fn a_cancelled_detached_group_takes_no_more_members_and_ends() {
    with_each(|rt| {
        let group = TaskGroup::fallible_detached(&rt.handle()).unwrap().fail_fast();
        let child: TaskGroup = group.child();
        child.add(|| assert_eq!(*park().unwrap_err().reason(), Reason::SiblingFailed));
        group.add(|| Err("the first"));
        eventually("it has come down", || child.is_cancelled());
        group.add(|| Err("too late"));
        child.add(|| panic!("it does not start"));
        assert_eq!(not_started(child), Reason::SiblingFailed);
        assert_eq!(failure(group), "the first");
    });
}

/// Ends a group in one of three ways.
fn end<E: Send + 'static>(group: TaskGroup<(), E>, round: usize) {
    match round % 4 {
        0 => drop(group),
        1 => drop(group.cancel_and_join("the end")),
        _ => drop(group.join()),
    }
}

#[test]
fn spawns_into_detached_groups_race_cancels_and_the_end_of_the_runtime() {
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
                        let member = drops.around(|| drop(yield_now()));
                        if n % 3 == 0 {
                            let child: TaskGroup = group.child();
                            child.add(member);
                            drop(child.join());
                        } else {
                            group.add(member);
                        }
                    }
                };
                common::thread::scope(|threads| {
                    threads.spawn(|| spawned(&group));
                    threads.spawn(|| spawned(&group));
                    if round % 3 == 0 {
                        threads.spawn(move || handle.cancel("enough"));
                    }
                    if round % 2 == 0 {
                        drop(rt);
                    }
                });
                end(group, round);
                eventually("all have ended", || drops.left() == 0);
            }
        });
    }
}

#[test]
fn members_spawn_members_and_a_time_limit_holds_for_them() {
    in_task(|_| {
        let group = Arc::new(TaskGroup::new());
        let (again, count) = (Arc::downgrade(&group), Count::new());
        group.add(move || {
            (0..10).for_each(|_| again.upgrade().unwrap().add(move || count.up()));
        });
        count.wait(10);
        // A member may hold it for a moment longer.
        if let Some(group) = Arc::into_inner(group) {
            group.join().unwrap();
        }
        let late = timeout(Duration::from_millis(2), || {
            let group = TaskGroup::new();
            group.add(|| assert_eq!(*park().unwrap_err().reason(), Reason::Deadline));
            let _ = sleep(Duration::from_secs(1000));
        });
        assert!(late.is_err());
    });
}

#[test]
fn members_inherit_task_locals_and_keep_their_names() {
    static USER: cygnet::TaskLocal<u32> = cygnet::TaskLocal::new();
    in_task(|_| {
        let group = TaskGroup::new();
        USER.scope(7, || {
            cygnet::task()
                .name("reader")
                .spawn_in(&group, || USER.with(|user| assert_eq!(user, Some(&7))));
        });
        group.join().unwrap();
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
                        group.add(drops.around(move || match (round + n) % 6 {
                            0 => Err(n),
                            1 => yield_now().map_err(|_| n),
                            2 => resume_unwind(Box::new("on purpose")),
                            3 => sleep(Duration::from_micros(50)).map_err(|_| n),
                            _ => Ok(()),
                        }));
                    }
                    let canceller =
                        (round % 3 == 0).then(|| spawn(move || handle.cancel("enough")));
                    end(group, round);
                    drop(canceller);
                });
                assert_eq!(drops.left(), 0);
            }
        });
    });
}
