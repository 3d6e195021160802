//! Tasks without a stack run on what is left of the stack of one that waits for them.

use crate::common::within;
use crate::{STACK, runtime};
use cygnet::{park, scope, spawn, spawn_local, unparker, yield_now};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a task really has: on ARM64 the guard is so large that it comes on top of what was asked for, and
/// the whole is rounded up.
const ROOM: usize = if cfg!(target_arch = "aarch64") { STACK / 2 * 3 } else { STACK };

/// Fills more than half of a stack, so that no child is run in place the usual way.
#[inline(never)]
fn deep<R>(f: impl FnOnce() -> R) -> R {
    let mut ballast = MaybeUninit::<[u8; ROOM / 8 * 5]>::uninit();
    black_box(&mut ballast);
    let result = f();
    black_box(&mut ballast);
    result
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
                    let thread = crate::common::thread::spawn(move || me.unpark());
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
        let (started, wait) = crate::common::mpsc::channel();
        let (report, reported) = crate::common::mpsc::channel();
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
                            let _ = yield_now();
                        }
                        // Turns for the host, if it has been woken too early.
                        (0..10)
                            .for_each(|_| assert!(yield_now().is_err(), "its host is cancelled"));
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
                    crate::common::spin_loop();
                }
            }
        });
        rt.block_on(|| deep(|| spawn(move || flag.store(true, Ordering::Release)).join().unwrap()));
        spinner.join().unwrap();
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
        let (send, receive) = crate::common::mpsc::channel();
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
                    crate::common::thread::sleep(std::time::Duration::from_millis(50));
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

/// Stands for a thread that the system does not run for a while.
unsafe extern "C" fn doze(_: libc::c_int) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 300_000_000 };
    // SAFETY: the pointers are to a live value and null.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

#[test]
#[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
fn a_worker_that_is_slow_to_get_up_is_not_told_twice_to_run_the_same_guest() {
    crate::common::real!("signals");
    // SAFETY: no precondition.
    let this_thread = || unsafe { libc::gettid() };
    within(|| {
        // SAFETY: a handler for a signal that nobody else uses here.
        unsafe { libc::signal(libc::SIGUSR1, doze as *const () as libc::sighandler_t) };
        let rt = runtime(2, 2);
        let (send, receive) = crate::common::mpsc::channel();
        let compute = Arc::new(AtomicBool::new(true));
        let neighbour = rt.spawn({
            let (compute, send) = (compute.clone(), send.clone());
            move || {
                send.send(this_thread()).unwrap();
                while compute.load(Ordering::Acquire) {
                    crate::common::spin_loop();
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
        crate::common::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: a thread of this process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), worker, libc::SIGUSR1) };
        crate::common::thread::sleep(std::time::Duration::from_millis(20));
        compute.store(false, Ordering::Release);
        assert_eq!(host.join().unwrap().unwrap(), 0);
        drop(neighbour);
        drop(rt);
        assert_eq!(called.load(Ordering::Relaxed), 1);
    });
}
