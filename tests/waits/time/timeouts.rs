//! Timeouts and deadlines.

use super::{LONG, reason, short, with_enough_time};
use crate::common;
use crate::common::{compute, scaled, with, with_each};
use cygnet::ring::sequence::SequenceBarrier;
use cygnet::sync::{Barrier, Event, Mutex, RwLock, Semaphore, bounded, broadcast, oneshot, watch};
use cygnet::{
    Reason, TaskGroup, checkpoint, deadline, ignore_cancellation, interval, is_cancelled, join,
    par, park, scope, sleep, spawn, spawn_now, task, timeout, unparker, wait, yield_now,
};
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn a_timeout_ends_the_waits_in_it_and_no_others() {
    with_each(|rt| {
        rt.block_on(|| {
            let start = common::now();
            let late =
                timeout(short(), || (reason(park()), reason(sleep(LONG)), reason(checkpoint())));
            assert!((common::now() - start) >= short());
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
            let late = timeout(short(), park).unwrap_err().into_inner().unwrap_err();
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
                assert!(timeout(short(), || descend(depth)).is_err(), "{depth} levels below");
                assert!(timeout(short(), || while !is_cancelled() {}).is_err());
            }
        });
    });
}

#[test]
fn the_first_wait_after_the_deadline_is_cut_short_by_a_single_worker_also_if_it_need_not_wait() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (me, mutex, rwlock, semaphore) =
                (unparker(), Mutex::new(()), RwLock::new(()), Semaphore::new(1));
            let (event, barrier, (sender, receiver)) = (Event::new(), Barrier::new(1), bounded(1));
            event.set();
            let is_told_in = |wait: &str, goes_on: &dyn Fn() -> bool| {
                // Now and then others have their turn in any case.
                for _ in 0..20 {
                    let late = timeout(Duration::from_micros(100), || {
                        compute(200);
                        goes_on()
                    });
                    assert!(!late.unwrap_err().into_inner(), "{wait} does not tell it");
                }
            };
            is_told_in("park", &|| {
                me.unpark();
                park().is_ok()
            });
            is_told_in("yield_now", &|| yield_now().is_ok());
            is_told_in("sleep", &|| sleep(Duration::ZERO).is_ok());
            is_told_in("a join", &|| spawn(|| ()).join().is_ok());
            is_told_in("a join of one that has ended", &|| spawn_now(|| ()).join().is_ok());
            is_told_in("a join of one with its own stack", &|| {
                task().stack_size(64 << 10).unwrap().spawn(|| ()).join().is_ok()
            });
            is_told_in("a future", &|| wait(ready(())).is_ok());
            is_told_in("a mutex", &|| mutex.lock().is_ok());
            is_told_in("a read", &|| rwlock.read().is_ok());
            is_told_in("a write", &|| rwlock.write().is_ok());
            is_told_in("a permit", &|| semaphore.acquire().is_ok());
            is_told_in("an event", &|| event.wait().is_ok());
            is_told_in("a barrier", &|| barrier.wait().is_ok());
            is_told_in("a channel", &|| sender.send(()).is_ok() && receiver.recv().is_ok());
            is_told_in("a oneshot", &|| {
                let (sender, mut receiver) = oneshot();
                sender.send(()).is_ok() && receiver.recv().is_ok()
            });
            is_told_in("a broadcast", &|| {
                let (sender, mut receiver) = broadcast(1);
                sender.send(()).is_ok() && receiver.recv().is_ok()
            });
            is_told_in("a watch", &|| {
                let (sender, mut receiver) = watch(0);
                sender.send(1);
                receiver.changed().is_ok()
            });
            is_told_in("a value of a watch", &|| watch(0).1.wait_for(|&it| it == 0).is_ok());
            is_told_in("a sequence", &|| {
                SequenceBarrier::starting_after(3_u64).wait_until_published(2).is_ok()
            });
            is_told_in("a tick", &|| interval(LONG).tick().is_ok());
            is_told_in("a group", &|| TaskGroup::new().join().is_ok());
            is_told_in("a loop", &|| par::for_each(0..1, |_| ()).is_ok());
        });
    });
}

#[test]
fn a_timeout_is_seen_to_while_its_own_worker_computes() {
    with(&[2, 3, 8], |rt| {
        rt.block_on(|| {
            let told = AtomicBool::new(false);
            let late = timeout(short(), || {
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
            common::thread::sleep(short());
            let told = rt.block_on(|| {
                let over = Arc::new(AtomicBool::new(false));
                let until = over.clone();
                let other = spawn(move || {
                    while !until.load(Ordering::Acquire) {
                        common::thread::sleep(Duration::from_micros(100));
                    }
                });
                let (tell, told) = common::mpsc::channel::<()>();
                let late = timeout(short(), || {
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
                    sleep(short()).unwrap();
                    (common::now() - start) - short()
                });
                sleeps.min().unwrap()
            })
        });
        assert!(lateness < short() / 2, "the least late of many came {lateness:?} late");
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
                        let late = timeout(short(), || {
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
                timeout(LONG, || timeout(short(), || reason(park())).unwrap_err().into_inner());
            assert_eq!(inner.unwrap(), Reason::Deadline);
            let start = common::now();
            let outer = timeout(short(), || {
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
            let late = timeout(short(), || timeout(LONG, || while checkpoint().is_ok() {}).is_ok());
            assert!(late.unwrap_err().into_inner());
            let in_time =
                timeout(LONG, || timeout(short(), || while checkpoint().is_ok() {}).is_err());
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
                let late = timeout(short(), || {
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
            let late = deadline(common::now() - short(), || reason(checkpoint()));
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
