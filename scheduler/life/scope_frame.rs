//! An open scope on a task's stack: a node with children that may borrow from that frame.

use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::timers::limit::Limit;
use crate::shim::Mutex;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::task::outcome::Payload;
use crate::task::reference::TaskRef;
use crate::task::words::tree::{Isolation, Node, NodeKind};
use std::ptr::{self, NonNull};

/// An open scope. Lives in the frame of the call that opened it, which does not return before the
/// last child has ended.
#[repr(C)]
pub(crate) struct ScopeFrame {
    /// First, so that a pointer to a node of kind Scope is a pointer to its frame.
    pub(crate) node: Node,
    owner: TaskRef<'static>,
    /// The runtime of the scope, which does not end before it: see [`ScopeFrame::shared`].
    pub(super) runtime: *const (),
    /// The time limit of the scope, if it has one.
    limit: Option<NonNull<Limit>>,
    /// The first panic of a child that no handle will observe.
    panic: Mutex<Option<Payload>>,
    panicked: AtomicBool,
}

// SAFETY: `owner` and `runtime` never change, and what they point to is shared by design. The rest is
// Sync.
unsafe impl Sync for ScopeFrame {}

impl ScopeFrame {
    /// Makes a scope of `owner`, which runs in the node `outer`. `runtime` is the shared state of the
    /// workers.
    pub(in crate::scheduler) fn new(
        outer: LiveNode<'_>,
        runtime: *const (),
        owner: TaskRef<'_>,
        limit: Option<NonNull<Limit>>,
    ) -> ScopeFrame {
        let home = owner.node.home();
        // SAFETY: the owner does not end before the call that opened the scope returns.
        let owner = unsafe { TaskRef::new(owner.pointer()) };
        let inherited = outer.flags().inherited();
        let flags = if limit.is_some() { inherited.timed() } else { inherited };
        ScopeFrame {
            node: Node::new(NodeKind::Scope, outer.pointer(), home).with_flags(flags),
            owner,
            runtime,
            limit,
            panic: Mutex::new(None),
            panicked: AtomicBool::new(false),
        }
    }

    /// Makes the scope isolate the workers that run in it.
    pub(crate) fn isolating(self) -> ScopeFrame {
        let flags = self.node.flags().isolated(Isolation::Here);
        ScopeFrame { node: self.node.with_flags(flags), ..self }
    }

    /// The time limit of the scope, if it has one.
    pub(in crate::scheduler) fn limit(&self) -> Option<&Limit> {
        // SAFETY: the scope has not ended, and so neither has its limit.
        self.limit.map(|limit| unsafe { limit.as_ref() })
    }

    /// The node of the scope. A frame lives in the call that has opened the scope, which runs in
    /// the node around it.
    #[inline]
    pub(crate) fn live_node(&self) -> LiveNode<'_> {
        // SAFETY: the scope does not end before its frame, which the reference keeps.
        unsafe { LiveNode::new(&raw const self.node) }
    }

    /// The scope that a node belongs to, if it is the node of a scope.
    #[inline]
    pub(crate) fn of(node: &Node) -> Option<&ScopeFrame> {
        // SAFETY: a node of kind Scope is the start of its frame.
        (node.kind == NodeKind::Scope).then(|| unsafe { &*ptr::from_ref(node).cast() })
    }

    pub(crate) fn owner(&self) -> TaskRef<'_> {
        self.owner
    }

    /// Keeps the first panic, and gives a later one back.
    pub(crate) fn keep(&self, payload: Payload) -> Option<Payload> {
        self.panicked.store(true, Ordering::Relaxed);
        let mut kept = self.panic.lock();
        if kept.is_some() {
            return Some(payload);
        }
        *kept = Some(payload);
        None
    }

    /// Takes the panic that was kept. Called by the owner, after the last child has ended.
    pub(crate) fn take_panic(&self) -> Option<Payload> {
        // Relaxed: the end of the child happens before this.
        if !self.panicked.load(Ordering::Relaxed) {
            return None;
        }
        self.panic.lock().take()
    }
}
