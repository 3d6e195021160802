//! 3.2: the operations, but for those that wrap something.

use super::{Watched, block_on, completion_of, now, of_each_kind};
use crate::common::within;
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn s3_2_new_makes_a_root_that_runs() {
    for root in [Swansong::new(), Swansong::default()] {
        assert_eq!((root.state(), root.guard_count()), (Running, 0));
        let mut waits = root.interrupt(pending::<()>());
        assert!(now(&mut waits).is_none());
        // A root: it is stopped with its last handle.
        drop(root);
        assert_eq!(now(&mut waits), Some(None));
    }
}

#[test]
fn s3_2_a_clone_is_another_handle_to_the_same_set() {
    of_each_kind(|swansong| {
        let clone = swansong.clone();
        let (here, there) = (swansong.guard(), clone.guard());
        assert_eq!([swansong.guard_count(), clone.guard_count()], [2, 2]);
        assert!(here == there);
        let mut completion = clone.shut_down();
        assert_eq!([swansong.state(), clone.state()], [ShuttingDown; 2]);
        drop(here);
        assert!(now(&mut completion).is_none());
        drop(there);
        assert!(now(&mut completion).is_some());
        assert_eq!([swansong.state(), clone.state()], [Complete; 2]);
    });
}

#[test]
fn s3_2_two_are_equal_if_they_name_the_same_set() {
    let (this, that) = (Swansong::new(), Swansong::new());
    let (first, second) = (this.child(), this.child());
    let all = [&this, &that, &first, &second];
    for (n, one) in all.iter().enumerate() {
        for (m, other) in all.iter().enumerate() {
            // Although all look the same.
            assert_eq!(*one == *other, n == m);
            assert_eq!((*one).clone() == **other, n == m);
            assert_eq!(one.guard() == other.guard(), n == m);
        }
    }
}

#[test]
fn s3_2_cloning_and_dropping_clones_changes_no_state() {
    of_each_kind(|swansong| {
        let clones = || drop((swansong.clone(), swansong.clone().clone()));
        clones();
        assert_eq!((swansong.state(), swansong.guard_count()), (Running, 0));
        let guard = swansong.guard();
        swansong.shut_down();
        clones();
        assert_eq!((swansong.state(), swansong.guard_count()), (ShuttingDown, 1));
        drop(guard);
        clones();
        assert_eq!((swansong.state(), swansong.guard_count()), (Complete, 0));
    });
}

#[test]
fn s3_2_a_guard_is_in_the_set_until_it_is_dropped() {
    of_each_kind(|swansong| {
        let guards: Vec<_> = (1..=100)
            .map(|n| {
                let guard = swansong.guard();
                assert_eq!(swansong.guard_count(), n);
                guard
            })
            .collect();
        for (n, guard) in guards.into_iter().enumerate() {
            drop(guard);
            assert_eq!(swansong.guard_count(), 99 - n);
        }
    });
}

#[test]
fn s3_2_each_clone_of_a_guard_counts_by_itself() {
    of_each_kind(|swansong| {
        let guard = swansong.guard();
        let clone = guard.clone();
        let far = crate::common::thread::scope(|s| s.spawn(|| clone.clone()).join().unwrap());
        assert!(guard == clone && clone == far);
        assert_eq!(swansong.guard_count(), 3);
        let mut completion = Watched::new(swansong.shut_down());
        for (left, one) in [guard, far, clone].into_iter().enumerate() {
            assert_eq!(swansong.guard_count(), 3 - left);
            assert!(completion.poll().is_none());
            drop(one);
        }
        assert!(completion.is_woken() && completion.poll().is_some());
    });
}

#[test]
fn s3_2_shut_down_stops_and_may_be_called_again() {
    of_each_kind(|swansong| {
        let guard = swansong.guard();
        let mut completions: Vec<_> = (0..3).map(|_| Watched::new(swansong.shut_down())).collect();
        assert_eq!((swansong.state(), swansong.guard_count()), (ShuttingDown, 1));
        assert!(completions.iter_mut().all(|it| it.poll().is_none()));
        drop(guard);
        assert!(completions.iter_mut().all(|it| it.is_woken() && it.poll().is_some()));
        // Also when all is over.
        assert!(now(&mut swansong.shut_down()).is_some());
        assert_eq!(swansong.state(), Complete);
    });
}

#[test]
fn s3_2_what_shut_down_gives_is_a_future_and_a_blocking_wait() {
    of_each_kind(|swansong| {
        within(|| {
            let (guard, ended) = (swansong.guard(), AtomicBool::new(false));
            crate::common::thread::scope(|s| {
                for blocks in [true, false, true, false] {
                    let (completion, ended) = (swansong.shut_down(), &ended);
                    s.spawn(move || {
                        if blocks {
                            completion.block()
                        } else {
                            block_on(completion)
                        }
                        assert!(ended.load(Ordering::Relaxed), "the drop of the guard was before");
                    });
                }
                let (handle, ended_there) = (swansong.clone(), &ended);
                s.spawn(move || {
                    handle.block_on_shutdown_completion();
                    assert!(ended_there.load(Ordering::Relaxed));
                });
                ended.store(true, Ordering::Relaxed);
                drop(guard);
            });
            assert_eq!(swansong.state(), Complete);
        });
    });
}

#[test]
fn s3_2_a_completion_does_not_stop_what_it_is_of_also_if_it_is_dropped() {
    of_each_kind(|swansong| {
        let guard = swansong.guard();
        let mut early = Watched::new(swansong.shut_down());
        assert!(early.poll().is_none());
        drop(early);
        assert_eq!((swansong.state(), swansong.guard_count()), (ShuttingDown, 1));
        drop(guard);
        assert_eq!(swansong.state(), Complete);
    });
}

#[test]
fn s3_2_state_and_guard_count_only_look() {
    of_each_kind(|swansong| {
        let guard = swansong.guard();
        for _ in 0..3 {
            assert_eq!((swansong.state(), swansong.guard_count()), (Running, 1));
        }
        swansong.shut_down();
        for _ in 0..3 {
            assert_eq!((swansong.state(), swansong.guard_count()), (ShuttingDown, 1));
        }
        drop(guard);
    });
}

#[test]
fn s3_2_to_await_a_swansong_is_to_await_its_completion_and_does_not_stop_it() {
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
        assert!(awaited.is_woken() && awaited.poll().is_some());
        assert!(completion.is_woken() && completion.poll().is_some());
    });
}

#[test]
fn s3_2_drop_is_that_of_a_handle() {
    // What the last one does is in 3.3 and 5.8; any other does nothing.
    of_each_kind(|swansong| {
        for _ in 0..3 {
            drop(swansong.clone());
            assert_eq!(swansong.state(), Running);
        }
    });
}
