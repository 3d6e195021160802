//! Swansongs of scopes, and guarded tasks.

use crate::common::prelude::*;
use cygnet::shutdown::{self, Swansong};

/// S79, S80, S81.
#[test]
fn the_swansong_of_a_scope_is_below_that_of_its_parent() {
    with_each(|rt| {
        let root = rt.swansong();
        assert_eq!(root, rt.handle().swansong());
        let (outer, inner, other) = rt.block_on(|| {
            assert_eq!(shutdown::current(), root);
            scope(|s| {
                let outer = s.swansong();
                assert_eq!(outer, s.swansong());
                assert_ne!(outer, root);
                let inner = s.spawn(|| {
                    assert_eq!(shutdown::current(), s.swansong());
                    scope(|_| scope(|s| (s.swansong(), s.swansong().guard())))
                });
                let other = Swansong::new();
                let elsewhere = other.scope(|s| {
                    assert_ne!(s.swansong(), other);
                    assert_eq!(spawn(shutdown::current).join().unwrap(), s.swansong());
                    let guard = s.swansong().guard();
                    assert_eq!(other.guard_count(), 1);
                    drop(guard);
                    s.swansong()
                });
                let (inner, guard) = inner.join().unwrap();
                assert_eq!(
                    (inner.guard_count(), outer.guard_count(), root.guard_count()),
                    (1, 1, 1)
                );
                drop(guard);
                drop(other);
                assert!(elsewhere.state().is_complete());
                outer.shut_down().block();
                assert!(inner.state().is_complete());
                assert!(root.state().is_running());
                (outer, inner, elsewhere)
            })
        });
        // Swansongs may outlive their scopes.
        assert!([outer, inner, other].iter().all(|swansong| swansong.state().is_complete()));
    });
}

#[test]
fn concurrent_queries_of_a_scope_get_the_same_swansong() {
    in_task(|_| {
        for _ in 0..scaled_in_debug(200) {
            scope(|s| {
                let asked: Vec<_> = (0..4).map(|_| s.spawn(|| s.swansong())).collect();
                let mine = s.swansong();
                asked.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), mine));
            });
        }
    });
}

/// S84.
#[test]
fn a_shutdown_of_a_scope_ends_its_interrupts_and_cancels_nothing() {
    in_task(|_| {
        scope(|outer| {
            let beside = outer.spawn(|| wait(shutdown::current().interrupt(pending::<()>())));
            scope(|s| {
                let swansong = s.swansong();
                let idle = s.spawn(|| wait(shutdown::current().interrupt(pending::<()>())));
                let (finish, finished) = unbounded();
                let work = cygnet::task()
                    .guard(&s.swansong())
                    .spawn_in(s, move || finished.recv().unwrap());
                let completion = s.shut_down();
                assert_eq!(idle.join().unwrap(), Ok(None));
                assert!(checkpoint().is_ok());
                assert!(swansong.state().is_shutting_down());
                finish.send(7).unwrap();
                completion.block();
                assert_eq!(work.join().unwrap(), 7);
            });
            assert!(outer.swansong().state().is_running());
            assert!(!beside.is_finished());
            outer.cancel("it is not stopped");
            assert!(beside.join().is_ok_and(|ended| ended.is_err()) || checkpoint().is_err());
        });
    });
}

#[test]
fn a_swansong_ends_with_its_scope_unless_there_is_a_guard() {
    with_each(|rt| {
        let (mut early, late, guard) = rt.block_on(|| {
            let early = scope(|s| s.swansong().interrupt(0..));
            scope(|s| (early, s.swansong().interrupt(0..), s.swansong().guard()))
        });
        assert_eq!(early.next(), None);
        let mut late = late;
        assert_eq!(late.next(), Some(0));
        assert_eq!(rt.swansong().guard_count(), 1);
        drop(guard);
        assert_eq!(late.next(), None);
        assert_eq!(rt.swansong().guard_count(), 0);
    });
}

/// S82.
#[test]
fn a_guarded_task_has_its_guard_until_its_closure_is_dropped() {
    in_task(|_| {
        let swansong = Swansong::new();
        let (go, drops) = (Event::new(), Drops::new());
        scope(|s| {
            s.spawn(|| {
                let held = drops.guard();
                let swansong = &swansong;
                swansong.scope(|inner| {
                    let task = cygnet::task().guard(&inner.swansong()).spawn_in(inner, || {
                        let _held = held;
                        go.wait().unwrap();
                    });
                    assert_eq!(swansong.guard_count(), 1);
                    go.set();
                    task.join().unwrap();
                    assert_eq!((swansong.guard_count(), drops.left()), (0, 0));
                });
            });
        });
        let panics = cygnet::task().guard(&swansong).spawn(|| panic!("in the work"));
        assert!(matches!(panics.join(), Err(JoinError::Panicked(_))));
        // A guarded task that never starts.
        scope(|s| {
            s.cancel("before it starts");
            let never = cygnet::task().guard(&swansong).spawn(|| unreachable!("it is cancelled"));
            assert!(never.join().is_err());
        });
        eventually("the guards are gone", || swansong.guard_count() == 0);
        swansong.shut_down().block();
    });
}

/// An interrupt of the Swansong of a scope ends with the scope, and its waker is called outside.
#[test]
fn a_waker_that_the_end_of_a_scope_calls_is_in_no_scope() {
    in_task(|_| {
        let (tell, told) = channel();
        let waker = calling_once(move || tell.send(panic_of(|| spawn(|| ()).detach())).unwrap());
        let interrupted = |s: &Scope<'_, '_>| s.swansong().interrupt(pending::<()>());
        let _interrupted = scope(|s| begun_by(interrupted(s), &waker));
        let said = told.try_recv().expect("it is called");
        assert!(said.contains("outside a task"), "{said}");
    });
}
