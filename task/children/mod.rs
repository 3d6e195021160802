//! How a cancel finds the tasks below a node: the lists of children, and the walk through them.
//!
//! # Which nodes are in the lists
//!
//! A new node is in no list, and neither is its task when it starts. Most tasks run to their end
//! without a wait, and no canceller has to find them. They look up instead: when they start, and
//! when they ask whether they are cancelled, they look at their ancestors.
//!
//! A node is **linked** into its parent's list when a canceller must be able to find it: before its
//! task waits for the first time in a wait that may be interrupted, or when a hook is hung on the
//! node. Its ancestors are linked first, from the top. So all ancestors of a linked node are
//! linked, and a look up ends at the first linked node: a walk would have marked that node. A node
//! stays linked until it ends, after its last child.
//!
//! # Protocol
//!
//! Each list has a lock, which also guards the links of its members. A thread holds one of these
//! locks at a time, with one exception (*link from outside*).
//!
//! * **Link** ([`link`]), under the parent's lock: enter the child; if the parent is cancelled in
//!   effect, mark the child; then set that the child is linked. A child that is marked in this way
//!   has no linked descendants and does not wait. Hooks may have been hung on it from outside; they
//!   are told.
//! * **Before a mark** that comes from above, the walk reports [`Reached::Soon`] under the parent's
//!   lock. The receiver writes down why the node is cancelled, so a task that sees the mark finds
//!   the reason.
//! * **Cancel**: mark the node by one atomic operation. One caller is the first. If the node
//!   ignores cancellation at present, the first caller leaves the rest to the task, which does it
//!   when it stops ignoring. Otherwise the first caller [walks](walk): under the lock of the list,
//!   it marks and reports each child, and goes on to the children that have children.
//! * **Inherit** ([`inherit`]): a task in an unlinked node looks up and finds a marked ancestor. It
//!   then marks the nodes from there down to its own, as the walk would do if they were linked, and
//!   writes down in each of them whose cancel it is, so that no later look up is needed. Like the
//!   walk, it stops at a node that ignores cancellation by now. So no task is told of a cancel and
//!   later told otherwise: another task may link one of these nodes before the walk comes to it,
//!   and a look up ends at a linked node.
//! * **Link from outside**: a task that computes is in no list, and cannot enter itself into one. A
//!   thread that [watches](crate::task::record::Record::watch) the task by a handle links it, under
//!   the lock of the task's own list, provided that this list is not `over`. The end of a watched
//!   task sets `over` before it releases the parent, so until then the parent and all nodes above
//!   it are alive. Afterwards the end looks once more whether the node is linked. A node that was
//!   unlinked stays unlinked (`gone`). Only here are two of the locks held at once: that of a list,
//!   and one further up.
//! * **Unlink** ([`unlink`]), at the child's end, under the same lock.
//!
//! # No node is missed
//!
//! If the walk takes the lock after the child was entered, it finds the child. Otherwise the child
//! sees the parent's mark, which was made before the walk took the lock.
//!
//! The walk sees without the lock that a node has no list, or a list that never had a member. Both
//! are announced by an update, after which the linking thread reads the parent's word. The
//! canceller marks that word and then reads the announcement. All four steps are in the one total
//! order of SeqCst, so one of the two threads sees the other.
//!
//! A mark is made once, so one walk at a time goes through a node, and only once.
//!
//! # Which thread may touch a node, and its memory
//!
//! A child in the list does not end while the parent's lock is held, so the walk may mark it and
//! wake its task. The walk visits the child's own list later, without that lock, and the child may
//! have ended by then. So the walk announces its visit under the lock (`walked`), and afterwards
//! uses only the child's list of children. If that list has members, its node has not ended,
//! because children end first. If it has none, the walk passes it over.
//!
//! The memory of a list is freed by [`Children::end`]. If a walk is on its way there, or a handle
//! keeps the list, the last of these frees it; the lock of the list decides which one is the last.
//! The same lock keeps the node from ending while a handle uses it ([`Children::with_node`]).
//!
//! **Hooks** hang in the list of their node, between its children, until their guard or the end of
//! the node takes them out under the lock. A walk reports the hooks that it finds, and leaves them.
//!
//! The walk is a loop. The lists that it has yet to visit are linked to each other, so a tree of
//! any depth takes neither stack nor memory. The walk releases the lock after each [`BATCH`]
//! children, leaves a placeholder in the list, and calls `rest` without any lock. There the tasks
//! whose waits it has interrupted are queued, so none of them runs into the lock.

mod hooks;
mod reference;

pub(crate) use hooks::Hang;
pub(crate) use reference::ChildrenRef;

use crate::shim::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::shim::{Cell, Mutex, load_in_total_order};
use crate::task::cold::ColdData;
use crate::task::words::tree::{Cancel, Node, NodeKind};
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// The number of children that a walk marks per acquisition of the lock.
#[cfg(not(loom))]
const BATCH: usize = 64;
#[cfg(loom)]
const BATCH: usize = 1;

/// A node's list of children, and the node's own place in its parent's list. See the module's
/// documentation.
#[repr(C)]
pub(crate) struct Children {
    /// First, so that the place of a node is its list of children.
    place: HookLink,
    list: Mutex<List>,
    /// The list has, or has had, a member.
    has_children: AtomicBool,
    /// A walk is on its way here. Set under the lock of the parent's list, cleared under this
    /// one's.
    walked: Cell<bool>,
    /// The node has been unlinked, and its parent may end at any moment. Guarded by the lock of the
    /// parent's list.
    gone: Cell<bool>,
    /// The next list that the walk visits. Used by the walk alone.
    todo: Cell<Option<ToVisit>>,
    /// The parent's list. Written once, by the thread that links the node.
    parent: AtomicPtr<Children>,
    /// The cold data around this list, as a pointer to the whole allocation. Written together with
    /// `parent`.
    whole: AtomicPtr<ColdData>,
    /// The node whose cancel has reached this one.
    origin: AtomicPtr<Node>,
}

/// A place in a list, whose lock guards it.
pub(crate) struct HookLink {
    next: Cell<Option<Member>>,
    previous: Cell<Option<Member>>,
    /// The child. Null in a hook, and in the placeholder of a walk.
    node: Cell<*const Node>,
    /// Set in a hook when it enters a list.
    is_hook: Cell<bool>,
}

impl HookLink {
    pub(crate) fn new() -> HookLink {
        HookLink {
            next: Cell::new(None),
            previous: Cell::new(None),
            node: Cell::new(ptr::null()),
            is_hook: Cell::new(false),
        }
    }

    /// Returns the child in this place. Called under the lock of its list.
    fn node(&self) -> Option<&Node> {
        // SAFETY: a node is unlinked under the lock, which is held, before it ends.
        unsafe { self.node.get().as_ref() }
    }
}

/// A link that is in a list. Used only by a thread that has the lock of that list, which members
/// leave under the same lock.
#[derive(Clone, Copy)]
struct Member(NonNull<HookLink>);

impl Deref for Member {
    type Target = HookLink;

    fn deref(&self) -> &HookLink {
        // SAFETY: the link was inserted by `List::insert`, so it is alive until it is removed, and
        // this thread has the lock, without which it is not removed.
        unsafe { self.0.as_ref() }
    }
}

struct List {
    first: Option<Member>,
    /// The node of the list, for threads that have only the list. Null if there are no such
    /// threads, or the node has ended.
    node: *const Node,
    /// The number of handles, which keep this list alive, but not the node.
    handles: usize,
    /// The node ends, and takes no more hooks.
    over: bool,
    /// The node has ended; the last handle or the walk frees the memory.
    deserted: bool,
}

// SAFETY: each field belongs to one owner, or is guarded by a lock, as the module says.
unsafe impl Send for Children {}
// SAFETY: see `Send`: no field is used by two threads at once, unless it is atomic.
unsafe impl Sync for Children {}

impl Children {
    pub(crate) fn new() -> Children {
        Children {
            place: HookLink::new(),
            list: Mutex::new(List {
                first: None,
                node: ptr::null(),
                handles: 0,
                over: false,
                deserted: false,
            }),
            has_children: AtomicBool::new(false),
            walked: Cell::new(false),
            gone: Cell::new(false),
            todo: Cell::new(None),
            parent: AtomicPtr::new(ptr::null_mut()),
            whole: AtomicPtr::new(ptr::null_mut()),
            origin: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Notes that the cancel of `origin` has reached the node. Called before the node is marked; or
    /// after it, by the thread that marked the node while it had no cold data. The load and the
    /// store are separate: a canceller of the node itself may be named instead. The reason of a
    /// cancel is decided elsewhere (scheduler/cancel/reason.rs).
    pub(crate) fn set_origin(&self, origin: *const Node) {
        if self.origin.load(Ordering::Relaxed).is_null() {
            self.origin.store(origin.cast_mut(), Ordering::Release);
        }
    }

    /// Returns whether the list has ever had a member. For a thread that has just marked the node.
    pub(crate) fn has_children(&self) -> bool {
        // MUTANT(children.has_children.look): relaxed
        load_in_total_order(&self.has_children)
    }

    #[cfg(all(test, loom))]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.lock().first.is_none()
    }

    /// Returns whether a walk is on its way to members of the list.
    #[cfg(all(test, loom))]
    pub(crate) fn is_awaited(&self) -> bool {
        let list = self.list.lock();
        self.walked.get() && list.first.is_some()
    }

    /// Frees the cold data around this list, or leaves that to the walk that is on its way here.
    ///
    /// # Safety
    /// The node has ended and was unlinked. The cold data came from a box, and no other thread uses
    /// them except through a handle or a walk.
    pub(in crate::task) unsafe fn end(this: NonNull<Children>) {
        // SAFETY: the list is alive until it is freed below, or by the walk.
        let children = unsafe { this.as_ref() };
        if !children.parent.load(Ordering::Relaxed).is_null() {
            let mut list = children.list.lock();
            list.node = ptr::null();
            // MUTANT(children.end.walked): with list.handles > 0
            // MUTANT(children.end.handles): with children.walked.get()
            if children.walked.get() || list.handles > 0 {
                list.deserted = true;
                return;
            }
        }
        // SAFETY: no handle and no walk is left, and the caller gives up the cold data. A list of
        // children is the start of its cold data.
        unsafe { Children::free(this.as_ptr().cast()) };
    }

    /// Returns whether the node is marked, or was when it ended. For a handle. One load if no
    /// cancel has come.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        !self.origin.load(Ordering::Acquire).is_null() && self.is_marked_by_now()
    }

    /// Slow path of `is_marked`: a cancel has come. A canceller notes the origin before it marks
    /// the node, and the node does not end in between.
    #[cold]
    fn is_marked_by_now(&self) -> bool {
        // MUTANT(children.marked.word): with true
        self.with_node(|node| node.word().is_marked()).unwrap_or(true)
    }

    /// Adds a handle, which keeps this list alive, but not the node. The node is linked, and the
    /// caller runs in it.
    fn add_handle_of(&self, node: &Node) {
        let mut list = self.list.lock();
        list.node = node;
        list.handles += 1;
    }

    /// Calls `f` with the node, unless it has ended. The node does not end during the call. For a
    /// handle.
    pub(crate) fn with_node<R>(&self, f: impl FnOnce(&Node) -> R) -> Option<R> {
        self.list.lock().node().map(f)
    }

    /// Returns the list that the node is linked into. Called by the thread that runs in the node,
    /// which is linked, or ends it.
    fn parent(&self) -> &Children {
        // SAFETY: the pointer was written when the node was linked, and the parent ends after it.
        unsafe { &*self.parent.load(Ordering::Relaxed) }
    }

    /// Returns the place of the node in its parent's list, as a pointer to the whole allocation.
    fn as_link(&self) -> NonNull<HookLink> {
        let whole = NonNull::new(self.whole.load(Ordering::Relaxed));
        whole.expect("a linked node has cold data").cast()
    }

    /// # Safety
    /// Same as for `end`; and no walk is on its way, and no handle is left. `whole` is the pointer
    /// that was allocated.
    unsafe fn free(whole: *mut ColdData) {
        // SAFETY: `whole` came from a box, and no other thread uses it.
        let cold = unsafe { Box::from_raw(whole) };
        debug_assert!(!cold.children().walked.get(), "a walk is on its way to what is freed");
    }
}

impl List {
    /// Returns the node of the list, for a thread that has only the list.
    fn node(&self) -> Option<&Node> {
        // SAFETY: cleared under the lock, which is held, before the node ends.
        unsafe { self.node.as_ref() }
    }

    /// Inserts a link before a member of the list, or into an empty list.
    ///
    /// # Safety
    /// `place` is alive and in no list, and is taken out before its memory is reused.
    unsafe fn insert(&mut self, place: NonNull<HookLink>, before: Option<Member>) -> Member {
        let place = Member(place);
        let previous = before.and_then(|next| next.previous.get());
        place.next.set(before);
        place.previous.set(previous);
        if let Some(next) = before {
            next.previous.set(Some(place));
        }
        match previous {
            Some(previous) => previous.next.set(Some(place)),
            None => self.first = Some(place),
        }
        place
    }

    /// Takes a member out of this list.
    fn remove(&mut self, place: Member) {
        let (next, previous) = (place.next.get(), place.previous.get());
        if let Some(next) = next {
            next.previous.set(previous);
        }
        match previous {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
    }
}

/// Links a node, after its ancestors. Takes time in proportion to the number of unlinked ancestors.
/// `of_root` returns the list of a root that a node is entered in. It always returns the same list
/// for a node, because threads that link the same node meet at the lock of that list. If a node
/// turns out to be cancelled from above, `soon` is called with it and with the origin of the
/// cancel, under the lock and before the mark; `marked` is called afterwards, without a lock.
///
/// # Safety
/// The node's parent does not end before this returns: the caller runs in the node or below it, or
/// keeps the parent from ending. The node is unlinked before its parent ends.
#[cold]
pub(crate) unsafe fn link<'a>(
    node: &'a Node,
    of_root: impl Fn(&'a Node, &Node) -> &'a Children,
    soon: impl Fn(&Node, *const Node),
    mut marked: impl FnMut(&Node),
) {
    // The unlinked ancestors; usually none.
    let mut path: Vec<&Node> = Vec::new();
    // SAFETY: a root counts as linked, so an unlinked node has a parent, which ends after it.
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

/// Links a node whose parent is linked. Returns `true` if this has marked the node, because its
/// parent is cancelled.
fn link_to(
    node: &Node,
    parent: &Node,
    theirs: &Children,
    soon: &impl Fn(&Node, *const Node),
) -> bool {
    let mine = node.cold_or_new().children();
    let whole = node.cold_as_allocated().map_or(ptr::null_mut(), NonNull::as_ptr);
    let mut list = theirs.list.lock();
    // MUTANT(children.link.again): with mine.gone.get()
    // MUTANT(children.link.gone): with node.is_linked()
    if mine.gone.get() || node.is_linked() {
        return false; // another thread, or the end of the node, was faster
    }
    if !theirs.has_children.load(Ordering::Relaxed) {
        // An update, in the total order.
        // MUTANT(children.link.has_children): relaxed
        theirs.has_children.swap(true, Ordering::SeqCst);
    }
    mine.place.node.set(node);
    mine.parent.store(ptr::from_ref(theirs).cast_mut(), Ordering::Relaxed);
    mine.whole.store(whole, Ordering::Relaxed);
    // In the total order: the cold data are made before this load, and a canceller looks for them
    // after its mark.
    // MUTANT(children.link.marked): false
    if node.word().is_marked_in_total_order() {
        // The node was cancelled before it had cold data, and the first reason counts.
        mine.set_origin(origin_of(node));
    }
    let first = list.first;
    // SAFETY: the node is not linked, and is unlinked when it ends.
    unsafe { list.insert(mine.as_link(), first) };
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

/// Marks an unlinked node below a cancelled one, as a walk would do. Calls `soon` before the mark.
/// Returns `true` if the caller is to deliver the cancel to the node's task and to its descendants.
///
/// # Safety
/// The node does not end before this returns, and `origin` is that of the node above it.
pub(crate) unsafe fn inherit(node: &Node, origin: *const Node, soon: impl FnOnce(&Node)) -> bool {
    soon(node);
    // MUTANT(children.inherit.why): skip
    node.cold_or_new().children().set_origin(origin);
    node.word().cancel() == Cancel::First
}

/// Returns the node whose cancel has reached `node`, which is cancelled: an ancestor if that was
/// written down before the mark, or else the node itself.
pub(crate) fn origin_of(node: &Node) -> *const Node {
    // Acquire: the reason was written down before the origin.
    let origin = node.cold().map(|cold| cold.children().origin.load(Ordering::Acquire));
    origin.filter(|origin| !origin.is_null()).map_or(ptr::from_ref(node), <*mut Node>::cast_const)
}

/// Calls `f` while no walk can mark `node`, which is linked, and in which the caller runs.
pub(crate) fn between_walks<R>(node: &Node, f: impl FnOnce() -> R) -> R {
    let cold = node.cold().expect("a linked node has cold data");
    let theirs = cold.children().parent();
    // MUTANT(children.between_walks): first return f()
    let _list = theirs.list.lock();
    f()
}

/// Takes a linked node out of its parent's list. Called by the thread that ends the node, after its
/// last child and before its parent may end.
#[cold]
pub(crate) fn unlink(node: &Node) {
    let cold = node.cold().expect("a linked node has cold data");
    let mine = cold.children();
    let mut list = mine.parent().list.lock();
    // The node is linked, and its link has been a member of this list since.
    list.remove(Member(mine.as_link()));
    node.set_linked(false);
    mine.gone.set(true);
}

/// What a walk has reached.
pub(crate) enum Reached<'a> {
    /// A node that is about to be marked.
    Soon(&'a Node),
    /// A node that is newly cancelled in effect.
    Node(&'a Node),
    /// A hook, which stays in its list: the end of its node may be faster than the caller.
    Hook(NonNull<HookLink>, &'a Node),
}

/// Carries a cancel to all linked nodes below a node, and to their hooks. Calls `reached` for each
/// of them under a lock, and `rest` from time to time and at the end without a lock.
///
/// # Safety
/// The caller has marked the node that the `tops` belong to, or has made it stop ignoring a mark,
/// and the `tops` are not freed during the call.
pub(crate) unsafe fn walk<'a>(
    tops: impl IntoIterator<Item = &'a Children>,
    origin: *const Node,
    mut reached: impl FnMut(Reached<'_>),
    mut rest: impl FnMut(),
) {
    let mut todo = None;
    for children in tops {
        if children.has_children() {
            children.todo.set(todo);
            todo = Some(ToVisit(NonNull::from(children)));
        }
    }
    while let Some(children) = todo {
        todo = children.todo.get();
        visit(children, origin, &mut todo, &mut reached, &mut rest);
    }
}

/// A list that a walk has announced, or was given, and has not visited yet.
#[derive(Clone, Copy)]
struct ToVisit(NonNull<Children>);

impl Deref for ToVisit {
    type Target = Children;

    fn deref(&self) -> &Children {
        // SAFETY: the walk was given the list for the whole call, or has announced its visit by
        // `walked`, so the list is not freed before the visit ends.
        unsafe { self.0.as_ref() }
    }
}

/// Marks the children in one list. Lists of children that have children are put on `todo`.
fn visit(
    children: ToVisit,
    origin: *const Node,
    todo: &mut Option<ToVisit>,
    reached: &mut impl FnMut(Reached<'_>),
    rest: &mut impl FnMut(),
) {
    let mut list = children.list.lock();
    let mut at = list.first;
    let mut left = BATCH;
    while let Some(place) = at {
        if left == 0 {
            let here = HookLink::new();
            // SAFETY: the placeholder is in no list, and is taken out below.
            let placeholder = unsafe { list.insert(NonNull::from(&here), at) };
            drop(list);
            rest();
            list = children.list.lock();
            at = placeholder.next.get();
            list.remove(placeholder);
            left = BATCH;
            continue;
        }
        at = place.next.get();
        left -= 1;
        if place.is_hook.get() {
            let node = list.node().expect("a node with hooks has not ended");
            reached(Reached::Hook(place.0, node));
            continue;
        }
        let node = place.node().expect("no other walk has left a placeholder in this list");
        // SAFETY: the link of a node is the start of its list of children, to all of which the
        // pointer may be followed. The node does not end while this thread has the lock.
        let child = unsafe { place.0.cast::<Children>().as_ref() };
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
                *todo = Some(ToVisit(place.0.cast()));
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
        // SAFETY: the end of the node has left the memory to the last of handles and walk, which
        // this is.
        unsafe { Children::free(whole) };
    }
}
