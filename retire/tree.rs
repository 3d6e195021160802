//! The state word of a node of the tree, and the node itself.
//!
//! # The count of children, and why a spawn pays no locked instruction
//!
//! A node counts its unfinished children in two shares. `local` is a plain number that only the
//! node's **home** worker reads and writes; the 29-bit count in the word is atomic and carries an
//! offset of [`BIAS`] while the node is open. A child that is spawned or ends on the home worker
//! moves `local`; one that is spawned or ends anywhere else moves the atomic share. The number of
//! unfinished children is always `local + (count - BIAS)`; either part alone may be negative.
//!
//! When the owner has done its own part it **closes** the node: it gives up the home (from now on
//! everybody counts atomically) and folds `local - BIAS` and the WAITING bit into the word with one
//! addition. From then on the count is the plain number of unfinished children, and the release
//! that takes it to zero ends the node. This is biased reference counting (Choi, Shull, Torrellas,
//! PACT 2018), applied to a count of children.
//!
//! If the home's share is zero and the word holds exactly the offset, the node has no child, and the
//! owner closes it without an update. The value it sees may be old, but it is that of a moment: a
//! prefix of the word's order, which holds every addition whose child ended at home (that came here after
//! it). A prefix lacks children only together with those who spawned them; the oldest of those was
//! spawned by the owner, and its release, if it is in the prefix, comes after its own additions. So a
//! prefix that adds up to zero holds every addition there will ever be.
//!
//! Orderings: every atomic decrement is `AcqRel`, so that what a child did happens before
//! what follows the end of its parent. An increment needs no order of its own, since the spawner is itself
//! counted (or is the owner), but for a root, which takes tasks from strangers: there it is `AcqRel`
//! too, and one that comes after the closing sees the flag that was set before it.

use crate::shim::Cell;
use crate::shim::atomic::{AtomicU32, Ordering};
use std::hint::cold_path;

/// Offset of the atomic share of an open node.
const BIAS: u32 = 1 << 28;
const CANCELLED: u32 = 1 << 31;
const WAITING: u32 = 1 << 30;
/// Reserved for a subtree that is shielded from cancellation.
const IGNORED: u32 = 1 << 29;
const COUNT: u32 = IGNORED - 1;
/// Local share at which it is folded into the word before it could overflow.
const FOLD: u32 = 1 << 27;

/// A worker's number; no worker has the number [`NOBODY`].
pub(crate) type WorkerNumber = u32;
pub(crate) const NOBODY: WorkerNumber = 0;

/// What a node belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodeKind {
    /// The node at the start of a task record.
    Task,
    /// A scope that was opened inside a task; lives on that task's stack.
    Scope,
    /// The root of a runtime.
    Root,
}

/// Whether a worker that has begun a task runs nothing else but such that descend from a certain scope until
/// it has ended (scheduler/restrict.rs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Restriction {
    None,
    /// That of an ancestor.
    Inherited,
    /// To the descendants of this very node, a scope.
    Here,
}

impl Restriction {
    /// That of a child.
    #[inline]
    pub(crate) fn inherited(self) -> Restriction {
        if self == Restriction::None { Restriction::None } else { Restriction::Inherited }
    }
}

/// What the release of a child did to its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// Somebody else will end the node.
    StillOpen,
    /// This was the last child of a closed node: the caller ends it.
    Last,
}

/// State word of a node: CANCELLED | WAITING | IGNORED | count of children.
pub(crate) struct TreeWord(AtomicU32);

impl TreeWord {
    #[inline]
    pub(crate) fn open() -> Self {
        TreeWord(AtomicU32::new(BIAS))
    }

    /// Marks the node cancelled; true for the first call.
    pub(crate) fn set_cancelled(&self) -> bool {
        self.0.fetch_or(CANCELLED, Ordering::AcqRel) & CANCELLED == 0
    }

    #[cfg(test)]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire) & CANCELLED != 0
    }

    fn add_child(&self) {
        // Acquire: an addition that comes after a root's closing sees what came before that.
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        // Half of the room is left for decrements that precede their increments.
        if before & COUNT >= COUNT - FOLD {
            self.0.fetch_sub(1, Ordering::Relaxed);
            panic!("cygnet: a task or scope has more than {} unfinished children", FOLD);
        }
    }

    fn release_child(&self) -> Release {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & COUNT != 0, "a child was released twice");
        if before & WAITING != 0 && before & COUNT == 1 {
            Release::Last
        } else {
            Release::StillOpen
        }
    }

    /// Moves the home's share into the word. Where others have released as many as the home has
    /// counted, this only brings the two shares back to where they began.
    #[cold]
    fn fold(&self, local: u32) {
        let before = self.0.load(Ordering::Relaxed) & COUNT;
        assert!(before <= BIAS, "cygnet: a task or scope has more than {FOLD} unfinished children");
        self.0.fetch_add(local, Ordering::Relaxed);
    }

    fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WAITING != 0
    }

    /// Whether the atomic share says that nobody but the home has counted anything.
    #[inline]
    fn untouched(&self) -> bool {
        // With a flag the slow way tells.
        self.0.load(Ordering::Acquire) == BIAS
    }

    /// Folds the local share in and takes the bias out; true if no child is left.
    fn close(&self, local: u32) -> bool {
        let delta = WAITING.wrapping_add(local).wrapping_sub(BIAS);
        let before = self.0.fetch_add(delta, Ordering::AcqRel);
        debug_assert!(before & WAITING == 0, "a node was closed twice");
        before.wrapping_add(delta) & COUNT == 0
    }
}

/// A node of the tree: at the start of every task record, on the stack of every open scope, and
/// at the root of a runtime.
#[repr(C)]
pub(crate) struct Node {
    word: TreeWord,
    /// The home's share of the number of children. Owned by the home worker.
    local: Cell<u32>,
    /// The worker that may use `local`. Written by the home (or before anybody else knows the
    /// node); others read it and find a number that is not theirs.
    home: AtomicU32,
    pub(crate) kind: NodeKind,
    pub(crate) restriction: Restriction,
    pub(crate) parent: *const Node,
}

// SAFETY: every field but `local` is atomic or never changes after construction; `local` is
// touched only by the thread whose worker number equals `home`, which is one thread at a time: the
// number is unique in the process and `home` changes only before the node is shared, at the start
// of the task (which the queue hand-over orders), and to NOBODY.
unsafe impl Sync for Node {}
// SAFETY: as above.
unsafe impl Send for Node {}

impl Node {
    #[inline]
    pub(crate) fn new(kind: NodeKind, parent: *const Node, home: WorkerNumber) -> Self {
        Node {
            word: TreeWord::open(),
            local: Cell::new(0),
            home: AtomicU32::new(home),
            kind,
            restriction: Restriction::None,
            parent,
        }
    }

    /// The same with a restriction.
    #[inline]
    pub(crate) fn with_restriction(self, restriction: Restriction) -> Self {
        Node { restriction, ..self }
    }

    pub(crate) fn word(&self) -> &TreeWord {
        &self.word
    }

    /// Gives the node its home. For the worker that starts the task.
    #[inline]
    pub(crate) fn set_home(&self, worker: WorkerNumber) {
        self.home.store(worker, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn home(&self) -> WorkerNumber {
        self.home.load(Ordering::Relaxed)
    }

    /// Counts a child that a worker spawns.
    ///
    /// # Panics
    /// If the node has some 134 million unfinished children.
    #[inline]
    pub(crate) fn add_child(&self, worker: WorkerNumber) {
        debug_assert_ne!(worker, NOBODY);
        if self.home() == worker {
            let local = self.local.get().wrapping_add(1);
            if local == FOLD {
                self.word.fold(FOLD - 1);
                self.local.set(1);
            } else {
                self.local.set(local);
            }
        } else {
            cold_path();
            self.word.add_child();
        }
    }

    /// Counts a child that a foreign thread spawns.
    ///
    /// # Panics
    /// As `add_child`.
    pub(crate) fn add_child_from_outside(&self) {
        self.word.add_child();
    }

    /// Uncounts a child that ended on `worker`, if that is the node's home.
    #[inline]
    pub(crate) fn release_at_home(&self, worker: WorkerNumber) -> bool {
        if self.home() != worker {
            return false;
        }
        let local = self.local.get().wrapping_sub(1);
        self.local.set(local);
        if local == FOLD.wrapping_neg() {
            self.unfold();
        }
        true
    }

    /// Moves a negative share of the home into the word, before it could overflow.
    #[cold]
    fn unfold(&self) {
        // More children have been counted there than this, or fewer could not have been released.
        self.word.0.fetch_sub(FOLD, Ordering::AcqRel);
        self.local.set(0);
    }

    /// Uncounts a child that ended on `worker` (NOBODY: on a foreign thread).
    ///
    /// Unless the answer is `Last`, the node may be gone when this returns.
    #[inline]
    pub(crate) fn release_child(&self, worker: WorkerNumber) -> Release {
        if worker != NOBODY && self.release_at_home(worker) {
            Release::StillOpen
        } else {
            self.word.release_child()
        }
    }

    /// Closes the node for its owner, on the home worker; true if no child is left. If false,
    /// somebody else will see `Release::Last`.
    #[inline]
    pub(crate) fn close(&self) -> bool {
        let local = self.local.get();
        if local == 0 && self.word.untouched() {
            // Nobody can add a child any more: only a child (or the owner) could.
            return true;
        }
        self.close_slow(local)
    }

    #[cold]
    #[inline(never)]
    fn close_slow(&self, local: u32) -> bool {
        self.home.store(NOBODY, Ordering::Relaxed);
        self.word.close(local)
    }

    /// Closes a node that has no home (a root), also if it has no child now: a late one is undone.
    pub(crate) fn close_for_good(&self) -> bool {
        self.word.close(0)
    }

    /// Whether the owner has closed the node and children were left.
    pub(crate) fn is_waiting(&self) -> bool {
        self.word.is_waiting()
    }

    /// Whether a child is known to be unfinished. Exact on the home worker between suspensions.
    #[cfg(test)]
    pub(crate) fn has_children(&self) -> bool {
        self.local.get() != 0 || !self.word.untouched()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn node() -> Node {
        Node::new(NodeKind::Scope, std::ptr::null(), 7)
    }

    #[test]
    fn a_node_without_children_closes_at_once() {
        assert!(node().close());
    }

    #[test]
    fn a_child_that_begins_and_ends_at_home_leaves_the_word_untouched() {
        let n = node();
        n.add_child(7);
        assert!(n.has_children());
        assert_eq!(n.release_child(7), Release::StillOpen);
        assert!(!n.has_children());
        assert!(n.close());
    }

    #[test]
    fn the_last_release_after_the_close_ends_the_node() {
        let n = node();
        n.add_child(7);
        n.add_child(7);
        n.add_child_from_outside();
        assert_eq!(n.release_child(3), Release::StillOpen);
        assert!(!n.close());
        assert_eq!(n.release_child(7), Release::StillOpen);
        assert_eq!(n.release_child(9), Release::Last);
    }

    #[test]
    fn shares_of_either_sign_add_up() {
        let n = node();
        n.add_child(3); // counted atomically
        assert_eq!(n.release_child(7), Release::StillOpen); // released at home: local is -1
        assert!(n.close());
        let n = node();
        n.add_child(7);
        assert_eq!(n.release_child(3), Release::StillOpen);
        assert!(n.close());
    }

    #[test]
    fn cancelling_twice_is_told_apart() {
        let n = node();
        assert!(n.word().set_cancelled());
        assert!(!n.word().set_cancelled());
        assert!(n.word().is_cancelled());
        n.add_child(7);
        assert!(!n.close());
        assert_eq!(n.release_child(3), Release::Last);
    }

    #[test]
    fn a_large_local_share_is_folded_before_it_overflows() {
        let n = node();
        n.local.set(FOLD - 1);
        n.add_child(7);
        assert_eq!(n.local.get(), 1);
        assert!(n.has_children());
    }

    #[test]
    #[should_panic(expected = "unfinished children")]
    fn a_second_fold_without_releases_is_an_error_and_not_a_wrap() {
        let n = node();
        for _ in 0..2 {
            n.local.set(FOLD - 1);
            n.add_child(7);
        }
    }

    #[test]
    #[should_panic(expected = "unfinished children")]
    fn too_many_children_are_an_error_and_not_a_wrap() {
        let n = node();
        n.word.0.store(COUNT - FOLD, Ordering::Relaxed);
        n.add_child_from_outside();
    }
}
