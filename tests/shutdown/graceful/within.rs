//! Shutdowns that cancel what is late.

use super::{LONG, counts};
use crate::common::prelude::*;
use cygnet::shutdown::Swansong;

/// S85.
#[test]
fn work_that_ends_in_time_is_not_cancelled() {
    in_task(|_| {
        let swansong = Swansong::new();
        let works: Vec<_> = (0..20)
            .map(|i| {
                cygnet::task().guard(&swansong).spawn(move || {
                    (0..i).try_for_each(|_| yield_now()).unwrap();
                    checkpoint().map(|()| i)
                })
            })
            .collect();
        let report = swansong.shut_down_within(LONG);
        assert!(report.is_in_time(), "{report}");
        assert_eq!(counts(&report), (0, 0, 0));
        assert_eq!(report.took_after_time(), Duration::ZERO);
        assert!(report.to_string().starts_with("all was finished in "));
        for (i, work) in works.into_iter().enumerate() {
            assert_eq!(work.join().unwrap(), Ok(i));
        }
    });
}

/// S86.
#[test]
fn only_late_work_is_cancelled_and_named() {
    in_task(|_| {
        let swansong = Swansong::new();
        let (begun, stuck_begun) = (Event::new(), Arc::new(Event::new()));
        let sees_to_it = Arc::clone(&stuck_begun);
        scope(|s| {
            let beside = s.spawn(park);
            let stuck = cygnet::task().guard(&swansong).spawn(move || (sees_to_it.set(), park()).1);
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
            stuck_begun.wait().unwrap();
            let id = stuck.id();
            let report = swansong.shut_down_within(Duration::from_millis(1));
            assert!(!report.is_in_time());
            assert_eq!(counts(&report), (2, 2, 0));
            let [entry] = report.late().entries() else { panic!("{report}") };
            assert_eq!((entry.location().file(), entry.location().line()), (file!(), line));
            assert_eq!((entry.count(), entry.oldest_task()), (1, Some(id)));
            let text = report.to_string();
            assert!(text.contains(&format!("within.rs:{line}")), "{text}");
            assert!(text.contains("2 scopes and tasks were cancelled"), "{text}");
            let waited = stuck.join().unwrap();
            assert_eq!(*waited.unwrap_err().reason(), Reason::GraceOver);
            let (own, below) = stuck_scope.join().unwrap();
            assert_eq!(own, Err(Reason::GraceOver));
            drop(below);
            assert!(checkpoint().is_ok());
            assert!(!beside.is_finished());
            beside.cancel("the end of the test");
        });
    });
}

#[test]
fn a_grace_of_zero_cancels_at_once() {
    with_each(|rt| {
        let swansong = rt.swansong();
        let nothing = swansong.child().shut_down_within(Duration::ZERO);
        assert!(nothing.is_in_time());
        let stuck = cygnet::task().guard(&rt.swansong()).spawn_in(rt, {
            own(&swansong, move |swansong| {
                wait(swansong.interrupt(async { pending::<()>().await })).map(|_| park())
            })
        });
        // On a plain thread.
        let report = swansong.shut_down_within(Duration::ZERO);
        assert!(report.guards_in_time_over() <= 1);
        assert!(swansong.state().is_complete());
        let _ = stuck.join();
    });
}

/// S94. With and without another call that waits meanwhile, which is told.
#[test]
fn a_stop_under_way_is_hardened() {
    in_task(|_| {
        for waits in [true, false] {
            let swansong = Swansong::new();
            let stuck = cygnet::task().guard(&swansong).spawn(park);
            scope(|s| {
                let within = waits.then(|| s.spawn(|| swansong.shut_down_within(LONG)));
                if waits {
                    swansong.shutting_down().block();
                }
                swansong.shut_down_now().block();
                if let Some(within) = within {
                    assert!(!within.join().unwrap().is_in_time());
                }
            });
            assert!(!matches!(stuck.join(), Ok(Ok(()))));
            // Again, and nothing is left to cancel.
            swansong.shut_down_now().block();
        }
        let empty = Swansong::new();
        empty.shut_down_now();
        assert!(empty.state().is_complete());
        let late = no_suspend(|| cygnet::task().guard(&empty).spawn(park));
        drop(late);
    });
}

/// S94. From a plain thread, while unwinding, and in a cancelled task; later work is cancelled too.
#[test]
fn a_hard_stop_needs_no_wait() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let guard = swansong.guard();
        while_unwinding(|| drop(swansong.shut_down_now()));
        assert!(!swansong.state().is_complete());
        let later = cygnet::task().guard(&swansong).spawn_in(rt, park);
        assert!(!matches!(later.join(), Ok(Ok(()))));
        drop(guard);
        assert!(swansong.state().is_complete());
        rt.block_on(|| {
            let swansong = Swansong::new();
            let stuck = cygnet::task().guard(&swansong).spawn(park);
            let stops = || no_suspend(|| drop(swansong.shut_down_now()));
            timeout(Duration::ZERO, stops).unwrap_err();
            assert!(!matches!(stuck.join(), Ok(Ok(()))));
        });
    });
}

/// S95.
#[test]
fn work_that_is_asked_for_after_the_stop_is_refused() {
    with_each(|rt| {
        let (swansong, other) = (Swansong::new(), Swansong::new());
        let child = swansong.child();
        let builder = cygnet::task().try_guard(&child).unwrap();
        let completion = swansong.shut_down();
        assert!(!swansong.state().is_complete(), "the builder holds a guard");
        let task = builder.spawn_in(rt, || 7);
        completion.block();
        assert_eq!(task.join().unwrap(), 7);
        assert!(cygnet::task().try_guard(&child).is_none());
        assert!(cygnet::task().try_guard(&swansong).is_none());
        drop(cygnet::task().try_guard(&other).unwrap());
        other.shut_down();
        assert!(other.state().is_complete(), "a builder that was dropped holds none");
    });
}

/// S87, S89.
#[test]
fn a_guard_without_a_task_to_cancel_is_given_up() {
    with_each(|rt| {
        let swansong = Swansong::with_guard_report();
        let guard = swansong.guard();
        let line = line!() - 1;
        let report = swansong.shut_down_within_at_most(Duration::ZERO, Duration::from_millis(1));
        assert!(report.is_given_up());
        assert_eq!(counts(&report), (1, 0, 1));
        assert_eq!(report.late().entries()[0].location().line(), line);
        assert_eq!(report.late().entries()[0].oldest_task(), None);
        assert!(report.to_string().contains("1 guard was still there"), "{report}");
        // Without a limit the shutdown waits until the guard has gone.
        let waits = rt.spawn(move || swansong.shut_down_within(Duration::ZERO));
        drop(guard);
        assert!(!waits.join().unwrap().is_given_up());
    });
}

/// S90.
#[test]
fn a_cancelled_task_that_shuts_down_does_not_wait_for_the_time() {
    in_task(|_| {
        let swansong = Swansong::new();
        let stuck = cygnet::task().guard(&swansong).spawn(park);
        let report = scope(|s| {
            s.cancel("in a hurry");
            swansong.shut_down_within(LONG)
        });
        assert_eq!((report.guards_in_time_over(), report.cancelled()), (1, 1));
        let _ = stuck.join();
    });
}

/// The task is inside of the scope that its shutdown cancels.
#[test]
fn a_task_that_its_own_shutdown_cancels_waits_until_the_limit() {
    in_task(|_| {
        let swansong = Swansong::new();
        let report = swansong.scope(|s| {
            let stuck = cygnet::task().guard(&s.swansong()).spawn_in(s, park);
            let report = swansong.shut_down_within_at_most(Duration::ZERO, LONG);
            assert!(!matches!(stuck.join(), Ok(Ok(()))));
            report
        });
        assert!(!report.is_given_up(), "{report}");
        assert_eq!((report.left(), report.guards_in_time_over()), (0, 1));
        // The task waits for its own guard.
        let report = Swansong::new().scope(|s| {
            let (swansong, _guard) = (s.swansong(), s.swansong().guard());
            swansong.shut_down_within_at_most(Duration::ZERO, Duration::from_millis(2))
        });
        assert!(report.is_given_up(), "{report}");
        assert_eq!((report.left(), report.cancelled()), (1, 1));
        assert!(report.took_after_time() >= Duration::from_millis(2));
    });
}

#[test]
fn a_shutdown_that_would_wait_inside_no_suspend_panics() {
    in_task(|_| {
        let (swansong, go) = (Swansong::new(), Event::new());
        scope(|s| {
            let (swansong, go) = (&swansong, &go);
            s.spawn(|| {
                let _guard = swansong.guard();
                go.wait().unwrap();
            });
            give_way_until(|| swansong.guard_count() == 1);
            let refused = |wait: fn(&Swansong)| {
                panics_with("inside no_suspend", || no_suspend(|| wait(swansong)));
            };
            refused(|it| it.shutting_down().block());
            refused(|it| it.shut_down().block());
            refused(|it| drop(it.shut_down_within(LONG)));
            let in_a_hurry = s.spawn(move || {
                scope(|s| {
                    s.cancel("in a hurry");
                    refused(|it| drop(it.shut_down_within(LONG)));
                });
            });
            in_a_hurry.join().unwrap();
            go.set();
            swansong.shut_down().block();
            no_suspend(|| swansong.shut_down().block());
            assert!(no_suspend(|| swansong.shut_down_within(LONG)).is_in_time());
        });
    });
}

#[test]
fn two_shutdowns_at_once_both_wait() {
    with_each(|rt| {
        let swansong = rt.swansong();
        let stuck: Vec<_> =
            (0..3).map(|_| cygnet::task().guard(&rt.swansong()).spawn_in(rt, park)).collect();
        threads(2, |_| {
            let _ = swansong.shut_down_within(Duration::from_millis(1));
            assert!(swansong.state().is_complete());
        });
        stuck.into_iter().for_each(|task| drop(task.join()));
    });
}

/// A time limit reaches what is below, and nothing above. S88.
#[test]
fn a_report_mentions_a_late_ancestor_and_no_late_descendant() {
    in_task(|_| {
        let root = Swansong::new();
        let [before, meanwhile] = [root.child(), root.child()];
        let stuck = [&before, &meanwhile].map(|child| cygnet::task().guard(child).spawn(park));
        assert_eq!(before.shut_down_within(Duration::ZERO).cancelled(), 1);
        scope(|s| {
            let waits = s.spawn(|| root.shut_down_within(LONG));
            meanwhile.shutting_down().block();
            assert_eq!(meanwhile.shut_down_within(Duration::ZERO).cancelled(), 1);
            let report = waits.join().unwrap();
            assert!(report.is_in_time(), "{report}");
        });
        stuck.into_iter().for_each(|task| assert!(!matches!(task.join(), Ok(Ok(())))));

        let root = Swansong::new();
        let (_guard, child, no_time) = (root.guard(), root.child(), Duration::ZERO);
        // Out of time, and nothing was cancelled.
        assert!(!root.shut_down_within_at_most(no_time, no_time).is_in_time());
        assert!(child.shut_down_within(LONG).is_in_time());
        assert!(!matches!(cygnet::task().guard(&child).spawn(park).join(), Ok(Ok(()))));
        let report = child.shut_down_within(LONG);
        assert!(!report.is_in_time());
        // None of its own guards was late.
        assert_eq!(counts(&report), (0, 0, 0));
        assert!(report.to_string().contains("a shutdown of an ancestor"), "{report}");
    });
}

/// A cancelled task begins more work. S86.
#[test]
fn work_begun_after_the_time_is_cancelled_at_once() {
    in_task(|_| {
        let (swansong, begun, drops) = (&Swansong::new(), &Event::new(), &Drops::new());
        let held = drops.guard();
        scope(|s| {
            s.spawn(move || {
                let guard = swansong.guard();
                begun.set();
                swansong.scope(|_| {
                    assert!(park().is_err());
                });
                let task = cygnet::task().guard(swansong).spawn(park);
                let child = cygnet::task().guard(&swansong.child()).spawn(park);
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
}

/// Trees of scopes with guarded tasks of all kinds.
#[test]
fn shutdowns_at_any_moment_end_random_trees() {
    with_each_and_many(|rt| {
        let mut random = Random(11);
        for _ in 0..scaled_in_debug(60) {
            let root = Swansong::new();
            let (seed, grace) = (random.below(1 << 30), random.below(300));
            let report = scope_on(rt, |s| {
                s.spawn(|| grow(&root, &mut Random(seed | 1), 3));
                for _ in 0..random.below(20) {
                    let _ = yield_now();
                }
                let report = root.shut_down_within(Duration::from_micros(grace));
                // New guards may have come after the end of the counted ones.
                assert!(!report.is_given_up(), "{report}");
                assert_eq!(report.is_in_time(), report.guards_in_time_over() == 0);
                // Tasks that have come after the end of all guards.
                s.cancel("the end of a round");
                report
            });
            assert_eq!(root.guard_count(), 0, "{report}");
            assert!(root.state().is_complete());
        }
    });
}

/// Its fresh children run meanwhile, and a cancel still ends the time.
#[test]
fn a_task_that_unwinds_waits_for_its_guarded_children() {
    with_own_of(&[1, 2], |rt| {
        rt.block_on(|| {
            let swansong = Swansong::new();
            let child = cygnet::task().guard(&swansong).spawn(|| checkpoint().is_ok());
            let local = cygnet::task().guard(&swansong).spawn_in(ThisWorker, || ());
            let report = while_unwinding(|| swansong.shut_down_within_at_most(LONG, LONG));
            assert!(report.is_in_time(), "{report}");
            assert!(child.join().unwrap() && local.join().is_ok());
        });
        let (sends, sent) = mpsc::channel();
        let task = rt.spawn(move || {
            let swansong = Swansong::new();
            let _guard = swansong.guard();
            sends.send((cancel_handle(), swansong.clone())).unwrap();
            while_unwinding(|| swansong.shut_down_within_at_most(LONG, Duration::from_millis(1)))
        });
        let (handle, swansong) = sent.recv().unwrap();
        swansong.shutting_down().block();
        handle.cancel("enough");
        let report = task.join().unwrap();
        assert!(report.is_given_up() && report.took() < LONG, "{report}");
        assert!(report.took_after_time() >= Duration::from_millis(1), "{report}");
    });
}

/// A child waits, by a child of its own, for what the task does after that.
#[test]
fn a_task_that_unwinds_waits_for_no_child_longer_than_it_says() {
    let shut_down = || {
        let (event, swansong) = (Arc::new(Event::new()), Swansong::new());
        let time = Duration::from_millis(1);
        let (busy, free) = (Flag::new(), Flag::new());
        spawn_unscoped(move || (busy.set(), free.hold())).detach();
        busy.hold();
        let (_guard, theirs) = (swansong.guard(), Arc::clone(&event));
        let child = spawn(move || {
            free.set();
            let begun = Flag::new();
            scope(|s| {
                s.spawn(move || (begun.set(), theirs.wait().unwrap()));
                begun.wait();
            });
        });
        let report = while_unwinding(|| {
            let report = swansong.shut_down_within_at_most(time, time);
            event.set();
            report
        });
        assert!(report.is_given_up(), "{report}");
        child.join().unwrap();
    };
    within(|| runtime(2).block_on(shut_down));
}

fn grow(swansong: &Swansong, random: &mut Random, depth: u32) {
    let kinds: Vec<_> = (0..4).map(|_| random.below(4)).collect();
    let seed = random.below(1 << 30) | 1;
    swansong.scope(|s| {
        let own = s.swansong();
        for kind in kinds {
            let own = own.clone();
            cygnet::task().guard(&s.swansong()).spawn_in(s, move || match kind {
                0 => drop(park()),
                1 => drop(yield_now()),
                2 => drop(wait(own.interrupt(pending::<()>()))),
                _ => {
                    while checkpoint().is_ok() && own.state().is_running() {
                        let _ = yield_now();
                    }
                }
            });
        }
        if depth > 0 {
            grow(&own, &mut Random(seed), depth - 1);
        }
        let _ = wait(own.shutting_down());
    });
}
