//! An error where no task could ever go on, and none where one still could.

use crate::common::{self, Count, Flag, Mutex, within};
use crate::{STACK, runtime};
use cygnet::{Builder, JoinError, Runtime, blocking, scope, spawn, task};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

/// One stack, for which `greedy` asks too much.
fn narrow() -> Builder {
    Runtime::builder().workers(1).max_stacks(1).stack_size(128 << 10)
}

/// A closure that asks for a larger stack by the size of its captures and of its result: half of it
/// each, as the functions that pass the captures on have a copy each in a debug build, and run on
/// the small stack.
fn greedy() -> impl FnOnce() -> [u8; 4 << 10] + Send {
    let captures = [7u8; (4 << 10) + 64];
    move || [black_box(&captures)[0]; 4 << 10]
}

#[test]
fn a_chain_of_joins_deeper_than_the_stacks_are_many_ends_in_an_error_and_not_in_a_hang() {
    fn go(depth: u32) -> Result<u32, JoinError> {
        let mut ballast = MaybeUninit::<[u8; STACK / 8]>::uninit();
        black_box(&mut ballast);
        let below = match depth {
            0 => Ok(0),
            _ => spawn(move || go(depth - 1)).join()?.map(|n| n + 1),
        };
        black_box(&mut ballast);
        below
    }
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers, 3);
            assert_eq!(rt.block_on(|| go(2)).unwrap(), 2);
            let error = rt.block_on(|| go(100)).unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, JoinError::NoStack(_)), "{said}");
            assert!(said.contains("all 3 stacks that Builder::max_stacks allows"), "{said}");
            // The runtime works as before.
            assert_eq!(rt.block_on(|| go(2)).unwrap(), 2);
        }
    });
}

#[test]
fn a_child_that_needs_a_larger_stack_than_there_is_ends_in_an_error() {
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers, workers);
            // With more workers than one a stack may be left.
            match rt.block_on(|| task().stack_size(1 << 20).unwrap().spawn(|| 7).join()) {
                Ok(7) if workers > 1 => {}
                Err(JoinError::NoStack(_)) if workers == 1 => {}
                other => panic!("{other:?} with {workers} workers"),
            }
            assert_eq!(rt.block_on(|| spawn(|| 8).join().unwrap()), 8);
        }
    });
}

/// A task that was cancelled before it left the front ends without a stack.
#[test]
#[cfg_attr(
    target_arch = "aarch64",
    ignore = "the usual stack is larger there, and the large child fits"
)]
fn a_scope_block_on_or_join_whose_task_finds_no_stack_says_why() {
    within(|| {
        let rt = narrow().build().unwrap();
        let others = Count::new();
        let error = rt
            .try_block_on(|| {
                scope(|s| {
                    (0..5).for_each(|_| drop(s.spawn(|| others.up())));
                    s.spawn(greedy());
                    s.spawn(|| others.up());
                });
            })
            .unwrap_err();
        let said = error.to_string();
        assert!(error.is_panic() && said.contains("Builder::max_stacks"), "{said}");
        assert_eq!(others.get(), 6, "after all have ended");
    });
    within(|| {
        let rt = narrow().build().unwrap();
        let handle = rt.handle();
        let said = rt.block_on(|| common::panic_of(|| handle.block_on(greedy())));
        assert!(said.contains("all 1 stacks that Builder::max_stacks allows"), "{said}");
    });
    within(|| {
        let rt = narrow().build().unwrap();
        let called = Flag::new();
        rt.block_on(|| {
            drop(spawn(move || called.set()));
            let error = spawn(greedy()).join().unwrap_err();
            assert!(matches!(error, JoinError::NoStack(_)), "{error}");
        });
        assert!(!called.get(), "it was cancelled before its start");
    });
}

#[test]
#[cfg_attr(
    target_arch = "aarch64",
    ignore = "the usual stack is larger there, and the large child fits"
)]
fn the_error_of_a_detached_child_goes_to_the_panic_hook_of_the_runtime() {
    within(|| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hook = told.clone();
        let rt = narrow()
            .on_panic(move |report| hook.lock().unwrap().push(report.message().to_owned()))
            .build()
            .unwrap();
        rt.block_on(|| spawn(|| spawn(greedy()).detach()).join().unwrap());
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("Builder::max_stacks"), "{told:?}");
    });
}

#[test]
fn no_error_is_given_while_a_blocking_call_or_another_runtime_can_still_end() {
    within(|| {
        let other = runtime(1, 1);
        let sleep = || common::thread::sleep(Duration::from_millis(300));
        let waits: [&(dyn Fn() + Sync); 2] = [&|| blocking(sleep), &|| other.block_on(sleep)];
        for wait in waits {
            let value = runtime(1, 1).block_on(|| {
                let child = spawn(|| 7);
                wait();
                child.join()
            });
            assert_eq!(value.unwrap(), 7);
        }
    });
}
