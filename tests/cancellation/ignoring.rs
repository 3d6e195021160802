//! Sections that ignore cancellation.

use crate::common::mpsc::channel;
use crate::common::{panic_of, with_each, within};
use crate::{parked, until_parked, why};
use cygnet::{
    JoinError, Runtime, cancel_handle, checkpoint, ignore_cancellation, is_cancelled, park, scope,
    spawn, unparker, yield_now,
};

#[test]
fn a_cancel_that_came_first_wins_and_entering_fails() {
    with_each(|rt| {
        rt.block_on(|| {
            cancel_handle().cancel("first");
            let entered = ignore_cancellation(|| unreachable!("it is cancelled"));
            assert_eq!(why(entered), "first");
        });
    });
}

#[test]
fn entering_fails_also_if_it_is_an_ancestor_that_was_cancelled() {
    with_each(|rt| {
        rt.block_on(|| {
            scope(|s| {
                s.cancel("the scope");
                scope(|_| assert!(ignore_cancellation(|| ()).is_err()));
            });
            assert!(ignore_cancellation(|| ()).is_ok());
        });
    });
}

#[test]
fn sections_nest_and_leaving_the_last_one_delivers_what_was_deferred() {
    with_each(|rt| {
        rt.block_on(|| {
            let handle = cancel_handle();
            ignore_cancellation(|| {
                ignore_cancellation(|| {
                    handle.cancel("deferred");
                    assert!(!is_cancelled());
                })
                .unwrap();
                assert!(!is_cancelled(), "one section is left");
                yield_now().unwrap();
                let me = unparker();
                spawn(move || me.unpark()).detach();
                park().unwrap();
            })
            .unwrap();
            assert_eq!(why(checkpoint()), "deferred");
            assert_eq!(why(park()), "deferred");
        });
    });
}

#[test]
fn a_deferred_cancel_is_delivered_to_the_children_at_the_end_of_the_section() {
    with_each(|rt| {
        let before = crate::common::parks(rt);
        let (inside, is_inside) = channel();
        let (go_on, goes_on) = channel::<()>();
        let task = rt.spawn(move || {
            let child = ignore_cancellation(|| {
                let child = spawn(parked);
                inside.send(()).unwrap();
                // Not a wait of the task's.
                cygnet::blocking(move || goes_on.recv().unwrap());
                assert!(!child.is_finished());
                child
            })
            .unwrap();
            let (tell, told) = channel();
            cygnet::spawn_unscoped(move || tell.send(child.join().unwrap()).unwrap()).detach();
            (why(park()), told)
        });
        is_inside.recv().unwrap();
        until_parked(rt, before, 2);
        task.cancel("deferred");
        go_on.send(()).unwrap();
        let (mine, told) = task.join().unwrap();
        assert_eq!((mine, told.recv().unwrap()), ("deferred".into(), "deferred".into()));
    });
}

#[test]
fn a_parked_task_that_ignores_cancellation_is_not_woken_by_it() {
    with_each(|rt| {
        let before = crate::common::parks(rt);
        let (give, given) = channel();
        let task = rt.spawn(move || {
            ignore_cancellation(|| {
                give.send(unparker()).unwrap();
                park()
            })
        });
        let unparker = given.recv().unwrap();
        until_parked(rt, before, 1);
        task.cancel("not heard");
        crate::common::thread::yield_now();
        assert!(!task.is_finished());
        unparker.unpark();
        assert_eq!(task.join().unwrap(), Ok(Ok(())));
    });
}

#[test]
fn a_scope_that_was_opened_in_a_section_is_cancelled_by_its_own_handle() {
    with_each(|rt| {
        rt.block_on(|| {
            let outer = cancel_handle();
            ignore_cancellation(|| {
                outer.cancel("deferred");
                scope(|s| {
                    assert!(checkpoint().is_ok());
                    s.cancel("inside");
                    assert_eq!(why(checkpoint()), "inside");
                });
                assert!(checkpoint().is_ok());
            })
            .unwrap();
            assert_eq!(why(checkpoint()), "deferred");
        });
    });
}

#[test]
fn an_outer_cancel_does_not_end_a_wait_in_an_inner_section_for_good() {
    // The outer scope's cancel finds its task parked, though in a section of an inner one.
    with_each(|rt| {
        let before = crate::common::parks(rt);
        let (give, given) = channel();
        let task = rt.spawn(move || {
            scope(|outer| {
                let handle = outer.cancel_handle();
                scope(|_| {
                    let inner = ignore_cancellation(|| {
                        give.send((handle, unparker())).unwrap();
                        park()
                    });
                    (inner, checkpoint().is_err())
                })
            })
        });
        let (outer, unparker) = given.recv().unwrap();
        until_parked(rt, before, 1);
        outer.cancel("the outer scope");
        // It may wake, but goes on waiting.
        for _ in 0..100 {
            assert!(!task.is_finished());
            crate::common::thread::yield_now();
        }
        unparker.unpark();
        assert_eq!(task.join().unwrap(), (Ok(Ok(())), true));
    });
}

#[test]
fn an_outer_cancel_does_not_end_a_join_in_an_inner_section() {
    // The child has a stack of its own, and the two stay on one worker: a wait of another kind.
    with_each(|rt| {
        rt.block_on(|| {
            scope(|outer| {
                let handle = outer.cancel_handle();
                scope(|s| {
                    let joined = ignore_cancellation(|| {
                        let own_stack = cygnet::task().stack_size(256 << 10).unwrap();
                        let child = s.spawn_with(own_stack, move || {
                            handle.cancel("the outer scope");
                            for _ in 0..3 {
                                yield_now().unwrap();
                            }
                            7
                        });
                        child.join()
                    });
                    assert_eq!(joined.unwrap().unwrap(), 7);
                    assert_eq!(why(checkpoint()), "the outer scope");
                });
            });
        });
    });
}

#[test]
fn a_panic_in_a_section_ends_it() {
    with_each(|rt| {
        rt.block_on(|| {
            let handle = cancel_handle();
            let text = panic_of(|| {
                ignore_cancellation(|| {
                    handle.cancel("deferred");
                    panic!("half-way");
                })
            });
            assert_eq!(text, "half-way");
            assert_eq!(why(checkpoint()), "deferred");
        });
    });
}

#[test]
fn a_task_spawned_in_a_section_starts_although_its_grandparent_is_cancelled() {
    with_each(|rt| {
        rt.block_on(|| {
            scope(|s| {
                let value = ignore_cancellation(|| {
                    s.cancel("not heard in here");
                    spawn(|| spawn(|| 7).join().unwrap()).join().unwrap()
                });
                assert_eq!(value, Ok(7));
            });
        });
    });
}

#[test]
fn a_section_that_waits_for_a_child_without_a_stack_is_told_so_also_when_the_runtime_ends() {
    within(|| {
        let rt = Runtime::builder().workers(1).max_stacks(1).build().unwrap();
        let (inside, is_inside) = channel();
        let task = rt.spawn(move || {
            let me = cancel_handle();
            ignore_cancellation(|| {
                inside.send(()).unwrap();
                while !me.is_cancelled() {
                    crate::common::thread::yield_now();
                }
                // The only stack is that of the caller.
                cygnet::task().stack_size(256 << 10).unwrap().spawn(|| 7).join().unwrap_err()
            })
        });
        is_inside.recv().unwrap();
        drop(rt);
        let joined = task.join().unwrap().unwrap();
        assert!(matches!(joined, JoinError::NoStack(_)), "{joined:?}");
    });
}
