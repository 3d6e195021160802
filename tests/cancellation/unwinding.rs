//! `Cancelled::unwind`: to the root of the task, silently.

use crate::common::{Drops, runtime, with_each, within};
use crate::until_parked;
use cygnet::{Builder, JoinError, Runtime, checkpoint, join, park, scope, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parks, deep down, and unwinds when it is cancelled.
fn deep_down(levels: usize, drops: &Drops) {
    let _guard = drops.guard();
    if levels == 0 {
        park().unwrap_or_else(|cancelled| cancelled.unwind());
    } else {
        deep_down(levels - 1, drops);
    }
}

#[test]
fn it_ends_the_task_and_drops_what_is_on_the_way() {
    with_each(|rt| {
        let (before, drops) = (crate::common::parks(rt), Drops::new());
        let task = rt.spawn({
            let drops = drops.clone();
            move || deep_down(10, &drops)
        });
        until_parked(rt, before, 1);
        task.cancel("enough");
        match task.join() {
            Err(JoinError::Unwound(cancelled)) => {
                assert_eq!(cancelled.reason().to_string(), "enough");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(drops.count(), 11);
    });
}

#[test]
fn it_is_no_panic_for_the_hook_nor_for_the_scope_nor_for_a_detached_task_s_runtime() {
    within(|| {
        let told = Arc::new(AtomicUsize::new(0));
        let rt = Builder::new()
            .workers(2)
            .on_panic({
                let told = told.clone();
                move |_| {
                    told.fetch_add(1, Ordering::Relaxed);
                }
            })
            .build()
            .unwrap();
        let unwinds = || checkpoint().unwrap_or_else(|cancelled| cancelled.unwind());
        rt.block_on(|| {
            scope(|s| {
                s.spawn(move || {
                    while !cygnet::is_cancelled() {
                        crate::common::spin_loop();
                    }
                    unwinds();
                });
                // On a single processor the other worker must come to it.
                (0..3).for_each(|_| crate::common::thread::yield_now());
                s.cancel("enough");
            });
            let task = spawn(move || {
                cygnet::cancel_handle().cancel("myself");
                unwinds();
            });
            task.detach();
        });
        drop(rt);
        assert_eq!(told.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_half_of_a_join_that_unwinds_takes_the_other_one_s_end_along() {
    with_each(|rt| {
        let (before, drops) = (crate::common::parks(rt), Drops::new());
        let task = rt.spawn({
            let drops = drops.clone();
            move || join(|| deep_down(1, &drops), || deep_down(2, &drops))
        });
        until_parked(rt, before, 1);
        task.cancel("enough");
        assert!(matches!(task.join(), Err(JoinError::Unwound(_))));
        assert_eq!(drops.count(), 5);
    });
}

#[test]
fn block_on_says_it_as_an_error_or_with_a_panic() {
    within(|| {
        let rt: Runtime = runtime(2);
        let body = || {
            cygnet::cancel_handle().cancel("myself");
            park().unwrap_or_else(|cancelled| cancelled.unwind());
        };
        assert!(matches!(rt.try_block_on(body), Err(JoinError::Unwound(_))));
        let text = crate::common::panic_of(|| rt.block_on(body));
        assert!(text.contains("unwound") && text.contains("myself"), "{text}");
        // Within a task it goes on in that one.
        let outer = rt.spawn({
            let handle = rt.handle();
            move || handle.block_on(body)
        });
        assert!(matches!(outer.join(), Err(JoinError::Unwound(_))));
    });
}
