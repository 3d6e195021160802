//! Handles that cancel, in every order of drops and ends, and what a cancel says.

use crate::common::prelude::*;
use crate::{parked, until_parked, why};

/// C31.
#[test]
fn a_cancel_carries_its_reason_and_its_place() {
    with_each(|rt| {
        let task = rt.spawn(|| park().unwrap_err());
        until_parked(rt, 1);
        let line = line!() + 1;
        task.cancel(format!("number {}", 7));
        let cancelled = task.join().unwrap();
        assert_eq!(*cancelled.reason(), Reason::from("number 7"));
        let place = cancelled.place().unwrap();
        assert!(place.file().ends_with("handles.rs") && place.line() == line, "{place}");
        assert_eq!(cancelled.to_string(), format!("the task is cancelled: number 7 ({place})"));
    });
}

/// C1, C33.
#[test]
fn a_dropped_handle_is_named_with_the_place_of_the_spawn() {
    with_each(|rt| {
        let (tell, told) = channel();
        let line = line!() + 1;
        let task = rt.spawn(move || tell.send(park().unwrap_err()).unwrap());
        until_parked(rt, 1);
        drop(task);
        let cancelled = told.recv().unwrap();
        assert_eq!(*cancelled.reason(), Reason::HandleDropped);
        assert_eq!(cancelled.place().unwrap().line(), line);
    });
}

/// C32.
#[test]
fn the_first_of_several_reasons_counts() {
    with_each(|rt| {
        let task = rt.spawn(|| park().unwrap_err().reason().to_string());
        until_parked(rt, 1);
        let handle = task.cancel_handle();
        assert!(!handle.is_cancelled());
        handle.cancel("first");
        assert!(handle.is_cancelled());
        handle.clone().cancel("second");
        task.cancel("third");
        assert_eq!(task.join().unwrap(), "first");
    });
}

/// Such a child is in no list, and could be taken for one whose handle was dropped.
#[test]
fn a_task_whose_joiner_is_cancelled_is_told_why() {
    with(&[2, 3, 8], |rt| {
        for scoped in [false, true] {
            let before = parks(rt);
            let (inside, is_inside) = channel();
            let (tell, told) = channel();
            let (ask, asked) = channel();
            let task = rt.spawn(move || {
                let body = move || {
                    inside.send(()).unwrap();
                    asked.recv().unwrap();
                    tell.send(why(checkpoint())).unwrap();
                };
                // Another worker runs the child.
                let begun = || is_inside.recv().unwrap();
                if scoped {
                    scope(|s| {
                        let child = s.spawn(body);
                        begun();
                        assert!(!child.is_finished() && child.join().is_err());
                        ask.send(()).unwrap();
                    });
                } else {
                    let child = spawn(body);
                    begun();
                    assert!(!child.is_finished() && child.join().is_err());
                    ask.send(()).unwrap();
                }
            });
            until_parked(rt, before + 1);
            task.cancel("enough");
            task.join().unwrap();
            assert_eq!(told.recv().unwrap(), "enough", "scoped: {scoped}");
        }
    });
}

#[test]
fn the_end_of_the_runtime_does_not_replace_an_earlier_reason() {
    within(|| {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let handle = rt.handle();
        let (inside, is_inside) = channel();
        let (tell, told) = channel();
        let task = rt.spawn(move || {
            inside.send(()).unwrap();
            spin_until(is_cancelled);
            // By its first wait the task becomes known to others; then the runtime ends.
            let mut reasons = vec![park().unwrap_err()];
            tell.send(()).unwrap();
            spin_until(|| handle.spawn(|| ()).is_err());
            // The cancels of the runtime's end may come a little later.
            for _ in 0..100 {
                thread::yield_now();
                reasons.push(park().unwrap_err());
            }
            for cancelled in reasons {
                assert_eq!(cancelled.reason(), &Reason::HandleDropped);
            }
            ENDED.store(true, Ordering::Release);
        });
        static ENDED: AtomicBool = AtomicBool::new(false);
        is_inside.recv().unwrap();
        drop(task);
        told.recv().unwrap();
        drop(rt);
        assert!(ENDED.load(Ordering::Acquire));
    });
}

/// C10.
#[test]
fn cancelling_a_task_that_has_ended_does_nothing() {
    with_each(|rt| {
        let task = rt.spawn(|| 7);
        let handle = task.cancel_handle();
        eventually("the task ends", || task.is_finished());
        task.cancel("too late");
        handle.cancel("too late");
        assert_eq!(task.join().unwrap(), 7);
        handle.cancel("later still");
    });
}

/// C3.
#[test]
fn a_handle_may_outlive_its_task_and_the_runtime() {
    with_own(|rt| {
        let task = rt.spawn(|| (cancel_handle(), scope(|s| s.cancel_handle()), unparker()));
        let of_task = task.cancel_handle();
        let (own, of_scope, unparker) = task.join().unwrap();
        let handles = [of_task, own, of_scope];
        let use_all = || {
            unparker.unpark();
            for handle in handles.clone() {
                assert!(!handle.is_cancelled());
                let copy = handle.clone();
                handle.cancel("too late");
                drop(handle);
                copy.cancel("too late");
            }
        };
        use_all();
        assert_eq!(rt.block_on(|| 7), 7);
        drop(rt);
        use_all();
    });
}

#[test]
fn a_task_may_cancel_itself() {
    in_task(|_| {
        scope(|s| {
            assert!(checkpoint().is_ok());
            s.cancel("myself");
            assert_eq!(why(checkpoint()), "myself");
            assert_eq!(why(park()), "myself");
        });
        assert!(checkpoint().is_ok(), "what comes after the scope is not cancelled");
        let handle = cancel_handle();
        handle.cancel("myself too");
        assert_eq!(why(park()), "myself too");
    });
}

#[test]
fn a_cancel_from_a_destructor_works_during_unwinding() {
    with_each(|rt| {
        let waiting = rt.spawn(parked);
        until_parked(rt, 1);
        let handle = waiting.cancel_handle();
        rt.block_on(|| while_unwinding(|| handle.cancel("from a destructor")));
        assert_eq!(waiting.join().unwrap(), "from a destructor");
    });
}

/// C4, C5.
#[test]
fn a_handle_of_a_scope_cancels_nothing_after_the_scope() {
    with_each(|rt| {
        let (give, handles) = channel();
        let task = rt.spawn(move || {
            let told = scope(|s| {
                give.send(s.cancel_handle()).unwrap();
                let child = s.spawn(parked);
                let mine = parked();
                drop(child);
                mine
            });
            checkpoint().unwrap();
            told
        });
        let handle: CancelHandle = handles.recv().unwrap();
        until_parked(rt, 1);
        handle.cancel("the scope");
        assert!(handle.is_cancelled());
        assert_eq!(task.join().unwrap(), "the scope");
    });
}

#[test]
fn a_handle_of_a_scope_below_a_cancelled_task_says_so() {
    in_task_with(&[1, 2], |_| {
        let task = spawn(|| {
            scope(|s| {
                let handle = s.cancel_handle();
                assert!(!handle.is_cancelled());
                cancel_handle().cancel("the task");
                (handle.is_cancelled(), handle)
            })
        });
        let (at_once, handle) = task.join().unwrap();
        assert!(at_once && handle.is_cancelled());
    });
}

#[test]
fn handles_of_scopes_are_used_and_dropped_while_the_scopes_end() {
    with_each(|rt| {
        let (give, handles) = channel::<CancelHandle>();
        let foreign = thread::spawn(move || {
            let mut used = 0;
            for handle in handles {
                let copy = handle.clone();
                drop(handle);
                copy.cancel("from outside");
                used += 1;
            }
            used
        });
        let rounds = scaled_in_debug(2_000);
        rt.block_on(|| {
            for _ in 0..rounds {
                scope(|s| {
                    s.spawn(|| drop(park()));
                    give.send(s.cancel_handle()).unwrap();
                    spin_until(|| checkpoint().is_err());
                });
                checkpoint().unwrap();
            }
            drop(give);
        });
        assert_eq!(foreign.join().unwrap(), rounds);
    });
}

#[test]
fn the_wait_after_a_cancelled_scope_is_not_cut_short_by_a_late_cancel() {
    in_task(|_| {
        for _ in 0..scaled_in_debug(1_000) {
            let (give, handles) = channel::<CancelHandle>();
            let me = cygnet::unparker();
            let canceller = spawn(move || {
                let handle = handles.recv().unwrap();
                handle.cancel("maybe late");
                me.unpark();
            });
            scope(|s| give.send(s.cancel_handle()).unwrap());
            // The cancel has come, or comes now or later.
            park().unwrap();
            canceller.join().unwrap();
            give_way_until(|| true);
        }
    });
}
