//! Handles, guards and the rest are dropped in every order.

use super::model::{Part, World};
use super::{Watched, assert_ended, completion_of, waiting};
use crate::common::prelude::*;
use cygnet::shutdown::Swansong;

/// A root with two children, one of which has a child, and the parts of them to be dropped.
fn small() -> (World, [(usize, Part); 7]) {
    let mut world = World::default();
    let root = world.root();
    let (left, right) = (world.child(root), world.child(root));
    let below = world.child(left);
    for n in [root, left, right, below] {
        world.interrupt(n, true);
    }
    world.guard(below);
    world.guard(right);
    world.completion(root, true);
    world.check();
    let parts = [
        (root, Part::Handle),
        (left, Part::Handle),
        (right, Part::Handle),
        (below, Part::Handle),
        (below, Part::Guard),
        (right, Part::Guard),
        (root, Part::Completion),
    ];
    (world, parts)
}

#[test]
fn a_small_tree_is_dropped_in_each_of_5040_orders() {
    within(|| {
        let all = orders(7);
        assert_eq!(all.len(), 5040);
        // All of them on a fast machine, and some elsewhere.
        for order in all.iter().step_by(5040 / scaled_in_debug(5040)) {
            let (mut world, parts) = small();
            for &n in order {
                let (node, part) = parts[n];
                world.drop_part(node, part, 0);
                world.check();
            }
        }
    });
}

/// Each thread drops its share, in a random order. S44.
#[test]
fn a_tree_is_dropped_by_several_threads_at_once() {
    rounds(500, |round| {
        let mut random = Random(round as u64 + 1);
        let mut nodes = vec![Swansong::new()];
        while nodes.len() < 20 {
            nodes.push(nodes[random.below(nodes.len() as u64) as usize].child());
        }
        let mut completion = Watched::new(completion_of(&nodes[0]));
        assert!(completion.poll().is_none());
        let mut waits: Vec<_> = nodes.iter().map(waiting).collect();
        let mut shares = [const { Vec::new() }; 3];
        for swansong in nodes {
            shares[random.below(3) as usize].push((Some(swansong.guard()), None));
            shares[random.below(3) as usize].push((None, Some(swansong)));
        }
        thread::scope(|s| {
            for (n, mut share) in shares.into_iter().enumerate() {
                let mut random = Random((round * 3 + n) as u64 + 1);
                s.spawn(move || {
                    while !share.is_empty() {
                        drop(share.swap_remove(random.below(share.len() as u64) as usize));
                    }
                });
            }
        });
        assert!(completion.is_resolved());
        waits.iter_mut().for_each(assert_ended);
    });
}
