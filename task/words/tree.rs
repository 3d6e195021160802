//! A node of the tree of tasks, and its state word.
//!
//! # The count of children, and why a spawn pays no locked instruction
//!
//! A node counts its unfinished children in two shares. `local` is a plain number that only the
//! node's **home** worker reads and writes. The 29-bit count in the word is atomic and carries an
//! offset of [`BIAS`] while the node is open. A child that is spawned or ends on the home worker
//! moves `local`; a child that is spawned or ends elsewhere moves the atomic share. The number of
//! unfinished children is always `local + (count - BIAS)`; either part alone may be negative.
//!
//! When the owner has done its own part it **closes** the node. It gives up the home, so all later
//! counting is atomic, and folds `local - BIAS` and the WAITING bit into the word with one
//! addition. From then on the count is the plain number of unfinished children, and the release
//! that takes it to zero ends the node. This is biased reference counting (Choi, Shull, Torrellas,
//! PACT 2018), applied to a count of children.
//!
//! If the home's share is zero and the word holds exactly the offset, the node has no child, and
//! the owner closes it without an update. The value that the owner loads may be old, but it is the
//! sum of a prefix of the word's modification order. This prefix holds every addition of a child
//! that ended at home, because that child came here after its addition. It can lack a child only
//! together with the child's spawner. The oldest such spawner was spawned by the owner, and its
//! release, if it is in the prefix, comes after its own additions. So a prefix that adds up to zero
//! holds every addition that there will ever be.
//!
//! Orderings: every atomic decrement is `AcqRel`, so whatever a child did happens before whatever
//! follows the end of its parent. An increment needs no ordering, because the spawner is itself
//! counted, or is the owner. A root is different, as foreign threads spawn into it: there an
//! increment is `AcqRel` too, and one that comes after the closing sees the flag that was set
//! before the closing.
//!
//! # Cancellation
//!
//! CANCELLED is set once, by a canceller of the node or by a walk that comes down from an ancestor
//! (`children`), and is never cleared. IGNORED is set and cleared by the task that runs in the
//! node. A node is cancelled *in effect* if CANCELLED is set and IGNORED is not.
//!
//! A handle may ask whether a task was cancelled that has ended. The first such query sets IGNORED
//! if CANCELLED is not set ([`TreeWord::decide`]), so the answer stays the same.
//!
//! Every walk finds a node that is **linked** to its parent, so the word of a linked node is
//! complete. For another node the parent is asked too, unless the node ignores cancellation
//! ([`Node::verdict`]).

use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use crate::shim::{Cell, load_in_total_order};
use crate::task::cold::ColdData;
use std::hint::cold_path;
use std::ptr::{self, NonNull};

/// Offset of the atomic share of an open node.
const BIAS: u32 = 1 << 28;
const CANCELLED: u32 = 1 << 31;
const WAITING: u32 = 1 << 30;
/// The task that runs in the node ignores cancellation, and no walk goes further down.
const IGNORED: u32 = 1 << 29;
const COUNT: u32 = IGNORED - 1;
/// The local share is folded into the word when it reaches this number, before it could overflow.
const FOLD: u32 = 1 << 27;

/// A worker's number; no worker has the number [`NOBODY`].
pub(crate) type WorkerNumber = u32;
pub(crate) const NOBODY: WorkerNumber = 0;

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodeKind {
    /// The node at the start of a task record.
    Task,
    /// A scope that was opened inside a task; lives on that task's stack.
    Scope,
    /// The root of a runtime.
    Root,
}

/// Whether a task isolates its worker: from its start to its end, the worker then runs only
/// descendants of a certain scope (scheduler/wait/isolation.rs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Isolation {
    None = 0,
    /// By a scope further up.
    Inherited = 1,
    /// By this node, a scope. Its descendants inherit the isolation.
    Here = 3,
}

/// The flags that a node hands down to its descendants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InheritedFlags(u8);

/// This node, or an ancestor, is a scope with a deadline.
const TIMED: u8 = 4;
/// The flags that a child inherits.
const INHERITED: u8 = TIMED | Isolation::Inherited as u8;

impl InheritedFlags {
    /// No flags.
    pub(crate) const FREE: InheritedFlags = InheritedFlags(0);

    #[inline]
    pub(crate) fn isolation(self) -> Isolation {
        match self.0 & 3 {
            0 => Isolation::None,
            1 => Isolation::Inherited,
            _ => Isolation::Here,
        }
    }

    #[inline]
    pub(crate) fn isolated(self, isolation: Isolation) -> InheritedFlags {
        InheritedFlags(self.0 & !3 | isolation as u8)
    }

    #[inline]
    pub(crate) fn timed(self) -> InheritedFlags {
        InheritedFlags(self.0 | TIMED)
    }

    /// The flags of a child.
    #[inline]
    pub(crate) fn inherited(self) -> InheritedFlags {
        InheritedFlags(self.0 & INHERITED)
    }
}

/// The effect of the release of a child on its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// Another release will end the node.
    StillOpen,
    /// This was the last child of a closed node: the caller ends it.
    Last,
}

/// The result of cancelling a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cancel {
    /// The caller has cancelled the node, and delivers the cancel to its descendants.
    First,
    /// The node ignores cancellation at present. Its task delivers the cancel when it stops
    /// ignoring.
    Deferred,
    /// Another canceller was first.
    Already,
}

/// The answer of a node's own word to the question whether the node is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Cancelled,
    NotCancelled,
    /// The node is cancelled if its parent is.
    AskParent,
}

/// State word of a node: CANCELLED | WAITING | IGNORED | count of children.
pub(crate) struct TreeWord(AtomicU32);

impl TreeWord {
    #[inline]
    pub(crate) fn open() -> Self {
        TreeWord(AtomicU32::new(BIAS))
    }

    /// Sets CANCELLED. In the total order of SeqCst, like the loads that the caller makes next.
    #[inline]
    pub(crate) fn cancel(&self) -> Cancel {
        // MUTANT(tree.cancel): relaxed, split
        let before = self.0.fetch_or(CANCELLED, Ordering::SeqCst);
        if before & CANCELLED != 0 {
            Cancel::Already
        } else if before & IGNORED != 0 {
            Cancel::Deferred
        } else {
            Cancel::First
        }
    }

    /// Returns whether CANCELLED is set, whether or not the node ignores it. One load.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.0.load(Ordering::Acquire) & CANCELLED != 0
    }

    /// Like `is_marked`, for a caller that has just announced something by an update in the total
    /// order.
    #[inline]
    pub(crate) fn is_marked_in_total_order(&self) -> bool {
        // MUTANT(tree.marked.look): relaxed
        load_in_total_order(&self.0) & CANCELLED != 0
    }

    /// Returns whether the node is cancelled in effect, for a caller that has just announced
    /// something by an update in the total order.
    #[inline]
    pub(crate) fn is_cancelled_in_total_order(&self) -> bool {
        // MUTANT(tree.cancelled.look): relaxed
        load_in_total_order(&self.0) & (CANCELLED | IGNORED) == CANCELLED
    }

    /// Begins to ignore cancellation. Returns `false` if the node is cancelled already. Called by
    /// the task that runs in the node and does not ignore cancellation yet.
    pub(crate) fn ignore(&self) -> bool {
        let begin = |word: u32| (word & CANCELLED == 0).then_some(word | IGNORED);
        // MUTANT(tree.ignore): split
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, begin);
        debug_assert!(before.is_err() || before.is_ok_and(|word| word & IGNORED == 0));
        before.is_ok()
    }

    /// Returns whether the node ignores cancellation.
    pub(crate) fn is_ignoring(&self) -> bool {
        self.0.load(Ordering::Relaxed) & IGNORED != 0
    }

    /// Decides whether a node that has ended was cancelled, and returns the decision. The first
    /// call decides, and all later calls agree. A later cancel, by a caller that has not seen the
    /// end, has no effect: the node ignores it.
    pub(crate) fn decide(&self) -> bool {
        let decide = |word: u32| (word & (CANCELLED | IGNORED) == 0).then_some(word | IGNORED);
        // MUTANT(tree.decide): split
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, decide) {
            Ok(_) => false,
            Err(word) => word & (CANCELLED | IGNORED) == CANCELLED,
        }
    }

    /// Stops ignoring cancellation. Returns `true` if the node was cancelled meanwhile; then the
    /// caller delivers the cancel.
    pub(crate) fn stop_ignoring(&self) -> bool {
        // MUTANT(tree.stop_ignoring): relaxed, split
        let before = self.0.fetch_and(!IGNORED, Ordering::SeqCst);
        debug_assert!(before & IGNORED != 0, "nothing was ignored");
        before & CANCELLED != 0
    }

    fn add_child(&self) {
        let counted = self.try_add_child();
        assert!(counted, "cygnet: a task or scope has more than {FOLD} unfinished children");
    }

    /// Returns whether the child is counted: a full node does not count it.
    fn try_add_child(&self) -> bool {
        // Acquire: an addition after a root's closing sees what was done before the closing.
        // MUTANT(tree.add_child): release, split
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        // Half of the range is left for decrements that come before their increments.
        let counts = before & COUNT < COUNT - FOLD;
        if !counts {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
        counts
    }

    fn release_children(&self, count: u32) -> Release {
        // MUTANT(tree.release_child): acquire, release, split
        let before = self.0.fetch_sub(count, Ordering::AcqRel);
        debug_assert!(before & COUNT >= count, "a child was released twice");
        if before & WAITING != 0 && before & COUNT == count {
            Release::Last
        } else {
            Release::StillOpen
        }
    }

    /// Moves the home's share into the word.
    #[cold]
    fn fold(&self, local: u32) {
        let before = self.0.load(Ordering::Relaxed) & COUNT;
        assert!(before <= BIAS, "cygnet: a task or scope has more than {FOLD} unfinished children");
        self.0.fetch_add(local, Ordering::Relaxed);
    }

    fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WAITING != 0
    }

    /// Returns whether the atomic share is as in a new node: all counting was done at home.
    #[inline]
    fn untouched(&self) -> bool {
        // If a flag is set, the slow path decides.
        // MUTANT(tree.untouched): relaxed
        self.0.load(Ordering::Acquire) == BIAS
    }

    /// Folds the local share in and takes the bias out. Returns `true` if no child is left.
    fn close(&self, local: u32) -> bool {
        let delta = WAITING.wrapping_add(local).wrapping_sub(BIAS);
        // MUTANT(tree.close): acquire, release, split
        let before = self.0.fetch_add(delta, Ordering::AcqRel);
        debug_assert!(before & WAITING == 0, "a node was closed twice");
        before.wrapping_add(delta) & COUNT == 0
    }
}

/// A node of the tree. Every task record starts with one, every open scope has one on its task's
/// stack, and a runtime has one as its root.
#[repr(C)]
pub(crate) struct Node {
    word: TreeWord,
    /// The home's share of the number of children. Used by the home worker alone.
    local: Cell<u32>,
    /// The worker that may use `local`. Written by the home, or before another thread knows the
    /// node. Other workers read a number that is not theirs.
    home: AtomicU32,
    pub(crate) kind: NodeKind,
    flags: InheritedFlags,
    /// Set while the node, and each of its ancestors, is in its parent's list of children.
    linked: AtomicBool,
    /// How often the ancestors had to be asked. Some queries may not be counted.
    asked: AtomicU8,
    pub(crate) parent: *const Node,
    /// Data that most nodes never have.
    pub(in crate::task) cold: AtomicPtr<ColdData>,
}

// SAFETY: every field but `local` is atomic or never changes after construction; `local` is
// touched only by the thread whose worker number equals `home`, which is one thread at a time: the
// number is unique in the process and `home` changes only before the node is shared, at the start
// of the task (which the queue hand-over orders), and to NOBODY.
unsafe impl Sync for Node {}
// SAFETY: see `Sync`; nothing in a node is tied to the thread that made it.
unsafe impl Send for Node {}

impl Node {
    #[inline]
    pub(crate) fn new(kind: NodeKind, parent: *const Node, home: WorkerNumber) -> Self {
        Node {
            word: TreeWord::open(),
            local: Cell::new(0),
            home: AtomicU32::new(home),
            kind,
            flags: InheritedFlags::FREE,
            // A root has no ancestors to ask.
            linked: AtomicBool::new(kind == NodeKind::Root),
            asked: AtomicU8::new(0),
            parent,
            cold: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Adds cold data to a new node.
    #[inline]
    pub(crate) fn with_cold(self, cold: Option<Box<ColdData>>) -> Self {
        match cold {
            Some(cold) => Node { cold: AtomicPtr::new(Box::into_raw(cold)), ..self },
            None => self,
        }
    }

    /// Sets the inherited flags of a new node.
    #[inline]
    pub(crate) fn with_flags(self, flags: InheritedFlags) -> Self {
        Node { flags, ..self }
    }

    #[inline]
    pub(crate) fn flags(&self) -> InheritedFlags {
        self.flags
    }

    #[inline]
    pub(crate) fn isolation(&self) -> Isolation {
        self.flags.isolation()
    }

    /// Returns whether this node or an ancestor is a scope with a deadline.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.flags.0 & TIMED != 0
    }

    #[inline]
    pub(crate) fn word(&self) -> &TreeWord {
        &self.word
    }

    /// Returns what the node's own word says about its cancellation.
    #[inline(always)]
    pub(crate) fn verdict(&self) -> Verdict {
        // In this order: a thread that links the node marks it first, if the parent is cancelled.
        let linked = self.is_linked();
        match self.word.0.load(Ordering::Acquire) & (CANCELLED | IGNORED) {
            0 if linked => Verdict::NotCancelled,
            0 => Verdict::AskParent,
            CANCELLED => Verdict::Cancelled,
            _ => Verdict::NotCancelled,
        }
    }

    /// Counts a query of the ancestors. Returns how many there were before.
    #[inline]
    pub(crate) fn asks(&self) -> u8 {
        let before = self.asked.load(Ordering::Relaxed);
        self.asked.store(before.saturating_add(1), Ordering::Relaxed);
        before
    }

    /// Returns whether every walk from an ancestor finds the node.
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        // MUTANT(tree.verdict.linked): relaxed
        self.linked.load(Ordering::Acquire)
    }

    /// Called by `children`, under the lock of the parent's list.
    pub(in crate::task) fn set_linked(&self, linked: bool) {
        // MUTANT(tree.linked): relaxed
        self.linked.store(linked, Ordering::Release);
    }

    #[inline]
    pub(crate) fn cold(&self) -> Option<&ColdData> {
        // MUTANT(tree.cold): relaxed
        let cold = self.cold.load(Ordering::Acquire);
        // SAFETY: the pointer is set once, to data that live as long as the node, or as its record.
        unsafe { cold.as_ref() }
    }

    /// Like `cold`, for a caller that has just marked the node in the total order.
    pub(crate) fn cold_in_total_order(&self) -> Option<&ColdData> {
        // SAFETY: the pointer is set once, to data that live as long as the node, or as its record.
        // MUTANT(tree.cold.look): relaxed
        unsafe { load_in_total_order(&self.cold).as_ref() }
    }

    /// Returns the cold data, which are made at first use. Called by code that runs in the node or
    /// below it.
    pub(crate) fn cold_or_new(&self) -> &ColdData {
        match self.cold() {
            Some(cold) => cold,
            None => self.new_cold(),
        }
    }

    #[cold]
    fn new_cold(&self) -> &ColdData {
        let fresh = Box::into_raw(Box::new(ColdData::new()));
        let null = ptr::null_mut();
        // In the total order: this update also announces what its caller is about to announce.
        // MUTANT(tree.cold.made): relaxed, split
        let made = self.cold.compare_exchange(null, fresh, Ordering::SeqCst, Ordering::Acquire);
        if made.is_err() {
            // SAFETY: the cold data were made above, and no other thread knows them.
            drop(unsafe { Box::from_raw(fresh) });
        }
        self.cold().expect("made by one of the two")
    }

    /// Returns the cold data as they were allocated, to be ended after the node. The node keeps its
    /// pointer: a handle may cancel the node at this moment, and would otherwise make new cold
    /// data.
    #[inline]
    pub(crate) fn cold_as_allocated(&self) -> Option<NonNull<ColdData>> {
        NonNull::new(self.cold.load(Ordering::Relaxed))
    }

    /// Gives the node its home. Called by the worker that starts the task.
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

    /// Counts a child that a worker makes where nothing may unwind. Returns `false`, and counts
    /// nothing, where `add_child` may panic: the share of this worker is full.
    #[cold]
    pub(crate) fn try_add_child(&self, worker: WorkerNumber) -> bool {
        debug_assert_ne!(worker, NOBODY);
        if self.home() != worker {
            return self.word.try_add_child();
        }
        let local = self.local.get().wrapping_add(1);
        if local != FOLD {
            self.local.set(local);
        }
        local != FOLD
    }

    /// Counts a child that a foreign thread spawns.
    ///
    /// # Panics
    /// Same as `add_child`.
    pub(crate) fn add_child_from_outside(&self) {
        self.word.add_child();
    }

    /// Uncounts a child that ended on `worker`, if that is the node's home. Returns whether it is.
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

    /// Moves a negative local share into the word, before it could overflow.
    #[cold]
    fn unfold(&self) {
        // The word counts more children than this, or fewer could have been released.
        self.word.0.fetch_sub(FOLD, Ordering::AcqRel);
        self.local.set(0);
    }

    /// Uncounts a child that ended on `worker` (NOBODY: on a foreign thread).
    /// Unless this returns `Last`, the node may be gone afterwards.
    #[inline]
    pub(crate) fn release_child(&self, worker: WorkerNumber) -> Release {
        if worker != NOBODY && self.release_at_home(worker) {
            Release::StillOpen
        } else {
            self.release_elsewhere(1)
        }
    }

    /// Uncounts `count` children. All of them ended on one worker, which is not the node's home, or
    /// on one foreign thread. Returns the same as `release_child`.
    #[inline]
    pub(crate) fn release_elsewhere(&self, count: u32) -> Release {
        self.word.release_children(count)
    }

    /// Closes the node. Called by its owner, on the home worker. Returns `true` if no child is
    /// left; otherwise a later release sees `Release::Last`.
    #[inline]
    pub(crate) fn close(&self) -> bool {
        let local = self.local.get();
        if local == 0 && self.word.untouched() {
            // Only a child or the owner could add another child, and there is no child.
            return true;
        }
        self.close_slow(local)
    }

    #[cold]
    #[inline(never)]
    fn close_slow(&self, local: u32) -> bool {
        // MUTANT(tree.close.home): late
        self.home.store(NOBODY, Ordering::Relaxed);
        self.word.close(local)
    }

    /// Closes a node that has no home, which is a root. Returns `true` if it has no child. A child
    /// that is added later is undone.
    pub(crate) fn close_for_good(&self) -> bool {
        self.word.close(0)
    }

    /// Returns whether the owner has closed the node while children were left.
    pub(crate) fn is_waiting(&self) -> bool {
        self.word.is_waiting()
    }

    /// Returns `false` if no child is unfinished, as in [`close`](Node::close). `true` may also
    /// mean that all children have ended, some of them elsewhere. Called by the owner, on the home
    /// worker.
    pub(crate) fn has_children(&self) -> bool {
        self.local.get() != 0 || !self.word.untouched()
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tree_tests.rs"]
mod tests;
