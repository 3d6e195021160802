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
//!
//! # Cancellation
//!
//! CANCELLED is set once, by whoever cancels the node or the walk that comes down from an ancestor
//! (`children`), and stays. IGNORED is set and cleared by the task that runs in the node. A node is cancelled
//! *in effect* if it has the one and not the other. Whether a task was cancelled that has ended, is asked by those who have a handle: the
//! first of them sets IGNORED if it was not ([`TreeWord::settle`]), so that it stays so. A node that is **linked** to its parent is found by every
//! walk, so its own word says all there is to say; for others, ask the parent too, unless the node ignores
//! what comes from there ([`Node::verdict`]).

use crate::shim::Cell;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use crate::shim::load_in_total_order;
use crate::task::cold::ColdData;
use std::hint::cold_path;
use std::ptr::{self, NonNull};

/// Offset of the atomic share of an open node.
const BIAS: u32 = 1 << 28;
const CANCELLED: u32 = 1 << 31;
const WAITING: u32 = 1 << 30;
/// The task that runs in the node ignores its cancellation, and no walk goes further down.
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
/// it has ended (scheduler/wait/isolate.rs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Isolation {
    None = 0,
    /// That of an ancestor.
    Inherited = 1,
    /// To the descendants of this very node, a scope: what comes down to them is an inherited one.
    Here = 3,
}

/// What a node hands down to those below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InheritedFlags(u8);

/// Somewhere above, or here, is a scope with a deadline.
const TIMED: u8 = 4;
/// What a child has of its parent's.
const INHERITED: u8 = TIMED | Isolation::Inherited as u8;

impl InheritedFlags {
    /// None at all.
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

    /// Those of a child.
    #[inline]
    pub(crate) fn inherited(self) -> InheritedFlags {
        InheritedFlags(self.0 & INHERITED)
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

/// What the cancellation of a node came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cancel {
    /// The caller has cancelled it, and sees to what is below.
    First,
    /// It ignores cancellation at present; whoever ends that sees to what is below.
    Deferred,
    /// Another was first.
    Already,
}

/// What a node says to the question whether it is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Cancelled,
    NotCancelled,
    /// It is so if its parent is.
    AskParent,
}

/// State word of a node: CANCELLED | WAITING | IGNORED | count of children.
pub(crate) struct TreeWord(AtomicU32);

impl TreeWord {
    #[inline]
    pub(crate) fn open() -> Self {
        TreeWord(AtomicU32::new(BIAS))
    }

    /// Marks the node cancelled. In the total order, as what the caller looks at next is.
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

    /// Whether the node has been cancelled, in effect or not. One load.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.0.load(Ordering::Acquire) & CANCELLED != 0
    }

    /// The same for one who has just announced something with an update in the total order.
    #[inline]
    pub(crate) fn is_marked_in_total_order(&self) -> bool {
        // MUTANT(tree.marked.look): relaxed
        load_in_total_order(&self.0) & CANCELLED != 0
    }

    /// Whether the node is cancelled in effect, for one who has just announced something with an update in
    /// the total order.
    #[inline]
    pub(crate) fn is_cancelled_in_total_order(&self) -> bool {
        // MUTANT(tree.cancelled.look): relaxed
        load_in_total_order(&self.0) & (CANCELLED | IGNORED) == CANCELLED
    }

    /// Begins to ignore cancellation; false if the node is cancelled already. For the task that runs in it,
    /// and does not do so yet.
    pub(crate) fn ignore(&self) -> bool {
        let begin = |word: u32| (word & CANCELLED == 0).then_some(word | IGNORED);
        // MUTANT(tree.ignore): split
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, begin);
        debug_assert!(before.is_err() || before.is_ok_and(|word| word & IGNORED == 0));
        before.is_ok()
    }

    /// Whether the node ignores cancellation.
    pub(crate) fn is_ignoring(&self) -> bool {
        self.0.load(Ordering::Relaxed) & IGNORED != 0
    }

    /// Whether a node that has ended was cancelled by then: as the first who asks finds it, and so for good. Who cancels it still, as he
    /// did not see the end come, does so in vain: it ignores that.
    pub(crate) fn settle(&self) -> bool {
        let settle = |word: u32| (word & (CANCELLED | IGNORED) == 0).then_some(word | IGNORED);
        // MUTANT(tree.settle): split
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, settle) {
            Ok(_) => false,
            Err(word) => word & (CANCELLED | IGNORED) == CANCELLED,
        }
    }

    /// Ends that; true if the node was cancelled meanwhile, and the caller sees to what is below.
    pub(crate) fn stop_ignoring(&self) -> bool {
        // MUTANT(tree.stop_ignoring): relaxed, split
        let before = self.0.fetch_and(!IGNORED, Ordering::SeqCst);
        debug_assert!(before & IGNORED != 0, "nothing was ignored");
        before & CANCELLED != 0
    }

    fn add_child(&self) {
        // Acquire: an addition that comes after a root's closing sees what came before that.
        // MUTANT(tree.add_child): release, split
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        // Half of the room is left for decrements that precede their increments.
        if before & COUNT >= COUNT - FOLD {
            self.0.fetch_sub(1, Ordering::Relaxed);
            panic!("cygnet: a task or scope has more than {} unfinished children", FOLD);
        }
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
        // MUTANT(tree.untouched): relaxed
        self.0.load(Ordering::Acquire) == BIAS
    }

    /// Folds the local share in and takes the bias out; true if no child is left.
    fn close(&self, local: u32) -> bool {
        let delta = WAITING.wrapping_add(local).wrapping_sub(BIAS);
        // MUTANT(tree.close): acquire, release, split
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
    flags: InheritedFlags,
    /// It is in its parent's list of those whom a walk reaches (`children`), and so on up to the root.
    linked: AtomicBool,
    /// How often somebody has had to ask its ancestors; nobody minds if some are not counted.
    asked: AtomicU8,
    pub(crate) parent: *const Node,
    /// What most nodes never have.
    pub(in crate::task) cold: AtomicPtr<ColdData>,
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
            flags: InheritedFlags::FREE,
            // A root has nobody above it.
            linked: AtomicBool::new(kind == NodeKind::Root),
            asked: AtomicU8::new(0),
            parent,
            cold: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The same with cold data.
    #[inline]
    pub(crate) fn with_cold(self, cold: Option<Box<ColdData>>) -> Self {
        match cold {
            Some(cold) => Node { cold: AtomicPtr::new(Box::into_raw(cold)), ..self },
            None => self,
        }
    }

    /// The same with inherited flags.
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

    /// Whether there is a scope with a deadline, here or above.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.flags.0 & TIMED != 0
    }

    #[inline]
    pub(crate) fn word(&self) -> &TreeWord {
        &self.word
    }

    /// What the node says to the question whether it is cancelled in effect.
    #[inline(always)]
    pub(crate) fn verdict(&self) -> Verdict {
        // In this order: whoever links the node marks it first, if its parent is cancelled.
        let linked = self.is_linked();
        match self.word.0.load(Ordering::Acquire) & (CANCELLED | IGNORED) {
            0 if linked => Verdict::NotCancelled,
            0 => Verdict::AskParent,
            CANCELLED => Verdict::Cancelled,
            _ => Verdict::NotCancelled,
        }
    }

    /// Counts that the ancestors are asked; how often that was so before.
    #[inline]
    pub(crate) fn asks(&self) -> u8 {
        let before = self.asked.load(Ordering::Relaxed);
        self.asked.store(before.saturating_add(1), Ordering::Relaxed);
        before
    }

    /// Whether every walk from an ancestor finds the node.
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        // MUTANT(tree.verdict.linked): relaxed
        self.linked.load(Ordering::Acquire)
    }

    /// For `children`, under the lock of the parent's list.
    pub(in crate::task) fn set_linked(&self, linked: bool) {
        // MUTANT(tree.linked): relaxed
        self.linked.store(linked, Ordering::Release);
    }

    #[inline]
    pub(crate) fn cold(&self) -> Option<&ColdData> {
        // MUTANT(tree.cold): relaxed
        let cold = self.cold.load(Ordering::Acquire);
        // SAFETY: set once, to what lives as long as the node, or as its record.
        unsafe { cold.as_ref() }
    }

    /// As `cold`, for one who has just marked the node in the total order.
    pub(crate) fn cold_in_total_order(&self) -> Option<&ColdData> {
        // SAFETY: as in `cold`.
        // MUTANT(tree.cold.look): relaxed
        unsafe { load_in_total_order(&self.cold).as_ref() }
    }

    /// The cold data, made at first use. For whoever runs in the node, or in one below it.
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
        // In the total order: what its user announces there is announced by this too.
        // MUTANT(tree.cold.made): relaxed, split
        let made = self.cold.compare_exchange(null, fresh, Ordering::SeqCst, Ordering::Acquire);
        if made.is_err() {
            // SAFETY: made above, and known to nobody else.
            drop(unsafe { Box::from_raw(fresh) });
        }
        self.cold().expect("made by one of the two")
    }

    /// The cold data, as they were allocated: to be ended after the node. The node goes on pointing at them: one who has
    /// a handle to them may cancel it at that moment, and would make new ones.
    #[inline]
    pub(crate) fn cold_as_allocated(&self) -> Option<NonNull<ColdData>> {
        NonNull::new(self.cold.load(Ordering::Relaxed))
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
            self.release_elsewhere(1)
        }
    }

    /// Uncounts `count` children. All of them ended on one worker, which is not the node's home, or on
    /// one foreign thread.
    ///
    /// As `release_child`.
    #[inline]
    pub(crate) fn release_elsewhere(&self, count: u32) -> Release {
        self.word.release_children(count)
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
        // MUTANT(tree.close.home): late
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
    #[cfg(all(test, not(loom)))]
    pub(crate) fn has_children(&self) -> bool {
        self.local.get() != 0 || !self.word.untouched()
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tree_tests.rs"]
mod tests;
