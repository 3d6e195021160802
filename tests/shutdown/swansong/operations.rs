//! 3.1 and 3.2: the states of a Swansong, and the operations except for wrappers.

use super::{Watched, block_on, completion_of, now, of_each_kind, waiting};
use crate::common::{thread, within};
use cygnet::shutdown::ShutdownState::{self, Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;
use std::sync::atomic::{AtomicBool, Ordering};

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

#[test]
fn without_guards_a_stop_completes_at_once() {
    of_each_kind(|swansong| {
        let _interrupt = waiting(&swansong);
        drop(swansong.guard());
        let mut completion = Watched::new(completion_of(&swansong));
        assert!(completion.poll().is_none());
        assert_eq!((swansong.state(), swansong.guard_count()), (Running, 0));
        assert!(now(&mut swansong.shut_down()).is_some());
        assert_eq!((swansong.state(), swansong.guard_count()), (Complete, 0));
        assert!(completion.is_resolved());
    });
}

#[test]
fn a_resolved_completion_stays_so_when_a_late_guard_changes_the_state() {
    of_each_kind(|swansong| {
        let mut resolved = Watched::new(swansong.shut_down());
        assert!(resolved.poll().is_some());
        let guard = swansong.guard();
        assert_eq!(swansong.state(), ShuttingDown);
        assert!(resolved.poll().is_some(), "it was ready before");
        // A completion that is asked for the first time now waits for this guard.
        let mut later = Watched::new(swansong.shut_down());
        assert!(later.poll().is_none());
        drop(guard);
        assert!(later.is_resolved() && resolved.poll().is_some());
        assert_eq!(swansong.state(), Complete);
    });
}

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

#[test]
fn a_clone_is_another_handle_to_the_same_set() {
    of_each_kind(|swansong| {
        let clone = swansong.clone();
        // Making and dropping clones changes no state.
        let look = |state, guards| {
            drop((swansong.clone(), swansong.clone().clone()));
            for handle in [&swansong, &clone] {
                assert_eq!((handle.state(), handle.guard_count()), (state, guards));
            }
        };
        look(Running, 0);
        let (here, there) = (swansong.guard(), clone.guard());
        assert!(here == there);
        look(Running, 2);
        let mut completion = clone.shut_down();
        look(ShuttingDown, 2);
        drop(here);
        assert!(now(&mut completion).is_none());
        drop(there);
        assert!(now(&mut completion).is_some());
        look(Complete, 0);
    });
}

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

#[test]
fn each_guard_and_each_clone_of_a_guard_counts_until_it_is_dropped() {
    of_each_kind(|swansong| {
        let mut guards = Vec::new();
        for n in 1..=100 {
            guards.push(swansong.guard());
            assert_eq!(swansong.guard_count(), n);
        }
        let clone = guards[0].clone();
        let far = thread::scope(|s| s.spawn(|| clone.clone()).join().unwrap());
        guards.extend([far, clone]);
        assert!(guards.windows(2).all(|pair| pair[0] == pair[1]));
        let mut completion = Watched::new(swansong.shut_down());
        for (n, guard) in guards.into_iter().enumerate() {
            assert_eq!(swansong.guard_count(), 102 - n);
            assert!(completion.poll().is_none());
            drop(guard);
        }
        assert!(completion.is_resolved());
    });
}

#[test]
fn shut_down_may_be_called_again_and_its_completion_dropped() {
    of_each_kind(|swansong| {
        let guard = swansong.guard();
        let mut completions: Vec<_> = (0..4).map(|_| Watched::new(swansong.shut_down())).collect();
        assert!(completions.iter_mut().all(|it| it.poll().is_none()));
        drop(completions.pop());
        assert_eq!((swansong.state(), swansong.guard_count()), (ShuttingDown, 1));
        assert!(completions.iter_mut().all(|it| it.poll().is_none()));
        drop(guard);
        assert!(completions.iter_mut().all(Watched::is_resolved));
        // And after the end.
        assert!(now(&mut swansong.shut_down()).is_some());
        assert_eq!(swansong.state(), Complete);
    });
}

#[test]
fn a_completion_is_a_future_and_a_blocking_wait() {
    of_each_kind(|swansong| {
        within(|| {
            let (guard, ended) = (swansong.guard(), AtomicBool::new(false));
            thread::scope(|s| {
                for wait in 0..7 {
                    let (completion, ended) = (swansong.shut_down(), &ended);
                    let handle = swansong.clone();
                    s.spawn(move || {
                        match wait {
                            0 => handle.block_on_shutdown_completion(),
                            1 | 2 => completion.block(),
                            3 => completion_of(&handle).block(),
                            4 => block_on(completion_of(&handle)),
                            _ => block_on(completion),
                        }
                        assert!(ended.load(Ordering::Relaxed), "the drop of the guard was before");
                    });
                }
                ended.store(true, Ordering::Relaxed);
                drop(guard);
            });
            assert_eq!(swansong.state(), Complete);
            completion_of(&swansong).block();
        });
    });
}

#[test]
fn awaiting_a_swansong_awaits_its_completion_without_a_stop() {
    of_each_kind(|swansong| {
        let mut awaited = Watched::new(Box::pin({
            let handle = swansong.clone();
            async move { handle.await }
        }));
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
