//! Intervals: which ticks come, told by the moments at which they were due, whoever waits for them.

use crate::common::{self, eventually, panic_of, parks, runtime, scaled, with_each, within};
use cygnet::{
    Interval, MissedTicks, Reason, RuntimeEnded, interval, interval_at, sleep, spawn, wait,
};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(1);
/// So long that no test waits for it, nor is late by so much.
const HOUR: Duration = Duration::from_secs(3600);

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// One whose first tick was due so many hours and a half ago.
fn late_by(hours: u32, missed: MissedTicks) -> (Instant, Interval) {
    let start = common::now() - hours * HOUR - HOUR / 2;
    let mut ticks = interval_at(start, HOUR);
    ticks.set_missed_ticks(missed);
    (start, ticks)
}

#[test]
fn the_first_tick_comes_at_once_and_each_other_a_period_after_the_one_before() {
    with_each(|rt| {
        rt.block_on(|| {
            let before = common::now();
            let mut ticks = interval(SHORT);
            let first = ticks.tick().unwrap();
            assert!(first >= before && first <= common::now());
            for n in 1..5 {
                let due = ticks.tick().unwrap();
                assert_eq!(due, first + n * SHORT);
                assert!(common::now() >= due, "it came before it was due");
            }
            let start = common::now() + 2 * SHORT;
            let mut ticks = interval_at(start, SHORT);
            for n in 0..5 {
                assert_eq!(ticks.tick(), Ok(start + n * SHORT));
            }
        });
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn a_burst_catches_up_with_what_was_missed() {
    with_each(|rt| {
        rt.block_on(|| {
            let (start, mut ticks) = late_by(10, MissedTicks::Burst);
            assert_eq!(ticks.missed_ticks(), MissedTicks::default());
            for n in 0..=10 {
                assert_eq!(ticks.tick(), Ok(start + n * HOUR));
            }
            assert_eq!(ticks.next_tick(), Some(start + 11 * HOUR));
            assert!(poll(pin!(ticks.tick_async())).is_pending());
        });
    });
}

#[test]
fn a_delay_begins_anew_with_the_late_one() {
    with_each(|rt| {
        rt.block_on(|| {
            let (start, mut ticks) = late_by(10, MissedTicks::Delay);
            let before = common::now();
            assert_eq!(ticks.tick(), Ok(start));
            let next = ticks.next_tick().unwrap();
            assert!(next >= before + HOUR && next <= common::now() + HOUR);
            // Likewise of a future.
            ticks.reset_at(start);
            let before = common::now();
            assert_eq!(wait(ticks.tick_async()), Ok(Ok(start)));
            let next = ticks.next_tick().unwrap();
            assert!(next >= before + HOUR && next <= common::now() + HOUR);
        });
    });
}

#[test]
fn a_skip_leaves_out_what_was_missed() {
    with_each(|rt| {
        rt.block_on(|| {
            let (start, mut ticks) = late_by(10, MissedTicks::Skip);
            assert_eq!(ticks.tick(), Ok(start));
            assert_eq!(ticks.next_tick(), Some(start + 11 * HOUR));
            assert!(poll(pin!(ticks.tick_async())).is_pending());
        });
    });
}

#[test]
fn a_tick_that_was_cancelled_or_dropped_is_not_used_up() {
    with_each(|rt| {
        let handle = rt.handle();
        let before = parks(rt);
        // While it waits.
        let start = common::now() + HOUR;
        let mut ticks = handle.interval_at(start, HOUR);
        let task = rt.spawn(move || {
            let told = ticks.tick().unwrap_err();
            (told.reason().clone(), ticks)
        });
        eventually("it waits", || parks(rt) > before);
        task.cancel("enough");
        let (reason, mut ticks) = task.join().unwrap();
        assert_eq!((reason, ticks.next_tick()), (Reason::from("enough"), Some(start)));
        // On entry, though it is due.
        let start = common::now();
        ticks.reset_at(start);
        let task = rt.spawn(move || {
            cygnet::cancel_handle().cancel("enough");
            assert!(ticks.tick().is_err());
            ticks
        });
        let mut ticks = task.join().unwrap();
        assert_eq!(ticks.next_tick(), Some(start));
        // A future that is dropped, before it was polled, and while it waits.
        ticks.reset_at(start + HOUR);
        drop(ticks.tick_async());
        assert!(poll(pin!(ticks.tick_async())).is_pending());
        assert_eq!(ticks.next_tick(), Some(start + HOUR));
        ticks.reset_at(start);
        drop(ticks.tick_async());
        assert_eq!(wait(ticks.tick_async()), Ok(Ok(start)));
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn a_cancel_races_a_tick_and_takes_none_away() {
    with_each(|rt| {
        let period = Duration::from_micros(150);
        let mut ticks = rt.handle().interval(period);
        let mut expected = ticks.next_tick().unwrap();
        let begun = Arc::new(AtomicBool::new(false));
        for round in 0..scaled(200) as u64 {
            let task = rt.spawn({
                let begun = Arc::clone(&begun);
                move || {
                    begun.store(true, Ordering::Relaxed);
                    let mut taken = Vec::new();
                    while let Ok(due) = ticks.tick() {
                        taken.push(due);
                    }
                    (taken, ticks)
                }
            });
            // The first one. If a later one has not started the interval is gone with it. Where the machine is slow none of
            // them need ever wait: each tick is late.
            eventually("it has begun", || begun.load(Ordering::Relaxed));
            common::compute(round * 13 % 400);
            task.cancel("now");
            let Ok((taken, back)) = task.join() else {
                ticks = rt.handle().interval_at(expected, period);
                continue;
            };
            for due in taken {
                assert_eq!(due, expected);
                expected += period;
            }
            ticks = back;
            assert_eq!(ticks.next_tick(), Some(expected));
        }
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn tasks_threads_and_futures_take_ticks_of_one_interval_by_turns() {
    with_each(|rt| {
        let mut ticks = rt.handle().interval(SHORT);
        let first = ticks.next_tick().unwrap();
        for n in 0..4 {
            let (due, back) = rt.spawn(move || (ticks.tick().unwrap(), ticks)).join().unwrap();
            ticks = back;
            assert_eq!(due, first + 4 * n * SHORT);
            assert_eq!(ticks.tick(), Ok(first + (4 * n + 1) * SHORT));
            assert_eq!(wait(ticks.tick_async()), Ok(Ok(first + (4 * n + 2) * SHORT)));
            let due = rt.block_on(|| wait(ticks.tick_async()));
            assert_eq!(due, Ok(Ok(first + (4 * n + 3) * SHORT)));
        }
    });
}

#[test]
fn a_tick_of_another_runtime_s_interval_and_the_end_of_that() {
    within(|| {
        let (rt, other) = (runtime(1), runtime(1));
        let mut ticks = rt.handle().interval(SHORT);
        let first = ticks.next_tick().unwrap();
        assert_eq!(other.block_on(|| ticks.tick()), Ok(first));
        ticks.reset_at(common::now() + HOUR);
        let far = ticks.next_tick();
        common::thread::scope(|threads| {
            let waits = threads.spawn(|| {
                // On a plain thread it is the end of the interval's own that counts.
                let ended = ticks.tick().unwrap_err();
                assert_eq!(*ended.reason(), Reason::RuntimeShutDown);
            });
            eventually("it waits", || rt.metrics().timers() == 1);
            drop(rt);
            waits.join().unwrap();
        });
        assert_eq!(ticks.next_tick(), far);
        assert_eq!(wait(ticks.tick_async()), Ok(Err(RuntimeEnded)));
        let past = first - HOUR;
        ticks.reset_at(past);
        assert_eq!(other.block_on(|| ticks.tick()), Ok(past));
        assert_eq!(wait(ticks.tick_async()), Ok(Ok(past + SHORT)));
    });
}

#[test]
fn a_reset_puts_the_next_tick_off_by_a_period() {
    with_each(|rt| {
        rt.block_on(|| {
            let mut ticks = interval(HOUR);
            let before = common::now();
            ticks.reset();
            let next = ticks.next_tick().unwrap();
            assert!(next >= before + HOUR && next <= common::now() + HOUR);
            ticks.reset_at(before);
            assert_eq!(ticks.tick(), Ok(before));
            assert_eq!((ticks.next_tick(), ticks.period()), (Some(before + HOUR), HOUR));
        });
    });
}

#[test]
fn a_period_of_no_time_is_refused_and_one_of_all_time_has_one_tick() {
    with_each(|rt| {
        let said = panic_of(|| rt.handle().interval(Duration::ZERO));
        assert!(said.contains("a period longer than zero"), "{said}");
        rt.block_on(|| {
            for said in [
                panic_of(|| interval(Duration::ZERO)),
                panic_of(|| interval_at(common::now(), Duration::ZERO)),
            ] {
                assert!(said.contains("a period longer than zero"), "{said}");
            }
            let mut ticks = interval(Duration::MAX);
            ticks.tick().unwrap();
            assert_eq!(ticks.next_tick(), None);
            assert!(poll(pin!(ticks.tick_async())).is_pending());
            let waits = spawn(move || ticks.tick().is_err());
            sleep(SHORT).unwrap();
            waits.cancel("enough");
            assert!(!matches!(waits.join(), Ok(false)));
        });
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn where_nothing_may_wait_a_tick_says_so_and_is_not_used_up() {
    with_each(|rt| {
        rt.block_on(|| {
            let start = common::now() + HOUR;
            let mut ticks = interval_at(start, HOUR);
            let said = panic_of(|| cygnet::no_suspend(|| ticks.tick()));
            assert!(said.contains("inside no_suspend"), "{said}");
            assert_eq!(ticks.next_tick(), Some(start));
        });
    });
}
