//! A node that has not ended, as a type.
//!
//! A node ends after its descendants. So the ancestors of a node that has not ended are alive, and
//! a walk up the tree from a [`LiveNode`] needs no further argument.

use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::task::children;
use crate::task::record::Record;
use crate::task::reference::{Ready, RunRef, TaskRef};
use crate::task::words::tree::{Node, NodeKind};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// A node that does not end during `'a`: its holder runs in the node or below it, holds a child of
/// it, or has the run reference of its task.
///
/// A pointer and not a reference: a pointer to a task's node may be followed to the whole of the
/// record.
#[derive(Clone, Copy)]
pub(crate) struct LiveNode<'a>(NonNull<Node>, PhantomData<&'a Node>);

impl<'a> LiveNode<'a> {
    /// # Safety
    /// The pointer is not null, and the node does not end during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(node: *const Node) -> LiveNode<'a> {
        // SAFETY: not null, by the contract.
        LiveNode(unsafe { NonNull::new_unchecked(node.cast_mut()) }, PhantomData)
    }

    /// The parent of a task that is in the holder's hand.
    #[inline(always)]
    pub(crate) fn parent_of_run(run: &'a RunRef) -> LiveNode<'a> {
        // SAFETY: a task has a parent, which does not end before the task.
        unsafe { LiveNode::new(run.node.parent) }
    }

    #[inline(always)]
    pub(crate) fn get(self) -> &'a Node {
        // SAFETY: a node that has not ended is alive.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn pointer(self) -> *const Node {
        self.0.as_ptr()
    }

    /// Whether this is `node`, which is compared and not followed.
    #[inline]
    pub(crate) fn is(self, node: *const Node) -> bool {
        ptr::eq(self.0.as_ptr(), node)
    }

    /// The parent; `None` for a root.
    #[inline]
    pub(crate) fn parent(self) -> Option<LiveNode<'a>> {
        // A node ends before its parent.
        NonNull::new(self.parent.cast_mut()).map(|parent| LiveNode(parent, PhantomData))
    }

    /// This node and its ancestors, up to the root.
    pub(crate) fn and_above(self) -> impl Iterator<Item = LiveNode<'a>> {
        std::iter::successors(Some(self), |node| node.parent())
    }

    /// The first of this node and its ancestors for which `wanted` returns `true`, or the root.
    pub(crate) fn up_to(self, wanted: impl Fn(LiveNode<'a>) -> bool) -> LiveNode<'a> {
        let mut at = self;
        while !wanted(at)
            && let Some(parent) = at.parent()
        {
            at = parent;
        }
        at
    }

    /// The scope that the node belongs to, if it is the node of a scope.
    pub(crate) fn scope(self) -> Option<&'a ScopeFrame> {
        ScopeFrame::of(self.get())
    }

    /// The task that the node belongs to; `None` for a root.
    #[inline]
    pub(crate) fn task(self) -> Option<TaskRef<'a>> {
        // SAFETY: the node is alive.
        unsafe { task_at(self.0) }
    }

    /// The node whose cancel has reached this one, which is cancelled: an ancestor or the node
    /// itself.
    pub(crate) fn origin(self) -> LiveNode<'a> {
        // SAFETY: this node or one above it, which ends after it.
        unsafe { LiveNode::new(children::origin_of(self.get())) }
    }
}

/// The node of a task in the holder's hand, which does not end without its run reference.
impl<'a> From<&'a RunRef> for LiveNode<'a> {
    #[inline(always)]
    fn from(run: &'a RunRef) -> LiveNode<'a> {
        LiveNode(run.task().pointer().cast(), PhantomData)
    }
}

/// The node of a started task in the holder's hand, which goes on only when the holder lets it.
impl<'a> From<&'a Ready> for LiveNode<'a> {
    fn from(task: &'a Ready) -> LiveNode<'a> {
        LiveNode(task.task().pointer().cast(), PhantomData)
    }
}

impl Deref for LiveNode<'_> {
    type Target = Node;

    #[inline(always)]
    fn deref(&self) -> &Node {
        self.get()
    }
}

/// The task that a node belongs to, which may have ended; `None` for a root.
#[inline]
pub(crate) fn task_of(node: &Node) -> Option<TaskRef<'_>> {
    // SAFETY: the reference keeps the node alive.
    unsafe { task_at(NonNull::from(node)) }
}

/// # Safety
/// The node is alive for `'a`.
#[inline]
unsafe fn task_at<'a>(node: NonNull<Node>) -> Option<TaskRef<'a>> {
    // SAFETY: alive by the contract.
    let node_ref = unsafe { node.as_ref() };
    match node_ref.kind {
        // By the pointer and not the reference, which covers the node alone.
        // SAFETY: a node of kind Task is the start of its record.
        NodeKind::Task => Some(unsafe { TaskRef::new(node.cast::<Record>()) }),
        _ => ScopeFrame::of(node_ref).map(ScopeFrame::owner),
    }
}
