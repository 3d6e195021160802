//! The count of children of a node: its home worker against other threads.

use super::Processor;
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, models};
use crate::shim::thread::spawn;
use crate::task::words::tree::{NOBODY, Node, NodeKind, Release, WorkerNumber};
use std::mem::ManuallyDrop;
use std::ptr;

/// The home worker of the node, and another worker.
const HOME: WorkerNumber = 1;
const AWAY: WorkerNumber = 2;

/// A node, the work of its children, and its end.
struct Family {
    /// Dropped by the party that ends it.
    node: ManuallyDrop<Node>,
    work: [Baton; 3],
    ends: Baton,
}

impl Family {
    fn new(home: WorkerNumber) -> Stage<Family> {
        let node = ManuallyDrop::new(Node::new(NodeKind::Scope, ptr::null(), home));
        Stage::new(Family { node, work: [(); 3].map(|()| Baton::new()), ends: Baton::new() })
    }

    /// A child ends on `worker`. Returns `true` if the caller has to end the node.
    fn end_child(&self, child: usize, worker: WorkerNumber) -> bool {
        self.work[child].write();
        self.node.release_child(worker) == Release::Last
    }

    /// Like `end_child`, and ends the node after the last child.
    fn end_by(this: Stage<Family>, child: usize, worker: WorkerNumber, works: [usize; 3]) -> bool {
        Family::end_if(this, this.end_child(child, worker), works)
    }

    /// Closes the node. Ends it, and returns `true`, if no child is left.
    fn close(this: Stage<Family>, works: [usize; 3]) -> bool {
        Family::end_if(this, this.node.close(), works)
    }

    /// Ends the node, after all work of its children, if `last` says that the caller's release or
    /// close was the last. Returns `last`.
    fn end_if(this: Stage<Family>, last: bool, works: [usize; 3]) -> bool {
        if last {
            assert_eq!([0, 1, 2].map(|i| this.work[i].read()), works, "ended before its children");
            assert_eq!(this.ends.write(), 0, "ended twice");
            // SAFETY: the caller's release was the last, so the node is not used any more. The rest
            // of the family is dropped at the end of the model.
            unsafe { ptr::drop_in_place((&raw const this.node).cast_mut().cast::<Node>()) };
        }
        last
    }
}

/// Two children: one ends at home, and one ends away after it has spawned a child into the same
/// scope there.
fn home_and_away() {
    let family = Family::new(HOME);
    family.node.add_child(HOME);
    family.node.add_child(HOME);
    let away = spawn(move || {
        family.node.add_child(AWAY);
        assert!(!family.end_child(1, AWAY), "the spawner has not ended");
        Family::end_by(family, 1, AWAY, [1, 2, 0])
    });
    assert!(!family.end_child(0, HOME), "the owner has not closed the node");
    let last = Family::close(family, [1, 2, 0]);
    assert!(last != away.join().unwrap(), "exactly one party ends the node");
    assert_eq!(family.ends.read(), 1);
}

models! {
    fn loom_a_node_is_ended_by_one_party_after_all_children() = explore(ALL, home_and_away);

    fn loom_negative_a_tree_word_without_order() = explore(ALL, home_and_away),
        without ORDERS in "task/words/tree.rs", fails: "Causality violation";
}

/// Two children end on one other worker, which uncounts them together, and a third one ends at
/// home.
#[test]
fn loom_children_that_are_uncounted_together_end_the_node_once() {
    explore(ALL, || {
        let family = Family::new(HOME);
        (0..3).for_each(|_| family.node.add_child(HOME));
        let away = spawn(move || {
            family.work[0].write();
            family.work[1].write();
            let last = family.node.release_elsewhere(2) == Release::Last;
            Family::end_if(family, last, [1, 1, 1])
        });
        assert!(!family.end_child(2, HOME), "the owner has not closed the node");
        let last = Family::close(family, [1, 1, 1]);
        assert!(last != away.join().unwrap(), "one party ends the node");
        assert_eq!(family.ends.read(), 1);
    });
}

/// Shares of different signs, and several other threads. A child that was spawned at home ends
/// away, after it has spawned two more. One of these ends at home. The home's share is then zero
/// again, so
/// `close` decides by the word alone.
#[test]
fn loom_a_home_share_of_zero_does_not_hide_a_child() {
    explore(3, || {
        let family = Family::new(HOME);
        let come_home = Stage::new(Processor::new());
        come_home.introduce();
        family.node.add_child(HOME);
        let away = spawn(move || {
            family.node.add_child(AWAY);
            come_home.resume(); // this child ends at home
            family.node.add_child(AWAY); // and this one on a third thread
            let third = spawn(move || Family::end_by(family, 2, 3, [1, 1, 1]));
            usize::from(Family::end_by(family, 1, AWAY, [1, 1, 1]))
                + usize::from(third.join().unwrap())
        });
        come_home.suspend();
        let mut ends = usize::from(Family::end_by(family, 0, HOME, [1, 1, 1]));
        assert_eq!(ends, 0, "the owner has not closed the node");
        ends += usize::from(Family::close(family, [1, 1, 1]));
        ends += away.join().unwrap();
        assert_eq!(ends, 1, "one party ends the node");
    });
}

/// A task within a task: the end of the inner task releases the outer one.
#[test]
fn loom_the_end_of_a_child_ends_the_parent_once() {
    explore(ALL, || {
        let (outer, inner) = (Family::new(HOME), Family::new(AWAY));
        outer.node.add_child(HOME);
        // The inner task runs away, and has a child that ends on a third thread.
        let away = spawn(move || {
            inner.node.add_child(AWAY);
            let third = spawn(move || inner.end_child(0, 3).then(|| release_outer(outer, inner)));
            outer.work[0].write();
            let closed = inner.node.close().then(|| release_outer(outer, inner));
            let third = third.join().unwrap();
            assert!(closed.is_some() != third.is_some(), "one party ends the inner node");
            closed.or(third).unwrap_or(false)
        });
        let closed = Family::close(outer, [1, 0, 0]);
        assert!(closed != away.join().unwrap(), "one party ends the outer node");
        assert_eq!((inner.ends.read(), outer.ends.read()), (1, 1));
    });

    fn release_outer(outer: Stage<Family>, inner: Stage<Family>) -> bool {
        // The caller's release of the inner node was the last.
        Family::end_if(inner, true, [1, 0, 0]);
        Family::end_if(outer, outer.node.release_child(NOBODY) == Release::Last, [1, 0, 0])
    }
}

/// An owner that closes while it still has a home counts the same children twice.
#[test]
#[should_panic]
fn loom_negative_a_home_that_counts_after_the_close() {
    explore(ALL, || {
        let family = Family::new(HOME);
        family.node.add_child(HOME);
        let away = spawn(move || family.end_child(1, HOME));
        let last = family.node.close();
        assert!(last != away.join().unwrap(), "one party ends the node");
    });
}
