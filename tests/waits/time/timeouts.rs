//! Timeouts and deadlines.

use super::{LONG, reason, short, with_enough_time};
use crate::common::mpsc::RecvTimeoutError;
use crate::common::prelude::*;
use cygnet::ring::sequence::SequenceBarrier;
use cygnet::sync::{Barrier, Mutex, RwLock, Semaphore, broadcast, watch};

/// Computes until it is cancelled.
fn check_in() {
    while checkpoint().is_ok() {}
}

#[test]
fn a_timeout_ends_the_waits_in_it_and_no_others() {
    in_task(|_| {
        let start = now();
        let late = timeout(short(), || (reason(park()), reason(sleep(LONG)), reason(checkpoint())));
        assert!((now() - start) >= short());
        let told = late.unwrap_err().into_inner();
        assert_eq!(told, (Reason::Deadline, Reason::Deadline, Reason::Deadline));
        assert!(checkpoint().is_ok(), "what comes after it is not cancelled");
        sleep(Duration::from_micros(100)).unwrap();
    });
}

#[test]
fn a_cancelled_wait_in_a_timeout_names_the_place_of_the_timeout() {
    in_task_with(&[1], |_| {
        let line = line!() + 1;
        let late = timeout(short(), park).unwrap_err().into_inner().unwrap_err();
        assert_eq!(late.place().unwrap().line(), line);
    });
}

/// C7.
#[test]
fn a_timeout_reaches_the_tasks_that_were_spawned_in_it() {
    in_task(|_| {
        with_enough_time(|time| {
            let ended = Count::new();
            let late = timeout(time, || {
                crowd(20, |n| {
                    if n % 2 == 0 {
                        assert_eq!(reason(park()), Reason::Deadline);
                    } else {
                        check_in();
                    }
                    ended.up();
                });
                spawn(check_in).detach();
            });
            assert!(late.is_err());
            // With one worker the first that computes keeps the others from starting.
            ended.get() >= 1
        });
    });
}

#[test]
fn a_body_that_only_calls_checkpoint_is_told_by_a_single_worker() {
    fn descend(depth: usize) {
        if depth == 0 {
            check_in();
        } else {
            scope(|s| drop(s.spawn(|| descend(depth - 1)).join()));
        }
    }
    in_task_with(&[1], |_| {
        for depth in [0, 1, 20, 40] {
            assert!(timeout(short(), || descend(depth)).is_err(), "{depth} levels below");
            assert!(timeout(short(), || while !is_cancelled() {}).is_err());
        }
    });
}

/// C19.
#[test]
fn the_first_wait_after_the_deadline_is_cut_short_even_if_it_need_not_wait() {
    in_task_with(&[1], |_| {
        let (me, mutex, rwlock, semaphore) =
            (unparker(), Mutex::new(()), RwLock::new(()), Semaphore::new(1));
        let (event, barrier, (sender, receiver)) = (Event::new(), Barrier::new(1), bounded(1));
        event.set();
        let own_stack = || task().stack_size(64 << 10).unwrap().spawn(|| ());
        let one_value = || {
            let (sender, mut receiver) = oneshot();
            sender.send(()).is_ok() && receiver.recv().is_ok()
        };
        let broadcasts = || {
            let (sender, mut receiver) = broadcast(1);
            sender.send(()).is_ok() && receiver.recv().is_ok()
        };
        let watches = || {
            let (sender, mut receiver) = watch(0);
            sender.send(1);
            receiver.changed().is_ok()
        };
        let unparked = || {
            me.unpark();
            park().is_ok()
        };
        let published = || SequenceBarrier::starting_after(3_u64).wait_until_published(2).is_ok();
        let waits: [(&str, &dyn Fn() -> bool); 22] = [
            ("park", &unparked),
            ("yield_now", &|| yield_now().is_ok()),
            ("sleep", &|| sleep(Duration::ZERO).is_ok()),
            ("a join", &|| spawn(|| ()).join().is_ok()),
            ("a join of one that has ended", &|| spawn_now(|| ()).join().is_ok()),
            ("a join of one with its own stack", &|| own_stack().join().is_ok()),
            ("a future", &|| wait(ready(())).is_ok()),
            ("a mutex", &|| mutex.lock().is_ok()),
            ("a read", &|| rwlock.read().is_ok()),
            ("a write", &|| rwlock.write().is_ok()),
            ("a permit", &|| semaphore.acquire().is_ok()),
            ("an event", &|| event.wait().is_ok()),
            ("a barrier", &|| barrier.wait().is_ok()),
            ("a channel", &|| sender.send(()).is_ok() && receiver.recv().is_ok()),
            ("a oneshot", &one_value),
            ("a broadcast", &broadcasts),
            ("a watch", &watches),
            ("a value of a watch", &|| watch(0).1.wait_for(|&it| it == 0).is_ok()),
            ("a sequence", &published),
            ("a tick", &|| interval(LONG).tick().is_ok()),
            ("a group", &|| TaskGroup::<()>::new().join().is_ok()),
            ("a loop", &|| par::for_each(0..1, |_| ()).is_ok()),
        ];
        for (wait, goes_on) in waits {
            // Now and then others have their turn in any case.
            for _ in 0..20 {
                let late = timeout(Duration::from_micros(100), || {
                    compute(200);
                    goes_on()
                });
                assert!(!late.unwrap_err().into_inner(), "{wait} does not tell it");
            }
        }
    });
}

#[test]
fn a_timeout_is_seen_to_while_its_own_worker_computes() {
    in_task_with(&[2, 3, 8], |_| {
        let told = Flag::new();
        let late = timeout(short(), || {
            // Neither a wait nor a question: the other half is told by another worker.
            let parks = || {
                let reason = reason(park());
                told.set();
                reason
            };
            join(|| told.spin(), parks).1
        });
        assert_eq!(late.unwrap_err().into_inner(), Reason::Deadline);
    });
}

/// Blocks the thread of a task until a hook tells it that its time is up. Returns whether one does.
fn blocks_until_a_hook_tells() -> bool {
    let (tell, told) = channel::<()>();
    let late = timeout(short(), || {
        let _hook = on_cancel(move |_: Cancelled| drop(tell));
        told.recv_timeout(common::watchdog::patience() / 4)
    });
    late.unwrap_err().into_inner() == Err(RecvTimeoutError::Disconnected)
}

/// The worker that looks for work when the timer is set finds a long task, and a third one is
/// asleep.
#[test]
fn a_timer_that_is_set_while_another_worker_searches_is_seen_to() {
    with(&[3, 8], |rt| {
        for _ in 0..scaled(20) {
            // So that all of them rest.
            common::thread::sleep(short());
            rt.block_on(|| {
                let over = Flag::new();
                let other = spawn(move || {
                    while !over.get() {
                        common::thread::sleep(Duration::from_micros(100));
                    }
                });
                let told = blocks_until_a_hook_tells();
                over.set();
                other.join().unwrap();
                assert!(told);
            });
        }
    });
}

/// Such a worker looks for work every now and then, and less and less often.
#[test]
fn a_worker_that_runs_nothing_but_descendants_is_up_when_a_timer_is_due() {
    with_each(|rt| {
        let lateness = rt.block_on(|| {
            scope_with(Wait::DescendantsOnly, |_| {
                let sleeps = (0..20).map(|_| {
                    let start = now();
                    sleep(short()).unwrap();
                    (now() - start) - short()
                });
                sleeps.min().unwrap()
            })
        });
        assert!(lateness < short() / 2, "the least late of many came {lateness:?} late");
    });
}

#[test]
fn a_worker_that_is_held_sees_to_the_timers_of_one_that_is_busy() {
    in_task_with(&[2], |_| {
        let (begin, begun) = channel();
        no_suspend(|| {
            scope(|s| {
                s.spawn(move || {
                    begin.send(()).unwrap();
                    assert!(blocks_until_a_hook_tells());
                });
                // By the other worker.
                begun.recv().unwrap();
            });
        });
    });
}

#[test]
fn of_nested_deadlines_the_nearest_counts() {
    in_task(|_| {
        let inner = timeout(LONG, || timeout(short(), || reason(park())).unwrap_err().into_inner());
        assert_eq!(inner.unwrap(), Reason::Deadline);
        let start = now();
        let outer = timeout(short(), || {
            let inner = timeout(LONG, || reason(park()));
            assert!(inner.is_ok(), "its own time is not up");
            let computing = timeout(LONG, check_in);
            assert!(computing.is_ok(), "nor is that of this one");
            inner.unwrap()
        });
        assert_eq!(outer.unwrap_err().into_inner(), Reason::Deadline);
        assert!((now() - start) < LONG);
    });
}

#[test]
fn a_body_that_computes_sees_the_nearest_of_two_deadlines() {
    fn below(scopes: usize, f: &mut dyn FnMut()) {
        if scopes == 0 { f() } else { scope(|_| below(scopes - 1, f)) }
    }
    in_task_with(&[1], |_| {
        let late = timeout(short(), || timeout(LONG, check_in).is_ok());
        assert!(late.unwrap_err().into_inner());
        let in_time = timeout(LONG, || timeout(short(), check_in).is_err());
        assert!(in_time.unwrap());
        // The nearest one may be far above.
        for scopes in [0, 10, 30] {
            let mut seen = false;
            let late = timeout(short(), || {
                below(scopes, &mut || seen = timeout(LONG, || while !is_cancelled() {}).is_ok());
            });
            assert!(late.is_err() && seen, "{scopes} scopes between them");
        }
    });
}

#[test]
fn a_timeout_counts_below_a_task_that_ignores_an_earlier_one() {
    in_task_with(&[1, 2], |_| {
        with_enough_time(|time| {
            let late = timeout(5 * time, || {
                let begun = Count::new();
                let [sleeps, asks] = [false, true].map(|asks| {
                    spawn(move || {
                        let late = timeout(10 * time, || {
                            begun.up();
                            let slept = sleep(if asks { 7 * time } else { LONG });
                            while asks && !is_cancelled() {}
                            slept.is_ok()
                        });
                        late.err().map(|late| late.into_inner())
                    })
                });
                while begun.get() < 2 && yield_now().is_ok() {}
                ignore_cancellation(|| (sleeps.join().unwrap(), asks.join().unwrap())).ok()
            });
            // Unless the first limit passed before it was ignored, or the third while the task was
            // kept from running.
            late.unwrap_err().into_inner() == Some((Some(false), Some(true)))
        });
    });
}

#[test]
fn a_timeout_that_was_ignored_when_an_inner_one_began_counts_when_that_is_over() {
    in_task_with(&[1], |_| {
        let start = now();
        with_enough_time(|time| {
            let slept = Flag::new();
            let late = timeout(4 * time, || {
                let child = ignore_cancellation(|| {
                    let child = spawn(move || {
                        timeout(LONG, || {
                            slept.put(sleep(time).is_ok());
                            while !is_cancelled() {}
                        })
                    });
                    yield_now().unwrap();
                    child
                });
                child.map(cygnet::Task::join).is_ok()
            });
            late.unwrap_err().into_inner() && slept.get()
        });
        assert!((now() - start) < LONG);
    });
}

#[test]
fn a_timeout_in_the_past_calls_its_body_cancelled_and_one_of_all_time_never_passes() {
    with_each(|rt| {
        rt.block_on(|| {
            let late = timeout(Duration::ZERO, || (is_cancelled(), reason(park())));
            assert_eq!(late.unwrap_err().into_inner(), (true, Reason::Deadline));
            let late = deadline(now() - short(), || reason(checkpoint()));
            assert_eq!(late.unwrap_err().into_inner(), Reason::Deadline);
            assert!(checkpoint().is_ok());
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

/// C8.
#[test]
fn a_value_that_comes_late_without_a_look_at_the_clock_is_late() {
    in_task(|_| {
        let late = timeout(Duration::from_micros(100), || {
            compute(1_000);
            vec![1, 2, 3]
        });
        assert_eq!(late.unwrap_err().into_inner(), [1, 2, 3]);
    });
}

#[test]
fn a_panic_in_a_timeout_passes_through_it() {
    in_task(|rt| {
        assert_eq!(panic_of(|| timeout(LONG, || panic!("inside"))), "inside");
        panics_with("a child", || timeout(LONG, || spawn(|| panic!("a child")).join().unwrap()));
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}
