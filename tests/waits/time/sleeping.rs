//! Sleeping.

use super::{LONG, reason, short, with_enough_time};
use crate::common::prelude::*;

#[test]
fn a_sleep_is_not_shorter_than_it_should_be() {
    in_task(|_| {
        for micros in [1, 10, 65, 66, 100, 1_000, 5_000] {
            let (time, start) = (Duration::from_micros(micros), now());
            sleep(time).unwrap();
            assert!(now() - start >= time, "{:?} of {time:?}", (now() - start));
        }
    });
}

#[test]
fn sleepers_wake_in_the_order_of_their_times_while_their_worker_does_something_else() {
    common::real!("what the system says of threads");
    let all_sleep = |rt: &Runtime| rt.metrics().workers.iter().map(|w| w.timers).sum::<u64>() == 5;
    with_each(|rt| {
        with_enough_time(|gap| {
            rt.block_on(|| {
                let (order, start) = (Rc::new(RefCell::new(Vec::new())), now() + gap);
                // Of one worker: with others they are not in step.
                let tasks = [3u32, 1, 4, 2, 0].map(|n| {
                    spawn_local(own(&order, move |order| {
                        sleep_until(start + gap * n).unwrap();
                        order.borrow_mut().push(n);
                    }))
                });
                while !all_sleep(rt) && now() < start {
                    yield_now().unwrap();
                }
                let in_time = all_sleep(rt) && now() < start;
                compute(1_000);
                tasks.into_iter().for_each(|task| task.join().unwrap());
                assert!(!in_time || *order.borrow() == [0, 1, 2, 3, 4], "{order:?}");
                in_time
            })
        });
    });
}

#[test]
fn a_sleep_until_the_past_and_one_of_no_time_are_a_yield() {
    in_task_with(&[1], |_| {
        let other = Flag::new();
        let task = spawn(move || {
            yield_now().unwrap();
            other.set();
        });
        while !other.get() {
            sleep(Duration::ZERO).unwrap();
            sleep_until(now() - short()).unwrap();
        }
        task.join().unwrap();
    });
}

#[test]
fn a_sleep_without_end_is_ended_by_a_cancel() {
    with_each(|rt| {
        let sleeps = |time| rt.spawn(move || reason(sleep(time)));
        let tasks = parking(rt, 2, || [Duration::MAX, LONG].map(sleeps));
        for task in tasks {
            task.cancel("enough");
            assert_eq!(task.join().unwrap(), Reason::from("enough"));
        }
    });
}

#[test]
fn a_great_many_sleepers_wake_once_each_and_leave_nothing_behind() {
    let many = scaled_in_debug(20_000);
    in_task_with(&[1, 2, 8], |rt| {
        let woken = Count::new();
        let sleeps = move |n| {
            sleep(Duration::from_micros((n * 7_919 % 50_000) as u64)).unwrap();
            woken.up();
        };
        scope(|s| (0..many).for_each(|n| drop(s.spawn(move || sleeps(n)))));
        assert_eq!(woken.get(), many);
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn cancelled_sleeps_and_timeouts_in_time_leave_no_timer() {
    with_each(|rt| {
        let task = parked(rt, 101, || {
            let tasks: Vec<_> = (0..100).map(|_| spawn(|| sleep(LONG).is_err())).collect();
            let _ = park();
            tasks.len()
        });
        assert_eq!(rt.metrics().timers(), 100);
        task.cancel("enough");
        task.join().unwrap();
        rt.block_on(|| (0..100).for_each(|n| assert_eq!(timeout(LONG, || n).unwrap(), n)));
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn a_cancel_races_the_end_of_a_sleep() {
    with_each(|rt| {
        for round in 0..scaled(300) {
            let task = rt.spawn(|| sleep(Duration::from_micros(100)));
            if round % 2 == 0 {
                compute(round as u64 % 200);
            }
            task.cancel("now");
            let _ = task.join();
        }
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn workers_that_sleep_use_no_processor_and_wake_for_the_first_timer() {
    with(&[1, 2, 8], |rt| {
        let sleeps = || rt.metrics().workers.iter().map(|w| w.sleeps).sum::<u64>();
        let (before, start) = (sleeps(), now());
        rt.block_on(|| sleep(Duration::from_millis(100)).unwrap());
        assert!(now() - start >= Duration::from_millis(100));
        // Each lies down a few times on its way to rest, and none again and again.
        let slept = sleeps() - before;
        assert!(slept < 20 * rt.workers() as u64, "{slept}");
    });
}

#[test]
fn a_migratable_task_may_sleep() {
    in_task(|rt| {
        let tasks = (0..50).map(|n| {
            let body = move || {
                (0..5).for_each(|_| sleep(Duration::from_micros(50 + n)).unwrap());
                timeout(Duration::from_micros(300), || park().is_err()).is_err()
            };
            // SAFETY: it holds a number.
            unsafe { cygnet::task().migratable() }.spawn(body)
        });
        assert!(join_all(tasks).into_iter().all(|late| late));
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}
