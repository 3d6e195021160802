//! Promises that the design of the crate `swansong` does not keep.

use super::{Watched, completion_of, now, race};
use crate::common::mpsc::{Receiver, Sender};
use crate::common::prelude::*;
use crate::common::thread::yield_now;
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::{Guard, Swansong};

/// A root and a line of `depth` descendants.
fn line(depth: usize) -> Vec<Swansong> {
    let mut line = vec![Swansong::new()];
    (0..depth).for_each(|_| line.push(line.last().unwrap().child()));
    line
}

/// Takes a guard and drops it. From the return of the call to the begin of the drop, every set that
/// the guard belongs to contains it, whatever other threads do meanwhile.
fn hold(at: &Swansong, above: &[Swansong]) {
    let guard = at.guard();
    let mut completions: Vec<_> = above.iter().map(completion_of).collect();
    for _ in 0..2 {
        for (swansong, completion) in above.iter().zip(&mut completions) {
            assert_ne!(swansong.state(), Complete);
            assert!(swansong.guard_count() >= 1);
            assert!(now(completion).is_none());
        }
        yield_now();
    }
    drop(guard);
}

/// The first guard of a child is counted in its ancestors. A second guard that finds the child
/// counted must find the ancestors counted, too. S18.
#[test]
fn no_state_is_complete_while_a_guard_lives_below() {
    rounds(2000, |round| {
        let line = line(1 + round % 4);
        let take_guards = |_| (0..3).for_each(|_| hold(line.last().unwrap(), &line));
        race(2, take_guards, || {
            (0..round % 16).for_each(|_| spin_loop());
            line[0].shut_down().block();
        });
        assert!(line.iter().all(|it| it.state() == Complete && it.guard_count() == 0));
    });
}

/// The longer the way up, the longer it takes. The second thread asks at once. S22.
#[test]
fn no_state_is_complete_while_guards_race_up_a_long_line() {
    let rounds = scaled_in_debug(20_000);
    within_each([1, 3, 30, 300], |depth| {
        let line = line(depth);
        let (root, lowest) = (&line[0], &line[depth]);
        let middle = line[depth.div_ceil(2)].child();
        root.shut_down();
        let take_guards = |n| {
            for round in 0..rounds {
                // The same place, or places that meet on the way.
                let at = if n * round % 3 == 1 { &middle } else { lowest };
                let guard = at.guard();
                assert_eq!(root.state(), ShuttingDown);
                drop(guard);
            }
        };
        race(3, take_guards, || ());
        assert!(line.iter().all(|it| it.state() == Complete && it.guard_count() == 0));
    });
}

/// With several branches, so that nodes in between become empty at different times.
#[test]
fn no_state_is_complete_while_guards_of_branches_come_and_go() {
    rounds(1000, |round| {
        let above = line(2);
        let (left, right) = (above[2].child(), above[2].child());
        let places = [(&left, 3), (&right, 3), (&above[1], 2)];
        let take_guards = |n: usize| {
            let (child, sets) = places[n];
            (0..4).for_each(|_| hold(child, &above[..sets]));
        };
        race(places.len(), take_guards, || above[round % 3].shut_down().block());
        above[0].shut_down().block();
        assert!(above.iter().all(|it| it.state() == Complete && it.guard_count() == 0));
    });
}

/// There is always a guard somewhere below a stopped root: each guard is taken before the previous
/// one is dropped, in another place and by another thread.
#[test]
fn a_guard_handed_from_node_to_node_is_never_out_of_sight() {
    let steps = 100;
    within_each(0..scaled_in_debug(100), |round| {
        let root = Swansong::new();
        let child = root.child();
        let nodes = [root.child(), child.child(), child.child(), child, root.clone()];
        let ((to_one, one), (to_other, other)) = (channel::<Guard>(), channel::<Guard>());
        to_one.send(nodes[round % 5].guard()).unwrap();
        let mut completion = Watched::new(root.shut_down());
        let over = AtomicBool::new(false);
        let pass_on = |seed, from: &Receiver<Guard>, to: &Sender<Guard>| {
            let mut random = Random(seed);
            for _ in 0..steps {
                let old = from.recv().unwrap();
                let new = nodes[random.below(5) as usize].guard();
                drop(old);
                assert_ne!(root.state(), Complete);
                to.send(new).unwrap();
            }
        };
        thread::scope(|s| {
            let (pass_on, over, seed) = (&pass_on, &over, 2 * round as u64 + 1);
            s.spawn(move || {
                pass_on(seed, &one, &to_other);
                let last = one.recv().unwrap();
                over.store(true, Ordering::Release);
                drop(last);
            });
            s.spawn(move || pass_on(seed + 1, &other, &to_one));
            while !over.load(Ordering::Acquire) {
                let (state, resolved) = (root.state(), completion.poll().is_some());
                // The looks came before the drop of the last guard.
                if !over.load(Ordering::Acquire) {
                    assert!(state != Complete && !resolved);
                }
                yield_now();
            }
        });
        assert_eq!(root.state(), Complete);
        assert!(completion.poll().is_some());
    });
}

/// Makes children, which would sweep a list of children.
fn many_children(of: &Swansong) {
    let children: Vec<_> = (0..200).map(|_| of.child()).collect();
    drop(children);
}

#[test]
fn counts_include_a_node_without_handles_that_is_guarded_again() {
    for stops in [false, true] {
        let root = Swansong::new();
        let child = root.child();
        let (interrupt, clone_of, completion) =
            (child.interrupt(pending::<()>()), child.guard(), completion_of(&child));
        // The handle of a descendant, a guard, and a completion keep the child.
        let below = child.child();
        drop(child);
        if stops {
            root.shut_down();
        }
        many_children(&root);
        assert_eq!(root.guard_count(), 1);
        let guards = (clone_of.clone(), clone_of.clone());
        assert_eq!(root.guard_count(), 3);
        drop((clone_of, guards));
        many_children(&root);
        assert_eq!(root.guard_count(), 0);
        // A guard of a descendant, when there is none.
        let guard = below.guard();
        assert_eq!((root.guard_count(), root.state() == Complete), (1, false));
        drop((guard, below));
        many_children(&root);
        assert_eq!(root.guard_count(), 0);
        // A guard of an interrupt, when only a completion keeps the child.
        let guarded = interrupt.guarded();
        let mut resolves = Watched::new(completion_of(&root));
        assert!(resolves.poll().is_none());
        assert_eq!(root.guard_count(), 1);
        assert_eq!(root.state(), if stops { ShuttingDown } else { Running });
        root.shut_down();
        assert!(resolves.poll().is_none());
        drop(guarded);
        assert_eq!((root.guard_count(), root.state()), (0, Complete));
        assert!(resolves.is_resolved());
        drop(completion);
    }
}
