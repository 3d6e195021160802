//! 2 and 5.1 to 5.4: sets of guards within each other, how far a stop goes, and what can be seen.

use super::{Watched, assert_ended, completion_of, is_stopped, now, waiting};
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;
use std::future::pending;

/// Asserts that `change` is invisible to `parent`.
#[track_caller]
fn assert_unchanged(parent: &Swansong, change: impl FnOnce()) {
    let seen = || (parent.state(), parent.guard_count(), now(&mut completion_of(parent)).is_some());
    let before = seen();
    change();
    assert_eq!(seen(), before);
}

#[test]
fn making_and_dropping_children_without_guards_changes_nothing_above() {
    for guards in 0..3 {
        for stops in [false, true] {
            let parent = Swansong::new();
            let _guards: Vec<_> = (0..guards).map(|_| parent.guard()).collect();
            if stops {
                parent.shut_down();
            }
            assert_unchanged(&parent, || {
                let _children = (parent.child(), parent.child());
                assert_unchanged(&parent, || drop(parent.child().child()));
            });
            let (never_guarded, once_guarded) = (parent.child(), parent.child());
            let below = once_guarded.child();
            drop((once_guarded.guard(), below.guard()));
            assert_unchanged(&parent, || drop(never_guarded));
            assert_unchanged(&parent, || drop(once_guarded));
            assert_unchanged(&parent, || drop(below));
        }
    }
}

#[test]
fn only_guards_count_and_delay_a_completion() {
    let root = Swansong::new();
    let all: Vec<_> =
        (0..100).flat_map(|_| [root.clone(), root.child(), root.child().child()]).collect();
    // Guards that have gone, at each depth.
    all[..3].iter().for_each(|it| drop((it.guard(), it.child().guard())));
    let _interrupt = root.interrupt(pending::<()>());
    assert_eq!(root.guard_count(), 0);
    let guard = all[50].guard();
    assert_eq!(root.guard_count(), 1);
    drop(guard);
    assert!(now(&mut root.shut_down()).is_some());
    assert_eq!(root.guard_count(), 0);
    assert!(all.iter().all(|swansong| swansong.state() == Complete));
}

#[test]
fn guard_count_is_the_number_of_guards_in_the_subtree() {
    let (root, foreign) = (Swansong::new(), Swansong::new());
    let (child, other) = (root.child(), root.child());
    let below = child.child();
    assert_eq!(child.state(), Running);
    let strangers = (foreign.guard(), foreign.child().guard());
    // Handles, completions, interrupts and stopped nodes do not count.
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
    let beside = [other.guard(), other.guard()];
    assert_eq!(counts(), [7, 4, 4, 2]);
    drop((at_root, clone, at_below));
    assert_eq!(counts(), [2, 0, 0, 2]);
    drop((strangers, no_guards, beside));
    assert_eq!(counts(), [0; 4]);
}

#[test]
fn a_guard_of_a_child_is_in_the_set_of_every_ancestor() {
    let mut line = vec![Swansong::new()];
    for _ in 0..9 {
        line.push(line.last().unwrap().child());
    }
    for at in 0..line.len() {
        let guard = line[at].guard();
        for (n, swansong) in line.iter().enumerate() {
            assert_eq!(swansong.guard_count(), usize::from(n <= at), "{n} of a guard at {at}");
        }
        drop(guard);
    }
    // And delays each of them.
    let guard = line[9].guard();
    let mut completions: Vec<_> = line.iter().map(|it| Watched::new(it.shut_down())).collect();
    assert!(completions.iter_mut().all(|it| it.poll().is_none()));
    drop(guard);
    assert!(completions.iter_mut().all(Watched::is_resolved));
}

#[test]
fn children_have_children_in_any_shape() {
    let root = Swansong::new();
    // A binary tree, in the order of levels.
    let mut all = vec![root.clone()];
    for n in 0..63 {
        let (left, right) = (all[n].child(), all[n].child());
        all.extend([left, right]);
    }
    let guards: Vec<_> = all.iter().map(Swansong::guard).collect();
    let levels = |n: usize| (7 - (n + 1).ilog2()) as usize;
    for (n, swansong) in all.iter().enumerate() {
        assert_eq!(swansong.guard_count(), (1 << levels(n)) - 1, "{n}");
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
fn a_guard_of_a_child_that_is_dropped_at_once_is_like_one_of_the_parent() {
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
            assert!(completion.is_resolved());
            assert_eq!((parent.guard_count(), parent.state()), (0, Complete));
        }
    }
}

#[test]
fn a_stop_reaches_every_descendant_and_its_interrupts() {
    let root = Swansong::new();
    let mut line = vec![root.clone()];
    for _ in 0..20 {
        line.push(line.last().unwrap().child());
    }
    let beside: Vec<_> = line.iter().map(Swansong::child).collect();
    let mut waits: Vec<_> = line.iter().chain(&beside).map(waiting).collect();
    // Also descendants without a handle that a guard or a descendant keeps.
    let guard = line[20].guard();
    line.truncate(1);
    root.shut_down();
    assert!(beside.iter().all(is_stopped));
    waits.iter_mut().for_each(assert_ended);
    drop(guard);
}

#[test]
fn a_stop_reaches_no_parent_no_sibling_and_no_other_root() {
    let (root, foreign) = (Swansong::new(), Swansong::new());
    let (one, sibling) = (root.child(), root.child());
    let below = one.child();
    let others = [&root, &sibling, &foreign];
    let guards = others.map(Swansong::guard);
    let mut waits = others.map(waiting);
    let (first, second) = (one.guard(), below.guard());
    let mut completion = one.shut_down();
    assert_eq!((one.state(), one.guard_count()), (ShuttingDown, 2));
    drop(first);
    assert!(now(&mut completion).is_none());
    drop(second);
    assert!(now(&mut completion).is_some() && is_stopped(&below));
    assert_eq!((one.state(), one.guard_count()), (Complete, 0));
    let seen = || others.map(|it| (it.state(), it.guard_count()));
    assert_eq!(seen(), [(Running, 2), (Running, 1), (Running, 1)]);
    assert!(waits.iter_mut().all(|it| !it.is_woken() && it.poll().is_none()));
    assert!(now(&mut completion_of(&root)).is_none());
    assert_eq!(root.child().state(), Running);
    drop(one);
    assert_eq!(seen(), [(Running, 2), (Running, 1), (Running, 1)]);
    drop(guards);
}

#[test]
fn completions_gather_upward() {
    let root = Swansong::new();
    let (child, other) = (root.child(), root.child());
    let below = child.child().child();
    let nodes = [&root, &child, &below, &other];
    let [above, middle, lowest, beside] = nodes.map(Swansong::guard);
    let mut completions = nodes.map(|it| Watched::new(completion_of(it)));
    let mut complete = || {
        let resolved = completions.each_mut().map(|it| it.poll().is_some());
        assert_eq!(nodes.map(|it| it.state().is_complete()), resolved);
        resolved
    };
    let mut of_child = Watched::new(child.shut_down());
    let mut of_root = Watched::new(root.shut_down());
    assert!(of_child.poll().is_none() && of_root.poll().is_none());
    assert!(nodes.iter().all(|it| is_stopped(it)));
    assert_eq!(complete(), [false; 4]);
    drop(middle);
    assert_eq!(complete(), [false; 4], "there is a guard below");
    drop(lowest);
    assert_eq!(complete(), [false, true, true, false]);
    assert!(of_child.is_resolved() && of_root.poll().is_none());
    drop(above);
    assert_eq!(complete(), [false, true, true, false], "there is a guard in another branch");
    drop(beside);
    assert_eq!(complete(), [true; 4]);
    assert!(of_root.is_resolved() && completions.iter().all(Watched::is_woken));
}

#[test]
fn a_node_is_complete_if_it_is_stopped_and_no_guard_is_in_its_subtree() {
    let root = Swansong::new();
    let child = root.child();
    let mut completion = Watched::new(completion_of(&root));
    let seen = || (root.state(), child.state(), root.guard_count());
    let guard = child.child().guard();
    assert_eq!(seen(), (Running, Running, 1));
    child.shut_down();
    assert_eq!(seen(), (Running, ShuttingDown, 1));
    drop(guard);
    // All below is complete, but the root is not stopped.
    assert!(completion.poll().is_none());
    assert_eq!(seen(), (Running, Complete, 0));
    let guard = child.guard();
    root.shut_down();
    assert!(completion.poll().is_none());
    assert_eq!(seen(), (ShuttingDown, ShuttingDown, 1));
    drop(guard);
    assert!(completion.is_resolved());
    assert_eq!(seen(), (Complete, Complete, 0));
    // A late guard makes it incomplete again.
    let late = child.guard();
    assert_eq!(seen(), (ShuttingDown, ShuttingDown, 1));
    drop(late);
    assert_eq!(seen(), (Complete, Complete, 0));
}
