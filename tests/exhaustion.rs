//! What happens when no stack can be had: tasks wait, children are run in place, and only a true
//! deadlock is an error, which says what ran out.

mod common;

use common::{Drops, within};
use cygnet::{
    Builder, JoinError, Runtime, YieldTo, checkpoint, park, scope, spawn, spawn_local, unparker,
    yield_now, yield_to,
};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Guests have a quarter of it, which must do for a sanitizer too.
const STACK: usize = if common::SANITIZED { 1 << 20 } else { 128 << 10 };

fn runtime(workers: usize, stacks: usize) -> Runtime {
    Runtime::builder().workers(workers).max_stacks(stacks).stack_size(STACK).build().unwrap()
}

/// One stack, for which the captures of `greedy` are too many.
fn narrow() -> Builder {
    Runtime::builder().workers(1).max_stacks(1).stack_size(128 << 10)
}

/// A closure whose captures ask for a larger stack.
fn greedy() -> impl FnOnce() -> u8 + Send {
    let captures = [7u8; (8 << 10) + 64];
    move || black_box(&captures)[0]
}

/// Fills more than half of a stack, so that no child is run in place the usual way.
#[inline(never)]
fn deep<R>(f: impl FnOnce() -> R) -> R {
    let mut ballast = MaybeUninit::<[u8; STACK / 8 * 5]>::uninit();
    black_box(&mut ballast);
    let result = f();
    black_box(&mut ballast);
    result
}

#[test]
fn fresh_tasks_wait_for_a_stack_and_none_is_lost() {
    within(|| {
        for (workers, stacks) in [(1, 1), (1, 2), (2, 2), (2, 3), (4, 4)] {
            let rt = runtime(workers, stacks);
            let ended = Arc::new(AtomicUsize::new(0));
            for _ in 0..1_000 {
                let ended = ended.clone();
                rt.spawn(move || {
                    for _ in 0..3 {
                        yield_now().unwrap();
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
            while ended.load(Ordering::Relaxed) < 1_000 {
                std::thread::yield_now();
            }
            assert!(rt.metrics().stacks_high_water <= stacks);
        }
    });
}

#[test]
fn no_fresh_task_is_lost_while_another_joins_again_and_again_on_the_only_stack() {
    within(|| {
        let rt = runtime(1, 1);
        let handle = rt.handle();
        let ended = Arc::new(AtomicUsize::new(0));
        rt.block_on(|| {
            for _ in 0..100 {
                let ended = ended.clone();
                let count = move || ended.fetch_add(1, Ordering::Relaxed);
                handle.spawn(count).unwrap().detach();
            }
            // Often enough that the fresh ones have their turn many times, and never a stack.
            for _ in 0..10_000 {
                spawn(|| ()).join().unwrap();
            }
        });
        while ended.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn parked_tasks_that_hold_all_stacks_keep_fresh_ones_waiting_until_they_go_on() {
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers, 2);
            let (send, receive) = std::sync::mpsc::channel();
            let parked: Vec<_> = (0..2)
                .map(|_| {
                    let send = send.clone();
                    rt.spawn(move || {
                        send.send(unparker()).unwrap();
                        park().unwrap();
                    })
                })
                .collect();
            let unparkers: Vec<_> = receive.iter().take(2).collect();
            let fresh: Vec<_> = (0..10).map(|i| rt.spawn(move || i)).collect();
            // Long enough for a wrong verdict.
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(fresh.iter().all(|task| !task.is_finished()));
            unparkers.iter().for_each(|unparker| unparker.unpark());
            parked.into_iter().for_each(|task| task.join().unwrap());
            let sum: i32 = fresh.into_iter().map(|task| task.join().unwrap()).sum();
            assert_eq!(sum, 45);
        }
    });
}

#[test]
fn a_join_below_the_half_mark_runs_its_child_on_the_stack_that_is_there() {
    within(|| {
        let rt = runtime(1, 1);
        let value = rt.block_on(|| deep(|| spawn(|| 7).join()));
        assert_eq!(value.unwrap(), 7);
    });
}

#[test]
fn the_end_of_a_scope_below_the_half_mark_runs_all_its_children() {
    within(|| {
        for workers in [1, 2, 4] {
            let rt = runtime(workers, workers);
            for _ in 0..20 {
                let count = AtomicUsize::new(0);
                rt.block_on(|| {
                    deep(|| {
                        scope(|s| {
                            for _ in 0..100 {
                                s.spawn(|| {
                                    yield_now().unwrap();
                                    count.fetch_add(1, Ordering::Relaxed)
                                });
                            }
                        })
                    })
                });
                assert_eq!(count.into_inner(), 100);
            }
        }
    });
}

#[test]
fn block_on_below_the_half_mark_runs_its_child_on_the_stack_that_is_there() {
    within(|| {
        let rt = runtime(1, 1);
        let handle = rt.handle();
        assert_eq!(rt.block_on(|| deep(|| handle.block_on(|| 7))), 7);
    });
}

#[test]
fn a_task_run_as_a_guest_may_wait_and_be_woken() {
    within(|| {
        let rt = runtime(1, 1);
        let value = rt.block_on(|| {
            deep(|| {
                spawn(|| {
                    let me = unparker();
                    let thread = std::thread::spawn(move || me.unpark());
                    park().unwrap();
                    thread.join().unwrap();
                    7
                })
                .join()
            })
        });
        assert_eq!(value.unwrap(), 7);
    });
}

#[test]
fn a_guest_that_panics_gives_its_panic_to_the_join() {
    within(|| {
        let rt = runtime(1, 1);
        let error = rt.block_on(|| deep(|| spawn(|| panic!("the guest")).join())).unwrap_err();
        assert!(error.is_panic());
    });
}

#[test]
fn a_cancel_of_the_waiter_comes_into_force_after_the_guest_has_ended() {
    within(|| {
        let rt = runtime(1, 1);
        let (started, wait) = std::sync::mpsc::channel();
        let (report, reported) = std::sync::mpsc::channel();
        let go_on = Arc::new(AtomicBool::new(false));
        let ended = Arc::new(AtomicBool::new(false));
        let host = rt.spawn({
            let (go_on, ended) = (go_on.clone(), ended.clone());
            move || {
                let guest = {
                    let ended = ended.clone();
                    move || {
                        started.send(()).unwrap();
                        while !go_on.load(Ordering::Acquire) {
                            yield_now().unwrap();
                        }
                        // Turns for the host, if it has been woken too early.
                        (0..10).for_each(|_| yield_now().unwrap());
                        ended.store(true, Ordering::Release);
                    }
                };
                let joined = deep(|| spawn(guest).join()).map_err(|error| error.to_string());
                let ended = ended.load(Ordering::Acquire);
                report.send((joined, ended, yield_now())).unwrap();
            }
        });
        wait.recv().unwrap();
        drop(host);
        go_on.store(true, Ordering::Release);
        let (joined, ended, waited) = reported.recv().unwrap();
        assert_eq!((joined, ended), (Ok(()), true), "the host went on before its guest had ended");
        assert!(waited.is_err(), "the cancel was lost");
    });
}

#[test]
fn a_waiter_that_was_cancelled_goes_on_and_is_not_asked_for_its_stack_for_ever() {
    within(|| {
        let rt = runtime(1, 2);
        let (send, receive) = std::sync::mpsc::channel();
        let (give, take) = std::sync::mpsc::channel();
        let waiter = rt.spawn(move || {
            let child = spawn(move || {
                send.send(unparker()).unwrap();
                park().unwrap();
                // Its parent is ready from now on, and would have had room for a child of ours.
                drop::<cygnet::Task<bool>>(take.recv().unwrap());
                spawn(|| ()).detach();
            });
            assert_eq!(yield_to(&child), Ok(YieldTo::Ran));
            // No stack is left for this one.
            cygnet::task().stack_size(4 << 20).unwrap().spawn(|| ()).detach();
            child.join().is_err()
        });
        let child = receive.recv().unwrap();
        give.send(waiter).unwrap();
        // Long enough for the parent to wait.
        std::thread::sleep(std::time::Duration::from_millis(20));
        child.unpark();
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn a_yielding_task_does_not_keep_a_child_from_the_stack_of_its_parent() {
    within(|| {
        let rt = runtime(1, 2);
        let flag = Arc::new(AtomicBool::new(false));
        let spinner = rt.spawn({
            let flag = flag.clone();
            move || {
                while !flag.load(Ordering::Acquire) {
                    yield_now().unwrap();
                }
            }
        });
        rt.block_on(|| deep(|| spawn(move || flag.store(true, Ordering::Release)).join().unwrap()));
        spinner.join().unwrap();
    });
}

#[test]
fn a_computing_worker_does_not_keep_a_child_from_the_stack_of_its_parent() {
    within(|| {
        let rt = runtime(2, 2);
        let flag = Arc::new(AtomicBool::new(false));
        let spinner = rt.spawn({
            let flag = flag.clone();
            move || {
                while !flag.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            }
        });
        rt.block_on(|| deep(|| spawn(move || flag.store(true, Ordering::Release)).join().unwrap()));
        spinner.join().unwrap();
    });
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
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle.block_on(greedy())))
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
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
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
            cygnet::blocking(|| std::thread::sleep(std::time::Duration::from_millis(300)));
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
            other.block_on(|| std::thread::sleep(std::time::Duration::from_millis(300)));
            child.join()
        });
        assert_eq!(value.unwrap(), 7);
    });
}

#[test]
fn a_child_without_a_stack_is_called_by_the_worker_that_is_held_until_it_ends() {
    struct Late<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Late<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    within(|| {
        let rt = runtime(2, 2);
        let (send, receive) = std::sync::mpsc::channel();
        let parked = rt.spawn(move || {
            send.send(unparker()).unwrap();
            park().unwrap();
        });
        let unparker = receive.recv().unwrap();
        let called = AtomicUsize::new(0);
        let error = rt.try_block_on(|| {
            let _late = Late(|| {
                scope(|s| {
                    s.spawn(|| called.fetch_add(1, Ordering::Relaxed));
                    // Long enough for the other worker to take it, and to find no stack for it.
                    std::thread::sleep(std::time::Duration::from_millis(50));
                });
            });
            panic!("here")
        });
        assert!(error.is_err());
        assert_eq!(called.into_inner(), 1);
        unparker.unpark();
        parked.join().unwrap();
    });
}

#[test]
fn a_local_task_without_a_stack_is_run_as_a_guest_too() {
    within(|| {
        let rt = runtime(1, 1);
        let value = rt.block_on(|| {
            deep(|| {
                let local = std::rc::Rc::new(7);
                spawn_local(move || *local).join()
            })
        });
        assert_eq!(value.unwrap(), 7);
    });
}

/// Stands for a thread that the system does not run for a while.
unsafe extern "C" fn doze(_: libc::c_int) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 300_000_000 };
    // SAFETY: the pointers are to a live value and null.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

#[test]
#[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
fn a_worker_that_is_slow_to_get_up_is_not_told_twice_to_run_the_same_guest() {
    // SAFETY: no precondition.
    let this_thread = || unsafe { libc::gettid() };
    within(|| {
        // SAFETY: a handler for a signal that nobody else uses here.
        unsafe { libc::signal(libc::SIGUSR1, doze as *const () as libc::sighandler_t) };
        let rt = runtime(2, 2);
        let (send, receive) = std::sync::mpsc::channel();
        let compute = Arc::new(AtomicBool::new(true));
        let neighbour = rt.spawn({
            let (compute, send) = (compute.clone(), send.clone());
            move || {
                send.send(this_thread()).unwrap();
                while compute.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                park().is_err()
            }
        });
        receive.recv().unwrap();
        let called = Arc::new(AtomicUsize::new(0));
        let host = rt.spawn({
            let called = called.clone();
            move || {
                // So many that their worker does not come to the guest behind them.
                (0..20_000).for_each(|_| spawn_local(|| ()).detach());
                let guest = spawn_local(move || called.fetch_add(1, Ordering::Relaxed));
                deep(|| {
                    send.send(this_thread()).unwrap();
                    guest.join()
                })
            }
        });
        let worker = receive.recv().unwrap();
        // It rests, but for short looks at some of its tasks; the neighbour's is the last to rest.
        std::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: a thread of this process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), worker, libc::SIGUSR1) };
        std::thread::sleep(std::time::Duration::from_millis(20));
        compute.store(false, Ordering::Release);
        assert_eq!(host.join().unwrap().unwrap(), 0);
        drop(neighbour);
        drop(rt);
        assert_eq!(called.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_runtime_that_is_dropped_while_tasks_wait_for_stacks_ends_without_calling_them() {
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers, workers);
            let (send, receive) = std::sync::mpsc::channel();
            let cut = Arc::new(AtomicUsize::new(0));
            for _ in 0..workers {
                let (send, cut) = (send.clone(), cut.clone());
                rt.spawn(move || {
                    send.send(()).unwrap();
                    cut.fetch_add(usize::from(park().is_err()), Ordering::Relaxed);
                })
                .detach();
            }
            receive.iter().take(workers).for_each(drop);
            let dropped = Drops::new();
            let called = Arc::new(AtomicUsize::new(0));
            for _ in 0..100 {
                let (captured, called) = (dropped.guard(), called.clone());
                rt.spawn(move || {
                    let _captured = captured;
                    called.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
            drop(rt);
            assert_eq!(cut.load(Ordering::Relaxed), workers);
            assert_eq!(called.load(Ordering::Relaxed), 0);
            assert_eq!(dropped.count(), 100);
        }
    });
}

#[test]
fn nested_scopes_on_few_stacks_end() {
    fn tree(depth: u32, leaves: &AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        scope(|s| {
            for _ in 0..3 {
                s.spawn(move || tree(depth - 1, leaves));
            }
            let _ = checkpoint();
        });
    }
    within(|| {
        for (workers, stacks) in [(1, 1), (1, 2), (2, 2), (2, 5), (4, 4)] {
            // Large enough that depth is no matter; their number is.
            let rt = Runtime::builder()
                .workers(workers)
                .max_stacks(stacks)
                .stack_size(1 << 20)
                .build()
                .unwrap();
            for _ in 0..10 {
                let leaves = AtomicUsize::new(0);
                rt.block_on(|| tree(5, &leaves));
                assert_eq!(leaves.into_inner(), 243);
            }
        }
    });
}
