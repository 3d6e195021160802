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

use super::node_ref::{NodeRef, References};
use super::report::Registry;
use super::slots::{Slots, ThreadNumber};
use super::stop::{notify_complete, notify_stopped, stop};
use super::word::{Arrival, CHILD, GUARD, Look, Step, Word};
use super::work::{TimeOver, Work};
use crate::scheduler::wait::waiters::WaitList;
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::shim::{Cell, Mutex, MutexGuard};
use std::ptr;
use std::sync::PoisonError;

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
    pub(super) references: References,
    /// The number of handles.
    handles: AtomicUsize,
    /// One for all handles together, and one for each completion.
    holders: AtomicUsize,
    state: Mutex<State>,
    /// The links in the parent's list, guarded by the parent's lock.
    next: Cell<*const Node>,
    previous: Cell<*const Node>,
    /// The next node that the stop visits. Owned by the thread that has stopped this node.
    pub(super) todo: Cell<*const Node>,
}

pub(super) struct State {
    /// The first child, as a pointer from `NodeRef::as_ptr`.
    pub(super) first: *const Node,
    /// The next child of that list that the stop visits.
    pub(super) cursor: *const Node,
    /// The waiters for the stop, and for the completion.
    pub(super) for_stop: WaitList,
    pub(super) for_end: WaitList,
    /// Whether the slots have been added up.
    pub(super) folded: bool,
    /// `Some` once a node that records places has had a guard.
    pub(super) registry: Option<Box<Registry>>,
    /// `Some` if the node was made for a scope or a task.
    pub(super) work: Option<Box<Work>>,
    /// Set when the time to finish is over; it applies to work that is added later, too.
    pub(super) over: Option<std::sync::Arc<TimeOver>>,
}

// SAFETY: `next` and `previous` are accessed under the parent's lock, `todo` only by the thread
// that has stopped the node. The pointers lead to nodes, which may be shared between threads.
unsafe impl Send for Node {}
// SAFETY: see `Send`: each cell is accessed under a lock or by a single owner.
unsafe impl Sync for Node {}
// SAFETY: the pointers lead to nodes, which may be shared between threads.
unsafe impl Send for State {}

impl Node {
    pub(super) fn root(reports: bool) -> NodeRef {
        let root = Node::make(None, Some(Slots::new()), reports, Word::of_root());
        // The reference that ARRIVED owns.
        let _ = root.clone().into_raw();
        root
    }

    pub(super) fn child(parent: &NodeRef) -> NodeRef {
        // Before the lock is taken: the first child makes the stop of the parent visit it.
        if !parent.word.look().wants_visit() {
            parent.word.ask_for_visit();
        }
        let child = Node::make(Some(parent.clone()), None, parent.reports, Word::of_child(false));
        let mut state = parent.lock();
        if state.over.is_some() {
            // No other thread knows the child yet, so its lock is free.
            child.lock().over.clone_from(&state.over);
        }
        state.insert(child.as_ptr());
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

    pub(super) fn make(
        parent: Option<NodeRef>,
        slots: Option<Slots>,
        reports: bool,
        word: Word,
    ) -> NodeRef {
        // Written in place, not built on the stack and copied.
        let node = Box::write(
            Box::new_uninit(),
            Node {
                stopped: AtomicBool::new(false),
                parent,
                slots,
                reports,
                word,
                references: References::one(),
                handles: AtomicUsize::new(1),
                holders: AtomicUsize::new(1),
                state: Mutex::new(State {
                    first: ptr::null(),
                    cursor: ptr::null(),
                    for_stop: WaitList::new(),
                    for_end: WaitList::new(),
                    folded: false,
                    registry: None,
                    work: None,
                    over: None,
                }),
                next: Cell::new(ptr::null()),
                previous: Cell::new(ptr::null()),
                todo: Cell::new(ptr::null()),
            },
        );
        NodeRef::new(node)
    }

    /// For models: writes the cells that the parent's lock guards.
    #[cfg(all(test, loom))]
    pub(super) fn write_links(&self) {
        self.next.set(ptr::null());
    }

    /// For models: reads all non-atomic fields.
    #[cfg(all(test, loom))]
    pub(super) fn all_cells(&self) -> [*const Node; 3] {
        [self.next.get(), self.previous.get(), self.todo.get()]
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next child in the parent's list. The caller holds the parent's lock.
    pub(super) fn next_in_list(&self) -> *const Node {
        self.next.get()
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
        let (mut guards, _) = look.guards();
        if !look.has_arrived() {
            guards = 0;
        }
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
    ///
    /// # Safety
    /// `this` comes from a `NodeRef`, and the node's memory stays alive during the call.
    #[inline(always)]
    pub(super) unsafe fn enter(this: *const Node, thread: ThreadNumber) -> bool {
        // SAFETY: the caller keeps the node alive.
        let node = unsafe { &*this };
        if let Some(slots) = &node.slots
            && slots.add(thread, 1, &node.stopped)
        {
            return true;
        }
        match node.word.arrive(GUARD) {
            Arrival::Counted => true,
            // SAFETY: `this` comes from a `NodeRef`, and the caller keeps the node alive.
            Arrival::Alone => unsafe { arrive_above(this) },
            Arrival::Gone => false,
        }
    }

    /// Uncounts a guard. The node may be freed when this returns.
    ///
    /// # Safety
    /// `this` comes from a `NodeRef`. The caller owns a guard that is counted there, and gives it
    /// up.
    #[inline(always)]
    pub(super) unsafe fn leave(this: *const Node, thread: ThreadNumber) {
        // SAFETY: the caller's guard keeps the node alive.
        let node = unsafe { &*this };
        if let Some(slots) = &node.slots
            && slots.add(thread, 1u64.wrapping_neg(), &node.stopped)
        {
            return;
        }
        // SAFETY: the word counts the caller's guard, and `this` comes from a `NodeRef`.
        unsafe { depart(this, GUARD) }
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
        if this.parent.is_none() {
            stop(this);
        } else if this.is_only() {
            // The handle's reference is the only one: there are no guards, completions, children or
            // interrupts, so the word need not record the end.
            if let Some(next) = remove_from_parent(this) {
                carry_out(next);
            }
            return;
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
        if this.word.look().wants_visit() && !this.lock().first.is_null() {
            return;
        }
        if let Some(step) = this.word.orphan() {
            carry_out(orphaned(this, step));
        }
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
    fn insert(&mut self, child: *const Node) {
        // SAFETY: the caller holds the lock and a reference to the child; the nodes in the list are
        // alive.
        unsafe {
            (*child).next.set(self.first);
            if let Some(first) = self.first.as_ref() {
                first.previous.set(child);
            }
        }
        self.first = child;
    }

    fn remove(&mut self, child: &Node) {
        let (next, previous) = (child.next.get(), child.previous.get());
        if self.cursor == ptr::from_ref(child) {
            self.cursor = next;
        }
        // SAFETY: the nodes in the list are alive.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        // SAFETY: the nodes in the list are alive.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
    }
}

/// Slow path of `enter`: a guard has been counted in a node that has not arrived. Counts the node
/// in its ancestors. Always returns `true`.
///
/// # Safety
/// `this` comes from a `NodeRef`, the node's memory stays alive during the call, and its word
/// counts the caller's guard.
#[cold]
#[inline(never)]
unsafe fn arrive_above(this: *const Node) -> bool {
    // Bottom-up: the nodes that have not arrived. Each counts something by now.
    let mut path = vec![this];
    // SAFETY: the caller keeps `this` alive, and each node has a reference to its parent.
    let node = |at: *const Node| unsafe { &*at };
    let mut at = this;
    while let Some(parent) = &node(at).parent {
        match parent.word.arrive(CHILD) {
            Arrival::Counted => break,
            Arrival::Alone => path.push(parent.as_ptr()),
            Arrival::Gone => unreachable!("a parent ends after its children"),
        }
        at = parent.as_ptr();
    }
    // Top-down: a thread that finds ARRIVED in a node relies on all its ancestors.
    for &at in path.iter().rev() {
        // ARRIVED owns this reference. It is made first, as another thread may take it at once.
        // SAFETY: the caller keeps `this` alive, and each node has a reference to its parent.
        let of_contents = unsafe { NodeRef::another(at) };
        if node(at).word.set_arrived() {
            let _ = of_contents.into_raw();
            continue;
        }
        // Another thread was faster, and has counted the node in its ancestors.
        drop(of_contents);
        if let Some(parent) = &node(at).parent {
            // MUTANT(shutdown.arrive.twice): first continue
            let step = parent.word.depart(CHILD);
            debug_assert!(!step.left, "the parent left before the faster thread's unit");
        }
    }
    true
}

/// Uncounts something in a node. The node may be freed when this returns.
///
/// # Safety
/// `this` comes from a `NodeRef`, and the node's word counts `units` for the caller.
#[inline(always)]
pub(super) unsafe fn depart(this: *const Node, units: u64) {
    // SAFETY: what the caller has counted keeps the node alive.
    let step = unsafe { &*this }.word.depart(units);
    if step.left {
        // SAFETY: this update cleared ARRIVED, so the reference that ARRIVED owned is the caller's.
        carry_out(Next::Left(unsafe { NodeRef::from_raw(this) }, step.now));
    }
}

/// The next step for a node.
pub(super) enum Next {
    /// The node has left its parent, and must be uncounted there. Holds the reference that ARRIVED
    /// owned.
    Left(NodeRef, Look),
    /// The node is an orphan, and may be empty.
    Orphan(NodeRef),
}

fn orphaned(node: &NodeRef, step: Step) -> Next {
    if step.left {
        // SAFETY: `step` cleared ARRIVED, so the reference that ARRIVED owned is the caller's.
        Next::Left(unsafe { NodeRef::from_raw(node.as_ptr()) }, step.now)
    } else {
        Next::Orphan(node.clone())
    }
}

/// Does the step, and all steps that follow from it up the tree.
#[cold]
#[inline(never)]
pub(super) fn carry_out(first: Next) {
    let (mut left, mut orphan) = (None, None);
    let mut next = Some(first);
    loop {
        match next.take() {
            Some(Next::Left(node, now)) => {
                debug_assert!(left.is_none(), "a parent left before its child was uncounted");
                left = Some((node, now));
            }
            Some(Next::Orphan(node)) => orphan = Some(node),
            None => {}
        }
        if let Some(node) = orphan.take() {
            next = collect(&node);
        } else if let Some((node, now)) = left.take() {
            if now.is_complete() {
                notify_complete(&node);
            }
            if let Some(parent) = &node.parent {
                // The parent has not ended: it ends after its child, which ends below at the
                // earliest.
                let step = parent.word.depart(CHILD);
                // SAFETY: `step` cleared ARRIVED, so the reference that ARRIVED owned is ours.
                left = step.left.then(|| (unsafe { NodeRef::from_raw(parent.as_ptr()) }, step.now));
            }
            orphan = now.is_orphaned().then_some(node);
        } else {
            return;
        }
    }
}

/// Ends an orphan if it is empty. Returns the next step.
fn collect(node: &NodeRef) -> Option<Next> {
    if !node.word.collect() {
        return None;
    }
    node.stopped.store(true, Ordering::Release);
    notify_stopped(node);
    remove_from_parent(node)
}

/// Removes a node that has ended from its parent's list. Returns the next step.
fn remove_from_parent(node: &NodeRef) -> Option<Next> {
    let parent = node.parent.as_ref()?;
    let mut state = parent.lock();
    state.remove(node);
    // If the last holder goes at the same time, the lock orders the two threads: see
    // `release_holder`.
    // MUTANT(shutdown.remove.look): with false
    let orphan = state.first.is_null() && parent.holders.load(Ordering::Acquire) == 0;
    drop(state);
    let step = if orphan { parent.word.orphan() } else { None };
    step.map(|step| orphaned(parent, step))
}
