//! Marks a node, and delivers the cancel: to the task of the node, and to all linked nodes and
//! hooks below it.

use crate::scheduler::cancel::hook::Fired;
use crate::scheduler::cancel::reason::{cause_of, write_cause, write_cause_down};
use crate::scheduler::life::external;
use crate::scheduler::life::live_node::{LiveNode, task_of};
use crate::scheduler::life::root::Root;
use crate::scheduler::queue::ready_stack::ReadyStack;
use crate::scheduler::wait::resume::resume_all;
use crate::task::cause::Cause;
use crate::task::children::{self, Children, ChildrenRef, Reached, origin_of};
use crate::task::record::{Phase, Record};
use crate::task::reference::{Ready, TaskRef};
use crate::task::words::tree::{Cancel, Node, Verdict};
use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;

/// A cancel that has just taken effect in a node, and that the holder is to deliver.
///
/// Only the caller that was the first to mark a node, or that has ended the time in which the mark
/// had no effect, makes one. So one walk at a time goes through the lists below a node.
#[must_use = "the cancel must be delivered"]
pub(crate) struct Delivery<'a> {
    to: Lists<'a>,
    /// The node whose cancel this is: the marked node or one above it. Followed only where a node
    /// below the marked one has not ended.
    origin: *const Node,
}

/// The lists of children of a marked node.
enum Lists<'a> {
    /// The list of this node, which does not end before the delivery.
    Of(&'a Node),
    /// A list that is kept, of a node that may end.
    Kept(&'a Children),
    /// A list that is kept by this handle, of a node that may end.
    By(ChildrenRef),
    OfRoot(&'a Root),
}

impl Lists<'_> {
    fn iter(&self) -> impl Iterator<Item = &Children> {
        let (list, root) = match self {
            Lists::Of(node) => (node.cold_in_total_order().map(|cold| cold.children()), None),
            Lists::Kept(list) => (Some(*list), None),
            Lists::By(handle) => (Some(&**handle), None),
            Lists::OfRoot(root) => (None, Some(*root)),
        };
        list.into_iter().chain(root.into_iter().flat_map(Root::children_lists))
    }
}

impl<'a> Delivery<'a> {
    /// To a marked node. The node is the origin, even if another cancel comes from above at this
    /// moment: the origin of that cancel may end before the caller is done.
    fn from_here(node: &'a Node) -> Delivery<'a> {
        Delivery { to: Lists::Of(node), origin: node }
    }

    /// Marks a scope whose time is up, and interrupts the wait of its task. Returns `None` also if
    /// there is no node or hook to tell.
    ///
    /// The caller keeps the scope from ending meanwhile.
    pub(in crate::scheduler) fn cancel_overdue(
        node: LiveNode<'_>,
        woken: &Woken,
    ) -> Option<Delivery<'static>> {
        let node = node.get();
        if !set_cancelled(node, None) {
            return None;
        }
        woken.interrupt(node);
        let cold = node.cold_in_total_order()?;
        // Only a linked node can have had children in its list.
        let told = cold.children().has_children();
        told.then(|| Delivery { to: Lists::By(ChildrenRef::new(cold, node)), origin: node })
    }

    /// Keeps the delivery beyond the present lock. `mine` is a list that the caller keeps itself,
    /// and whose lock it may have. Returns `None` if the node has no list.
    pub(in crate::scheduler) fn kept(self, mine: &Children) -> Option<Delivery<'_>> {
        let Lists::Of(node) = self.to else { return None };
        let cold = node.cold_in_total_order()?;
        let is_mine = ptr::eq(cold.children(), mine);
        let to = if is_mine { Lists::Kept(mine) } else { Lists::By(ChildrenRef::new(cold, node)) };
        Some(Delivery { to, origin: self.origin })
    }

    /// Interrupts the wait of the node's task, and tells all nodes and hooks below the node.
    fn deliver(self) {
        let woken = Woken::default();
        if let Lists::Of(node) = self.to {
            woken.interrupt(node);
        }
        // Mostly there is nothing, and this check is cheaper than a walk.
        if self.to.iter().any(Children::has_children) {
            woken.walk(self);
        }
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

/// Cancels a task, which may have ended. Without a cause, the reason is that its handle was
/// dropped.
pub(crate) fn cancel(task: &Record, cause: Option<Arc<Cause>>) {
    if task.phase() == Phase::Finished {
        return;
    }
    // The task may still end at this moment. Then its handle sees the mark, or has decided before
    // that the task was not cancelled.
    cancel_node(&task.node, cause);
}

/// Cancels a node. The caller runs in the node, or has a reference to the task to which the node
/// belongs.
pub(crate) fn cancel_node(node: &Node, cause: Option<Arc<Cause>>) {
    if set_cancelled(node, cause) {
        Delivery::from_here(node).deliver();
    }
}

/// Cancels the node of a list of children to which the caller has a handle, unless the node has
/// ended.
pub(crate) fn cancel_children(children: &Children, cause: Option<Arc<Cause>>) {
    let woken = Woken::default();
    let marked = children.with_node(|node| {
        set_cancelled(node, cause).then(|| {
            woken.interrupt(node);
            &raw const *node
        })
    });
    if let Some(origin) = marked.flatten() {
        woken.walk(Delivery { to: Lists::Kept(children), origin });
        woken.finish();
    }
}

/// Cancels all tasks of a runtime.
pub(crate) fn cancel_all(root: &Root) {
    if root.node.word().cancel() == Cancel::First {
        Delivery { to: Lists::OfRoot(root), origin: &raw const root.node }.deliver();
    }
}

/// Marks an unlinked node below a cancelled one, and delivers the cancel of `origin` to it.
/// Returns `false` if the node is marked already, or ignores the mark.
pub(super) fn inherit(node: LiveNode<'_>, origin: LiveNode<'_>) -> bool {
    // The cause is written down even if no other party has a reference to the task: the task may
    // hand one out at this moment.
    let soon = |_: &Node| write_cause(&node, origin);
    // SAFETY: neither node nor origin ends before this returns, and the origin is above the node,
    // as the caller has found it there.
    let first = unsafe { children::inherit(node.get(), origin.pointer(), soon) };
    // MUTANT(cancel.inherit.below): false
    if first {
        Delivery { to: Lists::Of(node.get()), origin: origin.pointer() }.deliver();
    }
    first
}

/// Stops ignoring cancellation, and delivers a cancel that came meanwhile.
pub(crate) fn stop_ignoring(node: LiveNode<'_>) {
    if node.word().stop_ignoring() {
        Delivery { to: Lists::Of(node.get()), origin: origin_of(&node) }.deliver();
    }
}

/// Links a node.
#[cold]
#[inline(never)]
pub(crate) fn link(node: LiveNode<'_>) {
    // Does for a node that linking has marked what a walk would have done.
    link_and_mark(node, |delivery| {
        let woken = Woken::default();
        woken.walk(delivery);
        woken.finish();
    });
}

/// Links a node in which the caller runs, so that a cancel finds the caller's wait. Returns
/// `false` if the node is cancelled already.
#[cold]
#[inline(never)]
pub(in crate::scheduler) fn link_to_wait(node: LiveNode<'_>) -> bool {
    if node.verdict() == Verdict::Cancelled {
        return false;
    }
    link(node);
    node.verdict() != Verdict::Cancelled
}

/// Links a node. `marked` is called with each node that turns out to be cancelled from above,
/// without the lock of the list of its parent. Those nodes have no task that waits.
pub(crate) fn link_and_mark(node: LiveNode<'_>, mut marked: impl FnMut(Delivery<'_>)) {
    // SAFETY: the node has not ended, and so neither has its parent; the end of the node unlinks
    // it. A node of kind Root is the start of its root, which the runtime keeps. An origin is above
    // the node, and does not end before it.
    unsafe {
        children::link(
            node.get(),
            |root, node| (*ptr::from_ref(root).cast::<Root>()).children_for(node),
            |node, origin| write_cause_down(node, LiveNode::new(origin)),
            |node| marked(Delivery { to: Lists::Of(node), origin: origin_of(node) }),
        );
    }
}

/// Work that a canceller collects under locks and does when it holds none.
#[derive(Default)]
pub(crate) struct Woken {
    /// Tasks that were woken and are in no queue yet.
    tasks: RefCell<ReadyStack>,
    /// The same for external tasks that have not started.
    outside: RefCell<ReadyStack>,
    /// Hooks to be run.
    hooks: RefCell<Vec<Fired>>,
}

impl Woken {
    /// Interrupts the wait of the task of a node.
    fn interrupt(&self, node: &Node) {
        let Some(task) = task_of(node).and_then(TaskRef::interrupt) else { return };
        let stack = if external::is_outside(&task) { &self.outside } else { &self.tasks };
        stack.borrow_mut().push(task);
    }

    /// Adds a task, if there is one.
    pub(crate) fn add(&self, task: Option<Ready>) {
        task.into_iter().for_each(|task| self.tasks.borrow_mut().push(task));
    }

    /// Carries a cancel to all nodes and hooks that the walk from the lists of the marked node
    /// finds.
    pub(crate) fn walk(&self, delivery: Delivery<'_>) {
        let Delivery { to, origin } = delivery;
        // SAFETY: the delivery was made by the first to mark the node. The lists belong to a node
        // that does not end before the delivery, or are kept by a handle. What the walk reaches is
        // below that node, and so below the origin.
        unsafe {
            children::walk(to.iter(), origin, |reached| self.take(reached, origin), || self.queue())
        };
    }

    /// Queues the tasks.
    pub(crate) fn queue(&self) {
        resume_all(self.tasks.take());
        self.outside.take().for_each_from_below(external::queue);
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
    ///
    /// # Safety
    /// Called by a walk, under the lock of the list in which it has found `reached`, on behalf of
    /// the cancel of `origin`, which is above.
    unsafe fn take(&self, reached: Reached<'_>, origin: *const Node) {
        match reached {
            Reached::Soon(node) => {
                // SAFETY: the node does not end while the walk has the lock, and the origin ends
                // after it.
                write_cause_down(node, unsafe { LiveNode::new(origin) });
            }
            Reached::Node(node) => self.interrupt(node),
            Reached::Hook(place, node) => {
                // SAFETY: the node does not end before its hooks are taken out under the lock that
                // the walk has. The list has a reference to the hook.
                let fired = unsafe { Fired::new(place, cause_of(LiveNode::new(node))) };
                self.hooks.borrow_mut().push(fired);
            }
        }
    }
}
