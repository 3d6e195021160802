//! The end of a runtime, in good order.

use super::{LONG, counts};
use crate::common::prelude::*;

/// S91.
#[test]
fn a_runtime_finishes_guarded_work_and_cancels_the_rest() {
    with_own_of(&[1, 2, 3, 8, MANY], |rt| {
        let (done, cut) = (Count::new(), Count::new());
        rt.block_on(|| {
            let swansong = Handle::current().swansong();
            for i in 0..20 {
                cygnet::task()
                    .guard(&swansong)
                    .spawn(move || {
                        (0..i).try_for_each(|_| yield_now()).unwrap();
                        done.up();
                    })
                    .detach();
            }
        });
        for _ in 0..5 {
            let idle = move || {
                assert_eq!(*park().unwrap_err().reason(), Reason::RuntimeShutDown);
                cut.up();
            };
            rt.spawn(idle).detach();
        }
        eventually("they wait", || parks(&rt) >= 5);
        let report = rt.shutdown(LONG);
        assert!(report.is_in_time(), "{report}");
        assert_eq!((done.get(), cut.get()), (20, 5));
    });
}

#[test]
fn a_runtime_cancels_and_names_late_work() {
    with_each(|_| {
        let rt = runtime(2);
        let swansong = rt.swansong();
        let outside = swansong.clone();
        let stuck = cygnet::task()
            .guard(&rt.swansong())
            .spawn_in(&rt, || park().map_err(|e| e.reason().clone()));
        // A guard in a plain task: the end of the runtime cancels it.
        let plain = rt.spawn(move || {
            let _guard = swansong.guard();
            park().map_err(|e| e.reason().clone())
        });
        eventually("both have begun", || parks(&rt) >= 2);
        let report = rt.shutdown(Duration::from_millis(1));
        assert_eq!(counts(&report), (2, 1, 0));
        assert_eq!(report.late().entries().len(), 1);
        assert!(!report.is_given_up());
        assert_eq!(stuck.join().unwrap(), Err(Reason::GraceOver));
        assert_eq!(plain.join().unwrap(), Err(Reason::RuntimeShutDown));
        assert!(outside.state().is_complete());
    });
}

/// The other shutdown is in a greater hurry, before this one or while it waits. S88.
#[test]
fn a_report_tells_of_work_that_another_shutdown_cancelled() {
    for before in [true, false] {
        with_each(|_| {
            let rt = runtime(2);
            let swansong = rt.swansong();
            let stuck = cygnet::task()
                .guard(&rt.swansong())
                .spawn_in(&rt, || park().map_err(|e| e.reason().clone()));
            eventually("it has begun", || parks(&rt) >= 1);
            let (hasty, report) = if before {
                (swansong.shut_down_within(Duration::ZERO), rt.shutdown(LONG))
            } else {
                thread::scope(|s| {
                    let hasty = s.spawn(|| {
                        swansong.shutting_down().block();
                        swansong.shut_down_within(Duration::ZERO)
                    });
                    let report = rt.shutdown(LONG);
                    (hasty.join().unwrap(), report)
                })
            };
            assert_eq!(stuck.join().unwrap(), Err(Reason::GraceOver));
            for report in [hasty, report] {
                assert!(!report.is_in_time(), "{report}");
                assert_eq!(counts(&report), (1, 1, 0));
                assert_eq!(report.late().entries()[0].location().file(), file!());
                assert!(report.took_after_time() <= report.took());
                let text = report.to_string();
                assert!(!text.contains("all was finished"), "{text}");
                assert!(text.contains("1 scopes and tasks were cancelled"), "{text}");
            }
        });
    }
}

/// S77.
#[test]
fn a_runtime_reports_the_places_of_guards_if_it_is_built_so() {
    for reports in [false, true] {
        with_each(|_| {
            let rt = Runtime::builder().workers(2).guard_report(reports).build().unwrap();
            let guards = [rt.swansong(), rt.swansong().child()].map(|swansong| swansong.guard());
            let line = line!() - 1;
            let of_scope = rt.block_on(|| scope(|s| s.swansong().guard()));
            let report = rt.handle().swansong().guard_report();
            let lines = report.iter().map(|entry| (entry.location().line(), entry.count()));
            let expected = if reports { vec![(line, 2), (line + 2, 1)] } else { vec![] };
            assert_eq!(lines.collect::<Vec<_>>(), expected);
            assert_eq!(report.guard_count(), 3);
            let text = report.to_string();
            assert_eq!(text.contains("Builder::guard_report"), !reports, "{text}");
            drop((guards, of_scope));
        });
    }
}

/// The first use of the Swansong comes during the end or after it.
#[test]
fn the_swansong_of_a_runtime_that_ends_is_stopped_from_birth() {
    with_own(|rt| {
        let workers = rt.workers();
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
        eventually("they wait", || parks(&rt) >= 2);
        drop(rt);
        assert!(handle.swansong().state().is_complete());
        drop((late.join(), of_scope.join().map(|stopped| assert!(stopped))));
        // The end of a runtime wakes a thread that waits, and comes before the first use.
        for waits in [true, false] {
            let rt = runtime(workers);
            let handle = rt.handle();
            let interrupt = waits.then(|| rt.swansong().interrupt(pending::<()>()));
            let thread = interrupt.map(|interrupt| thread::spawn(move || wait(interrupt)));
            drop(rt);
            assert!(thread.is_none_or(|thread| thread.join().unwrap() == Ok(None)));
            assert!(handle.swansong().state().is_complete());
        }
    });
}

/// The first use comes at the same moment as the end. S93.
#[test]
fn the_swansong_of_a_runtime_is_stopped_whenever_it_was_made() {
    rounds(300, |_| {
        let rt = runtime(1);
        let handle = rt.handle();
        thread::scope(|s| {
            let made = s.spawn(move || handle.swansong());
            drop(rt);
            let swansong = made.join().unwrap();
            assert!(swansong.state().is_complete());
        });
    });
}

#[test]
fn one_of_its_own_tasks_may_not_shut_a_runtime_down() {
    in_own_process_leaking(|| {
        let rt = runtime(1);
        let handle = rt.handle();
        let said = handle.try_block_on(move || drop(rt.shutdown(LONG))).unwrap_err();
        assert!(said.to_string().contains("by one of its own tasks"), "{said}");
    });
}

#[test]
fn a_shutdown_by_an_own_task_that_unwinds_is_given_up_and_the_runtime_goes_on() {
    in_own_process_leaking(|| {
        within(|| {
            let rt = runtime(2);
            let handle = rt.handle();
            let ends = move || while_unwinding(|| rt.shutdown(LONG));
            let report = handle.spawn(ends).unwrap().join().unwrap();
            assert!(report.is_given_up() && !report.is_in_time());
            assert!(report.to_string().contains("not shut down"), "{report}");
            assert_eq!(handle.block_on(|| 7), 7);
        });
    });
}

/// S92.
#[test]
fn a_runtime_whose_task_takes_no_notice_is_given_up() {
    in_own_process_leaking(|| {
        for guarded in [true, false] {
            let rt = runtime(2);
            let guard = guarded.then(|| rt.swansong().guard());
            let (begins, begun) = mpsc::channel();
            rt.spawn(move || {
                let _guard = guard;
                begins.send(()).unwrap();
                loop {
                    thread::park();
                }
            })
            .detach();
            begun.recv().unwrap();
            let limit = Duration::from_millis(1);
            let report = rt.shutdown_at_most(if guarded { limit } else { LONG }, limit);
            assert!(report.is_given_up());
            if guarded {
                assert_eq!((report.guards_in_time_over(), report.left()), (1, 1));
            } else {
                assert!(report.is_in_time(), "there is no guard");
                let text = report.to_string();
                assert!(!text.contains("all was finished") && text.contains("given up"), "{text}");
            }
        }
    });
}

/// In a task of another runtime.
#[test]
fn a_task_that_unwinds_gives_a_runtime_its_time() {
    const SHORT: Duration = Duration::from_millis(20);
    let shut_down = |there: Runtime, grace, patience: Option<Duration>| {
        runtime(1).block_on(|| {
            while_unwinding(|| match patience {
                Some(patience) => there.shutdown_at_most(grace, patience),
                None => there.shutdown(grace),
            })
        })
    };
    within(|| {
        for patience in [None, Some(LONG)] {
            let there = runtime(1);
            let (swansong, guard) = (there.swansong(), there.swansong().guard());
            let holder = thread::spawn(move || {
                swansong.shutting_down().block();
                thread::sleep(SHORT);
                drop(guard);
            });
            let report = shut_down(there, LONG, patience);
            assert!(report.is_in_time() && !report.is_given_up(), "{report}");
            holder.join().unwrap();

            let there = runtime(1);
            let until_cancelled = || {
                assert!(park().is_err());
                thread::sleep(SHORT);
            };
            cygnet::task().guard(&there.swansong()).spawn_in(&there, until_cancelled).detach();
            eventually("it waits", || parks(&there) >= 1);
            let report = shut_down(there, Duration::ZERO, patience);
            assert!(!report.is_in_time() && !report.is_given_up(), "{report}");
            assert!(report.took_after_time() >= SHORT, "{report}");
            assert_eq!(counts(&report), (1, 1, 0));
        }
        let there = runtime(1);
        let guard = there.swansong().guard();
        let report = shut_down(there, SHORT, Some(SHORT));
        assert!(report.is_given_up() && report.took() >= SHORT * 2, "{report}");
        assert!(report.took_after_time() >= SHORT, "{report}");
        assert_eq!(counts(&report), (1, 0, 1));
        drop(guard);
    });
}
