//! Which of the tasks started by a task a cancel of it reaches, and where a cancel may come from.

use crate::common::prelude::*;
use crate::{give_way_until_parked, parked};

/// C13.
#[test]
fn scoped_tasks_of_every_kind_are_cancelled_with_their_scope() {
    in_task(|rt| {
        let there = runtime(1);
        let pool = there.handle();
        let (before, before_there) = (parks(rt), parks(&there));
        let why = || park().unwrap_err().reason().clone();
        let (plain, at_once, local, lent, foreign, (promise, external)) = scope(|s| {
            let tasks = (
                spawn(why),
                spawn_now(why),
                spawn_local(why),
                cygnet::task().spawn_in(&s.lease(), why),
                cygnet::task().spawn_in(cygnet::ChildOn(&pool), why).unwrap(),
                promise::<Reason>(),
            );
            let scoped = s.spawn(why);
            give_way_until_parked(before + 5);
            give_way_until(|| parks(&there) > before_there);
            s.cancel("all of you");
            drop(scoped);
            tasks
        });
        let reason = Reason::from("all of you");
        let of = |task: Task<Reason>| task.join().unwrap();
        assert_eq!([plain, at_once, lent, foreign].map(of), [(); 4].map(|()| reason.clone()));
        assert_eq!(local.join().unwrap(), reason);
        assert!(promise.is_cancelled());
        let Err(JoinError::NotStarted(why)) = external.join() else { panic!("it has started") };
        assert_eq!(*why.reason(), reason);
    });
}

/// C14.
#[test]
fn unscoped_tasks_and_detached_groups_are_not_cancelled_with_their_creator() {
    with_each(|rt| {
        let (give, given) = channel();
        let (tell, told) = channel();
        let creator = rt.spawn(move || {
            let goes_on = spawn_unscoped(move || {
                give_way_until(|| told.try_recv().is_ok());
                7
            });
            let group = TaskGroup::detached(&Handle::current()).unwrap();
            group.add(|| assert!(park().is_err()));
            give.send((spawn_unscoped(park), goes_on, group)).unwrap();
            parked()
        });
        let (unscoped, goes_on, group) = given.recv().unwrap();
        creator.cancel("only the creator");
        assert_eq!(creator.join().unwrap(), "only the creator");
        assert!(!unscoped.is_finished() && !group.is_cancelled());
        tell.send(()).unwrap();
        assert_eq!(goes_on.join().unwrap(), 7);
        unscoped.cancel("now");
        let why = match unscoped.join() {
            Ok(told) => told.unwrap_err(),
            Err(error) => error.cancelled().unwrap().clone(),
        };
        assert_eq!(*why.reason(), Reason::from("now"));
        group.cancel_and_join("and now").unwrap();
    });
}

/// C2.
#[test]
fn a_cancel_may_come_from_any_thread_task_or_hook() {
    with_each(|rt| {
        let other = runtime(1);
        for from in ["a plain thread", "a task of another runtime", "a task of its own", "a hook"] {
            let before = parks(rt);
            let task = rt.spawn(parked);
            eventually("the task parks", || parks(rt) > before);
            let handle = task.cancel_handle();
            match from {
                "a plain thread" => handle.cancel(from),
                "a task of another runtime" => other.block_on(|| handle.cancel(from)),
                "a task of its own" => rt.block_on(|| handle.cancel(from)),
                _ => rt.block_on(|| {
                    scope(|s| {
                        on_cancel(move |_: Cancelled| handle.cancel(from)).keep();
                        s.cancel("the hook's");
                    })
                }),
            }
            assert_eq!(task.join().unwrap(), from);
        }
    });
}
