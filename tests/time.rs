//! Sleeping, timeouts, deadlines and shields.

mod common;

use common::{compute, parks, runtime, scaled, scaled_in_debug, with, with_each, within};
use cygnet::{
    Reason, Runtime, cancel_handle, checkpoint, deadline, ignore_cancellation, is_cancelled, join,
    park, scope, shield, sleep, sleep_until, spawn, spawn_local, timeout, yield_now,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(3);
/// So long that no test waits for it.
const LONG: Duration = Duration::from_secs(3600);

fn reason<T>(result: Result<T, cygnet::Cancelled>) -> Reason {
    result.err().expect("it is cancelled").reason().clone()
}

/// Calls `test` with a short time, and with a longer one as long as it says that it did not come in time to where it was to
/// be: other processes may have had the processor.
fn with_enough_time(mut test: impl FnMut(Duration) -> bool) {
    let mut time = SHORT;
    while !test(time) {
        time *= 2;
        assert!(time < LONG, "no time is enough");
    }
}

#[test]
fn a_sleep_is_not_shorter_than_it_should_be() {
    with_each(|rt| {
        rt.block_on(|| {
            for micros in [1, 10, 65, 66, 100, 1_000, 5_000] {
                let (time, start) = (Duration::from_micros(micros), common::now());
                sleep(time).unwrap();
                assert!(
                    (common::now() - start) >= time,
                    "{:?} of {time:?}",
                    (common::now() - start)
                );
            }
        });
    });
}

#[test]
fn sleepers_wake_in_the_order_of_their_times_while_their_worker_does_something_else() {
    common::real!("what the system says of threads");
    let all_sleep = |rt: &Runtime| rt.metrics().workers.iter().map(|w| w.timers).sum::<u64>() == 5;
    with_each(|rt| {
        with_enough_time(|gap| {
            rt.block_on(|| {
                let (order, start) = (Rc::new(RefCell::new(Vec::new())), common::now() + gap);
                // Of one worker: with others they are not in step.
                let tasks = [3u32, 1, 4, 2, 0].map(|n| {
                    let order = order.clone();
                    spawn_local(move || {
                        sleep_until(start + gap * n).unwrap();
                        order.borrow_mut().push(n);
                    })
                });
                while !all_sleep(rt) && common::now() < start {
                    yield_now().unwrap();
                }
                let in_time = all_sleep(rt) && common::now() < start;
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
    with(&[1], |rt| {
        rt.block_on(|| {
            let other = Arc::new(AtomicBool::new(false));
            let flag = other.clone();
            let task = spawn(move || {
                yield_now().unwrap();
                flag.store(true, Ordering::Relaxed);
            });
            while !other.load(Ordering::Relaxed) {
                sleep(Duration::ZERO).unwrap();
                sleep_until(common::now() - SHORT).unwrap();
            }
            task.join().unwrap();
        });
    });
}

#[test]
fn a_sleep_without_end_is_ended_by_a_cancel() {
    with_each(|rt| {
        let before = parks(rt);
        let tasks = [Duration::MAX, LONG].map(|time| rt.spawn(move || reason(sleep(time))));
        common::eventually("both sleep", || parks(rt) >= before + 2);
        for task in tasks {
            task.cancel("enough");
            assert_eq!(task.join().unwrap(), Reason::from("enough"));
        }
    });
}

#[test]
fn a_great_many_sleepers_wake_once_each_and_leave_nothing_behind() {
    let many = scaled_in_debug(20_000);
    with(&[1, 2, 8], |rt| {
        let woken = Arc::new(AtomicUsize::new(0));
        rt.block_on(|| {
            scope(|s| {
                for n in 0..many {
                    let woken = &woken;
                    s.spawn(move || {
                        sleep(Duration::from_micros((n * 7_919 % 50_000) as u64)).unwrap();
                        woken.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        });
        assert_eq!(woken.load(Ordering::Relaxed), many);
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn cancelled_sleeps_and_timeouts_in_time_leave_no_timer() {
    with_each(|rt| {
        let before = parks(rt);
        let task = rt.spawn(|| {
            let tasks: Vec<_> = (0..100).map(|_| spawn(|| sleep(LONG).is_err())).collect();
            let _ = park();
            tasks.len()
        });
        common::eventually("all sleep", || parks(rt) > before + 100);
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
fn a_timeout_ends_the_waits_in_it_and_no_others() {
    with_each(|rt| {
        rt.block_on(|| {
            let start = common::now();
            let late =
                timeout(SHORT, || (reason(park()), reason(sleep(LONG)), reason(checkpoint())));
            assert!((common::now() - start) >= SHORT);
            let told = late.unwrap_err().into_inner();
            assert_eq!(told, (Reason::Deadline, Reason::Deadline, Reason::Deadline));
            assert!(checkpoint().is_ok(), "what comes after it is not cancelled");
            sleep(Duration::from_micros(100)).unwrap();
        });
    });
}

#[test]
fn a_cancelled_wait_in_a_timeout_names_the_place_of_the_timeout() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let line = line!() + 1;
            let late = timeout(SHORT, park).unwrap_err().into_inner().unwrap_err();
            assert_eq!(late.place().unwrap().line(), line);
        });
    });
}

#[test]
fn a_timeout_reaches_the_tasks_that_were_spawned_in_it() {
    with_each(|rt| {
        rt.block_on(|| {
            with_enough_time(|time| {
                let ended = AtomicUsize::new(0);
                let late = timeout(time, || {
                    scope(|s| {
                        for n in 0..20 {
                            let ended = &ended;
                            s.spawn(move || {
                                if n % 2 == 0 {
                                    assert_eq!(reason(park()), Reason::Deadline);
                                } else {
                                    while checkpoint().is_ok() {}
                                }
                                ended.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                    spawn(|| while checkpoint().is_ok() {}).detach();
                });
                assert!(late.is_err());
                // With one worker the first that computes keeps the others from starting.
                ended.load(Ordering::Relaxed) >= 1
            });
        });
    });
}

#[test]
fn a_body_that_only_calls_checkpoint_is_told_by_a_single_worker() {
    with(&[1], |rt| {
        rt.block_on(|| {
            for depth in [0, 1, 20, 40] {
                fn descend(depth: usize) {
                    if depth == 0 {
                        while checkpoint().is_ok() {}
                    } else {
                        scope(|s| drop(s.spawn(|| descend(depth - 1)).join()));
                    }
                }
                assert!(timeout(SHORT, || descend(depth)).is_err(), "{depth} levels below");
                assert!(timeout(SHORT, || while !is_cancelled() {}).is_err());
            }
        });
    });
}

#[test]
fn a_timeout_is_seen_to_while_its_own_worker_computes() {
    with(&[2, 3, 8], |rt| {
        rt.block_on(|| {
            let told = AtomicBool::new(false);
            let late = timeout(SHORT, || {
                join(
                    || {
                        // Neither a wait nor a question: the other half is told by another worker.
                        while !told.load(Ordering::Acquire) {
                            common::spin_loop();
                        }
                    },
                    || {
                        let reason = reason(park());
                        told.store(true, Ordering::Release);
                        reason
                    },
                )
                .1
            });
            assert_eq!(late.unwrap_err().into_inner(), Reason::Deadline);
        });
    });
}

/// The worker that looks for work when the timer is set finds some that is long, and a third one is asleep.
#[test]
fn a_timer_that_is_set_while_somebody_searches_is_seen_to() {
    with(&[3, 8], |rt| {
        for _ in 0..scaled(20) {
            // So that all of them rest.
            common::thread::sleep(SHORT);
            let told = rt.block_on(|| {
                let over = Arc::new(AtomicBool::new(false));
                let until = over.clone();
                let other = spawn(move || {
                    while !until.load(Ordering::Acquire) {
                        common::thread::sleep(Duration::from_micros(100));
                    }
                });
                let (tell, told) = common::mpsc::channel::<()>();
                let late = timeout(SHORT, || {
                    let _hook = cygnet::on_cancel(move |_: cygnet::Cancelled| drop(tell));
                    // Blocks the thread, and is told by nobody but the hook.
                    told.recv_timeout(common::watchdog::patience() / 4)
                });
                over.store(true, Ordering::Release);
                other.join().unwrap();
                late.unwrap_err().into_inner()
            });
            assert_eq!(told, Err(common::mpsc::RecvTimeoutError::Disconnected));
        }
    });
}

/// It looks for work every now and then, and less and less often.
#[test]
fn a_worker_that_runs_nothing_but_descendants_is_up_when_a_timer_is_due() {
    with_each(|rt| {
        let lateness = rt.block_on(|| {
            cygnet::scope_with(cygnet::Wait::DescendantsOnly, |_| {
                let sleeps = (0..20).map(|_| {
                    let start = common::now();
                    sleep(SHORT).unwrap();
                    (common::now() - start) - SHORT
                });
                sleeps.min().unwrap()
            })
        });
        assert!(lateness < SHORT / 2, "the least late of many came {lateness:?} late");
    });
}

#[test]
fn a_worker_that_is_held_sees_to_the_timers_of_one_that_is_busy() {
    with(&[2], |rt| {
        rt.block_on(|| {
            let (begin, begun) = common::mpsc::channel();
            cygnet::no_suspend(|| {
                scope(|s| {
                    s.spawn(move || {
                        begin.send(()).unwrap();
                        let (tell, told) = common::mpsc::channel::<()>();
                        let late = timeout(SHORT, || {
                            let _hook = cygnet::on_cancel(move |_: cygnet::Cancelled| drop(tell));
                            told.recv_timeout(common::watchdog::patience() / 4)
                        });
                        let late = late.unwrap_err().into_inner();
                        assert_eq!(late, Err(common::mpsc::RecvTimeoutError::Disconnected));
                    });
                    // By the other worker.
                    begun.recv().unwrap();
                });
            });
        });
    });
}

#[test]
fn of_nested_deadlines_the_nearest_counts() {
    with_each(|rt| {
        rt.block_on(|| {
            let inner =
                timeout(LONG, || timeout(SHORT, || reason(park())).unwrap_err().into_inner());
            assert_eq!(inner.unwrap(), Reason::Deadline);
            let start = common::now();
            let outer = timeout(SHORT, || {
                let inner = timeout(LONG, || reason(park()));
                assert!(inner.is_ok(), "its own time is not up");
                let computing = timeout(LONG, || while checkpoint().is_ok() {});
                assert!(computing.is_ok(), "nor is that of this one");
                inner.unwrap()
            });
            assert_eq!(outer.unwrap_err().into_inner(), Reason::Deadline);
            assert!((common::now() - start) < LONG);
        });
    });
}

#[test]
fn an_inner_deadline_is_seen_by_a_body_that_computes_below_an_outer_one() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let late = timeout(SHORT, || timeout(LONG, || while checkpoint().is_ok() {}).is_ok());
            assert!(late.unwrap_err().into_inner());
            let in_time =
                timeout(LONG, || timeout(SHORT, || while checkpoint().is_ok() {}).is_err());
            assert!(in_time.unwrap());
        });
    });
}

#[test]
fn a_timeout_counts_below_a_task_that_ignores_an_earlier_one() {
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            with_enough_time(|time| {
                let late = timeout(5 * time, || {
                    let begun = Arc::new(AtomicUsize::new(0));
                    let [sleeps, asks] = [false, true].map(|asks| {
                        let begun = begun.clone();
                        spawn(move || {
                            let late = timeout(10 * time, || {
                                begun.fetch_add(1, Ordering::Relaxed);
                                let slept = sleep(if asks { 7 * time } else { LONG });
                                while asks && !is_cancelled() {}
                                slept.is_ok()
                            });
                            late.unwrap_err().into_inner()
                        })
                    });
                    while begun.load(Ordering::Relaxed) < 2 && yield_now().is_ok() {}
                    ignore_cancellation(|| (sleeps.join().unwrap(), asks.join().unwrap())).ok()
                });
                // Unless the first limit passed before it was ignored, or the third while the task was kept from running.
                late.unwrap_err().into_inner() == Some((false, true))
            });
        });
    });
}

#[test]
fn a_timeout_that_was_ignored_when_an_inner_one_began_counts_when_that_is_over() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let start = common::now();
            with_enough_time(|time| {
                let slept = Arc::new(AtomicBool::new(false));
                let sleeps = slept.clone();
                let late = timeout(4 * time, || {
                    let child = ignore_cancellation(|| {
                        let child = spawn(move || {
                            timeout(LONG, || {
                                sleeps.store(sleep(time).is_ok(), Ordering::Relaxed);
                                while !is_cancelled() {}
                            })
                        });
                        yield_now().unwrap();
                        child
                    });
                    child.map(cygnet::Task::join).is_ok()
                });
                late.unwrap_err().into_inner() && slept.load(Ordering::Relaxed)
            });
            assert!((common::now() - start) < LONG);
        });
    });
}

#[test]
fn a_timeout_far_above_an_inner_one_that_comes_later_is_seen_by_a_body_that_computes() {
    fn below(scopes: usize, f: &mut dyn FnMut()) {
        if scopes == 0 { f() } else { scope(|_| below(scopes - 1, f)) }
    }
    with(&[1], |rt| {
        rt.block_on(|| {
            for scopes in [0, 10, 30] {
                let mut seen = false;
                let late = timeout(SHORT, || {
                    below(scopes, &mut || {
                        seen = timeout(LONG, || while !is_cancelled() {}).is_ok();
                    });
                });
                assert!(late.is_err() && seen, "{scopes} scopes between them");
            }
        });
    });
}

#[test]
fn a_timeout_of_no_time_or_in_the_past_calls_its_body_cancelled() {
    with_each(|rt| {
        rt.block_on(|| {
            let late = timeout(Duration::ZERO, || (is_cancelled(), reason(park())));
            assert_eq!(late.unwrap_err().into_inner(), (true, Reason::Deadline));
            let late = deadline(common::now() - SHORT, || reason(checkpoint()));
            assert_eq!(late.unwrap_err().into_inner(), Reason::Deadline);
            assert!(checkpoint().is_ok());
        });
    });
}

#[test]
fn a_timeout_of_all_time_never_passes() {
    with_each(|rt| {
        rt.block_on(|| {
            let value = timeout(Duration::MAX, || {
                spawn(|| ()).detach();
                yield_now().unwrap();
                7
            });
            assert_eq!(value.unwrap(), 7);
        });
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn a_value_that_comes_late_without_a_look_at_the_clock_is_late() {
    with_each(|rt| {
        rt.block_on(|| {
            let late = timeout(Duration::from_micros(100), || {
                compute(1_000);
                vec![1, 2, 3]
            });
            assert_eq!(late.unwrap_err().into_inner(), [1, 2, 3]);
        });
    });
}

#[test]
fn a_panic_in_a_timeout_passes_through_it() {
    with_each(|rt| {
        rt.block_on(|| {
            assert_eq!(common::panic_of(|| timeout(LONG, || panic!("inside"))), "inside");
            let child =
                common::panic_of(|| timeout(LONG, || spawn(|| panic!("a child")).join().unwrap()));
            assert!(child.contains("a child"), "{child}");
        });
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn a_section_that_ignores_cancellation_ignores_the_timeout_around_it_and_not_those_inside() {
    with_each(|rt| {
        rt.block_on(|| {
            with_enough_time(|time| {
                let start = common::now();
                let late = timeout(time, || {
                    let inside = ignore_cancellation(|| {
                        while (common::now() - start) < 2 * time {
                            common::spin_loop();
                        }
                        assert!(!is_cancelled());
                        sleep(SHORT).unwrap();
                        timeout(SHORT, || reason(park())).unwrap_err().into_inner()
                    });
                    (inside.ok(), reason(checkpoint()))
                });
                let (inside, outside) = late.unwrap_err().into_inner();
                assert_eq!(outside, Reason::Deadline);
                // Else the time was up before it was ignored.
                inside.is_some_and(|inside| inside == Reason::Deadline)
            });
        });
    });
}

#[test]
fn a_shield_lets_a_cancelled_task_wait_and_spawn_until_its_time_is_up() {
    with_each(|rt| {
        rt.block_on(|| {
            cancel_handle().cancel("enough");
            let tidied = shield(LONG, || {
                sleep(Duration::from_micros(100)).unwrap();
                let me = cygnet::unparker();
                let child = spawn(move || me.unpark());
                park().unwrap();
                child.join().unwrap();
                7
            });
            assert_eq!(tidied.unwrap(), 7);
            assert_eq!(reason(park()), Reason::from("enough"));
            let late = shield(SHORT, || reason(park()));
            assert_eq!(late.unwrap_err().into_inner(), Reason::Deadline);
            assert_eq!(reason(park()), Reason::from("enough"));
        });
    });
}

#[test]
fn a_shield_outlasts_the_end_of_its_runtime() {
    within(|| {
        let rt = runtime(2);
        let task = rt.spawn(|| {
            let told = reason(park());
            (told, shield(LONG, || sleep(SHORT)).unwrap())
        });
        common::eventually("it waits", || parks(&rt) > 0);
        drop(rt);
        assert_eq!(task.join().unwrap(), (Reason::RuntimeShutDown, Ok(())));
    });
}

#[test]
fn workers_that_sleep_use_no_processor_and_wake_for_the_first_timer() {
    with(&[1, 2, 8], |rt| {
        let start = common::now();
        let before: u64 = rt.metrics().workers.iter().map(|w| w.sleeps).sum();
        rt.block_on(|| sleep(Duration::from_millis(100)).unwrap());
        assert!((common::now() - start) >= Duration::from_millis(100));
        let after: u64 = rt.metrics().workers.iter().map(|w| w.sleeps).sum();
        // Each lies down a few times on its way to rest, and none again and again.
        assert!(after - before < 20 * rt.workers() as u64, "{}", after - before);
    });
}

#[test]
fn a_migratable_task_may_sleep() {
    with_each(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..50)
                .map(|n| {
                    // SAFETY: it holds a number.
                    unsafe {
                        cygnet::spawn_migratable(move || {
                            for _ in 0..5 {
                                sleep(Duration::from_micros(50 + n)).unwrap();
                            }
                            timeout(Duration::from_micros(300), || park().is_err()).is_err()
                        })
                    }
                })
                .collect();
            assert!(tasks.into_iter().all(|task| task.join().unwrap()));
        });
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}
