//! The end of the runtime, before, after and while; and a storm.

use super::{LONG, SHORT};
use crate::common::prelude::*;
use crate::is_pending;

#[test]
fn after_the_end_of_its_runtime_it_is_ready_with_an_error_and_before_it_time_goes_on() {
    with_own(|rt| {
        let handle = rt.handle();
        let (late, waits) =
            (handle.timeout_async(LONG, std::future::pending::<()>()), handle.sleep_async(LONG));
        let unpolled = handle.sleep_async(LONG);
        // A task that the end cancels, and that has to wait for something before it goes.
        let shielded = rt.spawn(|| {
            let _ = park();
            shield(LONG, || wait(sleep_async(SHORT)).unwrap()).unwrap()
        });
        eventually("it waits", || common::parks(&rt) > 0);
        common::thread::scope(|threads| {
            let late = threads.spawn(|| block_on(late));
            let waits = threads.spawn(|| wait(waits).unwrap());
            eventually("both wait", || rt.metrics().timers() == 2);
            drop(rt);
            let ended = Err(TimeoutError::RuntimeEnded(RuntimeEnded));
            assert_eq!(late.join().unwrap(), ended);
            assert_eq!(waits.join().unwrap(), Err(RuntimeEnded));
        });
        assert_eq!(shielded.join().unwrap(), Ok(()));
        assert_eq!(block_on(unpolled), Err(RuntimeEnded));
        assert_eq!(block_on(handle.sleep_async(LONG)), Err(RuntimeEnded));
        assert_eq!(block_on(handle.sleep_async(Duration::ZERO)), Ok(()));
        assert_eq!(block_on(handle.timeout_async(LONG, async { 7 })), Ok(7));
        assert_eq!(handle.metrics().timers(), 0);
    });
}

#[test]
fn the_end_of_the_runtime_races_polls_and_drops() {
    for workers in [1, 2, 3] {
        within(|| {
            for round in 0..scaled(200) as u64 {
                let rt = runtime(workers);
                let handle = rt.handle();
                common::thread::scope(|threads| {
                    for thread in 0..2 {
                        let handle = &handle;
                        threads.spawn(move || {
                            let mut random = Random(round * 2 + thread + 1);
                            loop {
                                let time = Duration::from_micros(random.below(100));
                                let mut sleep = Box::pin(handle.sleep_async(time));
                                if random.below(2) == 0 {
                                    let _ = is_pending(sleep.as_mut());
                                } else {
                                    let _ = block_on(sleep);
                                }
                                if block_on(handle.sleep_async(LONG / 1_000_000)).is_err() {
                                    return;
                                }
                            }
                        });
                    }
                    common::compute(round * 7 % 300);
                    drop(rt);
                });
                assert_eq!(handle.metrics().timers(), 0, "timers are left");
            }
        });
    }
}

/// Makes, polls, resets, waits for and drops them, in any order.
fn visit(random: &mut Random, handle: &Handle, times: usize) {
    let mut kept: Vec<Pin<Box<Sleep>>> = Vec::new();
    for _ in 0..times {
        let time = Duration::from_micros(random.below(200));
        let at = crate::common::now() + time;
        match random.below(6) {
            0 => kept.push(Box::pin(handle.sleep_async(time))),
            1 => kept.truncate(random.below(4) as usize),
            2 => kept.iter_mut().for_each(|sleep| sleep.as_mut().reset(at)),
            3 => {
                for sleep in kept.iter_mut().filter(|sleep| !sleep.is_elapsed()) {
                    let _ = is_pending(sleep.as_mut());
                }
            }
            4 => {
                let limit = handle.timeout_async(time, handle.sleep_async(time / 2));
                let output = wait(limit).unwrap();
                assert!(matches!(output, Ok(Ok(())) | Err(TimeoutError::Elapsed)));
            }
            _ => {
                wait(handle.sleep_until_async(at)).unwrap().unwrap();
                assert!(crate::common::now() >= at);
            }
        }
    }
}

#[test]
fn a_storm_of_tasks_and_threads_leaves_nothing() {
    with_each(|rt| {
        let times = scaled_in_debug(300);
        let handle = rt.handle();
        common::thread::scope(|threads| {
            for thread in 0..3 {
                let handle = &handle;
                threads.spawn(move || visit(&mut Random(thread * 31 + 7), handle, times));
            }
            join_all((0..20).map(|task| {
                rt.spawn(own(&handle, move |handle| {
                    visit(&mut Random(task * 17 + 5), &handle, times)
                }))
            }));
        });
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}
