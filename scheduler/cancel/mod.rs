//! Whether a task is cancelled, and how it becomes so.
//!
//! A cancel **marks** a node of the tree, and carries the mark to all nodes below it that are linked
//! (`task/list of children/mod.rs` has the protocol). For each it **cuts** the wait of the task that runs in the node, if
//! it is parked in one that may be cut short. No task runs inside the call: what was cut out of its wait is
//! queued. Hooks that the walk has come to are called there, when it is over and no lock is held.
//!
//! A task asks its own node, and those above it as far as these are not linked. When it is about to park where
//! a cancel must find it, it links its innermost node, looks whether that is cancelled, publishes its wait and
//! looks once more. The canceller marks the node, then looks whether the task waits. Both are in the total
//! order of SeqCst, so one of the two sees the other.
//!
//! **A cut may come late**, and out of another node than the one that the task waits in: of an outer one, while
//! the task is in an inner one that ignores cancellation; or of one that it has left meanwhile. So who was cut
//! asks whether it is cancelled, and goes on waiting if it is not (`Worker::wait`).
//!
//! **A cancel may come too late**: its caller has seen that the task runs, and marks it when it has ended. Nobody pays for that at each
//! end. Who asks a task that has ended whether it was cancelled decides it (`TreeWord::settle`): a mark that is there counts, and one that
//! comes after that is ignored. A scope that ends takes its node out of the reach of handles, under the lock of its list.

pub(crate) mod hook;
pub(crate) mod reason;
pub(crate) mod unresponsive;

use crate::scheduler::cancel::hook::Fired;
use crate::scheduler::cancel::reason::{cause_of, write_cause, write_cause_down};
use crate::scheduler::life::external;
use crate::scheduler::life::root::Root;
use crate::scheduler::life::scope_frame::task_of;
use crate::scheduler::timers::fire_if_overdue;
use crate::scheduler::wait::interrupted::Interrupted;
use crate::scheduler::wait::resume::resume_all;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::task::cause::Cause;
use crate::task::children::{self, Children, Reached, origin_of};
use crate::task::cold::ColdData;
use crate::task::record::{Phase, Record};
use crate::task::words::tree::{Cancel, NOBODY, Node, NodeKind, Verdict};
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// So many nodes up a look goes. If the next one is not linked either it becomes so, and nobody need go further
/// the next time.
const LOOK: usize = 8;
/// A node in which somebody has looked up so often is linked, so that it knows by itself from then on.
const OFTEN: u8 = 16;

/// Whether `node`, in which the caller runs, or which has not ended for another reason, is cancelled.
#[inline(always)]
pub(crate) fn is_cancelled(node: &Node) -> bool {
    is_cancelled_here_or_above(node)
        // Its own worker may be the only one, and busy with the task that asks.
        || node.is_timed() && fire_if_overdue(node) && is_cancelled_here_or_above(node)
}

#[inline(always)]
fn is_cancelled_here_or_above(node: &Node) -> bool {
    match node.verdict() {
        Verdict::AskParent => is_cancelled_above(node),
        verdict => verdict == Verdict::Cancelled,
    }
}

/// As `is_cancelled`, for a node that nobody runs in yet, and that asks once.
#[inline(always)]
pub(crate) fn is_cancelled_at_start(node: &Node) -> bool {
    if node.word().is_marked() {
        return true;
    }
    // SAFETY: a task has a parent, which does not end before it.
    let parent = unsafe { &*node.parent };
    match parent.verdict() {
        Verdict::AskParent => is_cancelled_above(parent),
        verdict => verdict == Verdict::Cancelled,
    }
}

#[inline(never)]
fn is_cancelled_above(node: &Node) -> bool {
    if node.asks() >= OFTEN {
        link(node);
        return node.verdict() == Verdict::Cancelled;
    }
    let mut at = node;
    for _ in 0..LOOK {
        // SAFETY: a root has no doubts; others have a parent, which does not end before them.
        at = unsafe { &*at.parent };
        match at.verdict() {
            Verdict::AskParent => {}
            Verdict::Cancelled => {
                // MUTANT(cancel.inherit): first return true
                return inherit_all(node, at);
            }
            Verdict::NotCancelled => return false,
        }
    }
    link(at);
    let cancelled = at.verdict() == Verdict::Cancelled;
    cancelled && inherit_all(node, at)
}

/// Marks a node, and those between it and `above`, at most `LOOK` further up, which was found to be cancelled. None of them has ended.
#[cold]
#[inline(never)]
fn inherit_all(node: &Node, above: &Node) -> bool {
    let (mut path, mut length, mut at) = ([node; LOOK], 0, node);
    while !ptr::eq(at, above) {
        path[length] = at;
        length += 1;
        // SAFETY: it is below `above`, so it has a parent, which does not end before it.
        at = unsafe { &*at.parent };
    }
    inherit(&path[..length], above)
}

/// Marks nodes that have not ended, each the parent of the one before it, because `above`, the parent of the last, was found to be cancelled.
/// False if one of them has begun to ignore it meanwhile: then those below that are not.
fn inherit(nodes: &[&Node], above: &Node) -> bool {
    let origin = origin_of(above);
    for node in nodes.iter().rev() {
        // Also for one that nobody knows: it may make itself known at this moment.
        // SAFETY: the origin does not end before those below it.
        let write_down = |node: &Node| unsafe { write_cause(node, origin) };
        // SAFETY: neither ends before the caller is done: he runs in the lowest node, or below it, or keeps it from its end.
        let first = unsafe { children::inherit(node, origin, write_down) };
        // MUTANT(cancel.inherit.below): false
        if first {
            // SAFETY: as above, and it was marked just now.
            unsafe { deliver(node, origin) };
        }
        // MUTANT(cancel.inherit.ignored): false
        if !first && node.verdict() != Verdict::Cancelled {
            return false;
        }
    }
    true
}

/// Marks a node that will not start because one above it was found to be cancelled, if anybody outside might ask.
#[cold]
pub(crate) fn inherit_unstarted(task: &Record) {
    let node = &task.node;
    if !task.is_known() || node.word().is_marked() {
        return;
    }
    let mut above = node;
    // As in `cause_of`.
    while above.verdict() != Verdict::Cancelled && above.kind != NodeKind::Root {
        // SAFETY: as in `is_cancelled_above`.
        above = unsafe { &*above.parent };
    }
    inherit(&[node], above);
}

/// Links a node in which, or below which, the caller runs.
#[cold]
#[inline(never)]
pub(crate) fn link(node: &Node) {
    // SAFETY: the caller's.
    unsafe { link_and_mark(node, marked_by_link) }
}

/// Links a node. Those that are cancelled by that, from above, are given to `marked`, without the lock of their parent's list.
///
/// # Safety
/// As for [`list of children::link`].
pub(super) unsafe fn link_and_mark(node: &Node, marked: impl FnMut(&Node)) {
    // SAFETY: the caller's contract is that of the call. A node of kind Root is the start of its root, which the runtime keeps;
    // and an origin is above the node, and does not end before it.
    unsafe {
        children::link(
            node,
            |root, node| (*ptr::from_ref(root).cast::<Root>()).children_for(node),
            |node, origin| write_cause_down(node, origin),
            marked,
        );
    }
}

/// Sees to it that a cancel finds a node, in which the caller runs, when it waits; false if one has come already.
#[cold]
#[inline(never)]
pub(super) fn link_to_wait(node: &Node) -> bool {
    if node.verdict() == Verdict::Cancelled {
        return false;
    }
    link(node);
    node.verdict() != Verdict::Cancelled
}

/// Does for a node what a walk would have done, had it found it: of those above it none has ended.
fn marked_by_link(node: &Node) {
    let Some(cold) = node.cold_in_total_order() else { return };
    if !cold.children().has_children() {
        return;
    }
    let (woken, origin) = (Woken::default(), origin_of(node));
    // SAFETY: marked just now.
    unsafe {
        children::walk(
            [cold.children()],
            origin,
            |reached| woken.take(reached, origin),
            || woken.queue(),
        );
    }
    woken.finish();
}

/// A reference to the running task, for others.
pub(crate) fn make_known(task: &Record) {
    let node = &task.node;
    if !node.is_linked() {
        // So that whatever comes from above is seen in its word.
        link(node);
    }
    // A walk either sees the reference, or has left its mark.
    children::between_walks(node, || task.add_reference());
    // MUTANT(cancel.known.look): false
    if node.word().is_marked() {
        let origin = origin_of(node);
        if !ptr::eq(origin, node) {
            // SAFETY: not before the node.
            unsafe { write_cause_down(node, origin) };
        }
    }
}

/// Cancels a task, which may have ended. The reason is that its handle was dropped, if none is given.
pub(crate) fn cancel(task: &Record, cause: Option<Arc<Cause>>) {
    if task.phase() == Phase::Finished {
        return; // or it ends at this moment, and who has a handle sees the mark, or says first that there is none
    }
    // SAFETY: the record's, which is not freed as long as the caller has it.
    unsafe { cancel_node(&task.node, cause) }
}

/// Cancels a node in which the caller runs, or the node of a task that the caller has a reference to.
///
/// # Safety
/// That.
pub(crate) unsafe fn cancel_node(node: &Node, cause: Option<Arc<Cause>>) {
    if set_cancelled(node, cause) {
        // It is the origin, also if another comes from above at this moment: that one's may end before the caller is done.
        let origin = ptr::from_ref(node);
        // SAFETY: marked just now; the rest is passed on.
        unsafe { deliver(node, origin) };
    }
}

/// Cancels the node of a list of children that the caller has a handle to, unless it has ended.
pub(crate) fn cancel_children(children: &Children, cause: Option<Arc<Cause>>) {
    let woken = Woken::default();
    let origin = children.with_node(|node| {
        set_cancelled(node, cause).then(|| {
            woken.interrupt(node);
            origin_of(node)
        })
    });
    if let Some(Some(origin)) = origin {
        // SAFETY: marked just now; the handle keeps the list of children.
        unsafe {
            children::walk(
                [children],
                origin,
                |reached| woken.take(reached, origin),
                || woken.queue(),
            )
        };
        woken.finish();
    }
}

/// Marks a node; true if the caller is to deliver that.
fn set_cancelled(node: &Node, cause: Option<Arc<Cause>>) -> bool {
    if node.word().is_marked() {
        return false;
    }
    let cold = if cause.is_some() { Some(node.cold_or_new()) } else { node.cold() };
    if let Some(cold) = cold {
        if let Some(cause) = cause {
            // The first one counts.
            let _ = cold.cause.set(cause);
        }
        cold.children().set_origin(node);
    }
    let cancelled = node.word().cancel();
    // MUTANT(cancel.mark.again): with cancelled == Cancel::First
    let marked = cancelled != Cancel::Already;
    if let Some(cold) = node.cold_in_total_order().filter(|_| marked) {
        // They may be new.
        cold.children().set_origin(node);
    }
    cancelled == Cancel::First
}

/// Carries the cancel of a node to its task, and to all below.
///
/// # Safety
/// As for `cancel_node`, and the caller has marked the node, or has ended the time in which it ignored that. The origin does not end
/// before this returns.
unsafe fn deliver(node: &Node, origin: *const Node) {
    let woken = Woken::default();
    woken.interrupt(node);
    let top = node.cold_in_total_order().map(|cold| cold.children());
    // SAFETY: passed on.
    unsafe {
        children::walk(top, origin, |reached| woken.take(reached, origin), || woken.queue());
    }
    woken.finish();
}

/// Begins to ignore cancellation in a node in which the caller runs: true if it does so now, false if it did
/// already. An error if it is cancelled.
pub(crate) fn begin_ignoring(node: &Node) -> Result<bool, Interrupted> {
    if node.word().is_ignoring() {
        return Ok(false);
    }
    // From above it may have come already, without a mark here.
    if is_cancelled(node) || !node.word().ignore() {
        return Err(Interrupted);
    }
    Ok(true)
}

/// Ends that, and delivers what has come meanwhile.
pub(crate) fn stop_ignoring(node: &Node) {
    if node.word().stop_ignoring() {
        // SAFETY: the caller runs in the node.
        unsafe { deliver(node, origin_of(node)) };
    }
}

/// Cancels all tasks of a runtime.
pub(crate) fn cancel_all(root: &Root) {
    if root.node.word().cancel() != Cancel::First {
        return;
    }
    let woken = Woken::default();
    // SAFETY: marked just now; its lists of children are never freed before its end.
    unsafe {
        let origin = &raw const root.node;
        children::walk(
            root.children_lists(),
            origin,
            |reached| woken.take(reached, origin),
            || woken.queue(),
        );
    }
    woken.finish();
}

/// Marks a scope whose time is up, and cuts the wait of its task. If there is anybody below to be told of it, the
/// list of children to walk from, with a handle that is the caller's, and the origin.
///
/// For one who sees to it that the scope does not end meanwhile.
pub(crate) fn mark_overdue(node: &Node, woken: &Woken) -> Option<(NonNull<Children>, *const Node)> {
    if !set_cancelled(node, None) {
        return None;
    }
    woken.interrupt(node);
    let cold: *const ColdData = node.cold_in_total_order()?;
    // SAFETY: those of a node that has not ended.
    let children = unsafe { (*cold).children() };
    // Only a linked node can have had children in its list.
    children.has_children().then(|| {
        children.add_handle_of(node);
        (NonNull::new(cold.cast_mut().cast()).expect("a reference"), origin_of(node))
    })
}

/// Says that the time of a wait is over, and cuts it short: true if the caller must put the task back to work. The waiter looks when it has
/// published: one of the two sees the other (task/words/wait.rs).
pub(super) fn expire(task: &Record, over: &AtomicBool) -> bool {
    // MUTANT(limit.expire): relaxed
    over.swap(true, Ordering::SeqCst);
    task.wait.interrupt()
}

/// What is to be done when no lock is held any more.
#[derive(Default)]
pub(crate) struct Woken {
    /// Tasks that were cut out of their waits and lie in no queue, linked to each other, each to the one before it.
    tasks: Cell<Option<NonNull<Record>>>,
    /// Hooks that are to be run.
    hooks: RefCell<Vec<Fired>>,
}

impl Woken {
    /// Cuts the wait of the task of a node, which has not ended.
    fn interrupt(&self, node: &Node) {
        let Some(task) = task_of(node) else { return };
        // SAFETY: not before its node.
        if unsafe { task.as_ref() }.wait.interrupt() {
            self.add(task);
        }
    }

    /// Grants the wait of a task, which is in it or about to be.
    ///
    /// # Safety
    /// The task may not leave its wait before.
    pub(crate) unsafe fn grant(&self, task: NonNull<Record>) {
        // SAFETY: it has not ended.
        if unsafe { task.as_ref() }.wait.grant() {
            self.add(task);
        }
    }

    /// Ends one wait of a task, whose time is over.
    ///
    /// # Safety
    /// The task does not leave that wait's frame before.
    pub(crate) unsafe fn expire(&self, task: NonNull<Record>, over: &AtomicBool) {
        // SAFETY: it has not ended.
        if expire(unsafe { task.as_ref() }, over) {
            self.add(task);
        }
    }

    /// It waits for us to queue it, and the link is free until then.
    fn add(&self, task: NonNull<Record>) {
        let next = self.tasks.replace(Some(task));
        let next = next.map_or(ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: it cannot end before it is queued.
        unsafe { task.as_ref() }.link.store(next, Ordering::Relaxed);
    }

    /// Carries the cancel of a node to those below it, and gives the handle to its list of children up.
    ///
    /// # Safety
    /// The handle is the caller's, who has marked the node.
    pub(crate) unsafe fn walk(&self, children: NonNull<Children>, origin: *const Node) {
        // SAFETY: kept by the handle.
        let top = unsafe { children.as_ref() };
        // SAFETY: passed on.
        unsafe {
            children::walk([top], origin, |reached| self.take(reached, origin), || self.queue())
        };
        // SAFETY: passed on.
        unsafe { Children::release_handle(children) };
    }

    /// Queues them at their homes, those that have the same one together.
    pub(crate) fn queue(&self) {
        // SAFETY: nobody ends before it is queued.
        let record = |task: NonNull<Record>| unsafe { task.as_ref() };
        let before = |task| NonNull::new(record(task).link.load(Ordering::Relaxed));
        let mut next = self.tasks.take();
        while let Some(last) = next {
            let (mut first, home) = (last, record(last).node.home());
            next = before(last);
            if external::is_outside(record(last)) {
                external::queue(last);
                continue;
            }
            // One that may migrate has none.
            while home != NOBODY
                && let Some(task) = next.filter(|task| record(*task).node.home() == home)
            {
                first = task;
                next = before(task);
            }
            resume_all(last, first);
        }
    }

    /// Whether the last of it runs hooks.
    pub(crate) fn has_hooks(&self) -> bool {
        !self.hooks.borrow().is_empty()
    }

    /// The last of it, when all that is to be marked is: a hook may do anything, and take its time.
    pub(crate) fn finish(self) {
        self.queue();
        let hooks = self.hooks.into_inner();
        // Mostly there are none, and an iterator is dearer than that look.
        if !hooks.is_empty() {
            hooks.into_iter().for_each(Fired::run);
        }
    }

    /// Keeps what a walk has come to. `origin` has not ended, as what was reached has not.
    pub(super) fn take(&self, reached: Reached<'_>, origin: *const Node) {
        match reached {
            // SAFETY: said above.
            Reached::Soon(node) => unsafe { write_cause_down(node, origin) },
            Reached::Node(node) => self.interrupt(node),
            Reached::Hook(place, node) => {
                let cause = cause_of(node);
                // SAFETY: the list has a reference, and the walk its lock.
                self.hooks.borrow_mut().push(unsafe { Fired::new(place, cause) });
            }
        }
    }
}
