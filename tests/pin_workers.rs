//! Workers that are bound to cores: what `Builder::pin_workers` asks of the system.

#![cfg(feature = "pin")]

mod common;

use common::watchdog::within_seconds;
use cygnet::Runtime;
use std::collections::BTreeSet;
use std::sync::mpsc::channel;

/// The cores that the calling thread may run on.
fn cores() -> BTreeSet<usize> {
    // SAFETY: zeroes are an empty set of bits.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer and the size describe the set.
    let status = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    assert_eq!(status, 0);
    // SAFETY: `core` is below the number of bits in the set.
    (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
}

/// The cores that each worker's thread may run on when it begins.
fn cores_of_workers(workers: usize, pin: bool) -> Vec<BTreeSet<usize>> {
    within_seconds(60, || {
        let (send, receive) = channel();
        let _rt = Runtime::builder()
            .workers(workers)
            .pin_workers(pin)
            .on_thread_start(move |_| send.send(cores()).unwrap())
            .build()
            .unwrap();
        receive.iter().take(workers).collect()
    })
}

#[test]
fn pinned_workers_have_a_core_each_if_there_are_enough() {
    let ours = cores();
    for workers in [1, ours.len(), 2 * ours.len()] {
        let bound = cores_of_workers(workers, true);
        assert!(bound.iter().all(|cores| cores.len() == 1), "{bound:?}");
        let taken: BTreeSet<usize> = bound.into_iter().flatten().collect();
        assert!(taken.is_subset(&ours), "{taken:?} of {ours:?}");
        assert_eq!(taken.len(), workers.min(ours.len()));
    }
}

#[test]
fn workers_that_are_not_pinned_may_run_on_every_core_of_the_process() {
    let ours = cores();
    assert!(cores_of_workers(2, false).iter().all(|cores| *cores == ours));
}

#[test]
fn threads_for_calls_that_block_are_not_pinned() {
    within_seconds(60, || {
        let rt = Runtime::builder().workers(2).pin_workers(true).build().unwrap();
        assert_eq!(rt.block_on(|| cygnet::blocking(cores)), cores());
    });
}
