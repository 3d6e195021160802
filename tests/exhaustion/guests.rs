//! Tasks without a stack run on the rest of the stack of a task that waits for them.

use crate::common::mpsc::channel;
use crate::common::{self, Count, Flag, within};
use crate::{STACK, runtime};
use cygnet::{park, scope, spawn, spawn_local, unparker, yield_now};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Duration;

/// The size of the stack that a task really has. On ARM64 the guard is so large that it comes on
/// top of the size that was asked for, and the whole is rounded up.
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
fn a_wait_below_the_half_mark_runs_its_child_on_the_stack_that_is_there() {
    fn parks() -> u8 {
        let me = unparker();
        let thread = common::thread::spawn(move || me.unpark());
        park().unwrap();
        thread.join().unwrap();
        7
    }
    type Waits = (&'static str, fn() -> u8);
    let waits: [Waits; 4] = [
        ("a join", || spawn(|| 7).join().unwrap()),
        ("block_on", || cygnet::Handle::current().block_on(|| 7)),
        ("a join of a guest that parks", || spawn(parks).join().unwrap()),
        ("a join of a local task", || {
            let local = std::rc::Rc::new(7);
            spawn_local(move || *local).join().unwrap()
        }),
    ];
    for (how, wait) in waits {
        within(|| assert_eq!(runtime(1, 1).block_on(|| deep(wait)), 7, "{how}"));
    }
    within(|| {
        let panics = || spawn(|| panic!("the guest")).join();
        let error = runtime(1, 1).block_on(|| deep(panics)).unwrap_err();
        assert!(error.is_panic());
    });
}

#[test]
fn the_end_of_a_scope_below_the_half_mark_runs_all_its_children() {
    within(|| {
        for workers in [1, 2, 4] {
            let rt = runtime(workers, workers);
            for _ in 0..20 {
                let count = Count::new();
                let child = || {
                    yield_now().unwrap();
                    count.up();
                };
                rt.block_on(|| deep(|| scope(|s| (0..100).for_each(|_| drop(s.spawn(child))))));
                assert_eq!(count.get(), 100);
            }
        }
    });
}

#[test]
fn a_cancel_of_the_waiter_comes_into_force_after_the_guest_has_ended() {
    within(|| {
        let rt = runtime(1, 1);
        let (start, started) = channel();
        let (report, reported) = channel();
        let (go_on, ended) = (Flag::new(), Flag::new());
        let host = rt.spawn(move || {
            let guest = move || {
                start.send(()).unwrap();
                while !go_on.get() {
                    let _ = yield_now();
                }
                // Turns for the host, if it has been woken too early.
                (0..10).for_each(|_| assert!(yield_now().is_err(), "its host is cancelled"));
                ended.set();
            };
            let joined = deep(|| spawn(guest).join()).map_err(|error| error.to_string());
            report.send((joined, ended.get(), yield_now())).unwrap();
        });
        started.recv().unwrap();
        drop(host);
        go_on.set();
        let (joined, ended, waited) = reported.recv().unwrap();
        assert_eq!((joined, ended), (Ok(()), true), "the host went on before its guest had ended");
        assert!(waited.is_err(), "the cancel was lost");
    });
}

#[test]
fn a_task_that_yields_or_computes_does_not_keep_a_child_from_the_stack_of_its_parent() {
    let ways: [(usize, fn(Flag)); 2] = [(1, Flag::wait), (2, Flag::spin)];
    for (workers, waits) in ways {
        within(|| {
            let rt = runtime(workers, 2);
            let flag = Flag::new();
            let spinner = rt.spawn(move || waits(flag));
            rt.block_on(|| deep(|| spawn(move || flag.set()).join().unwrap()));
            spinner.join().unwrap();
        });
    }
}

#[test]
fn a_child_without_a_stack_is_called_by_the_worker_that_is_held_until_it_ends() {
    struct Late(Count);
    impl Drop for Late {
        fn drop(&mut self) {
            scope(|s| {
                s.spawn(|| self.0.up());
                // Long enough for the other worker to take it, and to find no stack for it.
                common::thread::sleep(Duration::from_millis(50));
            });
        }
    }
    within(|| {
        let rt = runtime(2, 2);
        let (send, receive) = channel();
        let parked = rt.spawn(move || {
            send.send(unparker()).unwrap();
            park().unwrap();
        });
        let unparker = receive.recv().unwrap();
        let called = Count::new();
        let error = rt.try_block_on(|| {
            let _late = Late(called);
            panic!("here")
        });
        assert!(error.is_err());
        assert_eq!(called.get(), 1);
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
    common::real!("signals");
    // SAFETY: no precondition.
    let this_thread = || unsafe { libc::gettid() };
    within(|| {
        // SAFETY: installs a handler for a signal that nothing else uses here.
        unsafe { libc::signal(libc::SIGUSR1, doze as *const () as libc::sighandler_t) };
        let rt = runtime(2, 2);
        let (send, receive) = channel();
        let (over, called) = (Flag::new(), Count::new());
        let tell = send.clone();
        let neighbour = rt.spawn(move || {
            tell.send(this_thread()).unwrap();
            over.spin();
            park().is_err()
        });
        receive.recv().unwrap();
        let host = rt.spawn(move || {
            // More tasks than their worker runs before it would come to the guest behind them.
            (0..20_000).for_each(|_| spawn_local(|| ()).detach());
            let guest = spawn_local(move || called.up());
            deep(|| {
                send.send(this_thread()).unwrap();
                guest.join()
            })
        });
        let worker = receive.recv().unwrap();
        // It rests, but for short looks at some of its tasks; the neighbour's is the last to rest.
        common::thread::sleep(Duration::from_millis(20));
        // SAFETY: a thread of this process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), worker, libc::SIGUSR1) };
        common::thread::sleep(Duration::from_millis(20));
        over.set();
        host.join().unwrap().unwrap();
        drop(neighbour);
        drop(rt);
        assert_eq!(called.get(), 1);
    });
}
