//! Somebody looks at the clock, whatever the workers do: those that rest get up, and those that are busy look, or are seen
//! to by one that rests.

use crate::common::{eventually, give_way_until, scaled, with, with_each};
use crate::{LONG, block_on, poll};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

/// From a plain thread on every wheel, one after the other.
fn sleep_on_each(rt: &cygnet::Runtime) {
    for _ in 0..2 * rt.workers() {
        block_on(rt.handle().sleep_async(Duration::from_micros(300))).unwrap();
    }
}

#[test]
fn workers_that_sleep_get_up_for_what_is_set_from_outside() {
    with_each(|rt| {
        for round in 0..scaled(20) as u64 {
            // While they lie down, and when they have.
            std::thread::sleep(Duration::from_micros(round * 20));
            sleep_on_each(rt);
        }
        // One comes before what its worker has got up for the last time.
        let mut late = pin!(rt.handle().sleep_async(LONG));
        let _ = poll(late.as_mut(), Waker::noop());
        sleep_on_each(rt);
    });
}

#[test]
fn one_that_rests_sees_to_those_that_compute_and_do_not_ask() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(10) {
            let (begun, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let compute = || {
                let (begun, over) = (Arc::clone(&begun), Arc::clone(&over));
                move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    while !over.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                }
            };
            let tasks: Vec<_> = (1..rt.workers()).map(|_| rt.spawn(compute())).collect();
            eventually("all but one compute", || begun.load(Ordering::Relaxed) == rt.workers() - 1);
            sleep_on_each(rt);
            over.store(true, Ordering::Release);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        }
    });
}

#[test]
fn workers_that_always_have_something_to_do_look_at_the_clock() {
    with_each(|rt| {
        let over = Arc::new(AtomicBool::new(false));
        let busy = || {
            let over = Arc::clone(&over);
            move || give_way_until(|| over.load(Ordering::Acquire))
        };
        let tasks: Vec<_> = (0..4 * rt.workers()).map(|_| rt.spawn(busy())).collect();
        for _ in 0..scaled(5) {
            sleep_on_each(rt);
        }
        over.store(true, Ordering::Release);
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}
