//! Groups whose members give values.

use crate::common::prelude::*;
use std::error::Error;

type Boxed = Box<dyn Error + Send + Sync>;

fn values<T: Send + 'static, E: Send + 'static>(mut group: TaskGroup<T, E>) -> Vec<T> {
    let mut values = Vec::new();
    while let Ok(Some(value)) = group.next() {
        values.push(value);
    }
    values
}

/// T53.
#[test]
fn values_come_in_the_order_in_which_members_end() {
    in_task_and_many(|_| {
        let mut group = TaskGroup::new();
        let gates = [(); 3].map(|()| Arc::new(Event::new()));
        for (number, gate) in gates.iter().enumerate() {
            group.spawn(own(gate, move |gate| gate.wait().map(|()| number).unwrap()));
        }
        for number in [2, 0, 1] {
            gates[number].set();
            assert_eq!(group.next().unwrap(), Some(number));
        }
        assert_eq!(group.next().unwrap(), None);
        group.spawn(|| 7);
        assert_eq!(group.next().unwrap(), Some(7), "a group may go on");
        assert_eq!(group.next().unwrap(), None);
        group.join().unwrap();
    });
}

/// T53.
#[test]
fn each_value_comes_once_wherever_its_member_was_spawned() {
    in_task_and_many(|_| {
        let n = scaled_in_debug(300);
        let group = TaskGroup::new();
        let spawn_from = |from: usize| (from..from + n).for_each(|i| drop(group.spawn(move || i)));
        common::thread::scope(|threads| {
            threads.spawn(|| spawn_from(0));
            threads.spawn(|| spawn_from(n));
            scope(|s| drop(s.spawn(|| spawn_from(2 * n))));
        });
        let mut values = values(group);
        values.sort_unstable();
        assert!(values.into_iter().eq(0..3 * n));
    });
}

/// T53.
#[test]
fn a_value_comes_after_the_tasks_below_its_member_have_ended() {
    in_task(|_| {
        let mut group = TaskGroup::new();
        let below = Flag::new();
        group.spawn(move || {
            spawn(move || {
                yields(5);
                below.set();
            })
            .detach();
            below
        });
        assert!(group.next().unwrap().unwrap().get());
    });
}

/// T53.
#[test]
fn a_failure_comes_once_and_the_others_go_on() {
    in_task(|_| {
        let mut group = TaskGroup::fallible();
        group.spawn_try(|| Err::<u32, _>("no luck"));
        assert_eq!(group.next().unwrap_err().into_failed().unwrap(), "no luck");
        group.spawn(|| -> u32 { resume_unwind(Box::new("boom")) });
        let TaskError::Join(JoinError::Panicked(payload)) = group.next().unwrap_err() else {
            panic!("it has not panicked")
        };
        assert_eq!(payload.downcast_ref(), Some(&"boom"));
        group.spawn(|| 7);
        assert_eq!(group.next().unwrap(), Some(7));
        group.spawn_try(|| Err("again"));
        group.spawn(|| 8);
        // What `next` has returned does not count for the join, and the values are dropped.
        assert_eq!(group.join().unwrap_err().into_failed().unwrap(), "again");
    });
}

/// T53. The group's join tells of what comes after the outcome.
#[test]
fn a_member_gives_one_outcome_whatever_else_fails_in_it() {
    in_task(|_| {
        let mut group = TaskGroup::fallible();
        group.spawn_try(|| {
            drop(spawn_now(|| resume_unwind(Box::new("below"))));
            spawn(|| resume_unwind(Box::new("below"))).detach();
            Err("no luck")
        });
        assert_eq!(group.next().unwrap_err().into_failed().unwrap(), "no luck");
        assert_eq!(group.next().unwrap(), None);
        group.spawn(|| 7);
        assert_eq!(group.next().unwrap(), Some(7));
        assert!(matches!(group.join(), Ok(()) | Err(TaskError::Join(JoinError::Panicked(_)))));

        // The destructor of the error of a member that was cancelled alone.
        let mut group = TaskGroup::fallible().fail_fast();
        let alone =
            group.spawn_try(|| -> Result<(), Boxed> { Err(Explosive(park().unwrap_err()).into()) });
        alone.cancel("enough");
        assert_eq!(group.next().unwrap(), None);
        assert!(!group.is_cancelled());
        group.join().unwrap();
    });
}

/// An error whose destructor panics.
#[derive(Debug)]
struct Explosive(Cancelled);

impl std::fmt::Display for Explosive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("explosive")
    }
}

impl Error for Explosive {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

impl Drop for Explosive {
    fn drop(&mut self) {
        resume_unwind(Box::new("the destructor of an error"));
    }
}

/// T54. Whatever error of the library the cancel is in.
#[test]
fn a_cancel_of_a_member_alone_is_found_in_the_errors_of_the_library() {
    fn passes_on<E: Send + 'static>(rt: &Runtime, fails: fn() -> Result<(), E>) {
        let mut group = TaskGroup::fallible().fail_fast();
        let member = parking(rt, 1, || group.spawn_try(fails));
        member.cancel("enough");
        assert!(matches!(group.next(), Ok(None)));
        assert!(!group.is_cancelled());
        assert!(group.join().is_ok());
    }
    in_task_and_many(|rt| {
        passes_on::<Cancelled>(rt, park);
        passes_on::<WaitError>(rt, || Event::new().wait());
        passes_on::<Boxed>(rt, || Ok(Event::new().wait()?));
        passes_on::<JoinError>(rt, || Ok(park()?));
        passes_on::<Arc<JoinError>>(rt, || {
            let (_promise, answer) = promise();
            answer.shared().join().copied()
        });
    });
}

/// T53, T54.
#[test]
fn the_first_failure_of_a_group_that_fails_fast_comes_before_what_follows_from_it() {
    in_task_and_many(|rt| {
        let mut group = TaskGroup::fallible().fail_fast();
        parking(rt, 3, || {
            for _ in 0..3 {
                group.spawn_try(|| park().map_err(Boxed::from));
            }
        });
        group.spawn_try(|| Err("no luck".into()));
        let error = group.next().unwrap_err().into_error();
        assert_eq!(error.to_string(), "no luck");
        for _ in 0..3 {
            let error = group.next().unwrap_err().into_failed().unwrap();
            let cancelled: &Cancelled = error.downcast_ref().unwrap();
            assert_eq!(*cancelled.reason(), Reason::SiblingFailed);
        }
        assert!(group.next().unwrap().is_none());
        group.join().unwrap();
    });
}

/// T54. Whether it has not started, hands the cancel on, is unwound, or takes no notice.
#[test]
fn a_member_that_is_cancelled_alone_gives_nothing_or_its_value() {
    in_task_and_many(|rt| {
        let mut group = TaskGroup::<u32, JoinError>::fallible().fail_fast();
        let stays = Arc::new(Event::new());
        let cancels = parking(rt, 4, || {
            group.spawn(own(&stays, |stays| stays.wait().map_or(0, |()| 2)));
            [
                group.spawn_try(|| Ok(park().map(|()| 0)?)),
                group.spawn(|| park().map_or_else(|cancelled| cancelled.unwind(), |()| 0)),
                group.spawn(|| park().map_or(1, |()| 0)),
            ]
        });
        // On a single worker it does not start before this task waits.
        let fresh = group.spawn(|| 3);
        fresh.cancel("not needed");
        cancels.iter().for_each(|cancel| cancel.cancel("enough"));
        stays.set();
        let mut values = Vec::new();
        while let Some(value) = group.next().unwrap() {
            values.push(value);
        }
        values.sort_unstable();
        let started = values.last() == Some(&3);
        assert!(values == [1, 2] || (started && rt.workers() > 1 && values == [1, 2, 3]));
        assert!(!group.is_cancelled());
        group.join().unwrap();
    });
}

/// T53.
#[test]
fn a_caller_that_is_cancelled_takes_nothing() {
    in_task_and_many(|rt| {
        let mut group = TaskGroup::new();
        parking(rt, 1, || group.spawn(|| park().map_or(0, |()| 1)));
        let drops = Drops::new();
        let guard = drops.guard();
        group.spawn(move || {
            drop(guard);
            7
        });
        give_way_until(|| drops.left() == 0);
        yields(3);
        // Whether it has come already or comes now, the value stays for the next call.
        let early = timeout(Duration::ZERO, || group.next()).unwrap_err().into_inner();
        assert!(early.unwrap_err().cancelled().is_some());
        assert_eq!(group.next().unwrap(), Some(7));
        let early = timeout(Duration::ZERO, || group.next()).unwrap_err().into_inner();
        assert_eq!(*early.unwrap_err().cancelled().unwrap().reason(), Reason::Deadline);
        assert!(!group.is_cancelled(), "its members go on");
        group.cancel("enough");
        assert_eq!(group.next().unwrap(), Some(0));
        assert_eq!(group.next().unwrap(), None);

        // The member is not cancelled with the task that waits, and gives nothing.
        let handle = rt.handle();
        let waits = parked(rt, 2, move || {
            let mut group = TaskGroup::detached(&handle).unwrap();
            group.spawn(park);
            group.next().unwrap_err().cancelled().unwrap().reason().to_string()
        });
        waits.cancel("enough");
        assert_eq!(waits.join().unwrap(), "enough");
    });
}

/// T53.
#[test]
fn threads_and_futures_take_values_and_detached_groups_end_with_their_runtime() {
    with_own(|rt| {
        let mut group = TaskGroup::detached(&rt.handle()).unwrap();
        group.spawn(|| 7);
        assert_eq!(group.next().unwrap(), Some(7));
        group.spawn(|| 8);
        assert_eq!(wait(pin!(group.next_async())).unwrap().unwrap(), Some(8));
        assert_eq!(wait(pin!(group.next_async())).unwrap().unwrap(), None);
        group.spawn(|| park().map_or(9, |()| 0));
        drop(rt);
        // It may have been cancelled before its start.
        match group.next() {
            Ok(value) => assert_eq!(value, Some(9)),
            Err(error) => assert!(matches!(error, TaskError::Join(JoinError::NotStarted(_)))),
        }
        assert_eq!(group.next().unwrap(), None);
        let handle = group.spawn(|| 10);
        handle.cancel("it is not there");
        let late = group.next().unwrap_err();
        assert_eq!(*late.cancelled().unwrap().reason(), Reason::RuntimeShutDown);
        assert_eq!(group.next().unwrap(), None);
        group.spawn(|| 11);
        assert!(matches!(group.join(), Err(TaskError::Join(JoinError::NotStarted(_)))));
    });
}

/// T53.
#[test]
fn values_that_nobody_takes_are_dropped() {
    in_task_and_many(|_| {
        let drops = Drops::new();
        for joins in [true, false] {
            let group = TaskGroup::new();
            for _ in 0..3 {
                let value = drops.guard();
                group.spawn(move || value);
            }
            if joins {
                group.join().unwrap();
                assert_eq!(drops.left(), 0);
            }
        }
        give_way_until(|| drops.left() == 0);
    });
}
