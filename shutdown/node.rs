//! The node behind a [`Swansong`](super::Swansong): its guards, its place in the tree, and its end.
//!
//! # What must hold
//!
//! A node is *complete* if it is stopped, and neither it nor any node below it has a guard. That is to be read from **its own word** ([`Word`]),
//! at any moment, with a guard coming or going anywhere below; and a guard that comes or goes is to touch no more than its own node.
//!
//! So a node with something in it is counted by its parent: it has **arrived** there, as one of the parent's children. (The idea is
//! that of scalable non-zero indicators: Ellen, Lev, Luchangco, Moir, PODC 2007.)
//!
//! * It arrives from below to above: it counts the guard in its own word, then itself in its parent's, and so on up to a node that has
//!   arrived already, or the root; then, from there down, each says that it has arrived. Only then the guard is there: `guard()` returns. So
//!   *who finds that a node has arrived knows that all above it count it*, and a guard that finds that is one update.
//!   Two may do so at once; the later one takes back what it has counted too much, while the other's keeps it from being the last.
//! * It **stays** arrived while it runs, also if it becomes empty: nobody asks a running node whether it is complete. When it is stopped, or
//!   has lost its last handle, it does not stay any longer. From then on it *leaves* by the very update that makes it empty (or by that which
//!   stops it, if it is empty then), and after that uncounts itself in the parent, which may leave by that too, and so on: in a loop.
//!
//! So while a guard is there all above count it: it was counted above before it was there, and is uncounted there after it was gone here. No half
//! state can be seen, as *there* means that `guard()` has returned. A completion that was ready before that moment stays ready.
//!
//! A root has nobody to arrive at, but counts in [`Slots`] while it runs; its stop puts a [`HOLD`](super::word::HOLD) into the word until they have been added up.
//!
//! # Who keeps what
//!
//! | | keeps the node from its end | keeps its memory |
//! | --- | --- | --- |
//! | handles (together one holder), completions (one each) | yes | yes |
//! | children that have not ended, by their place in the list | yes | yes |
//! | guards: that it has arrived | yes | yes, by one reference for all of them |
//! | interrupts | no | yes |
//!
//! A guard has no reference of its own. Who drops one does not touch the node after its update, unless that has made the node leave:
//! then the one reference of the guards is his. That is why leaving is part of the update. A root that runs always has that reference.
//!
//! A node without holders and children is an **orphan**, for ever, as nobody could make it any. It is *collected* when it is empty: its
//! interrupts end, and it goes out of its parent's list, which may make the parent an orphan. All of that is one loop ([`carry_out`]), whatever
//! the depth, and so is the end of the memory of a chain.
//!
//! # The locks
//!
//! `state` of a node guards its list of children, the places of these children in it, and those who wait. One is held at a time; no foreign
//! code runs under it. Each child that is entered, and each who begins to wait, says so in the word first (VISIT), and sees in the same update
//! whether the node is stopped: so whoever stops it finds them, or they find that it is stopped.
//!
//! Orderings: all that is said in one word is ordered by it. What is counted above happens before ARRIVED is said (release) and read (acquire), so
//! who has seen that and then drops a guard comes later in the words above too; also who finds that another was faster, and takes back what he has
//! counted. What was done before a guard was dropped happens before the completion: each update on the way up releases and acquires. Between
//! these steps of a word others may update it, in whatever order: what is released stays so as long as it is only updated.

use super::joined::Work;
use super::node_ref::{NodeRef, References};
use super::report::Registry;
use super::slots::{Slots, ThreadNumber};
use super::stop::{notify_complete, notify_stopped, stop};
use super::within::TimeOver;
use super::word::{Arrival, CHILD, GUARD, Look, Step, Word};
use crate::scheduler::wait::waiters::WaitList;
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::shim::{Cell, Mutex, MutexGuard};
use std::ptr;
use std::sync::PoisonError;

pub(super) struct Node {
    /// What interrupts look at: the word says so first.
    pub(super) stopped: AtomicBool,
    /// None of a root.
    pub(super) parent: Option<NodeRef>,
    /// Of a root.
    pub(super) slots: Option<Slots>,
    /// Whether places are kept where guards are made.
    pub(super) reports: bool,
    pub(super) word: Word,
    /// How many references there are to its memory.
    pub(super) references: References,
    /// How many handles there are.
    handles: AtomicUsize,
    /// One for all handles together, and one for each completion.
    holders: AtomicUsize,
    state: Mutex<State>,
    /// The place in the list of the parent, under its lock.
    next: Cell<*const Node>,
    previous: Cell<*const Node>,
    /// The next one that a stop comes to. Of whoever has stopped this node.
    pub(super) todo: Cell<*const Node>,
}

pub(super) struct State {
    /// The children. As pointers of `NodeRef::as_ptr`.
    pub(super) first: *const Node,
    /// Where a stop has got to in that list.
    pub(super) cursor: *const Node,
    /// Those who wait for the stop, and for the completion.
    pub(super) for_stop: WaitList,
    pub(super) for_end: WaitList,
    /// The slots have been added up.
    pub(super) folded: bool,
    /// Of one that keeps the places of its guards.
    pub(super) registry: Option<Box<Registry>>,
    /// Of one that was made for a scope or a task.
    pub(super) work: Option<Box<Work>>,
    /// Its time to finish is over: so is that of what comes later.
    pub(super) over: Option<std::sync::Arc<TimeOver>>,
}

// SAFETY: the cells have an owner or a lock each, as said above, and the pointers lead to nodes, which are shared.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}
// SAFETY: as above.
unsafe impl Send for State {}

impl Node {
    pub(super) fn root(reports: bool) -> NodeRef {
        let root = Node::make(None, Some(Slots::new()), reports, Word::of_root());
        // That of the guards.
        let _ = root.clone().into_raw();
        root
    }

    pub(super) fn child(parent: &NodeRef) -> NodeRef {
        // Before the lock: the first one has the parent visited when it is stopped.
        if !parent.word.look().wants_visit() {
            parent.word.ask_for_visit();
        }
        let child = Node::make(Some(parent.clone()), None, parent.reports, Word::of_child(false));
        let mut state = parent.lock();
        if state.over.is_some() {
            // Nobody knows it yet: this lock is free.
            child.lock().over.clone_from(&state.over);
        }
        state.insert(child.as_ptr());
        // Who has stopped the parent before comes to the list later, or this sees it.
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
        // Written in place.
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

    /// In models: writes into what the lock of a parent guards.
    #[cfg(all(test, loom))]
    pub(super) fn write_links(&self) {
        self.next.set(ptr::null());
    }

    /// In models: reads all that is no atomic.
    #[cfg(all(test, loom))]
    pub(super) fn all_cells(&self) -> [*const Node; 3] {
        [self.next.get(), self.previous.get(), self.todo.get()]
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one after it in the list of its parent, whose lock the caller has.
    pub(super) fn next_in_list(&self) -> *const Node {
        self.next.get()
    }

    /// Whether it is stopped, or has ended. One load.
    #[inline(always)]
    pub(super) fn is_stopped(&self) -> bool {
        // Acquire: what was done before the stop is seen by those whom it stops.
        // MUTANT(shutdown.is_stopped): relaxed
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether it has been said that it is stopped, or one above it, by which it is going to be. Who has counted a guard here before sees those
    /// that do not wait for it: it has counted above, or somebody who has said so here.
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

    /// How many guards there are here, and not below.
    ///
    /// Those of a node that has not arrived are on their way up, and none is there yet: who counted them, and then stopped a node above, would find
    /// that complete.
    pub(super) fn own_guards(&self, state: &State) -> u64 {
        let look = self.word.look();
        let (mut guards, _) = look.guards();
        if !look.has_arrived() {
            guards = 0;
        }
        if let Some(slots) = self.slots.as_ref().filter(|_| !state.folded) {
            guards = guards.wrapping_add(slots.sum());
        }
        // One that is on its way from here to there may have been seen at its end alone.
        if guards.cast_signed() < 0 { 0 } else { guards }
    }

    pub(super) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_holder(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a guard; false if the node has ended.
    ///
    /// # Safety
    /// The pointer is that of a `NodeRef`, and the node's memory is kept meanwhile.
    #[inline(always)]
    pub(super) unsafe fn enter(this: *const Node, thread: ThreadNumber) -> bool {
        // SAFETY: the caller's.
        let node = unsafe { &*this };
        if let Some(slots) = &node.slots
            && slots.add(thread, 1, &node.stopped)
        {
            return true;
        }
        match node.word.arrive(GUARD) {
            Arrival::Counted => true,
            // SAFETY: passed on.
            Arrival::Alone => unsafe { arrive_above(this) },
            Arrival::Gone => false,
        }
    }

    /// Uncounts a guard. The node may be gone when this returns.
    ///
    /// # Safety
    /// The guard is the caller's, and the pointer that of a `NodeRef`.
    #[inline(always)]
    pub(super) unsafe fn leave(this: *const Node, thread: ThreadNumber) {
        // SAFETY: the guard keeps it.
        let node = unsafe { &*this };
        if let Some(slots) = &node.slots
            && slots.add(thread, 1u64.wrapping_neg(), &node.stopped)
        {
            return;
        }
        // SAFETY: passed on.
        unsafe { depart(this, GUARD) }
    }

    /// Gives a handle up. The last one of a root stops it.
    pub(super) fn release_handle(this: &NodeRef) {
        // If there is only one nobody else can make another.
        // MUTANT(shutdown.handles): split
        if this.handles.load(Ordering::Acquire) != 1
            && this.handles.fetch_sub(1, Ordering::AcqRel) != 1
        {
            return;
        }
        if this.parent.is_none() {
            stop(this);
        } else if this.is_only() {
            // Nothing hangs on it: neither guards nor completions, children or interrupts. It need not be told that it ends.
            if let Some(next) = remove_from_parent(this) {
                carry_out(next);
            }
            return;
        }
        Node::release_holder(this);
    }

    /// Gives up what keeps the node: a completion, or the last handle.
    pub(super) fn release_holder(this: &NodeRef) {
        if this.holders.load(Ordering::Acquire) == 1 {
            // Only who holds can make another.
            this.holders.store(0, Ordering::Release);
        } else if this.holders.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Of the two who take the last holder and the last child away, one sees that the other has done so, by this lock.
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
    /// A chain of nodes ends in a loop.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut node) = next.and_then(NodeRef::into_inner) {
            next = node.parent.take();
        }
    }
}

impl State {
    fn insert(&mut self, child: *const Node) {
        // SAFETY: the caller's own; who is in the list is alive.
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
        // SAFETY: who is in the list is alive.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
    }
}

/// A guard has been counted in a node that has not arrived. False if the node has ended.
///
/// # Safety
/// As for `enter`.
#[cold]
#[inline(never)]
unsafe fn arrive_above(this: *const Node) -> bool {
    // From below: those that have not arrived, each with something in it now.
    let mut path = vec![this];
    // SAFETY: the caller's; a parent lives as long as its child, which has not ended, as something is counted there.
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
    // From above: who finds that one has arrived relies on all above it.
    for &at in path.iter().rev() {
        // Before anybody can take it: the reference of what is in it.
        // SAFETY: kept by what has been counted in it.
        let of_contents = unsafe { NodeRef::another(at) };
        if node(at).word.set_arrived() {
            let _ = of_contents.into_raw();
            continue;
        }
        // Another was faster, and has counted it above.
        drop(of_contents);
        if let Some(parent) = &node(at).parent {
            // MUTANT(shutdown.arrive.twice): first continue
            let step = parent.word.depart(CHILD);
            debug_assert!(!step.left, "the other's is still there");
        }
    }
    true
}

/// Uncounts something in a node.
///
/// # Safety
/// It is the caller's, and the pointer that of a `NodeRef`.
#[inline(always)]
pub(super) unsafe fn depart(this: *const Node, units: u64) {
    // SAFETY: what the caller has keeps it.
    let step = unsafe { &*this }.word.depart(units);
    if step.left {
        // SAFETY: the reference of what was in it is ours.
        carry_out(Next::Left(unsafe { NodeRef::from_raw(this) }, step.now));
    }
}

/// What is to be done next for a node.
pub(super) enum Next {
    /// It has left its parent, and is to be uncounted there; with the reference of what was in it.
    Left(NodeRef, Look),
    /// It is an orphan, and may be empty.
    Orphan(NodeRef),
}

fn orphaned(node: &NodeRef, step: Step) -> Next {
    if step.left {
        // SAFETY: the reference of what was in it is ours.
        Next::Left(unsafe { NodeRef::from_raw(node.as_ptr()) }, step.now)
    } else {
        Next::Orphan(node.clone())
    }
}

/// Does that, and all that follows from it, up the tree.
#[cold]
#[inline(never)]
pub(super) fn carry_out(first: Next) {
    let (mut left, mut orphan) = (None, None);
    let mut next = Some(first);
    loop {
        match next.take() {
            Some(Next::Left(node, now)) => {
                debug_assert!(left.is_none(), "what one has left counts it, and leaves after it");
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
                // It has not ended before its child, which does so below.
                let step = parent.word.depart(CHILD);
                // SAFETY: the reference of what was in it is ours.
                left = step.left.then(|| (unsafe { NodeRef::from_raw(parent.as_ptr()) }, step.now));
            }
            orphan = now.is_orphaned().then_some(node);
        } else {
            return;
        }
    }
}

/// Ends an orphan, if it is empty: what follows from that.
fn collect(node: &NodeRef) -> Option<Next> {
    if !node.word.collect() {
        return None;
    }
    node.stopped.store(true, Ordering::Release);
    notify_stopped(node);
    remove_from_parent(node)
}

/// Takes a node that has ended out of its parent's list: what follows from that.
fn remove_from_parent(node: &NodeRef) -> Option<Next> {
    let parent = node.parent.as_ref()?;
    let mut state = parent.lock();
    state.remove(node);
    // As in `release_holder`.
    // MUTANT(shutdown.remove.look): with false
    let orphan = state.first.is_null() && parent.holders.load(Ordering::Acquire) == 0;
    drop(state);
    let step = if orphan { parent.word.orphan() } else { None };
    step.map(|step| orphaned(parent, step))
}

/// The number of guards of a node, and of all below it that are reachable.
pub(super) fn count_guards(node: &NodeRef) -> u64 {
    let mut sum = 0u64;
    visit(node, |node, state| sum = sum.saturating_add(node.own_guards(state)));
    sum
}

/// Calls `f` for a node and all below it, each under its lock.
pub(super) fn visit(node: &NodeRef, mut f: impl FnMut(&Node, &mut State)) {
    let mut todo = vec![node.clone()];
    while let Some(node) = todo.pop() {
        let mut state = node.lock();
        f(&node, &mut state);
        let mut at = state.first;
        // SAFETY: who is in the list is alive.
        while let Some(child) = unsafe { at.as_ref() } {
            // SAFETY: who is in the list is alive.
            todo.push(unsafe { NodeRef::another(at) });
            at = child.next_in_list();
        }
    }
}
