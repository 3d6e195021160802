//! Joins with a time limit, and time limits around results.

use super::{LONG, short};
use crate::common::prelude::*;

/// T52.
#[test]
fn a_join_that_takes_too_long_leaves_the_task_as_it_is() {
    in_task_and_many(|rt| {
        let (mut task, unparker) = sleeper(rt);
        for time in [Duration::ZERO, short()] {
            assert!(matches!(task.join_timeout(time), Err(JoinError::TimedOut)));
            assert!(!task.is_finished());
        }
        unparker.unpark();
        assert!(task.join_timeout(LONG).unwrap(), "it was not cancelled");
    });
}

/// T52.
#[test]
fn a_thread_joins_with_a_time_limit() {
    with_each_and_many(|rt| {
        let (mut task, unparker) = sleeper(rt);
        assert!(matches!(task.join_timeout(short()), Err(JoinError::TimedOut)));
        unparker.unpark();
        assert!(task.join_timeout(Duration::MAX).unwrap());
        let mut task = rt.spawn(|| panic!("no luck"));
        assert!(task.join_timeout(LONG).is_err_and(|error: JoinError| error.is_panic()));
    });
}

/// T52. A child that nobody has started is started for its joiner.
#[test]
fn a_join_with_a_time_limit_waits_for_what_has_not_started() {
    in_task(|_| {
        let mut task = spawn(|| 7);
        assert_eq!(task.join_timeout(Duration::MAX).unwrap(), 7);
        let mut local = spawn_local(|| Rc::new(7));
        assert_eq!(*local.join_timeout(LONG).unwrap(), 7);
        assert_eq!(scope(|s| s.spawn(|| 7).join_timeout(LONG)).unwrap(), 7);
    });
}

/// T52.
#[test]
fn a_cancel_of_the_caller_ends_its_join_and_not_the_task() {
    in_task_and_many(|rt| {
        let (mut task, unparker) = sleeper(rt);
        let caller =
            parked(rt, 1, move || (task.join_timeout(LONG).map_err(|e| e.is_cancelled()), task));
        caller.cancel("enough");
        let (joined, task) = caller.join().unwrap();
        assert_eq!(joined, Err(true));
        unparker.unpark();
        assert!(task.join().unwrap(), "the task was not cancelled");
    });
}

/// T52. The caller has never waited, so no cancel knows of it before.
#[test]
fn a_cancel_from_above_ends_a_join_for_a_time() {
    in_task_and_many(|rt| {
        let (mut task, unparker) = sleeper(rt);
        let joins = move || assert!(task.join_timeout(LONG).unwrap_err().is_cancelled());
        // Its closure returns at once, so it does not park.
        let above = parked(rt, 1, move || spawn(joins).detach());
        above.cancel("enough");
        above.join().unwrap();
        unparker.unpark();
    });
}

/// T52. The value stays, for a caller that is not cancelled.
#[test]
fn a_cancelled_caller_does_not_get_the_value_of_a_task_that_has_ended() {
    in_task_and_many(|_| {
        let mut task = spawn(|| 7);
        give_way_until(|| task.is_finished());
        let late = timeout(Duration::ZERO, || task.join_timeout(LONG)).unwrap_err().into_inner();
        assert!(late.unwrap_err().is_cancelled());
        let late = timeout(Duration::ZERO, || task.join_timeout(Duration::MAX)).unwrap_err();
        assert!(late.into_inner().unwrap_err().is_cancelled());
        assert_eq!(task.join().unwrap(), 7);
    });
}

/// T52. The end of the task and the limit come at the same time.
#[test]
fn a_join_gets_the_value_or_leaves_it_there() {
    in_task_and_many(|_| {
        for round in 0..scaled_in_debug(200) {
            let time = Duration::from_micros(round as u64 % 50);
            let mut task = spawn(move || sleep(time).map(|()| round));
            let value = match task.join_timeout(time) {
                Err(JoinError::TimedOut) => task.join(),
                joined => joined,
            };
            assert_eq!(value.unwrap(), Ok(round));
        }
    });
}

/// T52.
#[test]
fn a_second_outcome_and_a_join_where_nothing_may_wait_are_mistakes() {
    in_task_with(&[1], |rt| {
        let mut task = spawn(|| 7);
        assert_eq!(task.join_timeout(LONG).unwrap(), 7);
        panics_with("after its outcome", || task.join_timeout(LONG));
        assert!(task.is_finished() && format!("{task:?}").contains("finished: true"));
        task.cancel("it has ended");
        scope(|s| {
            let mut task = s.spawn(|| 7);
            assert_eq!(task.join_timeout(LONG).unwrap(), 7);
            assert!(task.is_finished() && format!("{task:?}").contains("finished: true"));
            task.cancel("it has ended");
        });
        let (mut task, unparker) = sleeper(rt);
        panics_with("no_suspend", || no_suspend(|| task.join_timeout(LONG)));
        let refused = while_unwinding(|| task.join_timeout(LONG)).unwrap_err();
        assert!(refused.is_cancelled() && !task.is_finished());
        unparker.unpark();
        assert!(task.join().unwrap());
        let mut ended = spawn(|| 7);
        give_way_until(|| ended.is_finished());
        assert_eq!(no_suspend(|| ended.join_timeout(LONG)).unwrap(), 7);
    });
}

/// T36, T52.
#[test]
fn a_task_that_joins_itself_for_a_time_is_told_so() {
    with(&[1], |rt| {
        let (give, take) = mpsc::channel::<Task<bool>>();
        let (report, reported) = mpsc::channel();
        let task = rt.spawn(move || {
            let mut itself = take.recv().unwrap();
            let told = matches!(itself.join_timeout(LONG), Err(JoinError::OwnEnd));
            report.send(told).unwrap();
            itself.detach();
            true
        });
        give.send(task).unwrap();
        assert!(reported.recv().unwrap());
    });
}

#[test]
fn what_is_returned_in_a_try_timeout_counts_however_late_it_is() {
    in_task(|_| {
        let late = try_timeout(Duration::ZERO, || Ok::<u32, Cancelled>(7));
        assert_eq!(late, Ok(7));
        let cut = try_timeout(short(), || sleep(LONG));
        assert_eq!(*cut.unwrap_err().reason(), Reason::Deadline);
        assert_eq!(try_timeout(Duration::MAX, || "x".parse::<u8>().map_err(|_| 3)), Err(3));
        checkpoint().unwrap();
    });
}
