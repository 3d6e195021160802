//! Beyond the crate `swansong`: the wait for the stop alone, guards that are refused, and reports.

use super::{Watched, beside, now, of_each_kind};
use crate::common::prelude::*;
use cygnet::shutdown::ShutdownState::{Complete, Running};
// All of it: where another crate stands in for this one, what it lacks comes along.
use cygnet::shutdown::*;

/// S56.
#[test]
fn shutting_down_resolves_at_the_stop_and_waits_for_no_guard() {
    within(|| {
        of_each_kind(|swansong| {
            let guard = swansong.guard();
            let mut signal = Watched::new(swansong.shutting_down());
            assert!(signal.poll().is_none());
            assert_eq!(swansong.state(), Running, "it only looks");
            thread::scope(|s| {
                s.spawn(|| swansong.shutting_down().block());
                s.spawn(|| block_on(swansong.shutting_down()));
                swansong.shut_down();
            });
            assert!(signal.is_resolved() && signal.poll().is_some());
            swansong.shutting_down().block();
            drop(guard);
        });
    });
}

/// S30.
#[test]
fn a_forgotten_guard_keeps_the_shutdown_from_completing() {
    of_each_kind(|swansong| {
        let forgotten = std::mem::ManuallyDrop::new(swansong.guard());
        assert!(now(&mut swansong.shut_down()).is_none());
        // So that this test leaks nothing.
        drop(std::mem::ManuallyDrop::into_inner(forgotten));
    });
}

/// S26.
#[test]
fn try_guard_refuses_after_the_stop() {
    of_each_kind(|swansong| {
        let guard = swansong.try_guard().expect("it runs");
        assert_eq!(swansong.guard_count(), 1);
        let mut completion = swansong.shut_down();
        assert!(swansong.try_guard().is_none());
        assert_eq!(swansong.guard_count(), 1);
        drop(guard);
        assert!(swansong.try_guard().is_none());
        assert!(now(&mut completion).is_some());
        assert_eq!((swansong.guard_count(), swansong.state()), (0, Complete));
    });
}

/// `try_guard` succeeds before the completion resolves, or not at all.
#[test]
fn try_guard_beside_a_stop_never_lets_work_begin_after_the_completion() {
    rounds(1000, |round| {
        let root = Swansong::new();
        let child = if round % 2 == 0 { root.clone() } else { root.child() };
        let told = AtomicBool::new(false);
        let take_guards = || {
            loop {
                let over = told.load(Ordering::Acquire);
                let Some(guard) = child.try_guard() else { return };
                assert!(!over);
                assert_ne!(root.state(), Complete);
                drop(guard);
                // With one core, the thread that stops needs a turn.
                thread::yield_now();
            }
        };
        beside(take_guards, || {
            root.shut_down().block();
            told.store(true, Ordering::Release);
        });
    });
}

/// The stop comes to many children one after the other.
#[test]
fn try_guard_below_a_stop_never_lets_work_begin_after_the_completion() {
    rounds(500, |_| {
        let root = Swansong::new();
        let children: Vec<_> = (0..500).map(|_| root.child()).collect();
        let completion = super::completion_of(&root);
        thread::scope(|s| {
            s.spawn(|| {
                completion.block();
                assert!(children.iter().all(|child| child.try_guard().is_none()));
            });
            thread::yield_now();
            root.shut_down();
        });
    });
}

/// S76.
#[test]
fn a_report_counts_guards_and_names_places_if_they_are_recorded() {
    let plain = Swansong::new();
    assert!(plain.guard_report().is_empty());
    let guards = (plain.guard(), plain.child().guard());
    assert_eq!(plain.guard_report().guard_count(), 2);
    drop(guards);

    let recorded = Swansong::with_guard_report();
    let child = recorded.child();
    let first = recorded.guard();
    let line = line!() - 1;
    let twice: Vec<_> = (0..2).map(|_| child.guarded(())).collect();
    let clone = first.clone();
    let report = recorded.guard_report();
    assert_eq!((report.guard_count(), report.entries().len()), (4, 2));
    let at_first = report.iter().find(|entry| entry.location().line() == line).unwrap();
    assert_eq!((at_first.count(), at_first.location().file()), (2, file!()));
    assert!(report.iter().all(|it| it.count() == 2 && it.oldest_age().unwrap() >= Duration::ZERO));
    assert!(report.to_string().contains(file!()));
    assert_eq!(child.guard_report().entries().len(), 1);
    drop((first, clone, twice));
    let after = recorded.guard_report();
    assert!(
        after.is_empty() && (&after).into_iter().count() == 0 && after.into_iter().count() == 0
    );
}

/// S77, S78.
#[test]
fn the_text_of_a_report_has_a_line_for_each_place() {
    /// The lines of the text, without the ages.
    fn lines(report: &GuardReport) -> Vec<String> {
        let text = report.to_string();
        text.lines().map(|line| line.split(", the oldest").next().unwrap().to_owned()).collect()
    }
    let at = |count: usize, report: &GuardReport| {
        format!("{count} from {}", report.entries()[0].location())
    };
    let unknown = |count: usize| {
        let whose = "Swansong::with_guard_report and Builder::guard_report keep them";
        format!("{count} from unknown places ({whose})")
    };
    let plain = Swansong::new();
    assert_eq!(lines(&plain.guard_report()), ["no guard is left"]);
    let guard = plain.guard();
    assert_eq!(lines(&plain.guard_report()), ["1 guard is left".to_owned(), unknown(1)]);
    drop(guard);

    let recorded = Swansong::with_guard_report();
    let guard = recorded.guard();
    let clone = guard.clone();
    let report = recorded.guard_report();
    assert_eq!(lines(&report), ["2 guards are left".to_owned(), at(2, &report)]);
    drop((guard, clone));

    // The places of guarded tasks are always known.
    with(&[1], |rt| {
        let guard = rt.swansong().guard();
        let task = cygnet::task().guard(&rt.swansong()).spawn_in(rt, cygnet::park);
        let (line, report) = (line!() - 1, rt.swansong().guard_report());
        let [entry] = report.entries() else { panic!("{report}") };
        assert_eq!((entry.location().line(), entry.oldest_task()), (line, Some(task.id())));
        let expected = ["2 guards are left".to_owned(), at(1, &report), unknown(1)];
        assert_eq!(lines(&report), expected);
        assert!(report.to_string().contains(&format!(" by task {}\n", task.id())), "{report}");
        task.cancel("the end of the test");
        drop((guard, task));
    });
}
