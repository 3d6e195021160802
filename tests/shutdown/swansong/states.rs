//! 3.1: the three states, and the ways between them.

use super::{Watched, completion_of, now, of_each_kind};
use cygnet::shutdown::ShutdownState::{self, Complete, Running, ShuttingDown};

#[test]
fn s3_1_it_is_in_exactly_one_of_three_states() {
    let asked =
        |state: ShutdownState| [state.is_running(), state.is_shutting_down(), state.is_complete()];
    assert_eq!(asked(Running), [true, false, false]);
    assert_eq!(asked(ShuttingDown), [false, true, false]);
    assert_eq!(asked(Complete), [false, false, true]);
    of_each_kind(|swansong| {
        let guard = swansong.guard();
        assert!(swansong.state().is_running());
        swansong.shut_down();
        assert!(swansong.state().is_shutting_down());
        drop(guard);
        assert!(swansong.state().is_complete());
    });
}

#[test]
fn s3_1_running_is_not_stopped_with_guards_or_without() {
    of_each_kind(|swansong| {
        assert_eq!(swansong.state(), Running);
        let guards = [swansong.guard(), swansong.guard()];
        assert_eq!(swansong.state(), Running);
        drop(guards);
        assert_eq!(swansong.state(), Running);
    });
}

#[test]
fn s3_1_shutting_down_is_stopped_with_at_least_one_guard() {
    of_each_kind(|swansong| {
        let mut guards: Vec<_> = (0..3).map(|_| swansong.guard()).collect();
        swansong.shut_down();
        while guards.pop().is_some() {
            let expected = if guards.is_empty() { Complete } else { ShuttingDown };
            assert_eq!(swansong.state(), expected);
        }
    });
}

#[test]
fn s3_1_complete_is_stopped_and_without_guards() {
    of_each_kind(|swansong| {
        drop(swansong.guard());
        let mut completion = swansong.shut_down();
        assert_eq!((swansong.state(), swansong.guard_count()), (Complete, 0));
        assert!(now(&mut completion).is_some());
    });
}

#[test]
fn s3_1_it_goes_from_running_by_shutting_down_to_complete() {
    of_each_kind(|swansong| {
        let mut states = vec![swansong.state()];
        let guard = swansong.guard();
        let completion = swansong.shut_down();
        states.push(swansong.state());
        drop(guard);
        states.push(swansong.state());
        completion.block();
        assert_eq!(states, [Running, ShuttingDown, Complete]);
    });
}

#[test]
fn s3_1_without_guards_it_goes_from_running_to_complete() {
    of_each_kind(|swansong| {
        let mut completion = Watched::new(completion_of(&swansong));
        assert!(completion.poll().is_none());
        assert_eq!(swansong.state(), Running);
        swansong.shut_down();
        assert_eq!(swansong.state(), Complete);
        assert!(completion.is_woken() && completion.poll().is_some());
    });
}

#[test]
fn s3_1_it_never_runs_again() {
    of_each_kind(|swansong| {
        swansong.shut_down();
        for _ in 0..3 {
            let guard = swansong.guard();
            assert_eq!(swansong.state(), ShuttingDown);
            let clone = swansong.clone();
            swansong.shut_down();
            drop((guard, clone));
            assert_eq!(swansong.state(), Complete);
        }
    });
}

#[test]
fn s3_1_a_completion_that_has_resolved_stays_so_though_the_state_may_go_back() {
    of_each_kind(|swansong| {
        let mut resolved = Watched::new(swansong.shut_down());
        assert!(resolved.poll().is_some());
        let guard = swansong.guard();
        assert_eq!(swansong.state(), ShuttingDown);
        assert!(resolved.poll().is_some(), "it was ready before");
        // What is asked for the first time now waits for this guard.
        let mut later = Watched::new(swansong.shut_down());
        assert!(later.poll().is_none());
        drop(guard);
        assert!(later.is_woken() && later.poll().is_some() && resolved.poll().is_some());
        assert_eq!(swansong.state(), Complete);
    });
}
