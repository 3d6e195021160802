//! Where the document's own design does not keep what it promises.

use super::{Start, Watched, completion_of, is_stopped, now};
use crate::common::mpsc::{Receiver, Sender, channel};
use crate::common::thread::yield_now;
use crate::common::{Random, scaled_in_debug, within};
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::{Guard, Swansong};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

/// A root and a line of so many below it.
fn line(depth: usize) -> Vec<Swansong> {
    let mut line = vec![Swansong::new()];
    for _ in 0..depth {
        line.push(line.last().unwrap().child());
    }
    line
}

/// Takes a guard and drops it. Once the call has returned, every set that it is in has it until the drop begins,
/// whatever others do meanwhile.
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

/// The first guard of a child climbs its ancestors. A second one that finds the child taken, and returns, must find
/// them taken too.
#[test]
fn corrected_no_state_is_complete_while_a_guard_lives_below() {
    let rounds = scaled_in_debug(2000);
    within(|| {
        for round in 0..rounds {
            let (line, start) = (line(1 + round % 4), Start::of(3));
            let lowest = line.last().unwrap();
            crate::common::thread::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        start.wait();
                        for _ in 0..3 {
                            hold(lowest, &line);
                        }
                    });
                }
                start.wait();
                (0..round % 16).for_each(|_| crate::common::spin_loop());
                line[0].shut_down().block();
            });
            assert!(line.iter().all(|it| it.state() == Complete && it.guard_count() == 0));
        }
    });
}

/// The longer the way up, the longer it takes; and whoever comes second asks at once.
#[test]
fn corrected_nor_on_a_long_way_up_after_the_stop() {
    let rounds = scaled_in_debug(20_000);
    within(|| {
        for depth in [1, 3, 30, 300] {
            let (line, start) = (line(depth), Start::of(3));
            let (root, lowest) = (&line[0], &line[depth]);
            let middle = line[depth.div_ceil(2)].child();
            root.shut_down();
            crate::common::thread::scope(|s| {
                for n in 0..3 {
                    let (start, middle) = (&start, &middle);
                    s.spawn(move || {
                        start.wait();
                        for round in 0..rounds {
                            // Both at the same place, or at places that meet on the way.
                            let at = if n * round % 3 == 1 { middle } else { lowest };
                            let guard = at.guard();
                            let state = root.state();
                            assert_eq!(state, ShuttingDown);
                            drop(guard);
                        }
                    });
                }
            });
            assert!(line.iter().all(|it| it.state() == Complete && it.guard_count() == 0));
        }
    });
}

/// As above, with several branches, so that nodes in between become empty and not at once.
#[test]
fn corrected_nor_if_guards_of_several_branches_come_and_go() {
    let rounds = scaled_in_debug(1000);
    within(|| {
        for round in 0..rounds {
            let above = line(2);
            let children = [above[2].child(), above[2].child()];
            let start = Start::of(4);
            crate::common::thread::scope(|s| {
                let [left, right] = &children;
                for (child, sets) in [(left, 3), (right, 3), (&above[1], 2)] {
                    let (sets, start) = (&above[..sets], &start);
                    s.spawn(move || {
                        start.wait();
                        for _ in 0..4 {
                            hold(child, sets);
                        }
                    });
                }
                start.wait();
                above[round % 3].shut_down().block();
            });
            above[0].shut_down().block();
            assert!(above.iter().all(|it| it.state() == Complete && it.guard_count() == 0));
        }
    });
}

/// There is always a guard somewhere below a root that has been stopped: each is taken before the one before it is
/// dropped, in another place and by another thread.
#[test]
fn corrected_a_guard_handed_from_node_to_node_is_never_out_of_sight() {
    let (rounds, steps) = (scaled_in_debug(100), 100);
    within(|| {
        for round in 0..rounds {
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
            crate::common::thread::scope(|s| {
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
                    // What was seen before the last one went.
                    if !over.load(Ordering::Acquire) {
                        assert!(state != Complete && !resolved);
                    }
                    yield_now();
                }
            });
            assert_eq!(root.state(), Complete);
            assert!(completion.poll().is_some());
        }
    });
}

/// Children by whose making a list of them would be swept.
fn many_children(of: &Swansong) {
    let children: Vec<_> = (0..200).map(|_| of.child()).collect();
    drop(children);
}

#[test]
fn corrected_counts_have_the_guards_of_a_node_that_lost_its_handles_and_is_guarded_again() {
    for stops in [false, true] {
        let root = Swansong::new();
        let child = root.child();
        let (interrupt, clone_of, completion) =
            (child.interrupt(pending::<()>()), child.guard(), completion_of(&child));
        // A descendant's handle, a guard, and a completion keep it.
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
        // By a descendant, from nothing.
        let guard = below.guard();
        assert_eq!((root.guard_count(), root.state() == Complete), (1, false));
        drop((guard, below));
        many_children(&root);
        assert_eq!(root.guard_count(), 0);
        // And by an interrupt, while a completion is all that keeps it.
        let guarded = interrupt.guarded();
        let mut resolves = Watched::new(completion_of(&root));
        assert!(resolves.poll().is_none());
        assert_eq!(root.guard_count(), 1);
        assert_eq!(root.state(), if stops { ShuttingDown } else { Running });
        root.shut_down();
        assert!(resolves.poll().is_none());
        drop(guarded);
        assert_eq!((root.guard_count(), root.state()), (0, Complete));
        assert!(resolves.is_woken() && resolves.poll().is_some());
        drop(completion);
    }
}

#[test]
fn corrected_a_stop_finds_a_node_that_lost_its_handles_and_is_guarded_again() {
    let root = Swansong::new();
    let child = root.child();
    let below = child.child();
    let mut waits = Watched::new(child.interrupt(pending::<()>()));
    assert!(waits.poll().is_none());
    drop(child);
    drop(below.guard());
    many_children(&root);
    let guard = below.guard();
    many_children(&root);
    root.shut_down();
    assert!(waits.is_woken() && is_stopped(&below));
    assert_eq!((waits.poll(), root.guard_count()), (Some(None), 1));
    drop(guard);
    assert_eq!(root.state(), Complete);
}
