//! `Cancelled::unwind`, which ends the task without a panic message.

use crate::common::prelude::*;
use crate::until_parked;

/// Parks, deep down, and unwinds when it is cancelled.
fn deep_down(levels: usize, drops: &Drops) {
    let _guard = drops.guard();
    if levels == 0 {
        park().unwrap_or_else(|cancelled| cancelled.unwind());
    } else {
        deep_down(levels - 1, drops);
    }
}

/// C29.
#[test]
fn an_unwinding_ends_the_task_and_drops_the_values_of_its_frames() {
    with_each(|rt| {
        let drops = Drops::new();
        let task = rt.spawn(own(&drops, |theirs| deep_down(10, &theirs)));
        until_parked(rt, 1);
        task.cancel("enough");
        let Err(JoinError::Unwound(cancelled)) = task.join() else { panic!("it was not unwound") };
        assert_eq!(cancelled.reason().to_string(), "enough");
        assert_eq!(drops.count(), 11);
    });
}

/// C30.
#[test]
fn an_unwinding_is_no_panic_for_a_scope_or_for_the_panic_handler() {
    within(|| {
        let panics = Count::new();
        let rt = Builder::new().workers(2).on_panic(move |_| panics.up()).build().unwrap();
        let unwinds = || checkpoint().unwrap_or_else(|cancelled| cancelled.unwind());
        rt.block_on(|| {
            scope(|s| {
                s.spawn(move || {
                    while !cygnet::is_cancelled() {
                        spin_loop();
                    }
                    unwinds();
                });
                // On a single processor the other worker needs a turn.
                (0..3).for_each(|_| thread::yield_now());
                s.cancel("enough");
            });
            spawn(move || {
                cygnet::cancel_handle().cancel("myself");
                unwinds();
            })
            .detach();
        });
        drop(rt);
        assert_eq!(panics.get(), 0);
    });
}

#[test]
fn a_half_of_a_join_that_unwinds_waits_for_the_other_half() {
    with_each(|rt| {
        let drops = Drops::new();
        let theirs = drops.clone();
        let task = rt.spawn(move || join(|| deep_down(1, &theirs), || deep_down(2, &theirs)));
        until_parked(rt, 1);
        task.cancel("enough");
        assert!(matches!(task.join(), Err(JoinError::Unwound(_))));
        assert_eq!(drops.count(), 5);
    });
}

#[test]
fn block_on_reports_an_unwinding_as_an_error_or_panics() {
    within(|| {
        let rt: Runtime = runtime(2);
        let body = || {
            cygnet::cancel_handle().cancel("myself");
            park().unwrap_or_else(|cancelled| cancelled.unwind());
        };
        assert!(matches!(rt.try_block_on(body), Err(JoinError::Unwound(_))));
        let text = panic_of(|| rt.block_on(body));
        assert!(text.contains("unwound") && text.contains("myself"), "{text}");
        // In a task the unwinding goes on in that task.
        let theirs = rt.handle();
        let outer = rt.spawn(move || theirs.block_on(body));
        assert!(matches!(outer.join(), Err(JoinError::Unwound(_))));
    });
}
