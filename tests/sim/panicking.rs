//! Virtual threads that unwind at the same time, on one OS thread whose panics `std` counts.

use crate::common::prelude::*;
use cygnet::sim::{self, Options, thread};
use std::sync::Mutex;
use std::thread::panicking;

fn options() -> Options {
    Options::new().seeds(0..300)
}

/// Lets the others run, and checks whether its thread is panicking at each turn.
fn rest(expected: bool) {
    for _ in 0..5 {
        assert_eq!(panicking(), expected);
        thread::yield_now();
        assert_eq!(panicking(), expected);
    }
}

fn unwind() {
    rest(false);
    let end = catch_unwind(|| {
        let _rests = OnDrop(|| rest(true));
        resume_unwind(Box::new(()));
    });
    assert!(end.is_err());
    rest(false);
}

#[test]
fn each_virtual_thread_sees_its_own_panics_alone() {
    sim::check(&options(), || {
        thread::scope(|s| {
            (0..3).for_each(|_| drop(s.spawn(unwind)));
            s.spawn(|| rest(false));
        });
    });
}

#[test]
fn a_panic_of_another_virtual_thread_poisons_no_lock() {
    sim::check(&options(), || {
        thread::scope(|s| {
            s.spawn(unwind);
            s.spawn(|| {
                for _ in 0..10 {
                    let lock = Mutex::new(());
                    // Only this thread locks it, so it blocks no virtual thread.
                    let guard = lock.lock().unwrap();
                    thread::yield_now();
                    drop(guard);
                    assert!(!lock.is_poisoned());
                }
            });
        });
    });
}

#[test]
fn a_run_that_fails_in_an_unwinding_leaves_its_os_thread_in_order() {
    let failed = sim::run(0, || {
        let _waits = OnDrop(thread::park);
        resume_unwind(Box::new(()));
    });
    assert_eq!(failed.unwrap_err().reason, sim::Reason::Deadlock);
    assert!(!panicking());
}

#[test]
fn virtual_threads_panic_with_a_text_that_looks_at_a_lock() {
    sim::check(&options(), || {
        let looks = || {
            let lock = cygnet::sync::Mutex::new(1);
            let end = catch_unwind(AssertUnwindSafe(|| panic!("a bad state: {lock:?}")));
            assert!(end.is_err());
        };
        thread::scope(|s| (0..3).for_each(|_| drop(s.spawn(looks))));
    });
}
