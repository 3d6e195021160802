//! 3.3, 3.4, 5.5 and 5.7 to 5.9: how long a node lives, and the drop of handles.
//!
//! An interrupt shows whether its node has been collected: it ends then.

use super::{Watched, assert_ended, completion_of, is_stopped, now, waiting};
use crate::common::thread;
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;
use std::any::Any;
use std::future::pending;

#[test]
fn dropping_the_last_handle_of_a_root_stops_it_and_all_below() {
    for guarded in [false, true] {
        let root = Swansong::new();
        let child = root.child();
        let below = child.child();
        let nodes = [&root, &child, &below];
        let (mut waits, guards) = (nodes.map(waiting), nodes.map(|it| guarded.then(|| it.guard())));
        let mut completions = nodes.map(|it| Watched::new(completion_of(it)));
        assert!(completions.iter_mut().all(|it| it.poll().is_none()));
        let mut other = guarded.then(|| root.interrupt(pending::<()>()).guarded());
        // Only handles keep a root running.
        let handles: Vec<_> = std::iter::repeat_n(root, 4).collect();
        for handle in handles {
            assert!(waits.iter_mut().all(|it| it.poll().is_none() && !it.is_woken()));
            drop(handle);
        }
        waits.iter_mut().for_each(assert_ended);
        assert!(other.as_mut().is_none_or(|other| now(other) == Some(None)));
        drop(other);
        let state = if guarded { ShuttingDown } else { Complete };
        assert_eq!([child.state(), below.state()], [state; 2]);
        for guard in guards.into_iter().flatten() {
            assert!(completions.iter_mut().all(|it| it.poll().is_none()));
            drop(guard);
        }
        assert!(completions.iter_mut().all(Watched::is_resolved));
        assert_eq!([child.state(), below.state()], [Complete; 2]);
        assert_eq!(child.child().state(), Complete, "also a child that is made later");
    }
}

#[test]
fn guards_without_ancestors_and_watchers_are_just_dropped() {
    let root = Swansong::new();
    let guard = root.guard();
    drop(root);
    let clone = guard.clone();
    assert!(guard == clone);
    drop(guard);
    thread::scope(|s| {
        s.spawn(|| drop(clone));
    });
}

#[test]
fn a_handle_a_guard_a_waiting_completion_or_a_descendant_keeps_a_node() {
    type Keeper = fn(&Swansong) -> Box<dyn Any>;
    let keepers: [Keeper; 5] = [
        |child| Box::new(child.clone()),
        |child| Box::new(child.guard()),
        |child| Box::new(child.guarded(()).clone()),
        |child| {
            let mut completion = completion_of(child);
            assert!(now(&mut completion).is_none());
            Box::new(completion)
        },
        |child| Box::new(child.child()),
    ];
    for (n, keeper) in keepers.into_iter().enumerate() {
        let root = Swansong::new();
        let child = root.child();
        let mut waits: Vec<_> = (0..10).map(|_| waiting(&child)).collect();
        let (mut never_polled, mut items) =
            (child.interrupt(pending::<()>()), child.interrupt(0..3));
        let kept = keeper(&child);
        drop(child.clone());
        drop(child);
        assert!(waits.iter_mut().all(|it| !it.is_woken() && it.poll().is_none()), "{n}");
        assert_eq!((root.state(), root.guard_count()), (Running, usize::from([1, 2].contains(&n))));
        drop(kept);
        waits.iter_mut().for_each(assert_ended);
        // Interrupts of a collected node end, polled before or not, and get no guard.
        assert_eq!((now(&mut never_polled), items.next()), (Some(None), None));
        let after = never_polled.guarded();
        assert_eq!((root.state(), root.guard_count()), (Running, 0));
        drop(after);
    }
    // A completion that keeps a node resolves when the parent is stopped.
    let root = Swansong::new();
    let mut completion = Watched::new(root.child().into_future());
    assert!(completion.poll().is_none());
    root.shut_down();
    assert!(completion.is_resolved());
}

#[test]
fn a_descendant_keeps_its_ancestors() {
    let root = Swansong::new();
    let child = root.child();
    let below = child.child();
    let lowest = below.child();
    let mut waits = [waiting(&child), waiting(&below)];
    drop((child, below));
    assert!(waits.iter_mut().all(|it| it.poll().is_none()));
    // Counts still go all the way up.
    let guard = lowest.guard();
    assert_eq!(root.guard_count(), 1);
    drop(lowest);
    assert!(waits.iter_mut().all(|it| it.poll().is_none()));
    drop(guard);
    waits.iter_mut().for_each(assert_ended);
    assert_eq!((root.state(), root.guard_count()), (Running, 0));
}

#[test]
fn an_ancestor_does_not_keep_a_descendant() {
    let root = Swansong::new();
    let (guard, completion) = (root.guard(), completion_of(&root));
    let mut waits: Vec<_> = (0..100).map(|_| waiting(&root.child().child())).collect();
    waits.iter_mut().for_each(assert_ended);
    assert_eq!((root.state(), root.guard_count()), (Running, 1));
    drop((guard, completion));
}

#[test]
fn a_late_guard_delays_waiting_completions_and_undoes_nothing() {
    let root = Swansong::new();
    let child = root.child();
    let states = || [root.state(), child.state()];
    let first = child.guard();
    let mut completions = [root.shut_down(), completion_of(&child)].map(Watched::new);
    assert!(completions.iter_mut().all(|it| it.poll().is_none()));
    let late = child.guard();
    assert_eq!((root.guard_count(), child.guard_count()), (2, 2));
    drop(first);
    assert!(completions.iter_mut().all(|it| it.poll().is_none()));
    assert_eq!(states(), [ShuttingDown; 2]);
    drop(late);
    assert!(completions.iter_mut().all(Watched::is_resolved));
    // After the completion.
    for swansong in [&root, &child] {
        let late = swansong.guard();
        assert_eq!((root.state(), root.guard_count()), (ShuttingDown, 1));
        assert!(now(&mut root.shut_down()).is_none());
        assert!(completions.iter_mut().all(|it| it.poll().is_some()));
        drop(late);
        assert_eq!(states(), [Complete; 2]);
    }
    assert!(now(&mut root.shut_down()).is_some());
}

#[test]
fn a_child_of_a_stopped_parent_is_stopped_from_birth() {
    let root = Swansong::new();
    let guard = root.guard();
    root.shut_down();
    let child = root.child();
    assert_eq!((child.state(), child.child().state()), (Complete, Complete));
    // Every wait is ready without a wake-up.
    assert_eq!(now(&mut child.interrupt(pending::<()>())), Some(None));
    assert!(now(&mut child.shutting_down()).is_some());
    assert!(now(&mut completion_of(&child)).is_some());
    child.shutting_down().block();
    completion_of(&child).block();
    // Its guards count.
    let late = child.guard();
    assert_eq!((child.state(), root.guard_count()), (ShuttingDown, 2));
    drop(guard);
    assert_eq!(root.state(), ShuttingDown);
    drop(late);
    assert_eq!((child.state(), root.state()), (Complete, Complete));
}

#[test]
fn a_child_without_handles_and_with_guards_goes_on_until_its_parent_stops() {
    for stops_before in [false, true] {
        let root = Swansong::new();
        let parent = root.child();
        let child = parent.child();
        let below = child.child();
        let mut waits = [waiting(&child), waiting(&below)];
        let (guard, beside) = (child.guard(), parent.guard());
        let clone = guard.clone();
        if stops_before {
            child.shut_down();
        }
        drop(child);
        drop(parent);
        assert_eq!(waits.each_ref().map(Watched::is_woken), [stops_before; 2]);
        let ended = stops_before.then_some(None);
        assert_eq!(waits.each_mut().map(Watched::poll), [ended; 2]);
        assert_eq!(
            (is_stopped(&below), root.state(), root.guard_count()),
            (stops_before, Running, 3)
        );
        drop(beside);
        assert_eq!(
            (is_stopped(&below), root.state(), root.guard_count()),
            (stops_before, Running, 2)
        );
        let mut completion = Watched::new(root.shut_down());
        waits.iter_mut().for_each(assert_ended);
        assert_eq!((root.state(), root.guard_count()), (ShuttingDown, 2));
        for guard in [guard, clone] {
            assert!(completion.poll().is_none());
            drop(guard);
        }
        assert!(completion.is_resolved());
        assert_eq!((root.state(), root.guard_count()), (Complete, 0));
    }
}
