//! Shutdowns of scopes, of guarded tasks and of runtimes: stop, wait, cancel what is left, wait, report.

mod common;

use common::{
    Drops, MANY, Random, WORKERS, eventually, runtime, scaled_in_debug, with_each, within,
};
use cygnet::shutdown::{self, Swansong};
use cygnet::sync::{Event, unbounded};
use cygnet::{
    Handle, JoinError, Reason, checkpoint, ignore_cancellation, no_suspend, park, scope, spawn,
    wait, yield_now,
};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn the_swansong_of_a_scope_is_below_that_of_the_scope_around_it_and_of_the_runtime() {
    with_each(|rt| {
        let root = rt.swansong();
        assert_eq!(root, rt.handle().swansong());
        let (outer, inner, other) = rt.block_on(|| {
            assert_eq!(shutdown::current(), root);
            scope(|s| {
                let outer = s.swansong();
                assert_eq!(outer, s.swansong());
                assert_ne!(outer, root);
                let inner = s.spawn(|| {
                    assert_eq!(shutdown::current(), s.swansong());
                    scope(|_| scope(|s| (s.swansong(), s.swansong().guard())))
                });
                let other = Swansong::new();
                let elsewhere = other.scope(|s| {
                    assert_ne!(s.swansong(), other);
                    assert_eq!(spawn(shutdown::current).join().unwrap(), s.swansong());
                    let guard = s.swansong().guard();
                    assert_eq!(
                        (other.guard_count(), outer.guard_count()),
                        (1, outer.guard_count())
                    );
                    drop(guard);
                    s.swansong()
                });
                let (inner, guard) = inner.join().unwrap();
                assert_eq!(
                    (inner.guard_count(), outer.guard_count(), root.guard_count()),
                    (1, 1, 1)
                );
                drop(guard);
                drop(other);
                assert!(elsewhere.state().is_complete());
                outer.shut_down().block();
                assert!(inner.state().is_complete());
                assert!(root.state().is_running());
                (outer, inner, elsewhere)
            })
        });
        // They may outlive the scopes.
        assert!([outer, inner, other].iter().all(|swansong| swansong.state().is_complete()));
    });
}

#[test]
fn two_that_ask_a_scope_at_once_get_the_same() {
    with_each(|rt| {
        rt.block_on(|| {
            for _ in 0..scaled_in_debug(200) {
                scope(|s| {
                    let asked: Vec<_> = (0..4).map(|_| s.spawn(|| s.swansong())).collect();
                    let mine = s.swansong();
                    asked.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), mine));
                });
            }
        });
    });
}

#[test]
fn a_scope_that_is_shut_down_ends_its_interrupts_and_cancels_nothing() {
    with_each(|rt| {
        rt.block_on(|| {
            scope(|outer| {
                let beside = outer.spawn(|| wait(shutdown::current().interrupt(pending::<()>())));
                scope(|s| {
                    let swansong = s.swansong();
                    let idle = s.spawn(|| wait(shutdown::current().interrupt(pending::<()>())));
                    let (finish, finished) = unbounded();
                    let work = s.spawn_guarded(move || finished.recv().unwrap());
                    let completion = s.shut_down();
                    assert_eq!(idle.join().unwrap(), Ok(None));
                    assert!(checkpoint().is_ok());
                    assert!(swansong.state().is_shutting_down());
                    finish.send(7).unwrap();
                    completion.block();
                    assert_eq!(work.join().unwrap(), 7);
                });
                assert!(outer.swansong().state().is_running());
                assert!(!beside.is_finished());
                outer.cancel("it is not stopped");
                assert!(beside.join().is_ok_and(|ended| ended.is_err()) || checkpoint().is_err());
            });
        });
    });
}

#[test]
fn with_its_scope_goes_a_swansong_unless_somebody_has_a_guard() {
    with_each(|rt| {
        let (mut early, late, guard) = rt.block_on(|| {
            let early = scope(|s| s.swansong().interrupt(0..));
            scope(|s| (early, s.swansong().interrupt(0..), s.swansong().guard()))
        });
        assert_eq!(early.next(), None);
        let mut late = late;
        assert_eq!(late.next(), Some(0));
        assert_eq!(rt.swansong().guard_count(), 1);
        drop(guard);
        assert_eq!(late.next(), None);
        assert_eq!(rt.swansong().guard_count(), 0);
    });
}

#[test]
fn a_guarded_task_has_its_guard_until_its_closure_and_what_that_holds_are_gone() {
    with_each(|rt| {
        rt.block_on(|| {
            let swansong = Swansong::new();
            let (go, drops) = (Event::new(), Drops::new());
            scope(|s| {
                s.spawn(|| {
                    let held = drops.guard();
                    let swansong = &swansong;
                    swansong.scope(|inner| {
                        let task = inner.spawn_guarded(|| {
                            let _held = held;
                            go.wait().unwrap();
                        });
                        assert_eq!(swansong.guard_count(), 1);
                        go.set();
                        task.join().unwrap();
                        assert_eq!((swansong.guard_count(), drops.left()), (0, 0));
                    });
                });
            });
            let panics = swansong.spawn_guarded(|| panic!("in the work"));
            assert!(matches!(panics.join(), Err(JoinError::Panicked(_))));
            // One that never starts.
            scope(|s| {
                s.cancel("before it starts");
                let never = swansong.spawn_guarded(|| unreachable!("it is cancelled"));
                assert!(never.join().is_err());
            });
            eventually("the guards are gone", || swansong.guard_count() == 0);
            swansong.shut_down().block();
        });
    });
}

#[test]
fn what_ends_in_time_is_not_cancelled() {
    with_each(|rt| {
        rt.block_on(|| {
            let swansong = Swansong::new();
            let works: Vec<_> = (0..20)
                .map(|i| {
                    swansong.spawn_guarded(move || {
                        (0..i).try_for_each(|_| yield_now()).unwrap();
                        checkpoint().map(|()| i)
                    })
                })
                .collect();
            let report = swansong.shut_down_within(LONG);
            assert!(report.is_in_time(), "{report}");
            assert_eq!(
                (report.cancelled(), report.left(), report.guards_in_time_over()),
                (0, 0, 0)
            );
            assert_eq!(report.took_after_time(), Duration::ZERO);
            assert!(report.to_string().starts_with("all was finished in "));
            for (i, work) in works.into_iter().enumerate() {
                assert_eq!(work.join().unwrap(), Ok(i));
            }
        });
    });
}

#[test]
fn what_is_late_is_cancelled_and_named_and_nothing_else() {
    with_each(|rt| {
        rt.block_on(|| {
            let swansong = Swansong::new();
            let begun = Event::new();
            scope(|s| {
                let beside = s.spawn(park);
                let stuck = swansong.spawn_guarded(park);
                let line = line!() - 1;
                let stuck_scope = s.spawn(|| {
                    swansong.child().scope(|inner| {
                        let _guard = inner.swansong().guard();
                        begun.set();
                        let waits = inner.spawn(park);
                        (park().map_err(|e| e.reason().clone()), waits.join().map(|_| ()))
                    })
                });
                begun.wait().unwrap();
                let id = stuck.id();
                let report = swansong.shut_down_within(Duration::from_millis(1));
                assert!(!report.is_in_time());
                assert_eq!(
                    (report.guards_in_time_over(), report.cancelled(), report.left()),
                    (2, 2, 0)
                );
                let [entry] = report.late().entries() else { panic!("{report}") };
                assert_eq!((entry.location().file(), entry.location().line()), (file!(), line));
                assert_eq!((entry.count(), entry.oldest_task()), (1, Some(id)));
                let text = report.to_string();
                assert!(text.contains(&format!("graceful.rs:{line}")), "{text}");
                assert!(text.contains("2 scopes and tasks were cancelled"), "{text}");
                match stuck.join() {
                    Ok(waited) => assert_eq!(*waited.unwrap_err().reason(), Reason::GraceOver),
                    Err(error) => assert!(error.is_cancelled()),
                }
                let (own, below) = stuck_scope.join().unwrap();
                assert_eq!(own, Err(Reason::GraceOver));
                drop(below);
                assert!(checkpoint().is_ok());
                assert!(!beside.is_finished());
                beside.cancel("the end of the test");
            });
        });
    });
}

#[test]
fn a_grace_of_zero_cancels_at_once() {
    with_each(|rt| {
        let swansong = rt.swansong();
        let nothing = swansong.child().shut_down_within(Duration::ZERO);
        assert!(nothing.is_in_time());
        let stuck = rt.spawn_guarded({
            let swansong = swansong.clone();
            move || wait(swansong.interrupt(async { pending::<()>().await })).map(|_| park())
        });
        // On a plain thread.
        let report = swansong.shut_down_within(Duration::ZERO);
        assert!(report.guards_in_time_over() <= 1);
        assert!(swansong.state().is_complete());
        let _ = stuck.join();
    });
}

#[test]
fn who_holds_a_guard_and_cannot_be_cancelled_is_given_up() {
    with_each(|rt| {
        let swansong = Swansong::with_guard_report();
        let guard = swansong.guard();
        let line = line!() - 1;
        let report = swansong.shut_down_within_at_most(Duration::ZERO, Duration::from_millis(1));
        assert!(report.is_given_up());
        assert_eq!((report.left(), report.cancelled(), report.guards_in_time_over()), (1, 0, 1));
        assert_eq!(report.late().entries()[0].location().line(), line);
        assert_eq!(report.late().entries()[0].oldest_task(), None);
        assert!(report.to_string().contains("1 guard was still there"), "{report}");
        // Without a limit it waits until that one has gone.
        let waits = rt.spawn(move || swansong.shut_down_within(Duration::ZERO));
        drop(guard);
        assert!(!waits.join().unwrap().is_given_up());
    });
}

#[test]
fn a_cancelled_task_that_shuts_down_does_not_wait_for_the_time() {
    with_each(|rt| {
        rt.block_on(|| {
            let swansong = Swansong::new();
            let stuck = swansong.spawn_guarded(park);
            let report = scope(|s| {
                s.cancel("in a hurry");
                swansong.shut_down_within(LONG)
            });
            assert_eq!((report.guards_in_time_over(), report.cancelled()), (1, 1));
            let _ = stuck.join();
        });
    });
}

/// From inside of the scope that it cancels.
#[test]
fn who_is_cancelled_by_his_own_shutdown_gives_up_no_sooner_than_he_said() {
    with_each(|rt| {
        rt.block_on(|| {
            let swansong = Swansong::new();
            let report = swansong.scope(|s| {
                let stuck = s.spawn_guarded(park);
                let report = swansong.shut_down_within_at_most(Duration::ZERO, LONG);
                assert!(!matches!(stuck.join(), Ok(Ok(()))));
                report
            });
            assert!(!report.is_given_up(), "{report}");
            assert_eq!((report.left(), report.guards_in_time_over()), (0, 1));
            // He waits for himself.
            let report = Swansong::new().scope(|s| {
                let (swansong, _guard) = (s.swansong(), s.swansong().guard());
                swansong.shut_down_within_at_most(Duration::ZERO, Duration::from_millis(2))
            });
            assert!(report.is_given_up(), "{report}");
            assert_eq!((report.left(), report.cancelled()), (1, 1));
            assert!(report.took_after_time() >= Duration::from_millis(2));
        });
    });
}

/// Where a task must not be suspended.
#[test]
fn who_would_wait_inside_no_suspend_is_told_so() {
    with_each(|rt| {
        rt.block_on(|| {
            let (swansong, go) = (Swansong::new(), Event::new());
            scope(|s| {
                let (swansong, go) = (&swansong, &go);
                s.spawn(|| {
                    let _guard = swansong.guard();
                    go.wait().unwrap();
                });
                common::give_way_until(|| swansong.guard_count() == 1);
                let stopped = swansong.shutting_down();
                let said = common::panic_of(|| no_suspend(|| stopped.block()));
                assert!(said.contains("inside no_suspend"), "{said}");
                let said = common::panic_of(|| no_suspend(|| swansong.shut_down().block()));
                assert!(said.contains("inside no_suspend"), "{said}");
                let said = common::panic_of(|| no_suspend(|| swansong.shut_down_within(LONG)));
                assert!(said.contains("inside no_suspend"), "{said}");
                let in_a_hurry = s.spawn(move || {
                    let said = scope(|s| {
                        s.cancel("in a hurry");
                        common::panic_of(|| no_suspend(|| swansong.shut_down_within(LONG)))
                    });
                    assert!(said.contains("inside no_suspend"), "{said}");
                });
                in_a_hurry.join().unwrap();
                go.set();
                swansong.shut_down().block();
                no_suspend(|| swansong.shut_down().block());
                assert!(no_suspend(|| swansong.shut_down_within(LONG)).is_in_time());
            });
        });
    });
}

#[test]
fn two_that_shut_down_at_once_both_wait() {
    with_each(|rt| {
        let swansong = rt.swansong();
        let stuck: Vec<_> = (0..3).map(|_| rt.spawn_guarded(park)).collect();
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let _ = swansong.shut_down_within(Duration::from_millis(1));
                    assert!(swansong.state().is_complete());
                });
            }
        });
        stuck.into_iter().for_each(|task| drop(task.join()));
    });
}

#[test]
fn a_runtime_finishes_guarded_work_and_cancels_the_rest() {
    for workers in [1, 2, 3, 8, MANY] {
        within(|| {
            let rt = runtime(workers);
            let (done, cut) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            rt.block_on(|| {
                let swansong = Handle::current().swansong();
                for i in 0..20 {
                    let done = Arc::clone(&done);
                    swansong
                        .spawn_guarded(move || {
                            (0..i).try_for_each(|_| yield_now()).unwrap();
                            done.fetch_add(1, Ordering::Relaxed);
                        })
                        .detach();
                }
            });
            for _ in 0..5 {
                let cut = Arc::clone(&cut);
                let idle = move || {
                    let reason = park().unwrap_err().reason().clone();
                    assert_eq!(reason, Reason::RuntimeShutDown);
                    cut.fetch_add(1, Ordering::Relaxed);
                };
                rt.spawn(idle).detach();
            }
            eventually("they wait", || common::parks(&rt) >= 5);
            let report = rt.shutdown(LONG);
            assert!(report.is_in_time(), "{report}");
            assert_eq!((done.load(Ordering::Relaxed), cut.load(Ordering::Relaxed)), (20, 5));
        });
    }
}

#[test]
fn a_runtime_cancels_what_is_late_and_says_what_that_was() {
    with_each(|_| {
        let rt = runtime(2);
        let swansong = rt.swansong();
        let outside = swansong.clone();
        let stuck = rt.spawn_guarded(|| park().map_err(|e| e.reason().clone()));
        // With a guard, but nobody to be cancelled by it: the end of the runtime is.
        let plain = rt.spawn(move || {
            let _guard = swansong.guard();
            park().map_err(|e| e.reason().clone())
        });
        eventually("both have begun", || common::parks(&rt) >= 2);
        let report = rt.shutdown(Duration::from_millis(1));
        assert_eq!((report.guards_in_time_over(), report.cancelled(), report.left()), (2, 1, 0));
        assert_eq!(report.late().entries().len(), 1);
        assert!(!report.is_given_up());
        assert_eq!(stuck.join().unwrap(), Err(Reason::GraceOver));
        assert_eq!(plain.join().unwrap(), Err(Reason::RuntimeShutDown));
        assert!(outside.state().is_complete());
    });
}

#[test]
fn dropping_a_runtime_stops_its_swansong() {
    within(|| {
        let rt = runtime(2);
        let swansong = rt.swansong();
        let waits = std::thread::spawn({
            let interrupt = swansong.interrupt(pending::<()>());
            move || wait(interrupt)
        });
        drop(rt);
        assert_eq!(waits.join().unwrap(), Ok(None));
        assert!(swansong.state().is_complete());
    });
}

/// Nobody has asked for it before.
#[test]
fn the_swansong_of_a_runtime_that_ends_is_stopped_from_birth() {
    for workers in WORKERS {
        within(|| {
            let rt = runtime(workers);
            let handle = rt.handle();
            let late = rt.spawn(|| {
                assert_eq!(*park().unwrap_err().reason(), Reason::RuntimeShutDown);
                ignore_cancellation(|| wait(shutdown::current().shutting_down()).is_ok())
            });
            let of_scope = rt.spawn(|| {
                scope(|s| {
                    assert!(park().is_err());
                    s.swansong().state().is_complete()
                })
            });
            eventually("they wait", || common::parks(&rt) >= 2);
            drop(rt);
            assert!(handle.swansong().state().is_complete());
            drop((late.join(), of_scope.join().map(|stopped| assert!(stopped))));
            let rt = runtime(workers);
            let handle = rt.handle();
            drop(rt);
            assert!(handle.swansong().state().is_complete());
        });
    }
}

/// The first use beside the end, at some moment.
#[test]
fn the_swansong_of_a_runtime_is_stopped_by_its_end_whenever_it_was_made() {
    within(|| {
        for _ in 0..scaled_in_debug(300) {
            let rt = runtime(1);
            let handle = rt.handle();
            std::thread::scope(|s| {
                let made = s.spawn(move || handle.swansong());
                drop(rt);
                let swansong = made.join().unwrap();
                assert!(swansong.state().is_complete());
            });
        }
    });
}

#[test]
fn one_of_its_own_tasks_may_not_shut_a_runtime_down() {
    common::rerun::alone_and_leaking("one_of_its_own_tasks_may_not_shut_a_runtime_down", || {
        let rt = runtime(1);
        let handle = rt.handle();
        let said = handle.try_block_on(move || drop(rt.shutdown(LONG))).unwrap_err();
        assert!(said.to_string().contains("by one of its own tasks"), "{said}");
    });
}

#[test]
fn a_runtime_whose_task_takes_no_notice_is_given_up() {
    common::rerun::alone_and_leaking("a_runtime_whose_task_takes_no_notice_is_given_up", || {
        let rt = runtime(2);
        let swansong = rt.swansong();
        let guard = swansong.guard();
        let (begins, begun) = std::sync::mpsc::channel();
        rt.spawn(move || {
            let _guard = guard;
            begins.send(()).unwrap();
            loop {
                std::thread::park();
            }
        })
        .detach();
        begun.recv().unwrap();
        let report = rt.shutdown_at_most(Duration::from_millis(1), Duration::from_millis(1));
        assert!(report.is_given_up());
        assert_eq!((report.guards_in_time_over(), report.left()), (1, 1));
    });
}

/// It has no guard, and so all that must be finished is.
#[test]
fn a_runtime_that_is_given_up_does_not_say_that_all_was_finished() {
    let name = "a_runtime_that_is_given_up_does_not_say_that_all_was_finished";
    common::rerun::alone_and_leaking(name, || {
        let rt = runtime(2);
        let (begins, begun) = unbounded();
        rt.spawn(move || {
            begins.send(()).unwrap();
            loop {
                std::thread::park();
            }
        })
        .detach();
        begun.recv().unwrap();
        let report = rt.shutdown_at_most(LONG, Duration::from_millis(1));
        assert!(report.is_given_up() && report.is_in_time());
        let text = report.to_string();
        assert!(!text.contains("all was finished") && text.contains("given up"), "{text}");
    });
}

/// Those who are cancelled begin something more.
#[test]
fn what_comes_when_the_time_is_over_is_cancelled_at_once() {
    with_each(|rt| {
        rt.block_on(|| {
            let (swansong, begun, drops) = (&Swansong::new(), &Event::new(), &Drops::new());
            let held = drops.guard();
            scope(|s| {
                s.spawn(move || {
                    let guard = swansong.guard();
                    begun.set();
                    swansong.scope(|_| {
                        assert!(park().is_err());
                    });
                    let task = swansong.spawn_guarded(park);
                    let child = swansong.child().spawn_guarded(park);
                    let scoped = swansong.child().scope(|_| park().map_err(|e| e.reason().clone()));
                    assert_eq!(scoped, Err(Reason::GraceOver));
                    for task in [task, child] {
                        assert!(!matches!(task.join(), Ok(Ok(()))));
                    }
                    drop((held, guard));
                });
                begun.wait().unwrap();
                let report = swansong.shut_down_within(Duration::ZERO);
                assert!(report.cancelled() <= 1, "{report}");
                assert_eq!(drops.left(), 0);
            });
        });
    });
}

/// Trees of scopes with guarded tasks of all kinds, shut down at some moment: all end, and the report is right.
#[test]
fn a_storm_of_shutdowns() {
    with_each(|rt| {
        let mut random = Random(11);
        for _ in 0..scaled_in_debug(60) {
            let root = Swansong::new();
            let (seed, grace) = (random.below(1 << 30), random.below(300));
            let finished = &AtomicUsize::new(0);
            let report = rt.block_on(|| {
                scope(|s| {
                    s.spawn(|| grow(&root, &mut Random(seed | 1), 3, finished));
                    for _ in 0..random.below(20) {
                        let _ = yield_now();
                    }
                    let report = root.shut_down_within(Duration::from_micros(grace));
                    assert!(report.left() == 0 && !report.is_given_up());
                    assert_eq!(report.is_in_time(), report.guards_in_time_over() == 0);
                    // Those that have come after the end of all.
                    s.cancel("the end of a round");
                    report
                })
            });
            assert_eq!(root.guard_count(), 0, "{report}");
            assert!(root.state().is_complete());
        }
    });
}

fn grow(swansong: &Swansong, random: &mut Random, depth: u32, finished: &AtomicUsize) {
    let kinds: Vec<_> = (0..4).map(|_| random.below(4)).collect();
    let seed = random.below(1 << 30) | 1;
    swansong.scope(|s| {
        let own = s.swansong();
        for kind in kinds {
            let own = own.clone();
            s.spawn_guarded(move || {
                match kind {
                    0 => drop(park()),
                    1 => drop(yield_now()),
                    2 => drop(wait(own.interrupt(pending::<()>()))),
                    _ => {
                        while checkpoint().is_ok() && own.state().is_running() {
                            let _ = yield_now();
                        }
                    }
                }
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }
        if depth > 0 {
            grow(&own, &mut Random(seed), depth - 1, finished);
        }
        let _ = wait(own.shutting_down());
    });
}
