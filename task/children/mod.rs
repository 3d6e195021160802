//! How a cancel finds the tasks below a node: the lists of the tree, and the walk through them.
//!
//! # Who is in the lists
//!
//! A node is not entered anywhere when it is made, nor when its task starts: most tasks run to their end
//! without a wait, and need no one to find them. They look up instead, at their ancestors, when they start
//! and when they are asked whether they are cancelled. A node is **linked** into its parent's list when it
//! must be found: before its task waits for the first time in a wait that may be cut short, or when something
//! of another kind hangs on it. Its ancestors are linked first, from the top, so of a linked node all
//! ancestors are linked, and whoever comes to one that is need not look up any further: a walk would have
//! marked it. It stays linked until it ends, after its last child.
//!
//! # Protocol
//!
//! Each list has a lock, and so have the links of those in it. The lock of a node's list is taken alone, with one
//! exception below.
//!
//! * **Link** ([`link`]), under the lock of the parent: enter the child; then, if the parent is cancelled in
//!   effect, mark the child; then say that it is linked. What it marks has nobody linked below it and does not
//!   wait; hooks may hang there that came from outside, and are told.
//! * **Before a mark** that comes from above the caller is told ([`Reached::Soon`]), under the lock of the parent: why the
//!   node is cancelled is written down where it is needed, so that who sees the mark finds the reason.
//! * **Cancel**: mark the node (one atomic operation: one caller is the first, or knows that the node
//!   ignores cancellation at present, and then that task does the rest when it stops). The first [walks](walk):
//!   takes the lock, marks each child in the list, tells of it, and goes on to those children that have some.
//! * **Inherit** ([`inherit`]): who asks in a node that is not linked looks up, and finds one above it that is marked. Then it marks the
//!   node, and those between, from the top, as the walk would if they were in its way, and writes down in each whose cancel it is, so that nobody has
//!   to look up for that again. At one that ignores it by then this ends, as the walk does. So nobody is told of a cancel and then told otherwise:
//!   another may link one of those between at this moment, before the walk comes to it, and whoever finds it linked looks no further up.
//! * **Link from outside**: a task that computes is in no list, and cannot be asked to enter itself into one. Whoever
//!   [watches](crate::task::record::Record::watch) it by a handle links it, under the lock of the task's own list as long
//!   as that is not `over`. The end of a watched task makes it so before its parent is released, so until then the parent
//!   and all above it are there; and then it looks once more whether it is linked. A node that was unlinked stays so (`gone`).
//!   This is the one place where two of these locks are held at once: that of a list, and one further up.
//! * **Unlink** ([`unlink`]), at the child's end, under the same lock.
//!
//! Nobody is missed: if the walk takes the lock after the child was entered, it finds it; if before, the child
//! sees the parent's mark, which was made before the walk took the lock. That a node *has* no list, or has
//! never had anyone in it, the walk sees without the lock: both are announced by an update, then the parent's
//! word is read; the walk marks and then reads those; all in the one total order of SeqCst, so one of the two
//! sees the other. A mark is made once, so a node is walked through by one walk at a time, and once.
//!
//! # Who may touch a node, and its memory
//!
//! Under the lock of its parent a child in the list is not at its end, so the walk may mark it and wake its
//! task. It goes on to the children of that child later, without that lock, and by then it may have ended. So
//! it says under the lock that it will come (`walked`), and uses nothing but the list of children after that: the list of children
//! of a node with children in its list belongs to a node that has not ended, as children end first, and one
//! without them is passed over. When the memory of a list of children is to be freed ([`Children::end`]), and a walk is on
//! its way there, or a handle keeps it, it is left to whoever of them is last, which the list of children's own lock
//! decides. Of a handle the same lock keeps the node from ending while it is used ([`Children::with_node`]).
//!
//! **Hooks** hang in the list of their node, between its children, until who takes one back, or whoever ends the node,
//! takes it out under the lock. A walk tells of those that it finds there, and leaves them.
//!
//! The walk is a loop: lists of children that are still to be visited are linked to each other, so a tree of any depth
//! takes neither stack nor memory. It gives the lock back after each [`BATCH`] children, leaving a mark in the
//! list where it was, and calls `rest` without any lock: there the tasks that it has cut out of their waits
//! are queued, so that none of them runs into the lock.

mod hooks;

pub(crate) use hooks::Hang;

use crate::shim::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::shim::{Cell, Mutex, MutexGuard, load_in_total_order};
use crate::task::cold::ColdData;
use crate::task::words::tree::{Cancel, Node, NodeKind};
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

/// So many children are marked before others may have the lock.
#[cfg(not(loom))]
const BATCH: usize = 64;
#[cfg(loom)]
const BATCH: usize = 1;

/// A node's list of children, and its place in its parent's. See the module's documentation.
#[repr(C)]
pub(crate) struct Children {
    /// First, so that the place of a node is its list of children.
    place: HookLink,
    list: Mutex<List>,
    /// Somebody has been in the list.
    has_children: AtomicBool,
    /// A walk is on its way here. Set under the lock of the parent's list, cleared under this one's.
    walked: Cell<bool>,
    /// It has been unlinked, and its parent may end at any moment. Guarded by the lock of the parent's list.
    gone: Cell<bool>,
    /// The next one that the walk visits. Of the walk alone.
    todo: Cell<*const Children>,
    /// The list that it is in. Written once, by whoever links it.
    parent: AtomicPtr<Children>,
    /// The cold data around it, as they were allocated: to be freed by. Written with `parent`.
    whole: AtomicPtr<ColdData>,
    /// The node whose cancel has reached this one.
    origin: AtomicPtr<Node>,
}

/// A place in a list, whose lock guards it.
pub(crate) struct HookLink {
    next: Cell<*const HookLink>,
    previous: Cell<*const HookLink>,
    /// Of a child. Null in a hook, and in the mark that a walk leaves where it was.
    node: Cell<*const Node>,
    /// Whether it is in a list. Of hooks alone.
    hangs: Cell<bool>,
}

impl HookLink {
    pub(crate) fn new() -> HookLink {
        let null = || Cell::new(ptr::null());
        HookLink {
            next: null(),
            previous: null(),
            node: Cell::new(ptr::null()),
            hangs: Cell::new(false),
        }
    }
}

struct List {
    first: *const HookLink,
    /// The node of the list, for those who have the list of children and nothing else. Null if there is none who could,
    /// or the node has ended.
    node: *const Node,
    /// Handles that keep the list of children, but not the node.
    handles: usize,
    /// The node ends, and takes no more hooks.
    over: bool,
    /// The node has ended, and who is last of the handles and a walk frees the memory.
    deserted: bool,
}

// SAFETY: each field has an owner, or a lock, as said above.
unsafe impl Send for Children {}
// SAFETY: as above.
unsafe impl Sync for Children {}

impl Children {
    pub(crate) fn new() -> Children {
        Children {
            place: HookLink::new(),
            list: Mutex::new(List {
                first: ptr::null(),
                node: ptr::null(),
                handles: 0,
                over: false,
                deserted: false,
            }),
            has_children: AtomicBool::new(false),
            walked: Cell::new(false),
            gone: Cell::new(false),
            todo: Cell::new(ptr::null()),
            parent: AtomicPtr::new(ptr::null_mut()),
            whole: AtomicPtr::new(ptr::null_mut()),
            origin: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node is reached by the cancel of `origin`. Before its word is marked, and after that by who has marked it when it had no cold data. Not
    /// atomically: who cancels it itself at this moment may be named instead, then or later. Why it is cancelled is decided elsewhere
    /// (scheduler/cancel/reason.rs).
    pub(crate) fn set_origin(&self, origin: *const Node) {
        if self.origin.load(Ordering::Relaxed).is_null() {
            self.origin.store(origin.cast_mut(), Ordering::Release);
        }
    }

    /// Whether somebody has ever been in the list, for one who has just marked the node.
    pub(crate) fn has_children(&self) -> bool {
        // MUTANT(children.has_children.look): relaxed
        load_in_total_order(&self.has_children)
    }

    #[cfg(all(test, loom))]
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().first.is_null()
    }

    /// Whether a walk is on its way to what is in the list.
    #[cfg(all(test, loom))]
    pub(crate) fn is_awaited(&self) -> bool {
        let list = self.lock();
        self.walked.get() && !list.first.is_null()
    }

    /// Frees the memory of the cold data around this list of children, or leaves that to the walk that is on its way here.
    ///
    /// # Safety
    /// The node has ended, was unlinked, and nobody else uses the cold data, which came from a box.
    pub(in crate::task) unsafe fn end(this: NonNull<Children>) {
        // SAFETY: alive until it is freed below, or by the walk.
        let children = unsafe { this.as_ref() };
        if !children.parent.load(Ordering::Relaxed).is_null() {
            let mut list = children.lock();
            list.node = ptr::null();
            // MUTANT(children.end.walked): with list.handles > 0
            // MUTANT(children.end.handles): with children.walked.get()
            if children.walked.get() || list.handles > 0 {
                list.deserted = true;
                return;
            }
        }
        // SAFETY: passed on; a list of children is the start of its cold data.
        unsafe { Children::free(this.as_ptr().cast()) };
    }

    /// Whether the node of a list of children that a handle keeps is marked, or was when it ended. One load, if no cancel comes.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        !self.origin.load(Ordering::Acquire).is_null() && self.is_marked_by_now()
    }

    /// One has come, which says so before it marks the node; no node ends between the two.
    #[cold]
    fn is_marked_by_now(&self) -> bool {
        // MUTANT(children.marked.word): with true
        self.with_node(|node| node.word().is_marked()).unwrap_or(true)
    }

    /// A handle that keeps the list of children of a linked node, in which the caller runs, and not the node.
    pub(crate) fn add_handle_of(&self, node: &Node) {
        let mut list = self.lock();
        list.node = node;
        list.handles += 1;
    }

    pub(crate) fn add_handle(&self) {
        self.lock().handles += 1;
    }

    /// Gives such a handle up.
    ///
    /// # Safety
    /// It is the caller's; the list of children is not used afterwards.
    pub(crate) unsafe fn release_handle(this: NonNull<Children>) {
        // SAFETY: alive by the handle.
        let children = unsafe { this.as_ref() };
        let mut list = children.lock();
        list.handles -= 1;
        // MUTANT(children.handle.last): with list.deserted && !children.walked.get()
        if list.deserted && list.handles == 0 && !children.walked.get() {
            let whole = children.whole.load(Ordering::Relaxed);
            drop(list);
            // SAFETY: left to us.
            unsafe { Children::free(whole) };
        }
    }

    /// Calls `f` with the node of a list of children that a handle keeps, unless it has ended; it does not end meanwhile.
    pub(crate) fn with_node<R>(&self, f: impl FnOnce(&Node) -> R) -> Option<R> {
        let list = self.lock();
        // SAFETY: cleared under this lock before the node ends.
        unsafe { list.node.as_ref() }.map(f)
    }

    /// # Safety
    /// As for `end`, and no walk is on its way, nor does a handle keep it. `whole` is what was allocated.
    unsafe fn free(whole: *mut ColdData) {
        // SAFETY: out of a box, and nobody else uses it.
        let cold = unsafe { Box::from_raw(whole) };
        debug_assert!(!cold.children().walked.get(), "a walk is on its way to what is freed");
    }
}

impl List {
    /// Enters one before another that is in the list, or at the front of an empty one.
    ///
    /// # Safety
    /// It is in no list, and is taken out before its memory is used for anything else.
    unsafe fn insert(&mut self, place: *const HookLink, before: *const HookLink) {
        // SAFETY: who is in the list is alive, and we have the lock.
        let next = unsafe { before.as_ref() };
        let previous = next.map_or(ptr::null(), |next| next.previous.get());
        // SAFETY: the caller's.
        let links = unsafe { &*place };
        links.next.set(before);
        links.previous.set(previous);
        if let Some(next) = next {
            next.previous.set(place);
        }
        // SAFETY: as above.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(place),
            None => self.first = place,
        }
    }

    /// # Safety
    /// It is in this list.
    unsafe fn remove(&mut self, place: *const HookLink) {
        // SAFETY: alive, and the lock is ours.
        let (next, previous) = unsafe { ((*place).next.get(), (*place).previous.get()) };
        // SAFETY: as in `insert`.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
        // SAFETY: as in `insert`.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
    }
}

/// Links a node, and its ancestors before it. Takes time in proportion to those that are not linked yet.
///
/// `of_root` says which list of a root a node is entered in; always the same, as its lock is what two meet at
/// who would link the node. Of those that are found to be cancelled by what is above them, `soon` is told under the lock, before
/// they are marked, and whose cancel it is, and `marked` without one afterwards.
///
/// # Safety
/// The parent of the node does not end before this returns: the caller runs in the node, or in one below it, or
/// keeps the parent from its end. The node is unlinked before its parent ends.
#[cold]
pub(crate) unsafe fn link<'a>(
    node: &'a Node,
    of_root: impl Fn(&'a Node, &Node) -> &'a Children,
    soon: impl Fn(&Node, *const Node),
    mut marked: impl FnMut(&Node),
) {
    // Those that are not linked, but for the lowest: mostly none.
    let mut path: Vec<&Node> = Vec::new();
    // SAFETY: one that is not linked is no root, so it has a parent, which does not end before its child.
    let above = |node: &Node| unsafe { &*node.parent };
    if node.is_linked() {
        return;
    }
    let mut at = above(node);
    while !at.is_linked() {
        path.push(at);
        at = above(at);
    }
    for node in path.into_iter().rev().chain([node]) {
        let parent = above(node);
        let theirs = match parent.kind {
            NodeKind::Root => of_root(parent, node),
            _ => parent.cold_or_new().children(),
        };
        if link_to(node, parent, theirs, &soon) {
            marked(node);
        }
    }
}

/// True if the node was found to be cancelled by that.
fn link_to(
    node: &Node,
    parent: &Node,
    theirs: &Children,
    soon: &impl Fn(&Node, *const Node),
) -> bool {
    let mine = node.cold_or_new().children();
    let whole = node.cold_as_allocated().map_or(ptr::null_mut(), NonNull::as_ptr);
    let mut list = theirs.lock();
    // MUTANT(children.link.again): with mine.gone.get()
    // MUTANT(children.link.gone): with node.is_linked()
    if mine.gone.get() || node.is_linked() {
        return false; // another was faster, or the end
    }
    if !theirs.has_children.load(Ordering::Relaxed) {
        // An update, in the total order.
        // MUTANT(children.link.has_children): relaxed
        theirs.has_children.swap(true, Ordering::SeqCst);
    }
    mine.place.node.set(node);
    mine.parent.store(ptr::from_ref(theirs).cast_mut(), Ordering::Relaxed);
    mine.whole.store(whole, Ordering::Relaxed);
    // In the total order, as the cold data are made, and who cancels it looks for them.
    // MUTANT(children.link.marked): false
    if node.word().is_marked_in_total_order() {
        // It was cancelled when it had no cold data, and the first reason counts.
        mine.set_origin(origin_of(node));
    }
    let first = list.first;
    // SAFETY: not linked, and it is unlinked when the node ends. As a pointer to the whole.
    unsafe { list.insert(whole.cast_const().cast(), first) };
    let mut marked = false;
    // MUTANT(children.link.look): false
    if parent.word().is_cancelled_in_total_order() {
        if !node.word().is_marked() {
            let origin = origin_of(parent);
            soon(node, origin);
            mine.set_origin(origin);
        }
        marked = node.word().cancel() == Cancel::First;
    }
    node.set_linked(true);
    marked
}

/// Marks a node that was not linked when one above it was found to be cancelled: what a walk would have done, if it had come to it.
/// `soon` is told before it is marked. True if the caller is to carry that to its task, and to what is below it.
///
/// # Safety
/// The node has not ended, and does not before this returns; the origin is that of the one above it.
pub(crate) unsafe fn inherit(node: &Node, origin: *const Node, soon: impl FnOnce(&Node)) -> bool {
    soon(node);
    // MUTANT(children.inherit.why): skip
    node.cold_or_new().children().set_origin(origin);
    node.word().cancel() == Cancel::First
}

/// The node whose cancel has reached `node`, which is cancelled: an ancestor, if that was written down before the mark, or itself.
pub(crate) fn origin_of(node: &Node) -> *const Node {
    // Acquire: the reason is written down before.
    let origin = node.cold().map(|cold| cold.children().origin.load(Ordering::Acquire));
    origin.filter(|origin| !origin.is_null()).map_or(ptr::from_ref(node), <*mut Node>::cast_const)
}

/// Calls `f` while no walk marks a node, which is linked, and in which the caller runs.
pub(crate) fn between_walks<R>(node: &Node, f: impl FnOnce() -> R) -> R {
    let cold = node.cold().expect("a linked node has cold");
    // SAFETY: the parent has not ended.
    let theirs = unsafe { &*cold.children().parent.load(Ordering::Relaxed) };
    // MUTANT(children.between_walks): first return f()
    let _list = theirs.lock();
    f()
}

/// Takes a linked node out of its parent's list. For whoever ends it, after its last child and before its
/// parent may end.
#[cold]
pub(crate) fn unlink(node: &Node) {
    let cold = node.cold().expect("a linked node has cold");
    let mine = cold.children();
    // SAFETY: the parent has not ended.
    let theirs = unsafe { &*mine.parent.load(Ordering::Relaxed) };
    let mut list = theirs.lock();
    // SAFETY: it is linked.
    unsafe { list.remove(mine.whole.load(Ordering::Relaxed).cast_const().cast()) };
    node.set_linked(false);
    mine.gone.set(true);
}

/// What a walk has come to.
pub(crate) enum Reached<'a> {
    /// A node that is about to be marked.
    Soon(&'a Node),
    /// A node that is newly cancelled in effect.
    Node(&'a Node),
    /// A hook, which stays in its list: whoever ends its node may be faster than the caller.
    Hook(NonNull<HookLink>, &'a Node),
}

/// Carries a cancel to all linked nodes below one, and to the hooks that hang on them. `reached` is called for
/// each of them under a lock; `rest` from time to time and at the end without one.
///
/// # Safety
/// The caller has marked the node to which the `tops` belong, or has ended the time in which it ignored that,
/// and they are not freed meanwhile.
pub(crate) unsafe fn walk<'a>(
    tops: impl IntoIterator<Item = &'a Children>,
    origin: *const Node,
    mut reached: impl FnMut(Reached<'_>),
    mut rest: impl FnMut(),
) {
    let mut todo: *const Children = ptr::null();
    for children in tops {
        if children.has_children() {
            children.todo.set(todo);
            todo = children;
        }
    }
    // SAFETY: what we are on our way to is kept for us.
    while let Some(children) = unsafe { todo.as_ref() } {
        todo = children.todo.get();
        // SAFETY: as above.
        unsafe { visit(children, origin, &mut todo, &mut reached, &mut rest) };
    }
}

/// Marks the children in one list; those that have some themselves are put on the list of what is to be done.
///
/// # Safety
/// The list of children is kept for the walk.
unsafe fn visit(
    children: &Children,
    origin: *const Node,
    todo: &mut *const Children,
    reached: &mut impl FnMut(Reached<'_>),
    rest: &mut impl FnMut(),
) {
    let mut list = children.lock();
    let mut at = list.first;
    let mut left = BATCH;
    // SAFETY: who is in the list has not ended as long as we have its lock.
    while let Some(place) = unsafe { at.as_ref() } {
        if left == 0 {
            let here = HookLink::new();
            // SAFETY: it is taken out below.
            unsafe { list.insert(&raw const here, at) };
            drop(list);
            rest();
            list = children.lock();
            at = here.next.get();
            // SAFETY: entered above.
            unsafe { list.remove(&raw const here) };
            left = BATCH;
            continue;
        }
        let this = at;
        at = place.next.get();
        left -= 1;
        if place.hangs.get() {
            // SAFETY: written when it was hung, and the node does not end before its hooks are taken out, under this lock.
            let node = unsafe { &*list.node };
            reached(Reached::Hook(NonNull::from(place), node));
            continue;
        }
        // SAFETY: the places of nodes are their lists of children, and no other walk has left a mark in this list.
        let child = unsafe { &*this.cast::<Children>() };
        // SAFETY: as above.
        let node = unsafe { &*place.node.get() };
        if !node.word().is_marked() {
            reached(Reached::Soon(node));
            child.set_origin(origin);
        }
        if node.word().cancel() == Cancel::First {
            reached(Reached::Node(node));
            if child.has_children() {
                // MUTANT(children.walk.announce): skip
                child.walked.set(true);
                child.todo.set(*todo);
                *todo = child;
            }
        }
    }
    children.walked.set(false);
    // MUTANT(children.walk.last): with list.deserted
    let unused = list.deserted && list.handles == 0;
    let whole = children.whole.load(Ordering::Relaxed);
    drop(list);
    rest();
    if unused {
        // SAFETY: left to us.
        unsafe { Children::free(whole) };
    }
}
