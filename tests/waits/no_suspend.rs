//! Sections in which a task must not be suspended.

use crate::common::prelude::*;

const REFUSAL: &str = "a task would be suspended inside no_suspend";

/// T47.
#[test]
fn every_suspension_inside_no_suspend_is_a_panic_and_none_outside() {
    in_task(|rt| {
        let refused = |wait: &dyn Fn()| {
            panics_with(REFUSAL, || no_suspend(wait));
        };
        refused(&|| yield_now().unwrap());
        refused(&|| park().unwrap());
        refused(&|| blocking(|| ()));
        refused(&|| rt.block_on(|| ()));
        // A task that has started cannot be run in place of the join.
        let (parked, unparker) = sleeper(rt);
        let parked = Mutex::new(Some(parked));
        refused(&|| {
            let task = parked.lock().unwrap_or_else(|e| e.into_inner()).take().unwrap();
            drop(task.join());
        });
        unparker.unpark();
        yield_now().unwrap();
    });
}

#[test]
fn what_need_not_wait_is_allowed_inside_no_suspend() {
    in_task(|_| {
        let ended = spawn(|| 5);
        give_way_until(|| ended.is_finished());
        let me = unparker();
        let value = no_suspend(|| {
            checkpoint().unwrap();
            me.unpark();
            no_suspend(|| ended.join().unwrap())
        });
        assert_eq!(value, 5);
        park().unwrap();
    });
    assert_eq!(no_suspend(|| 1), 1);
}

#[test]
fn a_panic_inside_no_suspend_ends_the_section() {
    in_task(|_| {
        assert_eq!(panic_of(|| no_suspend(|| no_suspend(|| panic!("out")))), "out");
        yield_now().unwrap();
    });
}

#[test]
fn the_result_of_a_started_task_whose_join_was_refused_is_dropped() {
    with_each(|rt| {
        let (results, ended) = (Drops::new(), Flag::new());
        rt.block_on(|| {
            let before = parks(rt);
            let task = spawn(own(&results, move |results| {
                // The refused join lets go of the task: it is cancelled.
                ended.put(park().is_err());
                results.guard()
            }));
            give_way_until(|| parks(rt) > before);
            panics_with(REFUSAL, || no_suspend(|| drop(task.join())));
        });
        assert_eq!((results.count(), ended.get()), (1, true));
    });
}

#[test]
fn the_results_of_several_tasks_whose_join_was_refused_are_dropped() {
    with(&[1], |rt| {
        let results = Drops::new();
        rt.block_on(|| {
            let body = || Ok::<_, ()>(results.guard());
            let refused = |run: &dyn Fn()| {
                let said = panic_of(|| no_suspend(run));
                assert!(said.contains(REFUSAL), "{said}");
            };
            refused(&|| drop(cygnet::all([body; 3])));
            refused(&|| drop(cygnet::all_fail_fast([body; 3])));
            refused(&|| drop(cygnet::any([body; 3])));
        });
        assert!((1..=6).contains(&results.made()), "the first task is cancelled");
        assert_eq!(results.left(), 0);
    });
}

#[test]
fn a_started_one_of_several_tasks_whose_join_was_refused_is_cancelled() {
    with(&[2, 3, 8], |rt| {
        let (results, begun) = (Drops::new(), Flag::new());
        rt.block_on(|| {
            let body = || {
                begun.set();
                common::spin_until(cygnet::is_cancelled);
                results.guard()
            };
            // The join comes after the last body.
            let last = || {
                begun.hold();
                None
            };
            let bodies = std::iter::once(body).chain(std::iter::from_fn(last));
            let said = panic_of(|| no_suspend(|| cygnet::all(bodies)));
            assert!(said.contains(REFUSAL), "{said}");
        });
        assert_eq!((results.made(), results.left()), (1, 0));
    });
}

/// A child that was spawned before the section is none of its tasks, though the same task has
/// spawned it. T47.
#[test]
fn what_was_spawned_before_the_section_is_not_called_inside() {
    in_task(|_| {
        scope(|s| {
            let before = s.spawn(|| yield_now().is_ok());
            let beside = spawn(|| yield_now().is_ok());
            no_suspend(|| {
                scope(|inner| {
                    inner.spawn(|| ());
                    scope(|innermost| drop(innermost.spawn(|| ())));
                });
                assert_eq!(join(|| 1, || 2), (1, 2));
            });
            assert!(before.join().unwrap());
            assert!(beside.join().unwrap());
        });
    });
}
