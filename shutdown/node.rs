//! The node behind a [`Swansong`](super::Swansong): its guards, its place in the tree, and its end.
//!
//! # The invariant
//!
//! A node is *complete* if it is stopped and neither it nor any node below it has a guard. A reader
//! learns this from the node's **own word** ([`Word`]) alone, at any moment, while guards come and
//! go anywhere below. Making or dropping a guard usually touches only its own node.
//!
//! To achieve both, a parent counts each child that has something in it: the child has **arrived**
//! at the parent. (The idea is that of scalable non-zero indicators: Ellen, Lev, Luchangco, Moir,
//! PODC 2007.)
//!
//! * A node arrives bottom-up. The thread counts its guard in the node's word, then the node in the
//!   parent's word, and so on up to a node that has arrived already, or to the root. Then it sets
//!   ARRIVED top-down, in each node of that path. The guard exists from then on: `guard()` returns.
//!   So *if a node has arrived, all its ancestors count it*, and a guard of an arrived node is one
//!   update. Two threads may do this at once. The later one takes back what it has counted twice;
//!   the earlier one's unit keeps it from being the last.
//! * A running node **stays** arrived even when it becomes empty, since no reader asks whether a
//!   running node is complete. A node that is stopped, or is an orphan (see below), *leaves* its
//!   parent instead. It leaves by the very update that makes it empty, or, if it is empty already,
//!   by the update that stops or orphans it. The thread of that update then uncounts the node in
//!   the parent, which may leave in turn, and so on, in a loop.
//!
//! So all ancestors count a guard for as long as it exists: they count it before `guard()` returns,
//! and uncount it after its own node has. A completion that became ready earlier stays ready.
//!
//! A root has no parent to arrive at. It counts in [`Slots`] while it runs. Its stop puts a
//! [`HOLD`](super::word::HOLD) into the word until the slots have been added up.
//!
//! # Lifetimes
//!
//! | | delays the node's end | keeps its memory |
//! | --- | --- | --- |
//! | handles (one holder together), completions (one holder each) | yes | yes |
//! | children that have not ended, by their place in the list | yes | yes |
//! | guards and arrived children, by ARRIVED | yes | yes, by one reference for all |
//! | interrupts | no | yes |
//!
//! A guard has no reference of its own: ARRIVED owns one reference for everything that the word
//! counts. A thread that drops a guard does not touch the node after its update, unless that update
//! made the node leave. That update clears ARRIVED, and its thread takes over the reference. This
//! is why leaving is part of the update. A running root is always arrived.
//!
//! A node without holders and children is an **orphan**, for ever, since a holder or child can only
//! be made from a handle. An orphan is *collected* when it is empty: its interrupts end, and it is
//! removed from its parent's list, which may make the parent an orphan. All of this is one loop
//! ([`carry_out`]) at any depth, and so is freeing a chain of nodes.
//!
//! # Locks
//!
//! `state` of a node guards its list of children, the links of these children, and the waiters. A
//! thread holds one such lock at a time, and runs no foreign code under it. The one exception is a
//! new child, which no other thread knows yet: its lock may be taken under its parent's.
//!
//! A thread that adds a child or a waiter sets VISIT in the word first. A waiter sees in the same
//! update whether the node is stopped. A child is inserted, and its thread then looks at the word.
//! So either the stopping thread finds the new entry, or the new entry finds the node stopped.
//!
//! # Orderings
//!
//! Everything that one word records is ordered by it. The counts in the ancestors happen before
//! ARRIVED is set (release) and read (acquire). So a thread that has read ARRIVED and then drops a
//! guard comes later in the ancestors' words too. The same holds for a thread that finds ARRIVED
//! set by a faster one and takes its own count back. Work done before a guard is dropped happens
//! before the completion, because each update on the way up releases and acquires. Other threads'
//! updates in between, with any ordering, continue the release sequence.

use super::node_ref::NodeRef;
use super::report::Origin;
use super::slots::{Slots, ThreadNumber};
use super::stop::{notify_complete, notify_stopped, stop};
use super::word::{Arrival, CHILD, GUARD, Step, Word};
use super::work::{TimeOver, Work};
use crate::scheduler::wait::waiters::WaitList;
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::shim::{Cell, Mutex};
use std::collections::BTreeMap;
use std::mem::{ManuallyDrop, forget};
use std::sync::Arc;

/// Added to a slot to uncount a guard.
const LESS: u64 = 1u64.wrapping_neg();

pub(super) struct Node {
    /// Set after the word says so; interrupts read only this.
    pub(super) stopped: AtomicBool,
    /// `None` for a root.
    pub(super) parent: Option<NodeRef>,
    /// `Some` for a root.
    pub(super) slots: Option<Slots>,
    /// Whether the place where each guard is made is recorded.
    pub(super) reports: bool,
    pub(super) word: Word,
    /// The number of references to the node's memory.
    pub(super) references: AtomicUsize,
    /// The number of handles.
    handles: AtomicUsize,
    /// One for all handles together, and one for each completion.
    holders: AtomicUsize,
    pub(super) state: Mutex<State>,
    /// The node's index in the parent's list, guarded by the parent's lock.
    pub(super) index: Cell<usize>,
    /// The next node that the stop visits. Owned by the thread that has stopped this node.
    pub(super) todo: Cell<Option<NodeRef>>,
}

pub(super) struct State {
    /// The children that have not ended, without a counted reference: a node is removed from its
    /// parent's list before its last reference goes.
    pub(super) children: Vec<ManuallyDrop<NodeRef>>,
    /// The waiters for the stop, and for the completion.
    pub(super) for_stop: WaitList,
    pub(super) for_end: WaitList,
    /// Whether the slots have been added up.
    pub(super) folded: bool,
    /// The guards of a node that records places, by number.
    pub(super) places: BTreeMap<u64, Origin>,
    /// `Some` if the node was made for a scope or a task.
    pub(super) work: Option<Box<Work>>,
    /// Set when the time to finish is over; it applies to work that is added later, too.
    pub(super) over: Option<Arc<TimeOver>>,
}

impl Node {
    pub(super) fn root(reports: bool) -> NodeRef {
        let root = Node::make(None, reports);
        // The reference that ARRIVED owns.
        forget(root.clone());
        root
    }

    pub(super) fn child(parent: &NodeRef) -> NodeRef {
        // Before the lock is taken: the first child makes the stop of the parent visit it.
        if !parent.word.look().wants_visit() {
            parent.word.ask_for_visit();
        }
        let child = Node::make(Some(parent.clone()), parent.reports);
        let mut state = parent.state.lock();
        if state.over.is_some() {
            // No other thread knows the child yet, so its lock is free.
            child.state.lock().over.clone_from(&state.over);
        }
        state.insert(&child);
        // If the parent was stopped already, either the stop finds the child in the list, or this
        // load sees the stop.
        let stopped = parent.word.look().is_stopped();
        drop(state);
        // MUTANT(shutdown.child.look): false
        if stopped {
            stop(&child);
        }
        child
    }

    pub(super) fn make(parent: Option<NodeRef>, reports: bool) -> NodeRef {
        let is_root = parent.is_none();
        // Written in place, not built on the stack and copied.
        let node = Box::write(
            Box::new_uninit(),
            Node {
                stopped: AtomicBool::new(false),
                parent,
                slots: is_root.then(Slots::new),
                reports,
                word: Word::new(is_root),
                references: AtomicUsize::new(1),
                handles: AtomicUsize::new(1),
                holders: AtomicUsize::new(1),
                state: Mutex::new(State {
                    children: Vec::new(),
                    for_stop: WaitList::new(),
                    for_end: WaitList::new(),
                    folded: false,
                    places: BTreeMap::new(),
                    work: None,
                    over: None,
                }),
                index: Cell::new(0),
                todo: Cell::new(None),
            },
        );
        NodeRef::new(node)
    }

    /// Returns whether the node is stopped or has ended. One load.
    #[inline(always)]
    pub(super) fn is_stopped(&self) -> bool {
        // Acquire: a thread that sees the stop sees what was done before it.
        // MUTANT(shutdown.is_stopped): relaxed
        self.stopped.load(Ordering::Acquire)
    }

    /// Returns `true` if this node or one of its ancestors has been stopped.
    ///
    /// A caller that has counted a guard here first sees every stop that does not wait for this
    /// guard. The ancestors count the guard before this function reads their words: the caller has
    /// counted it there, or has read ARRIVED, which another thread set after counting.
    pub(super) fn is_stopped_here_or_above(&self) -> bool {
        let mut at = self;
        loop {
            match &at.parent {
                _ if at.word.look().is_stopped() => return true,
                Some(parent) => at = parent,
                None => return false,
            }
        }
    }

    /// Returns the number of guards of this node, without the nodes below.
    ///
    /// Guards of a node that has not arrived do not count: their `guard()` calls have not returned.
    /// A caller that counted one and then stopped an ancestor might find the ancestor complete.
    pub(super) fn own_guards(&self, state: &State) -> u64 {
        let look = self.word.look();
        let mut guards = if look.has_arrived() { look.guards() } else { 0 };
        if let Some(slots) = self.slots.as_ref().filter(|_| !state.folded) {
            guards = guards.wrapping_add(slots.sum());
        }
        // The sum may have missed that a guard was made, and seen that it was dropped in another
        // slot.
        if guards.cast_signed() < 0 { 0 } else { guards }
    }

    pub(super) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_holder(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a guard. Returns `false` if the node has ended.
    #[inline(always)]
    pub(super) fn enter(this: &NodeRef, thread: ThreadNumber) -> bool {
        match &this.slots {
            Some(slots) => slots.add_own(thread, 1, &this.stopped) || enter_root(this, thread),
            None => enter_word(this),
        }
    }

    /// Uncounts a guard. The node may be freed when this returns.
    ///
    /// # Safety
    /// The caller owns a guard that is counted there, and gives it up.
    #[inline(always)]
    pub(super) unsafe fn leave(this: &NodeRef, thread: ThreadNumber) {
        match &this.slots {
            Some(slots) if slots.add_own(thread, LESS, &this.stopped) => {}
            // SAFETY: by contract.
            Some(slots) => unsafe { leave_root(this, slots, thread) },
            // SAFETY: the word counts the guard, which the caller gives up.
            None => follow(this, unsafe { this.depart(GUARD) }),
        }
    }

    /// Gives up a handle. Dropping the last handle of a root stops it.
    pub(super) fn release_handle(this: &NodeRef) {
        // If this is the only handle, no other thread can clone one.
        // MUTANT(shutdown.handles): split
        if this.handles.load(Ordering::Acquire) != 1
            && this.handles.fetch_sub(1, Ordering::AcqRel) != 1
        {
            return;
        }
        match &this.parent {
            None => stop(this),
            // The handle's reference is the only one: there are no guards, completions, children or
            // interrupts, so the word need not record the end.
            Some(parent) if this.is_only() => {
                if remove(this, parent) {
                    become_orphan(parent);
                }
                return;
            }
            Some(_) => {}
        }
        Node::release_holder(this);
    }

    /// Gives up a holder: a completion, or the last handle.
    pub(super) fn release_holder(this: &NodeRef) {
        if this.holders.load(Ordering::Acquire) == 1 {
            // The caller's holder is the only one, and new holders are made from holders.
            this.holders.store(0, Ordering::Release);
        } else if this.holders.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // If the last holder and the last child go at once, this lock orders the two threads, so
        // one of them sees that the other has gone.
        // MUTANT(shutdown.holder.look): false
        if this.word.look().wants_visit() && !this.state.lock().children.is_empty() {
            return;
        }
        become_orphan(this);
    }
}

impl Drop for Node {
    /// Frees a chain of nodes in a loop.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut node) = next.and_then(NodeRef::into_inner) {
            next = node.parent.take();
        }
    }
}

impl State {
    fn insert(&mut self, child: &NodeRef) {
        child.index.set(self.children.len());
        // SAFETY: the child is removed from the list before its last reference goes.
        self.children.push(unsafe { child.uncounted() });
    }

    fn remove(&mut self, child: &Node) {
        let (list, index) = (&mut self.children, child.index.get());
        list.swap_remove(index);
        if let Some(moved) = list.get(index) {
            moved.index.set(index);
        }
        // Gives the memory of former children back, unless it is little.
        if list.capacity() > 64 && list.len() < list.capacity() / 4 {
            list.shrink_to(list.len() * 2);
        }
    }
}

/// Counts a guard of a root that is stopped, or of a thread that owns no slot.
#[cold]
#[inline(never)]
fn enter_root(this: &NodeRef, thread: ThreadNumber) -> bool {
    let slots = this.slots.as_ref();
    slots.is_some_and(|slots| slots.add(thread, 1, &this.stopped)) || enter_word(this)
}

#[inline(always)]
fn enter_word(this: &NodeRef) -> bool {
    match this.word.arrive(GUARD) {
        Arrival::Counted => true,
        Arrival::Alone => arrive_above(this),
        Arrival::Gone => false,
    }
}

/// Uncounts such a guard.
///
/// # Safety
/// As for [`Node::leave`].
#[cold]
#[inline(never)]
unsafe fn leave_root(this: &NodeRef, slots: &Slots, thread: ThreadNumber) {
    if !slots.add(thread, LESS, &this.stopped) {
        // SAFETY: the word counts the guard, which the caller gives up.
        follow(this, unsafe { this.depart(GUARD) });
    }
}

/// Slow path of `enter`: a guard has been counted in a node that has not arrived. Counts the node
/// in its ancestors. Always returns `true`.
#[cold]
#[inline(never)]
fn arrive_above(this: &NodeRef) -> bool {
    // Bottom-up: the nodes that have not arrived. Each counts something by now.
    let mut path = vec![this];
    let mut at = this;
    while let Some(parent) = &at.parent {
        match parent.word.arrive(CHILD) {
            Arrival::Counted => break,
            Arrival::Alone => path.push(parent),
            Arrival::Gone => unreachable!("a parent ends after its children"),
        }
        at = parent;
    }
    // Top-down: a thread that finds ARRIVED in a node relies on all its ancestors.
    for at in path.into_iter().rev() {
        // ARRIVED owns this reference. It is made first, as another thread may take it at once.
        let of_arrived = at.clone();
        if at.word.set_arrived() {
            forget(of_arrived);
            continue;
        }
        // Another thread was faster, and has counted the node in its ancestors.
        if let Some(parent) = &at.parent {
            // SAFETY: the loop above has counted this node there.
            // MUTANT(shutdown.arrive.twice): first continue
            let step = unsafe { parent.depart(CHILD) };
            debug_assert!(step.left.is_none(), "the parent left before the faster thread's unit");
        }
    }
    true
}

/// Does what follows from a step, if it has made the node leave its parent.
#[inline(always)]
pub(super) fn follow(node: &NodeRef, step: Step) {
    if step.left.is_some() {
        carry_out(node, step);
    }
}

/// Does what follows from a step of a node: uncounts a node that has left in its parent, and ends
/// an orphan if it is empty. Both may be steps of the parent, so this goes on up the tree.
#[cold]
#[inline(never)]
fn carry_out(node: &NodeRef, step: Step) {
    let (mut left, mut now) = (step.left.is_some(), step.now);
    let mut node = step.left.unwrap_or_else(|| node.clone());
    loop {
        if left && now.is_complete() {
            notify_complete(&node);
        }
        let parent = node.parent.as_ref();
        // SAFETY: the step by which the node left has handed on its unit in the parent.
        let uncounted = parent.filter(|_| left).map(|parent| unsafe { parent.depart(CHILD) });
        let mut above = uncounted.filter(|step| step.left.is_some());
        if now.is_orphaned()
            && let Some(mut orphaned) = collect(&node)
        {
            debug_assert!(above.is_none() || orphaned.left.is_none(), "a parent left twice");
            orphaned.left = above.and_then(|step| step.left).or(orphaned.left);
            above = Some(orphaned);
        }
        let (Some(parent), Some(step)) = (parent, above) else { return };
        (left, now) = (step.left.is_some(), step.now);
        node = step.left.unwrap_or_else(|| parent.clone());
    }
}

/// Marks a node whose last holder and last child are gone.
#[cold]
#[inline(never)]
fn become_orphan(node: &NodeRef) {
    if let Some(step) = node.orphan() {
        carry_out(node, step);
    }
}

/// Ends an orphan if it is empty. Returns the step of its parent, if the parent is an orphan now.
fn collect(node: &NodeRef) -> Option<Step> {
    if !node.word.collect() {
        return None;
    }
    node.stopped.store(true, Ordering::Release);
    notify_stopped(node);
    let parent = node.parent.as_ref()?;
    if remove(node, parent) { parent.orphan() } else { None }
}

/// Removes a node that has ended from its parent's list. Returns whether the parent is an orphan
/// now.
fn remove(node: &NodeRef, parent: &NodeRef) -> bool {
    let mut state = parent.state.lock();
    state.remove(node);
    // If the last holder goes at the same time, the lock orders the two threads: see
    // `release_holder`.
    // MUTANT(shutdown.remove.look): with false
    state.children.is_empty() && parent.holders.load(Ordering::Acquire) == 0
}
