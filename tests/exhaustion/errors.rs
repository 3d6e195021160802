//! An error where no task could ever go on, and none where one still could.

use crate::common::within;
use crate::{STACK, runtime};
use cygnet::{Builder, JoinError, Runtime, scope, spawn};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One stack, for which `greedy` asks too much.
fn narrow() -> Builder {
    Runtime::builder().workers(1).max_stacks(1).stack_size(128 << 10)
}

/// A closure that asks for a larger stack by what it captures and what it returns: half of it each, as those who
/// pass the captures on have a copy each in a debug build, and run on the small one.
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
            let result = rt.block_on(|| {
                // With more workers than one a stack may be left.
                cygnet::task().stack_size(1 << 20).unwrap().spawn(|| 7).join()
            });
            match result {
                Ok(7) if workers > 1 => {}
                Err(JoinError::NoStack(_)) if workers == 1 => {}
                other => panic!("{other:?} with {workers} workers"),
            }
            assert_eq!(rt.block_on(|| spawn(|| 8).join().unwrap()), 8);
        }
    });
}

#[test]
#[cfg_attr(
    target_arch = "aarch64",
    ignore = "the usual stack is larger there, and the large child fits"
)]
fn a_scope_whose_child_finds_no_stack_panics_with_the_reason_after_all_have_ended() {
    within(|| {
        let rt = narrow().build().unwrap();
        let others = AtomicUsize::new(0);
        let error = rt
            .try_block_on(|| {
                scope(|s| {
                    for _ in 0..5 {
                        s.spawn(|| others.fetch_add(1, Ordering::Relaxed));
                    }
                    s.spawn(greedy());
                    s.spawn(|| others.fetch_add(1, Ordering::Relaxed));
                });
            })
            .unwrap_err();
        let said = error.to_string();
        assert!(error.is_panic(), "{said}");
        assert!(said.contains("Builder::max_stacks"), "{said}");
        assert_eq!(others.into_inner(), 6);
    });
}

#[test]
#[cfg_attr(
    target_arch = "aarch64",
    ignore = "the usual stack is larger there, and the large child fits"
)]
fn a_task_that_was_cancelled_before_it_left_the_front_ends_without_a_stack() {
    within(|| {
        let rt = narrow().build().unwrap();
        let called = Arc::new(AtomicBool::new(false));
        rt.block_on(|| {
            let called = called.clone();
            drop(spawn(move || called.store(true, Ordering::Relaxed)));
            let error = spawn(greedy()).join().unwrap_err();
            assert!(matches!(error, JoinError::NoStack(_)), "{error}");
        });
        assert!(!called.load(Ordering::Relaxed), "it was cancelled before its start");
    });
}

#[test]
#[cfg_attr(
    target_arch = "aarch64",
    ignore = "the usual stack is larger there, and the large child fits"
)]
fn block_on_panics_with_the_reason_if_its_task_finds_no_stack() {
    within(|| {
        let rt = narrow().build().unwrap();
        let handle = rt.handle();
        let caught = rt.block_on(|| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                handle.block_on(greedy());
            }))
            .map_err(|payload| payload.downcast_ref::<String>().unwrap().clone())
        });
        let said = caught.unwrap_err();
        assert!(said.contains("all 1 stacks that Builder::max_stacks allows"), "{said}");
    });
}

#[test]
#[cfg_attr(
    target_arch = "aarch64",
    ignore = "the usual stack is larger there, and the large child fits"
)]
fn the_error_of_a_detached_child_goes_to_the_panic_hook_of_the_runtime() {
    within(|| {
        let told = Arc::new(crate::common::Mutex::new(Vec::new()));
        let rt = narrow()
            .on_panic({
                let told = told.clone();
                move |report| told.lock().unwrap().push(report.message().to_owned())
            })
            .build()
            .unwrap();
        rt.block_on(|| {
            let awaited = spawn(|| {
                spawn(greedy()).detach();
            });
            awaited.join().unwrap();
        });
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("Builder::max_stacks"), "{told:?}");
    });
}

#[test]
fn no_error_is_given_while_a_blocking_call_can_still_end() {
    within(|| {
        let rt = runtime(1, 1);
        let value = rt.block_on(|| {
            let child = spawn(|| 7);
            cygnet::blocking(|| {
                crate::common::thread::sleep(std::time::Duration::from_millis(300))
            });
            child.join()
        });
        assert_eq!(value.unwrap(), 7);
    });
}

#[test]
fn no_error_is_given_while_a_task_waits_for_another_runtime() {
    within(|| {
        let other = runtime(1, 1);
        let rt = runtime(1, 1);
        let value = rt.block_on(|| {
            let child = spawn(|| 7);
            other.block_on(|| crate::common::thread::sleep(std::time::Duration::from_millis(300)));
            child.join()
        });
        assert_eq!(value.unwrap(), 7);
    });
}
