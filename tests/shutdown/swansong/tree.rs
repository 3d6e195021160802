//! 5.1 to 5.4: children, what they change, how far a stop goes, and what can be seen.

use super::{Watched, completion_of, is_stopped, now};
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;
use std::future::pending;

/// What its parent can see of a child.
#[track_caller]
fn unchanged(parent: &Swansong, change: impl FnOnce()) {
    let seen = || (parent.state(), parent.guard_count(), now(&mut completion_of(parent)).is_some());
    let before = seen();
    change();
    assert_eq!(seen(), before);
}

/// A parent in each state, with and without guards.
fn parents(show: impl Fn(&Swansong)) {
    for guards in 0..3 {
        for stops in [false, true] {
            let parent = Swansong::new();
            let guards: Vec<_> = (0..guards).map(|_| parent.guard()).collect();
            if stops {
                parent.shut_down();
            }
            show(&parent);
            drop(guards);
        }
    }
}

#[test]
fn s5_1_child_makes_a_swansong_with_a_set_within_its_parent_s() {
    let parent = Swansong::new();
    let child = parent.child();
    assert_eq!((child.state(), child.guard_count()), (Running, 0));
    let guard = child.guard();
    assert_eq!((parent.guard_count(), child.guard_count()), (1, 1));
    let other = parent.guard();
    assert_eq!((parent.guard_count(), child.guard_count()), (2, 1));
    drop((guard, other));
}

/// The tests of section 3 are made with children too; this is the life of one at a glance.
#[test]
fn s5_1_a_child_is_a_swansong_in_its_own_right() {
    let parent = Swansong::new();
    let child = parent.child();
    let mut waits = Watched::new(child.interrupt(pending::<()>()).guarded());
    let clone = child.clone();
    assert!(clone == child && waits.poll().is_none());
    let mut completion = Watched::new(clone.shut_down());
    assert!(waits.is_woken() && completion.poll().is_none());
    assert_eq!((child.state(), waits.poll()), (ShuttingDown, Some(None)));
    drop(waits);
    assert!(completion.is_woken() && completion.poll().is_some());
    assert_eq!((child.state(), parent.state()), (Complete, Running));
}

#[test]
fn s5_1_children_have_children_in_any_shape() {
    let root = Swansong::new();
    // Each of the first has two, by its number.
    let mut all = vec![root.clone()];
    for n in 0..63 {
        let (left, right) = (all[n].child(), all[n].child());
        all.extend([left, right]);
    }
    let guards: Vec<_> = all.iter().map(Swansong::guard).collect();
    let below = |n: usize| (7 - (n + 1).ilog2()) as usize;
    for (n, swansong) in all.iter().enumerate() {
        assert_eq!(swansong.guard_count(), (1 << below(n)) - 1, "{n}");
    }
    all[2].shut_down();
    let is_below_2 = |mut n: usize| loop {
        match n {
            2 => return true,
            0 => return false,
            _ => n = (n - 1) / 2,
        }
    };
    for (n, swansong) in all.iter().enumerate() {
        assert_eq!(is_stopped(swansong), is_below_2(n), "{n}");
    }
    drop(guards);
    assert!(now(&mut root.shut_down()).is_some());
}

#[test]
fn s5_2_making_a_child_changes_nothing_for_its_ancestors() {
    parents(|parent| {
        unchanged(parent, || {
            let _children = (parent.child(), parent.child());
            unchanged(parent, || drop(parent.child().child()));
        });
    });
}

#[test]
fn s5_2_dropping_a_child_without_guards_changes_nothing_for_its_ancestors() {
    parents(|parent| {
        let (never, once) = (parent.child(), parent.child());
        let below = once.child();
        drop((once.guard(), below.guard()));
        unchanged(parent, || drop(never));
        unchanged(parent, || drop(once));
        unchanged(parent, || drop(below));
    });
}

#[test]
fn s5_2_guarding_by_a_child_that_is_let_go_is_as_guarding_by_the_parent() {
    let by_child: fn(&Swansong) -> _ = |parent| parent.child().guarded("X");
    let by_parent: fn(&Swansong) -> _ = |parent| parent.guarded("X");
    for stops_first in [false, true] {
        for guarded in [by_child, by_parent] {
            let parent = Swansong::new();
            if stops_first {
                parent.shut_down();
            }
            let x = guarded(&parent);
            let mut completion = Watched::new(completion_of(&parent));
            assert_eq!(parent.guard_count(), 1);
            assert!(completion.poll().is_none());
            parent.shut_down();
            assert_eq!((*x, parent.state()), ("X", ShuttingDown));
            assert!(completion.poll().is_none());
            assert_eq!(x.into_inner(), "X");
            assert!(completion.is_woken() && completion.poll().is_some());
            assert_eq!((parent.guard_count(), parent.state()), (0, Complete));
        }
    }
}

#[test]
fn s5_2_a_child_that_has_no_guard_delays_no_ancestor() {
    let root = Swansong::new();
    let never = root.child();
    let once = root.child();
    let deep = never.child().child();
    drop((once.guard(), once.child().guard(), root.guard()));
    assert!(now(&mut root.shut_down()).is_some());
    assert!([&root, &never, &once, &deep].iter().all(|it| it.state() == Complete));
}

#[test]
fn s5_2_children_do_not_count_as_guards() {
    let root = Swansong::new();
    let children: Vec<_> = (0..100).map(|_| root.child()).collect();
    let deeper: Vec<_> = children.iter().map(Swansong::child).collect();
    assert_eq!(root.guard_count(), 0);
    let guard = deeper[50].guard();
    assert_eq!(root.guard_count(), 1);
    drop(guard);
    root.shut_down();
    assert_eq!((root.guard_count(), root.state()), (0, Complete));
}

#[test]
fn s5_3_a_stop_reaches_every_descendant_and_its_interrupts() {
    let root = Swansong::new();
    let mut line = vec![root.clone()];
    for _ in 0..20 {
        line.push(line.last().unwrap().child());
    }
    let beside: Vec<_> = line.iter().map(Swansong::child).collect();
    let waits = |it: &Swansong| Watched::new(it.interrupt(pending::<()>()));
    let mut waits: Vec<_> = line.iter().chain(&beside).map(waits).collect();
    assert!(waits.iter_mut().all(|it| it.poll().is_none()));
    // Those without a handle as well, if something keeps them.
    let guard = line[20].guard();
    line.truncate(1);
    root.shut_down();
    assert!(beside.iter().all(is_stopped));
    assert!(waits.iter_mut().all(|it| it.is_woken() && it.poll() == Some(None)));
    drop(guard);
}

#[test]
fn s5_3_a_stop_does_not_go_upward() {
    let root = Swansong::new();
    let child = root.child();
    let below = child.child();
    let (above, mut waits) = (root.guard(), root.interrupt(pending::<()>()));
    assert!(now(&mut child.shut_down()).is_some());
    assert_eq!((root.state(), root.guard_count()), (Running, 1));
    assert!(now(&mut waits).is_none() && now(&mut completion_of(&root)).is_none());
    assert!(is_stopped(&child) && is_stopped(&below));
    // Nor does a new child of the parent know of it.
    assert_eq!(root.child().state(), Running);
    drop(above);
}

/// Whatever has been stopped by the time that it returns: the completion is that of the whole.
#[test]
fn s5_3_the_completion_is_of_the_whole_subtree() {
    let root = Swansong::new();
    let below: Vec<_> = (0..5).map(|_| root.child().child()).collect();
    let mut guards: Vec<_> = below.iter().map(Swansong::guard).collect();
    let mut completion = Watched::new(root.shut_down());
    while let Some(guard) = guards.pop() {
        assert!(completion.poll().is_none());
        drop(guard);
    }
    assert!(completion.is_woken() && completion.poll().is_some());
    assert!(below.iter().all(is_stopped));
}

#[test]
fn s5_3_completion_gathers_upward() {
    let root = Swansong::new();
    let (child, other) = (root.child(), root.child());
    let below = child.child();
    let guards = [root.guard(), child.guard(), below.guard(), other.guard()];
    root.shut_down();
    let states = || [&root, &child, &below, &other].map(|it| it.state().is_complete());
    let [above, middle, lowest, beside] = guards;
    assert_eq!(states(), [false; 4]);
    drop(middle);
    assert_eq!(states(), [false; 4], "there is one below");
    drop(lowest);
    assert_eq!(states(), [false, true, true, false]);
    drop(above);
    assert_eq!(states(), [false, true, true, false], "there is one in another branch");
    drop(beside);
    assert_eq!(states(), [true; 4]);
}

/// Neither stopped nor without guards is enough alone.
#[test]
fn s5_3_complete_needs_both_the_stop_and_an_empty_subtree() {
    let root = Swansong::new();
    let child = root.child();
    let mut completion = Watched::new(completion_of(&root));
    // All below has completed, but the root has not been stopped.
    child.shut_down().block();
    assert!(completion.poll().is_none() && root.state() == Running);
    let guard = child.guard();
    root.shut_down();
    assert!(completion.poll().is_none() && root.state() == ShuttingDown);
    drop(guard);
    assert!(completion.is_woken() && completion.poll().is_some());
}

#[test]
fn s5_3_siblings_are_independent() {
    let root = Swansong::new();
    let (one, other) = (root.child(), root.child());
    let (guard, mut waits) = (other.guard(), Watched::new(other.interrupt(pending::<()>())));
    assert!(waits.poll().is_none());
    one.shut_down().block();
    assert_eq!((one.state(), other.state(), other.guard_count()), (Complete, Running, 1));
    assert!(!waits.is_woken() && waits.poll().is_none());
    drop(one);
    assert_eq!((other.state(), root.guard_count()), (Running, 1));
    drop(guard);
}

#[test]
fn s5_4_guard_count_is_of_all_real_guards_in_the_subtree_and_nothing_else() {
    let (root, foreign) = (Swansong::new(), Swansong::new());
    let (child, other) = (root.child(), root.child());
    let below = child.child();
    let strangers = (foreign.guard(), foreign.child().guard());
    // Neither handles, nor completions, nor interrupts, nor nodes that have been stopped count.
    let no_guards =
        (root.clone(), completion_of(&below), below.interrupt(()), other.child().shut_down());
    let counts = || [&root, &child, &below, &other].map(Swansong::guard_count);
    assert_eq!(counts(), [0; 4]);
    let at_root = root.guard();
    let at_child = (child.guard(), child.guarded(1));
    let at_below = (below.guard(), below.interrupt(()).guarded(), below.child().guard());
    assert_eq!(counts(), [6, 5, 3, 0]);
    let clone = at_below.0.clone();
    assert_eq!(counts(), [7, 6, 4, 0]);
    drop(at_child);
    assert_eq!(counts(), [5, 4, 4, 0]);
    drop((at_root, clone, at_below));
    assert_eq!(counts(), [0; 4]);
    drop((strangers, no_guards));
}

#[test]
fn s5_4_the_state_is_that_of_the_subtree() {
    let root = Swansong::new();
    let child = root.child();
    let guard = child.child().guard();
    assert_eq!((root.state(), root.guard_count()), (Running, 1));
    child.shut_down();
    assert_eq!((root.state(), child.state()), (Running, ShuttingDown));
    root.shut_down();
    assert_eq!((root.state(), root.guard_count()), (ShuttingDown, 1));
    drop(guard);
    assert_eq!((root.state(), root.guard_count()), (Complete, 0));
    // And back, if one comes late.
    let late = child.guard();
    assert_eq!((root.state(), root.guard_count()), (ShuttingDown, 1));
    drop(late);
    assert_eq!(root.state(), Complete);
}

#[test]
fn s5_4_shut_down_is_over_when_that_node_is_complete() {
    let root = Swansong::new();
    let (child, other) = (root.child(), root.child());
    let (guard, beside) = (child.guard(), other.guard());
    let mut of_child = Watched::new(child.shut_down());
    let mut of_root = Watched::new(root.shut_down());
    assert!(of_child.poll().is_none() && of_root.poll().is_none());
    drop(guard);
    assert!(of_child.is_woken() && of_child.poll().is_some() && of_root.poll().is_none());
    drop(beside);
    assert!(of_root.is_woken() && of_root.poll().is_some());
}
