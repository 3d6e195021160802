//! Intervals: which ticks come, told by the moments at which they were due, to tasks, threads and
//! futures.

use crate::common::prelude::*;
use crate::is_pending;

const SHORT: Duration = Duration::from_millis(1);
/// Longer than any test waits or is late.
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn the_first_tick_comes_at_once_and_each_other_a_period_after_the_one_before() {
    in_task(|rt| {
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
        (0..5).for_each(|n| assert_eq!(ticks.tick(), Ok(start + n * SHORT)));
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

/// An interval whose first tick was due ten hours and a half ago.
fn late(missed: MissedTicks) -> (Instant, Interval) {
    let start = common::now() - 10 * HOUR - HOUR / 2;
    let mut ticks = interval_at(start, HOUR);
    ticks.set_missed_ticks(missed);
    (start, ticks)
}

#[test]
fn missed_ticks_come_in_a_burst_delay_the_next_one_or_are_skipped() {
    in_task(|_| {
        let (start, mut ticks) = late(MissedTicks::Burst);
        assert_eq!(ticks.missed_ticks(), MissedTicks::default());
        (0..=10).for_each(|n| assert_eq!(ticks.tick(), Ok(start + n * HOUR)));
        assert_eq!(ticks.next_tick(), Some(start + 11 * HOUR));
        assert!(is_pending(pin!(ticks.tick_async())));

        let (start, mut ticks) = late(MissedTicks::Delay);
        for future in [false, true] {
            ticks.reset_at(start);
            let before = common::now();
            let due = match future {
                false => ticks.tick().unwrap(),
                true => wait(ticks.tick_async()).unwrap().unwrap(),
            };
            assert_eq!(due, start, "future: {future}");
            let next = ticks.next_tick().unwrap();
            assert!(next >= before + HOUR && next <= common::now() + HOUR, "future: {future}");
        }

        let (start, mut ticks) = late(MissedTicks::Skip);
        assert_eq!(ticks.tick(), Ok(start));
        assert_eq!(ticks.next_tick(), Some(start + 11 * HOUR));
        assert!(is_pending(pin!(ticks.tick_async())));
    });
}

#[test]
fn a_tick_that_was_cancelled_or_dropped_is_not_used_up() {
    with_each(|rt| {
        // Cancelled while it waits.
        let start = common::now() + HOUR;
        let mut ticks = rt.handle().interval_at(start, HOUR);
        let task = parked(rt, 1, move || (ticks.tick().unwrap_err().reason().clone(), ticks));
        task.cancel("enough");
        let (reason, mut ticks) = task.join().unwrap();
        assert_eq!((reason, ticks.next_tick()), (Reason::from("enough"), Some(start)));
        // Cancelled on entry, though it is due.
        let start = common::now();
        ticks.reset_at(start);
        let task = rt.spawn(move || {
            cygnet::cancel_handle().cancel("enough");
            assert!(ticks.tick().is_err());
            ticks
        });
        let mut ticks = task.join().unwrap();
        assert_eq!(ticks.next_tick(), Some(start));
        // Where nothing may suspend.
        ticks.reset_at(start + HOUR);
        let mut ticks = rt.block_on(move || {
            panics_with("inside no_suspend", || cygnet::no_suspend(|| ticks.tick()));
            ticks
        });
        assert_eq!(ticks.next_tick(), Some(start + HOUR));
        // A future that is dropped, before it was polled, and while it waits.
        drop(ticks.tick_async());
        assert!(is_pending(pin!(ticks.tick_async())));
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
        let begun = Flag::new();
        for round in 0..scaled(200) as u64 {
            let task = rt.spawn(move || {
                begun.set();
                let taken: Vec<_> = std::iter::from_fn(|| ticks.tick().ok()).collect();
                (taken, ticks)
            });
            // The first task. If a later one has not started the interval is gone with it. Where
            // the machine is slow none of them need ever wait: each tick is late.
            eventually("it has begun", || begun.get());
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
fn an_interval_ticks_for_another_runtime_and_ends_with_its_own() {
    within(|| {
        let (rt, other) = (runtime(1), runtime(1));
        let mut ticks = rt.handle().interval(SHORT);
        let first = ticks.next_tick().unwrap();
        assert_eq!(other.block_on(|| ticks.tick()), Ok(first));
        ticks.reset_at(common::now() + HOUR);
        let far = ticks.next_tick();
        common::thread::scope(|threads| {
            let waits = threads.spawn(|| {
                // On a plain thread the end of the interval's own runtime counts.
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
    in_task(|_| {
        let mut ticks = interval(HOUR);
        let before = common::now();
        ticks.reset();
        let next = ticks.next_tick().unwrap();
        assert!(next >= before + HOUR && next <= common::now() + HOUR);
        ticks.reset_at(before);
        assert_eq!(ticks.tick(), Ok(before));
        assert_eq!((ticks.next_tick(), ticks.period()), (Some(before + HOUR), HOUR));
    });
}

#[test]
fn a_period_of_zero_is_refused_and_an_endless_one_has_one_tick() {
    with_each(|rt| {
        let refused = |said: String| {
            assert!(said.contains("a period longer than zero"), "{said}");
        };
        refused(panic_of(|| rt.handle().interval(Duration::ZERO)));
        rt.block_on(|| {
            refused(panic_of(|| interval(Duration::ZERO)));
            refused(panic_of(|| interval_at(common::now(), Duration::ZERO)));
            let mut ticks = interval(Duration::MAX);
            ticks.tick().unwrap();
            assert_eq!(ticks.next_tick(), None);
            assert!(is_pending(pin!(ticks.tick_async())));
            let waits = spawn(move || ticks.tick().is_err());
            sleep(SHORT).unwrap();
            waits.cancel("enough");
            assert!(!matches!(waits.join(), Ok(false)));
        });
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}
