//! 3.1 and 3.2: the states of a Swansong, and the operations except for wrappers.

use super::{Watched, completion_of, of_each_kind, waiting};
use crate::common::prelude::*;
use cygnet::shutdown::ShutdownState::{self, Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;

/// S19.
#[test]
fn the_state_follows_the_stop_and_the_guards_and_never_runs_again() {
    let asked =
        |state: ShutdownState| [state.is_running(), state.is_shutting_down(), state.is_complete()];
    assert_eq!(asked(Running), [true, false, false]);
    assert_eq!(asked(ShuttingDown), [false, true, false]);
    assert_eq!(asked(Complete), [false, false, true]);
    of_each_kind(|swansong| {
        // Looking changes nothing.
        let look = |state, guards| {
            (0..3).for_each(|_| {
                assert_eq!((swansong.state(), swansong.guard_count()), (state, guards))
            });
        };
        let mut waits = waiting(&swansong);
        look(Running, 0);
        let guards = [swansong.guard(), swansong.guard()];
        look(Running, 2);
        drop(guards);
        look(Running, 0);
        let mut guards: Vec<_> = (0..3).map(|_| swansong.guard()).collect();
        let completion = swansong.shut_down();
        while !guards.is_empty() {
            look(ShuttingDown, guards.len());
            guards.pop();
        }
        look(Complete, 0);
        completion.block();
        for _ in 0..3 {
            let guard = swansong.guard();
            look(ShuttingDown, 1);
            let others = (swansong.clone(), swansong.child(), completion_of(&swansong));
            swansong.shut_down();
            assert_eq!(waits.poll(), Some(None));
            look(ShuttingDown, 1);
            drop((guard, others));
            look(Complete, 0);
        }
    });
}

/// S34.
#[test]
fn new_makes_a_root_that_runs() {
    for root in [Swansong::new(), Swansong::default()] {
        assert_eq!((root.state(), root.guard_count()), (Running, 0));
        let mut waits = waiting(&root);
        // The drop of its last handle stops a root.
        drop(root);
        assert_eq!(waits.poll(), Some(None));
    }
}

/// S6.
#[test]
fn handles_and_guards_are_equal_if_they_belong_to_the_same_set() {
    let (this, that) = (Swansong::new(), Swansong::new());
    let (first, second) = (this.child(), this.child());
    let all = [&this, &that, &first, &second, &first.child()];
    for (n, one) in all.iter().enumerate() {
        for (m, other) in all.iter().enumerate() {
            assert_eq!(*one == *other, n == m);
            assert_eq!((*one).clone() == **other, n == m);
            assert_eq!(one.guard() == other.guard(), n == m);
        }
    }
}

/// S54.
#[test]
fn a_completion_is_a_future_and_a_blocking_wait() {
    of_each_kind(|swansong| {
        within(|| {
            let (guard, ended) = (swansong.guard(), AtomicBool::new(false));
            thread::scope(|s| {
                for wait in 0..7 {
                    let (completion, ended) = (swansong.shut_down(), &ended);
                    s.spawn(own(&swansong, move |handle| {
                        match wait {
                            0 => handle.block_on_shutdown_completion(),
                            1 | 2 => completion.block(),
                            3 => completion_of(&handle).block(),
                            4 => block_on(completion_of(&handle)),
                            _ => block_on(completion),
                        }
                        assert!(ended.load(Ordering::Relaxed), "the drop of the guard was before");
                    }));
                }
                ended.store(true, Ordering::Relaxed);
                drop(guard);
            });
            assert_eq!(swansong.state(), Complete);
            completion_of(&swansong).block();
        });
    });
}

/// S53.
#[test]
fn awaiting_a_swansong_awaits_its_completion_without_a_stop() {
    of_each_kind(|swansong| {
        let theirs = swansong.clone();
        let mut awaited = Watched::new(Box::pin(async move { theirs.await }));
        let mut completion = Watched::new(completion_of(&swansong));
        assert!(awaited.poll().is_none() && completion.poll().is_none());
        assert_eq!(swansong.state(), Running);
        let guard = swansong.guard();
        swansong.shut_down();
        assert!(awaited.poll().is_none() && completion.poll().is_none());
        drop(guard);
        assert!(awaited.is_resolved() && completion.is_resolved());
    });
}
