//! 5.5 and 5.7 to 5.9: how long a node lives, the edges, and the drop of handles.
//!
//! Whether a node has been collected is seen by an interrupt of it, which ends then.

use super::{Watched, completion_of, is_stopped, now};
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::{Interrupt, Swansong};
use std::future::{Pending, pending};

/// An interrupt that waits, and whose waker counts.
fn waiting(of: &Swansong) -> Watched<Interrupt<Pending<()>>> {
    let mut waits = Watched::new(of.interrupt(pending()));
    assert!(waits.poll().is_none());
    waits
}

#[track_caller]
fn ended(waits: &mut Watched<Interrupt<Pending<()>>>) {
    assert!(waits.is_woken(), "it was not woken");
    assert_eq!(waits.poll(), Some(None));
}

#[test]
fn s5_5_a_child_is_not_its_parent() {
    let parent = Swansong::new();
    let child = parent.child();
    assert!(parent != child && child != parent.child() && child != child.child());
    assert!(child == child.clone() && parent == parent.clone());
    assert!(parent.guard() != child.guard());
}

#[test]
fn s5_5_a_handle_keeps_a_node() {
    let root = Swansong::new();
    let first = root.child();
    let (mut waits, child) = (waiting(&first), first.clone());
    drop(first);
    assert_eq!(waits.poll(), None);
    drop(child);
    ended(&mut waits);
}

#[test]
fn s5_5_a_guard_keeps_its_node() {
    let root = Swansong::new();
    let child = root.child();
    let (mut waits, guard) = (waiting(&child), child.guarded(()));
    drop(child);
    let clone = guard.clone();
    drop(guard);
    assert_eq!((waits.poll(), root.guard_count()), (None, 1));
    drop(clone);
    ended(&mut waits);
    assert_eq!(root.guard_count(), 0);
}

#[test]
fn s5_5_a_completion_that_has_not_resolved_keeps_its_node() {
    let root = Swansong::new();
    let child = root.child();
    let (mut waits, mut completion) = (waiting(&child), completion_of(&child));
    drop(child);
    assert_eq!(waits.poll(), None);
    assert!(now(&mut completion).is_none());
    drop(completion);
    ended(&mut waits);
    // And it resolves when the parent is stopped.
    let mut completion = Watched::new(root.child().into_future());
    assert!(completion.poll().is_none());
    root.shut_down();
    assert!(completion.is_woken() && completion.poll().is_some());
}

#[test]
fn s5_5_a_descendant_keeps_its_ancestors() {
    let root = Swansong::new();
    let child = root.child();
    let below = child.child();
    let lowest = below.child();
    let mut waits = [waiting(&child), waiting(&below)];
    drop((child, below));
    assert!(waits.iter_mut().all(|it| it.poll().is_none()));
    // The accounting still goes all the way, and so does a stop.
    let guard = lowest.guard();
    assert_eq!(root.guard_count(), 1);
    drop(lowest);
    assert!(waits.iter_mut().all(|it| it.poll().is_none()));
    drop(guard);
    waits.iter_mut().for_each(ended);
}

#[test]
fn s5_5_a_stop_goes_through_nodes_that_only_descendants_keep() {
    let root = Swansong::new();
    let lowest = root.child().child().child();
    let mut waits = waiting(&lowest);
    root.shut_down();
    ended(&mut waits);
    assert!(is_stopped(&lowest));
}

#[test]
fn s5_5_a_node_without_handles_guards_completions_and_descendants_is_collected() {
    let root = Swansong::new();
    let child = root.child();
    let below = child.child();
    let (mut waits, mut under) = (waiting(&child), waiting(&below));
    let all = (child.guard(), completion_of(&child), below.guard(), completion_of(&below));
    drop((child, below));
    assert!(waits.poll().is_none() && under.poll().is_none());
    let (guard, completion, guard_below, completion_below) = all;
    drop((guard, completion_below, completion));
    assert!(waits.poll().is_none() && under.poll().is_none());
    drop(guard_below);
    ended(&mut waits);
    ended(&mut under);
    assert_eq!((root.state(), root.guard_count()), (Running, 0));
}

#[test]
fn s5_5_an_ancestor_does_not_keep_a_descendant() {
    let root = Swansong::new();
    let (guard, completion) = (root.guard(), completion_of(&root));
    let mut waits: Vec<_> = (0..100).map(|_| waiting(&root.child().child())).collect();
    waits.iter_mut().for_each(ended);
    assert_eq!((root.state(), root.guard_count()), (Running, 1));
    drop((guard, completion));
}

#[test]
fn s5_7_a_guard_made_after_the_stop_counts_and_delays_what_has_not_resolved() {
    let root = Swansong::new();
    let child = root.child();
    let first = child.guard();
    let mut completion = Watched::new(root.shut_down());
    assert!(completion.poll().is_none());
    let late = child.guard();
    assert_eq!((root.guard_count(), child.guard_count()), (2, 2));
    drop(first);
    assert!(completion.poll().is_none());
    assert_eq!((root.state(), child.state()), (ShuttingDown, ShuttingDown));
    drop(late);
    assert!(completion.is_woken() && completion.poll().is_some());
}

#[test]
fn s5_7_a_guard_made_after_the_completion_undoes_nothing() {
    let root = Swansong::new();
    let child = root.child();
    let mut completions = [root.shut_down(), completion_of(&child)].map(Watched::new);
    assert!(completions.iter_mut().all(|it| it.poll().is_some()));
    for swansong in [&root, &child] {
        let late = swansong.guard();
        assert_eq!((root.state(), root.guard_count()), (ShuttingDown, 1));
        assert!(now(&mut root.shut_down()).is_none());
        drop(late);
        assert_eq!((root.state(), child.state()), (Complete, Complete));
    }
    assert!(now(&mut root.shut_down()).is_some());
}

#[test]
fn s5_7_a_child_of_a_stopped_parent_is_stopped_from_birth() {
    let root = Swansong::new();
    let guard = root.guard();
    root.shut_down();
    let child = root.child();
    assert_eq!((child.state(), child.child().state()), (Complete, Complete));
    // Whoever looks sees it, and need not be woken.
    assert_eq!(now(&mut child.interrupt(pending::<()>())), Some(None));
    assert!(now(&mut child.shutting_down()).is_some());
    assert!(now(&mut completion_of(&child)).is_some());
    child.shutting_down().block();
    completion_of(&child).block();
    // Its guards are guards.
    let late = child.guard();
    assert_eq!((child.state(), root.guard_count()), (ShuttingDown, 2));
    drop(guard);
    assert_eq!(root.state(), ShuttingDown);
    drop(late);
    assert_eq!((child.state(), root.state()), (Complete, Complete));
}

#[test]
fn s5_7_a_guard_held_over_the_drop_of_its_child_counts_until_it_goes() {
    for stops_before in [false, true] {
        let root = Swansong::new();
        let child = root.child();
        let guard = child.guard();
        if stops_before {
            child.shut_down();
        }
        drop(child);
        assert_eq!((root.state(), root.guard_count()), (Running, 1));
        let mut completion = Watched::new(root.shut_down());
        assert!(completion.poll().is_none());
        drop(guard);
        assert!(completion.is_woken() && completion.poll().is_some());
    }
}

#[test]
fn s5_7_an_interrupt_held_over_the_drop_of_its_child_never_waits_for_ever() {
    // The node is kept: it runs until the parent is stopped.
    let root = Swansong::new();
    let child = root.child();
    let (mut waits, guard) = (waiting(&child), child.guard());
    drop(child);
    assert_eq!(waits.poll(), None);
    root.shut_down();
    ended(&mut waits);
    drop(guard);
    // The node is collected: it ends, polled before or not, and holds no guard.
    let root = Swansong::new();
    let child = root.child();
    let (mut waits, mut never) = (waiting(&child), child.interrupt(pending::<()>()));
    let mut items = child.interrupt(0..3);
    drop(child);
    ended(&mut waits);
    assert_eq!((now(&mut never), items.next()), (Some(None), None));
    let after = never.guarded();
    assert_eq!((root.state(), root.guard_count()), (Running, 0));
    drop(after);
}

#[test]
fn s5_7_any_depth_will_do() {
    let root = Swansong::new();
    let mut lowest = root.clone();
    for _ in 0..1000 {
        lowest = lowest.child();
    }
    let (mut waits, guard) = (waiting(&lowest), lowest.guard());
    drop(lowest);
    let mut completion = Watched::new(root.shut_down());
    assert!(completion.poll().is_none());
    ended(&mut waits);
    drop(guard);
    assert!(completion.is_woken() && completion.poll().is_some());
}

#[test]
fn s5_8_dropping_the_last_handle_of_a_child_does_not_stop_it() {
    let root = Swansong::new();
    let child = root.child();
    let below = child.child();
    let (mut waits, mut under) = (waiting(&child), waiting(&below));
    let guard = child.guard();
    drop(child);
    assert!(!waits.is_woken() && waits.poll().is_none() && under.poll().is_none());
    assert_eq!((below.state(), root.state(), root.guard_count()), (Running, Running, 1));
    drop(guard);
    assert_eq!((below.state(), root.state(), root.guard_count()), (Running, Running, 0));
}

#[test]
fn s5_8_with_guards_it_stays_as_it_is_until_the_parent_stops() {
    for stops_before in [false, true] {
        let root = Swansong::new();
        let child = root.child();
        let (mut waits, guard) = (waiting(&child), child.guard());
        if stops_before {
            child.shut_down();
        }
        drop(child);
        assert_eq!(waits.is_woken(), stops_before);
        root.shut_down();
        ended(&mut waits);
        assert_eq!((root.state(), root.guard_count()), (ShuttingDown, 1));
        drop(guard);
        assert_eq!(root.state(), Complete);
    }
}

#[test]
fn s5_8_without_guards_and_completions_it_is_collected_and_its_interrupts_end() {
    let root = Swansong::new();
    let child = root.child();
    let mut waits: Vec<_> = (0..10).map(|_| waiting(&child)).collect();
    drop(child.clone());
    assert!(waits.iter_mut().all(|it| it.poll().is_none()));
    drop(child);
    waits.iter_mut().for_each(ended);
    assert_eq!(root.state(), Running);
}

#[test]
fn s5_9_the_implicit_stop_of_a_root_goes_down_as_an_explicit_one() {
    let root = Swansong::new();
    let child = root.child();
    let below = child.child();
    let mut waits = [&root, &child, &below].map(waiting);
    let guard = below.guard();
    let mut completion = Watched::new(completion_of(&root));
    assert!(completion.poll().is_none());
    drop(root);
    waits.iter_mut().for_each(ended);
    assert_eq!((child.state(), below.state()), (ShuttingDown, ShuttingDown));
    assert!(completion.poll().is_none(), "guards drain at their own pace");
    drop(guard);
    assert_eq!((child.state(), below.state()), (Complete, Complete));
    assert!(completion.is_woken() && completion.poll().is_some());
    assert_eq!(child.child().state(), Complete, "also what is made below later");
}
