//! Sections that ignore cancellation.

use crate::common::prelude::*;
use crate::{give_way_until_parked, parked, receive, until_parked, why};

/// Every wait and every query of the calling task succeeds, and so does a new grandchild.
fn assert_unaware() {
    unparker().unpark();
    assert!(park().is_ok() && yield_now().is_ok() && checkpoint().is_ok() && !is_cancelled());
    let me = unparker();
    spawn(move || me.unpark()).detach();
    park().unwrap();
    let child = spawn(|| (checkpoint().is_ok(), spawn(|| 7).join().unwrap()));
    assert_eq!(child.join().unwrap(), (true, 7));
}

fn assert_ignored_by_nested_sections(handle: &CancelHandle) {
    let result = ignore_cancellation(|| {
        let inner = ignore_cancellation(|| {
            handle.cancel("deferred");
            assert_unaware();
        });
        assert_unaware();
        let entered_after = ignore_cancellation(|| ignore_cancellation(assert_unaware));
        assert_unaware();
        (inner, entered_after)
    });
    assert_eq!(result, Ok((Ok(()), Ok(Ok(())))));
    assert_eq!([why(checkpoint()), why(park())], ["deferred", "deferred"]);
}

/// C43, C44, C45, C48.
#[test]
fn nested_sections_ignore_a_cancel_until_the_last_one_ends() {
    in_task(|_| scope(|s| assert_ignored_by_nested_sections(&s.cancel_handle())));
    in_task(|_| scope(|_| assert_ignored_by_nested_sections(&cancel_handle())));
    in_task(|_| assert_ignored_by_nested_sections(&cancel_handle()));
}

/// C49.
#[test]
fn a_panic_in_a_section_ends_it() {
    in_task(|_| {
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
}

/// C46.
#[test]
fn a_section_can_be_entered_only_before_a_cancel() {
    in_task(|_| {
        let refused = || why(ignore_cancellation(|| unreachable!("it is cancelled")));
        scope(|s| {
            s.cancel("an ancestor");
            scope(|_| assert_eq!(refused(), "an ancestor"));
        });
        ignore_cancellation(|| assert!(checkpoint().is_ok())).unwrap();
        assert!(checkpoint().is_ok(), "nothing was deferred");
        cancel_handle().cancel("first");
        assert!(checkpoint().is_err());
        assert_eq!(refused(), "first");
    });
}

/// C47, C48.
#[test]
fn a_cancel_in_a_section_marks_at_once_and_wakes_only_when_the_section_ends() {
    in_task(|rt| {
        let (give, given) = channel();
        let (tell, told) = channel();
        let task = spawn(move || {
            give.send((cancel_handle(), unparker())).unwrap();
            let waited = ignore_cancellation(|| {
                for _ in 0..3 {
                    spawn(own(&tell, |tell| tell.send(parked()).unwrap())).detach();
                }
                park()
            });
            assert_eq!(waited, Ok(Ok(())));
            [why(checkpoint()), parked()]
        });
        give_way_until_parked(4);
        let (handle, unparker) = receive(&given);
        let before = parks(rt);
        handle.cancel("meanwhile");
        assert!(handle.is_cancelled());
        (0..50).for_each(|_| yield_now().unwrap());
        assert!(!task.is_finished() && parks(rt) == before, "the cancel woke a task");
        unparker.unpark();
        assert_eq!(task.join().unwrap(), ["meanwhile"; 2]);
        assert_eq!(told.iter().collect::<Vec<_>>(), ["meanwhile"; 3]);
    });
}

/// C50.
#[test]
fn scopes_and_time_limits_opened_in_a_section_are_not_ignored() {
    in_task(|_| {
        let outer = cancel_handle();
        ignore_cancellation(|| {
            outer.cancel("deferred");
            scope(|s| {
                assert!(checkpoint().is_ok());
                s.cancel("inside");
                assert_eq!(why(checkpoint()), "inside");
            });
            assert!(checkpoint().is_ok());
            let limit = Duration::from_millis(2);
            let late = timeout(limit, || park().unwrap_err().reason().clone());
            assert_eq!(late.unwrap_err().into_inner(), Reason::Deadline);
        })
        .unwrap();
        assert_eq!(why(checkpoint()), "deferred");
    });
}

/// C44.
#[test]
fn a_cancel_of_an_outer_scope_does_not_end_a_wait_in_a_section() {
    with_each(|rt| {
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
        until_parked(rt, 1);
        outer.cancel("the outer scope");
        // The task may wake, but goes on waiting.
        for _ in 0..100 {
            assert!(!task.is_finished());
            thread::yield_now();
        }
        unparker.unpark();
        assert_eq!(task.join().unwrap(), (Ok(Ok(())), true));
    });
}

/// The child has a stack of its own, and the two stay on one worker: a wait of another kind.
#[test]
fn a_cancel_of_an_outer_scope_does_not_end_a_join_in_a_section() {
    in_task(|_| {
        scope(|outer| {
            let handle = outer.cancel_handle();
            scope(|s| {
                let joined = ignore_cancellation(|| {
                    let own_stack = cygnet::task().stack_size(256 << 10).unwrap();
                    let child = own_stack.spawn_in(s, move || {
                        handle.cancel("the outer scope");
                        (0..3).for_each(|_| yield_now().unwrap());
                        7
                    });
                    child.join()
                });
                assert_eq!(joined.unwrap().unwrap(), 7);
                assert_eq!(why(checkpoint()), "the outer scope");
            });
        });
    });
}

#[test]
fn a_join_in_a_section_finds_a_stack_when_the_runtime_ends() {
    within(|| {
        let rt = Runtime::builder().workers(1).max_stacks(1).build().unwrap();
        let (inside, is_inside) = channel();
        let task = rt.spawn(move || {
            let me = cancel_handle();
            ignore_cancellation(|| {
                inside.send(()).unwrap();
                spin_until(|| me.is_cancelled());
                // The caller has the only stack.
                cygnet::task().stack_size(256 << 10).unwrap().spawn(|| 7).join().unwrap()
            })
        });
        is_inside.recv().unwrap();
        drop(rt);
        assert_eq!(task.join().unwrap().unwrap(), 7);
    });
}
