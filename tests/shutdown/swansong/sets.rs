//! Section 2: a Swansong is a name for a set of guards.

use super::{Watched, is_stopped, now};
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;
use std::future::pending;

#[test]
fn s2_what_is_stopped_and_watched_is_a_set_of_guards() {
    let (this, other) = (Swansong::new(), Swansong::new());
    let (first, second, foreign) = (this.guard(), this.guard(), other.guard());
    let mut completion = this.shut_down();
    assert_eq!((this.state(), this.guard_count()), (ShuttingDown, 2));
    assert_eq!((other.state(), other.guard_count()), (Running, 1));
    drop(first);
    assert!(now(&mut completion).is_none());
    drop(second);
    assert!(now(&mut completion).is_some());
    assert_eq!((this.state(), this.guard_count()), (Complete, 0));
    assert_eq!((other.state(), other.guard_count()), (Running, 1));
    drop(foreign);
}

#[test]
fn s2_a_child_s_set_lies_strictly_in_its_parent_s() {
    let root = Swansong::new();
    let child = root.child();
    let (above, below) = (root.guard(), child.guard());
    // All of the child's guards are the parent's as well, and the parent has one more.
    assert_eq!((root.guard_count(), child.guard_count()), (2, 1));
    drop(below);
    assert_eq!((root.guard_count(), child.guard_count()), (1, 0));
    drop(above);
    assert_eq!((root.guard_count(), child.guard_count()), (0, 0));
}

#[test]
fn s2_a_guard_of_a_child_is_in_the_set_of_every_ancestor() {
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
    assert!(completions.iter_mut().all(|it| it.is_woken() && it.poll().is_some()));
}

#[test]
fn s2_siblings_have_no_guard_in_common() {
    let root = Swansong::new();
    let children: Vec<_> = (0..5).map(|_| root.child()).collect();
    let mut guards = Vec::new();
    for n in 0..children.len() {
        guards.extend((0..=n).map(|_| children[n].guard()));
        let counts: Vec<_> = children.iter().map(Swansong::guard_count).collect();
        let expected: Vec<_> = (0..5).map(|of| if of <= n { of + 1 } else { 0 }).collect();
        assert_eq!(counts, expected);
        assert_eq!(root.guard_count(), guards.len());
    }
}

#[test]
fn s2_a_swansong_is_no_work_only_a_guard_is() {
    let root = Swansong::new();
    let all: Vec<_> =
        (0..10).flat_map(|_| [root.clone(), root.child(), root.child().child()]).collect();
    let waits = root.interrupt(pending::<()>());
    assert_eq!(root.guard_count(), 0);
    // Nothing has to be dropped for it.
    assert!(now(&mut root.shut_down()).is_some());
    assert!(all.iter().all(|swansong| swansong.state() == Complete));
    drop(waits);

    let root = Swansong::new();
    let guard = root.guard();
    assert!(now(&mut root.shut_down()).is_none());
    drop(guard);
}

#[test]
fn s2_guards_stay_in_the_sets_above_when_the_last_handle_to_theirs_is_dropped() {
    let root = Swansong::new();
    let between = root.child();
    let child = between.child();
    let (first, second) = (child.guard(), between.guard());
    drop(child);
    assert_eq!((root.guard_count(), between.guard_count()), (2, 2));
    drop(between);
    assert_eq!((root.state(), root.guard_count()), (Running, 2));
    let mut completion = Watched::new(root.shut_down());
    assert!(completion.poll().is_none());
    drop(second);
    assert!(completion.poll().is_none());
    drop(first);
    assert!(completion.is_woken() && completion.poll().is_some());
}

#[test]
fn s2_a_root_that_nobody_holds_is_stopped_as_nothing_is_above_it() {
    let root = Swansong::new();
    let child = root.child();
    let mut completion = Watched::new(super::completion_of(&root));
    let mut waits = Watched::new(root.interrupt(pending::<()>()));
    assert!(completion.poll().is_none() && waits.poll().is_none());
    drop(root);
    assert!(completion.is_woken() && completion.poll().is_some());
    assert!(waits.is_woken());
    assert_eq!(waits.poll(), Some(None));
    assert!(is_stopped(&child));
}
