//! Whether a task is cancelled, and how it becomes so.
//!
//! A cancel **marks** a node of the tree, and carries the mark to all linked nodes below it
//! (`task/children/mod.rs` has the protocol). In each node that it marks, it **interrupts** the
//! wait of the task that runs in the node, if the task is parked in an interruptible wait. No task
//! runs inside the call: an interrupted task is queued. Hooks that the walk has reached are called
//! by the canceller, when the walk is over and no lock is held.
//!
//! **How a task learns of a cancel.** A task asks its own node, then its ancestors up to the first
//! linked one. Before it parks in an interruptible wait it links its innermost node, checks
//! whether that is cancelled, publishes its wait and checks again. The canceller marks the node,
//! then checks whether the task waits. Both sides use the total order of SeqCst, so one of the two
//! sees the other.
//!
//! **An interruption may be stale.** It may come from another node than the one that the task
//! waits in: from an outer node, while the task is in an inner one that ignores cancellation; or
//! from a node that the task has left meanwhile. So an interrupted task checks whether it is
//! cancelled, and goes on waiting if it is not (`Worker::wait`).
//!
//! **A cancel may come too late**: its caller saw the task running, and marks the node after the
//! task has ended. Completion does not pay for this. The first query after completion decides
//! whether the task counts as cancelled (`TreeWord::settle`): a mark that is there counts, and a
//! later one is ignored. The end of a scope takes its node out of the reach of handles, under the
//! lock of the scope's list.

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

/// Ancestors that one query asks at most. If none of them knows, the query links the last one, so
/// that no later query needs to go further.
const LOOK: usize = 8;
/// Queries of a node's ancestors after which the node is linked, so that its own word answers.
const OFTEN: u8 = 16;

/// Whether `node` is cancelled. The caller runs in it, or knows for another reason that it has not
/// ended.
#[inline(always)]
pub(crate) fn is_cancelled(node: &Node) -> bool {
    is_cancelled_here_or_above(node)
        // The only worker that could fire a deadline may be busy with the very task that asks.
        || node.is_timed() && fire_if_overdue(node) && is_cancelled_here_or_above(node)
}

#[inline(always)]
fn is_cancelled_here_or_above(node: &Node) -> bool {
    match node.verdict() {
        Verdict::AskParent => is_cancelled_above(node),
        verdict => verdict == Verdict::Cancelled,
    }
}

/// As `is_cancelled`, for a task that has not started and asks once.
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
        // SAFETY: a root never answers `AskParent`; other nodes have a parent, which does not end
        // before them.
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

/// Marks `node` and the nodes between it and `above`, at most `LOOK` further up, which was found
/// to be cancelled. None of them has ended. Returns what `inherit` returns.
#[cold]
#[inline(never)]
fn inherit_all(node: &Node, above: &Node) -> bool {
    let (mut path, mut length, mut at) = ([node; LOOK], 0, node);
    while !ptr::eq(at, above) {
        path[length] = at;
        length += 1;
        // SAFETY: `at` is below `above`, so it has a parent, which does not end before it.
        at = unsafe { &*at.parent };
    }
    inherit(&path[..length], above)
}

/// Marks nodes because `above`, the parent of the last one, was found to be cancelled. Each node
/// is the parent of the one before it, and none has ended. Returns `false` if one of them has
/// begun to ignore cancellation meanwhile: then the nodes below it are not cancelled.
fn inherit(nodes: &[&Node], above: &Node) -> bool {
    let origin = origin_of(above);
    for node in nodes.iter().rev() {
        // The cause is written down even if no other party has a reference to the task: the task
        // may hand one out at this moment.
        // SAFETY: the origin is an ancestor, and does not end before the nodes below it.
        let write_down = |node: &Node| unsafe { write_cause(node, origin) };
        // SAFETY: neither node nor origin ends before this returns: the caller runs in the lowest
        // node, or below it, or keeps it from its end.
        let first = unsafe { children::inherit(node, origin, write_down) };
        // MUTANT(cancel.inherit.below): false
        if first {
            // SAFETY: marked just now, and the caller keeps the node and the origin from their
            // end.
            unsafe { deliver(node, origin) };
        }
        // MUTANT(cancel.inherit.ignored): false
        if !first && node.verdict() != Verdict::Cancelled {
            return false;
        }
    }
    true
}

/// Marks a task that will not start because an ancestor was found to be cancelled, if others have
/// references to the task and might ask.
#[cold]
pub(crate) fn inherit_unstarted(task: &Record) {
    let node = &task.node;
    if !task.is_known() || node.word().is_marked() {
        return;
    }
    let mut above = node;
    // The nearest ancestor that is known to be cancelled, at the latest the root.
    while above.verdict() != Verdict::Cancelled && above.kind != NodeKind::Root {
        // SAFETY: not a root, so it has a parent, which does not end before it.
        above = unsafe { &*above.parent };
    }
    inherit(&[node], above);
}

/// Links a node. The caller runs in it, or below it, or holds its parent open.
#[cold]
#[inline(never)]
pub(crate) fn link(node: &Node) {
    // SAFETY: the caller keeps the parent from its end, and the end of the node unlinks it.
    unsafe { link_and_mark(node, marked_by_link) }
}

/// Links a node. `marked` is called with each node that turns out to be cancelled from above,
/// without the lock of the list of its parent.
///
/// # Safety
/// As for [`children::link`].
pub(super) unsafe fn link_and_mark(node: &Node, marked: impl FnMut(&Node)) {
    // SAFETY: the caller's contract is that of `children::link`. A node of kind Root is the start
    // of its root, which the runtime keeps. An origin is above the node, and does not end before
    // it.
    unsafe {
        children::link(
            node,
            |root, node| (*ptr::from_ref(root).cast::<Root>()).children_for(node),
            |node, origin| write_cause_down(node, origin),
            marked,
        );
    }
}

/// Links a node in which the caller runs, so that a cancel finds the caller's wait. Returns
/// `false` if the node is cancelled already.
#[cold]
#[inline(never)]
pub(super) fn link_to_wait(node: &Node) -> bool {
    if node.verdict() == Verdict::Cancelled {
        return false;
    }
    link(node);
    node.verdict() != Verdict::Cancelled
}

/// Does for a node that linking has marked what a walk would have done. None of its ancestors has
/// ended.
fn marked_by_link(node: &Node) {
    let Some(cold) = node.cold_in_total_order() else { return };
    if !cold.children().has_children() {
        return;
    }
    let (woken, origin) = (Woken::default(), origin_of(node));
    // SAFETY: marked just now, and its list is not freed before its end.
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

/// Adds a reference to the running task, for another party.
pub(crate) fn make_known(task: &Record) {
    let node = &task.node;
    if !node.is_linked() {
        // From here on a cancel from above shows in the task's own word.
        link(node);
    }
    // A walk either sees the reference, or has left its mark, which is seen below.
    children::between_walks(node, || task.add_reference());
    // MUTANT(cancel.known.look): false
    if node.word().is_marked() {
        let origin = origin_of(node);
        if !ptr::eq(origin, node) {
            // SAFETY: the origin is an ancestor, and does not end before the node.
            unsafe { write_cause_down(node, origin) };
        }
    }
}

/// Cancels a task, which may have ended. Without a cause, the reason is that its handle was
/// dropped.
pub(crate) fn cancel(task: &Record, cause: Option<Arc<Cause>>) {
    if task.phase() == Phase::Finished {
        return;
    }
    // The task may still end at this moment. Then its handle sees the mark, or has settled before
    // that the task was not cancelled.
    // SAFETY: the node is in the record, to which the caller has a reference.
    unsafe { cancel_node(&task.node, cause) }
}

/// Cancels a node.
///
/// # Safety
/// The caller runs in the node, or has a reference to the task to which the node belongs.
pub(crate) unsafe fn cancel_node(node: &Node, cause: Option<Arc<Cause>>) {
    if set_cancelled(node, cause) {
        // The node is the origin, even if another cancel comes from above at this moment: the
        // origin of that cancel may end before the caller is done.
        let origin = ptr::from_ref(node);
        // SAFETY: marked just now. The node is its own origin, and is kept by the caller's running
        // in it, or by the caller's reference.
        unsafe { deliver(node, origin) };
    }
}

/// Cancels the node of a list of children to which the caller has a handle, unless the node has
/// ended.
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

/// Marks a node. Returns `true` if the caller is to deliver the cancel.
fn set_cancelled(node: &Node, cause: Option<Arc<Cause>>) -> bool {
    if node.word().is_marked() {
        return false;
    }
    let cold = if cause.is_some() { Some(node.cold_or_new()) } else { node.cold() };
    if let Some(cold) = cold {
        if let Some(cause) = cause {
            // The first cause counts.
            let _ = cold.cause.set(cause);
        }
        cold.children().set_origin(node);
    }
    let cancelled = node.word().cancel();
    // MUTANT(cancel.mark.again): with cancelled == Cancel::First
    let marked = cancelled != Cancel::Already;
    if let Some(cold) = node.cold_in_total_order().filter(|_| marked) {
        // The cold data may be new.
        cold.children().set_origin(node);
    }
    cancelled == Cancel::First
}

/// Carries the cancel of a node to its task, and to all nodes below.
///
/// # Safety
/// As for `cancel_node`. The caller has marked the node, or has ended the time in which the node
/// ignored its mark. The origin does not end before this returns.
unsafe fn deliver(node: &Node, origin: *const Node) {
    let woken = Woken::default();
    woken.interrupt(node);
    let top = node.cold_in_total_order().map(|cold| cold.children());
    // SAFETY: the contract says that the node is marked and kept, and its list with it.
    unsafe {
        children::walk(top, origin, |reached| woken.take(reached, origin), || woken.queue());
    }
    woken.finish();
}

/// Begins to ignore cancellation in a node in which the caller runs. Returns `false` if the node
/// ignored it already, and an error if the node is cancelled.
pub(crate) fn begin_ignoring(node: &Node) -> Result<bool, Interrupted> {
    if node.word().is_ignoring() {
        return Ok(false);
    }
    // A cancel from above may not have left a mark here.
    if is_cancelled(node) || !node.word().ignore() {
        return Err(Interrupted);
    }
    Ok(true)
}

/// Stops ignoring cancellation, and delivers a cancel that came meanwhile.
pub(crate) fn stop_ignoring(node: &Node) {
    if node.word().stop_ignoring() {
        // SAFETY: marked, and the caller runs in the node, so neither the node nor an ancestor
        // ends.
        unsafe { deliver(node, origin_of(node)) };
    }
}

/// Cancels all tasks of a runtime.
pub(crate) fn cancel_all(root: &Root) {
    if root.node.word().cancel() != Cancel::First {
        return;
    }
    let woken = Woken::default();
    // SAFETY: marked just now; the lists of a root are not freed before its end.
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

/// Marks a scope whose time is up, and interrupts the wait of its task. If there may be nodes or
/// hooks to tell, returns the list of children to walk from, with a handle that becomes the
/// caller's, and the origin.
///
/// The caller keeps the scope from ending meanwhile.
pub(crate) fn mark_overdue(node: &Node, woken: &Woken) -> Option<(NonNull<Children>, *const Node)> {
    if !set_cancelled(node, None) {
        return None;
    }
    woken.interrupt(node);
    let cold: *const ColdData = node.cold_in_total_order()?;
    // SAFETY: the node has not ended, so its cold data are there.
    let children = unsafe { (*cold).children() };
    // Only a linked node can have had children in its list.
    children.has_children().then(|| {
        children.add_handle_of(node);
        (NonNull::new(cold.cast_mut().cast()).expect("a reference"), origin_of(node))
    })
}

/// Records that the time of a wait is over, and interrupts the wait. Returns `true` if the caller
/// must queue the task. The waiter checks the record after it has published its wait, so one of
/// the two sees the other (task/words/wait.rs).
pub(super) fn expire(task: &Record, over: &AtomicBool) -> bool {
    // MUTANT(limit.expire): relaxed
    over.swap(true, Ordering::SeqCst);
    task.wait.interrupt()
}

/// Work that a canceller collects under locks and does when it holds none.
#[derive(Default)]
pub(crate) struct Woken {
    /// Tasks that were woken and are in no queue yet. Each links to the one that was added before
    /// it.
    tasks: Cell<Option<NonNull<Record>>>,
    /// Hooks to be run.
    hooks: RefCell<Vec<Fired>>,
}

impl Woken {
    /// Interrupts the wait of the task of a node that has not ended.
    fn interrupt(&self, node: &Node) {
        let Some(task) = task_of(node) else { return };
        // SAFETY: a task does not end before its nodes.
        if unsafe { task.as_ref() }.wait.interrupt() {
            self.add(task);
        }
    }

    /// Grants the wait of a task that waits or is about to.
    ///
    /// # Safety
    /// The task cannot leave its wait before this grant.
    pub(crate) unsafe fn grant(&self, task: NonNull<Record>) {
        // SAFETY: it cannot leave its wait before the grant, so it has not ended.
        if unsafe { task.as_ref() }.wait.grant() {
            self.add(task);
        }
    }

    /// Ends a wait of a task because the wait's time is over.
    ///
    /// # Safety
    /// The task does not leave the frame of that wait before this returns.
    pub(crate) unsafe fn expire(&self, task: NonNull<Record>, over: &AtomicBool) {
        // SAFETY: it has not left the wait, so it has not ended.
        if expire(unsafe { task.as_ref() }, over) {
            self.add(task);
        }
    }

    /// Adds a task that only the caller may queue. The task's link is free until then.
    fn add(&self, task: NonNull<Record>) {
        let next = self.tasks.replace(Some(task));
        let next = next.map_or(ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: it cannot end before it is queued.
        unsafe { task.as_ref() }.link.store(next, Ordering::Relaxed);
    }

    /// Carries the cancel of a node to the nodes below it, and gives up the handle to its list.
    ///
    /// # Safety
    /// The caller has marked the node, and the handle is the caller's.
    pub(crate) unsafe fn walk(&self, children: NonNull<Children>, origin: *const Node) {
        // SAFETY: kept by the handle.
        let top = unsafe { children.as_ref() };
        // SAFETY: the caller has marked the node, and the handle keeps its list.
        unsafe {
            children::walk([top], origin, |reached| self.take(reached, origin), || self.queue())
        };
        // SAFETY: the handle is the caller's, and is not used again.
        unsafe { Children::release_handle(children) };
    }

    /// Queues the tasks at their homes. Neighbours with the same home are queued together.
    pub(crate) fn queue(&self) {
        // SAFETY: a task cannot end before it is queued.
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
            // A migratable task has no home.
            while home != NOBODY
                && let Some(task) = next.filter(|task| record(*task).node.home() == home)
            {
                first = task;
                next = before(task);
            }
            resume_all(last, first);
        }
    }

    /// Whether `finish` will run hooks.
    pub(crate) fn has_hooks(&self) -> bool {
        !self.hooks.borrow().is_empty()
    }

    /// Queues the tasks and runs the hooks, after all marks were made: a hook may do anything, and
    /// take its time.
    pub(crate) fn finish(self) {
        self.queue();
        let hooks = self.hooks.into_inner();
        // There rarely are any, and this check is cheaper than an iterator.
        if !hooks.is_empty() {
            hooks.into_iter().for_each(Fired::run);
        }
    }

    /// Collects what a walk has reached. Neither that nor `origin` has ended.
    pub(super) fn take(&self, reached: Reached<'_>, origin: *const Node) {
        match reached {
            // SAFETY: `origin` has not ended, by what the caller of this function assures.
            Reached::Soon(node) => unsafe { write_cause_down(node, origin) },
            Reached::Node(node) => self.interrupt(node),
            Reached::Hook(place, node) => {
                let cause = cause_of(node);
                // SAFETY: the list has a reference, and the walk holds its lock.
                self.hooks.borrow_mut().push(unsafe { Fired::new(place, cause) });
            }
        }
    }
}
