//! What all primitives have in common: each way in which a wait ends, and that a wait which is cut
//! short takes nothing along. `kinds::KINDS` is the table of primitives; each test goes through it.

mod kinds;

use crate::common::prelude::*;
use kinds::Is::{Alone, Firm, ForAll, Lasting, Once};
use kinds::{Answer, KINDS, Kind, Soon, Waiter};

/// A waiter, and how its wait has ended.
type Waited = (Box<dyn Waiter>, Answer);

fn waits(mut waiter: Box<dyn Waiter>, limit: Option<Duration>) -> impl FnOnce() -> Waited {
    move || {
        let answer = waiter.wait(limit);
        (waiter, answer)
    }
}

fn is_cancelled(answer: &Answer) -> bool {
    matches!(answer, Err(WaitError::Cancelled(_)))
}

/// Asserts that a cancel for that reason has ended the wait.
#[track_caller]
fn assert_refused(answer: Answer, why: Reason) {
    let Err(WaitError::Cancelled(refused)) = answer else { panic!("{answer:?}, not {why:?}") };
    assert_eq!(*refused.reason(), why);
}

/// Checks each row with each number of workers, and names the row if that fails.
fn each(workers: &[usize], check: impl Fn(&Runtime, &Kind) + Sync) {
    for kind in &KINDS {
        with(workers, |rt| named(kind, || check(rt, kind)));
    }
}

/// Checks each row without a runtime, or with one of its own.
fn each_alone(check: impl Fn(&Kind) + Sync) {
    for kind in &KINDS {
        within(|| named(kind, || check(kind)));
    }
}

fn named(kind: &Kind, check: impl FnOnce()) {
    let _says = OnDrop(|| {
        if std::thread::panicking() {
            eprintln!("the row that fails: {}", kind.0);
        }
    });
    check();
}

#[test]
fn tasks_threads_and_futures_wait_and_are_woken() {
    let alone = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]];
    for (i, together) in [[50, 50, 1, 1]].iter().chain(&alone).enumerate() {
        each(&WORKERS, |rt, kind| {
            if kind.is(Alone) == (i == 0) {
                return;
            }
            let [tasks, futures_of_tasks, threads, futures] = *together;
            let primitive = kind.make();
            let held = primitive.hold();
            let waiter = || Arc::clone(&primitive).waiter();
            let task = |_| rt.spawn(waits(waiter(), None));
            let future_of_task = |_| {
                let mut waiter = waiter();
                rt.spawn(move || {
                    let answer = cygnet::wait(waiter.wait_async()).unwrap();
                    (waiter, answer)
                })
            };
            let tasks = (0..tasks).map(task).chain((0..futures_of_tasks).map(future_of_task));
            let tasks: Vec<_> = tasks.collect();
            thread::scope(|s| {
                let threads = (0..threads).map(|_| s.spawn(|| waits(waiter(), None)().1));
                let future = |_| s.spawn(|| block_on(waiter().wait_async()));
                let others: Vec<_> = threads.chain((0..futures).map(future)).collect();
                until_waiting(&*primitive, tasks.len() + others.len());
                drop(held);
                others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), Ok(())));
            });
            tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap().1, Ok(())));
            assert_eq!(waiting(&*primitive), 0);
        });
    }
}

#[test]
fn threads_wait_without_any_runtime() {
    each_alone(|kind| {
        let primitive = kind.make();
        let held = primitive.hold();
        let mut waiter = Arc::clone(&primitive).waiter();
        assert_eq!(waiter.wait(Some(MOMENT)), Err(WaitError::TimedOut));
        thread::scope(|s| {
            let other = s.spawn(|| waiter.wait(Some(LONG)));
            until_waiting(&*primitive, 1);
            drop(held);
            assert_eq!(other.join().unwrap(), Ok(()));
        });
    });
}

#[test]
fn a_time_limit_or_a_deadline_ends_a_wait_and_leaves_nothing() {
    each(&WORKERS, |rt, kind| {
        let primitive = kind.make();
        let held = primitive.hold();
        let mut waiter = Arc::clone(&primitive).waiter();
        for time in [Duration::ZERO, Duration::from_nanos(1), MOMENT] {
            assert_eq!(waiter.wait(Some(time)), Err(WaitError::TimedOut));
            assert_eq!(rt.block_on(|| waiter.wait(Some(time))), Err(WaitError::TimedOut));
        }
        let late = rt.block_on(|| timeout(MOMENT, || waiter.wait(None)));
        assert_refused(late.unwrap_err().into_inner(), Reason::Deadline);
        assert_eq!(waiting(&*primitive), 0);
        drop(held);
        if kind.is(Lasting) {
            assert_eq!(waiter.wait(Some(Duration::ZERO)), Ok(()), "it can be had at once");
        }
    });
}

#[test]
fn a_time_limit_that_is_not_reached_changes_nothing() {
    each(&WORKERS, |rt, kind| {
        for time in [LONG, Duration::MAX] {
            let primitive = kind.make();
            let held = primitive.hold();
            let waiter = || Arc::clone(&primitive).waiter();
            let task = queued(rt, &*primitive, waits(waiter(), Some(time)));
            let other = (!kind.is(Alone)).then(|| thread::spawn(waits(waiter(), Some(time))));
            until_waiting(&*primitive, kind.at_most(2));
            drop(held);
            let (mut waiter, answer) = task.join().unwrap();
            assert_eq!(answer, Ok(()));
            other.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap().1, Ok(())));
            if kind.is(Lasting) && !kind.is(Once) {
                assert_eq!(waiter.wait(Some(time)), Ok(()));
                assert_eq!(rt.block_on(|| waiter.wait(Some(time))), Ok(()));
            }
        }
        assert_eq!(rt.metrics().timers(), 0);
    });
}

#[test]
fn a_cancelled_waiter_leaves_the_queue_and_the_others_are_woken() {
    each(&WORKERS, |rt, kind| {
        let several = [&[0][..], &[1], &[2], &[0, 1, 2]];
        for &cancelled in if kind.is(Alone) { &several[..1] } else { &several } {
            let primitive = kind.make();
            let held = primitive.hold();
            let task = |_| queued(rt, &*primitive, waits(Arc::clone(&primitive).waiter(), None));
            let tasks: Vec<_> = (0..kind.at_most(3)).map(task).collect();
            cancelled.iter().for_each(|i| tasks[*i].cancel("enough"));
            until_waiting(&*primitive, tasks.len() - cancelled.len());
            drop(held);
            for (i, task) in tasks.into_iter().enumerate() {
                let (mut waiter, answer) = task.join().unwrap();
                if !cancelled.contains(&i) {
                    assert_eq!(answer, Ok(()), "waiter {i} of {cancelled:?}");
                    continue;
                }
                assert!(is_cancelled(&answer), "waiter {i} of {cancelled:?}: {answer:?}");
                if kind.is(Lasting) {
                    assert_eq!(waiter.wait(Some(LONG)), Ok(()), "it is still there");
                }
            }
            assert_eq!(waiting(&*primitive), 0);
        }
    });
}

/// On one worker, the waiter that was woken does not run before the task that cancels it waits.
/// C24.
#[test]
fn a_waiter_that_is_cancelled_after_its_wake_passes_it_on() {
    each(&[1], |rt, kind| {
        rt.block_on(|| {
            let primitive = kind.make();
            let held = primitive.hold();
            let task = |before| {
                let task = spawn(waits(Arc::clone(&primitive).waiter(), None));
                give_way_until(|| waiting(&*primitive) == before + 1);
                task
            };
            let tasks: Vec<_> = (0..kind.at_most(2)).map(task).collect();
            let said = format!("{primitive:?}");
            assert!(said.contains("kinds.rs:"), "{said}");
            drop(held);
            let queued = usize::from(!kind.is(ForAll) && !kind.is(Alone));
            assert_eq!(waiting(&*primitive), queued, "the first waiter is woken, or all");
            tasks[0].cancel("after it was woken");
            for (i, task) in tasks.into_iter().enumerate() {
                let (mut waiter, answer) = task.join().unwrap();
                if i > 0 || kind.is(Firm) {
                    assert_eq!(answer, Ok(()), "waiter {i}");
                    continue;
                }
                assert!(is_cancelled(&answer), "{answer:?}");
                if kind.is(Lasting) {
                    assert_eq!(waiter.wait(None), Ok(()), "it is still there");
                }
            }
        });
    });
}

/// C19.
#[test]
fn a_cancelled_task_is_turned_away_even_if_it_need_not_wait() {
    each(&[1, 2], |rt, kind| {
        let primitive = kind.make();
        let mut waiter = Arc::clone(&primitive).waiter();
        drop(primitive.hold());
        rt.block_on(|| {
            cancel_handle().cancel("enough");
            for limit in [None, Some(LONG)] {
                assert_refused(waiter.wait(limit), Reason::from("enough"));
            }
            if kind.is(Lasting) {
                assert_eq!(shield(LONG, || waiter.wait(None)).unwrap(), Ok(()));
            }
        });
        assert_eq!(waiting(&*primitive), 0);
    });
}

#[test]
fn a_future_that_is_dropped_in_any_state_leaves_nothing() {
    each_alone(|kind| {
        let primitive = kind.make();
        let held = primitive.hold();
        let waiter = || Arc::clone(&primitive).waiter();
        let mut first = waiter();
        drop(first.wait_async());
        {
            let mut waits = first.wait_async();
            (0..2).for_each(|_| assert!(poll_once(waits.as_mut()).is_pending()));
            assert_eq!(waiting(&*primitive), 1);
            assert!(format!("{primitive:?}").contains("kinds.rs:"), "{primitive:?}");
        }
        assert_eq!(waiting(&*primitive), 0);
        let mut second = (!kind.is(Alone)).then(waiter);
        let mut woken = first.wait_async();
        let mut next = second.as_mut().map(|second| second.wait_async());
        let is_pending = |wait: Option<&mut Soon<'_>>| {
            wait.is_none_or(|wait| poll_once(wait.as_mut()).is_pending())
        };
        assert!(is_pending(Some(&mut woken)) && is_pending(next.as_mut()));
        drop(held);
        assert!(kind.is(ForAll) || is_pending(next.as_mut()), "the first is woken");
        drop(woken);
        if kind.is(Lasting) || next.is_some() {
            let mut next = next.unwrap_or_else(|| first.wait_async());
            assert_eq!(poll_once(next.as_mut()), Poll::Ready(Ok(())));
            let again = panic_of(|| poll_once(next.as_mut()));
            let expected = ["polled after its end", "resumed after completion"];
            assert!(expected.iter().any(|said| again.contains(said)), "{again}");
        }
        assert_eq!(waiting(&*primitive), 0);
    });
}

/// A forgotten future keeps its place. It takes nothing from others where a wake reaches all
/// waiters.
#[test]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn a_forgotten_future_takes_nothing_from_others() {
    for kind in KINDS.iter().filter(|kind| kind.is(ForAll) || kind.is(Once)) {
        named(kind, || {
            let primitive = kind.make();
            let held = primitive.hold();
            let mut waiter = Arc::clone(&primitive).waiter();
            for _ in 0..2 {
                let mut forgotten = waiter.wait_async();
                assert!(poll_once(forgotten.as_mut()).is_pending());
                std::mem::forget(forgotten);
            }
            assert_eq!(waiting(&*primitive), 2);
            drop(held);
            assert_eq!(waiting(&*primitive), 0);
            assert_eq!(waiter.wait(None), Ok(()));
        });
    }
}

#[test]
fn where_nothing_may_wait_a_caller_gets_only_what_is_there() {
    each(&[1, 2], |rt, kind| {
        for unwinds in [false, true] {
            let primitive = kind.make();
            let held = primitive.hold();
            let mut waiter = Arc::clone(&primitive).waiter();
            rt.block_on(|| {
                if unwinds {
                    assert_refused(while_unwinding(|| waiter.wait(None)), Reason::Unwinding);
                } else {
                    panics_with("no_suspend", || no_suspend(|| waiter.wait(None)));
                }
                assert_eq!(waiting(&*primitive), 0);
                drop(held);
                if kind.is(Lasting) {
                    let answer = match unwinds {
                        true => while_unwinding(|| waiter.wait(None)),
                        false => no_suspend(|| waiter.wait(None)),
                    };
                    assert_eq!(answer, Ok(()));
                }
            });
        }
    });
}

#[test]
fn the_end_of_a_runtime_ends_the_waits_of_its_tasks_alone() {
    each_alone(|kind| {
        let rt = runtime(2);
        let primitive = kind.make();
        let held = primitive.hold();
        let waiter = || Arc::clone(&primitive).waiter();
        let task = queued(&rt, &*primitive, waits(waiter(), None));
        let other = (!kind.is(Alone)).then(|| thread::spawn(waits(waiter(), None)));
        until_waiting(&*primitive, kind.at_most(2));
        drop(rt);
        let (mut waiter, answer) = task.join().unwrap();
        assert!(is_cancelled(&answer), "{answer:?}");
        until_waiting(&*primitive, kind.at_most(2) - 1);
        drop(held);
        other.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap().1, Ok(())));
        if kind.is(Lasting) {
            assert_eq!(waiter.wait(None), Ok(()), "it is still there");
        }
    });
}

/// Each wait ends in one way, and a waiter that was refused is served later.
#[test]
fn a_wake_that_races_a_cancel_and_a_time_limit_is_not_lost() {
    each(&[1, 2, 8], |rt, kind| {
        for round in 0..if kind.is(Lasting) { scaled_in_debug(2_000) } else { 0 } {
            let primitive = kind.make();
            let held = primitive.hold();
            // The first waiter has a limit, and the second is cancelled. A lone one is each of the
            // three in turn.
            let several = if kind.is(Alone) { &[round % 3][..] } else { &[0, 1, 2] };
            let limit = |i| (i == 0).then(|| Duration::from_micros(round as u64 % 200));
            let task = |&i| (i, rt.spawn(waits(Arc::clone(&primitive).waiter(), limit(i))));
            let tasks: Vec<_> = several.iter().map(task).collect();
            let cancels = || {
                let cancelled = tasks.iter().find(|(i, _)| *i == 1);
                cancelled.into_iter().for_each(|(_, task)| task.cancel("races"));
            };
            match round % 2 {
                0 => (cancels(), drop(held)).1,
                _ => rt.block_on(|| (drop(held), cancels()).1),
            }
            for (i, task) in tasks {
                match task.join() {
                    Ok((mut waiter, Ok(()))) if kind.is(Once) => {
                        assert!(waiter.wait(Some(Duration::ZERO)).is_err(), "it is had twice");
                    }
                    Ok((_, Ok(()))) => {}
                    Ok((mut waiter, Err(refused))) => {
                        let expected = match refused {
                            WaitError::TimedOut => 0,
                            WaitError::Cancelled(_) => 1,
                            other => panic!("{other:?}"),
                        };
                        assert_eq!(i, expected);
                        assert_eq!(waiter.wait(None), Ok(()), "it is still there");
                    }
                    Err(_) => assert_eq!(i, 1, "it was cancelled before it began"),
                }
            }
            assert_eq!(waiting(&*primitive), 0);
        }
        assert_eq!(rt.metrics().timers(), 0);
    });
}
