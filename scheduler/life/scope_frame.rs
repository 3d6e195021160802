//! A scope that is open on a task's stack: a node whose children may borrow from that frame.

use crate::scheduler::timers::limit::Limit;
use crate::shim::Mutex;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::task::outcome::Payload;
use crate::task::record::Record;
use crate::task::words::tree::{Isolation, Node, NodeKind};
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

/// See the module's documentation. Lives in the frame of the call that opened it, which does not
/// return before the last child has ended.
#[repr(C)]
pub(crate) struct ScopeFrame {
    /// First, so that a node of kind Scope is its frame.
    pub(crate) node: Node,
    owner: NonNull<Record>,
    /// What the workers of its runtime share; compared, never followed.
    runtime: *const (),
    /// When its time is up.
    pub(crate) limit: Option<NonNull<Limit>>,
    /// The first panic of a child whose handle is gone, if there was one.
    panic: Mutex<Option<Payload>>,
    panicked: AtomicBool,
}

// SAFETY: `owner` and `runtime` never change; the owner is a record, which is shared by design, and
// `runtime` is only compared. The rest is Sync.
unsafe impl Sync for ScopeFrame {}

impl ScopeFrame {
    /// A scope of `owner`, which runs in the node `outer`, in the runtime that `runtime` stands for.
    pub(in crate::scheduler) fn new(
        outer: *const Node,
        runtime: *const (),
        owner: NonNull<Record>,
        limit: Option<NonNull<Limit>>,
    ) -> ScopeFrame {
        // SAFETY: the running task is alive.
        let home = unsafe { owner.as_ref() }.node.home();
        // SAFETY: the node that runs.
        let inherited = unsafe { &*outer }.flags().inherited();
        let flags = if limit.is_some() { inherited.timed() } else { inherited };
        ScopeFrame {
            node: Node::new(NodeKind::Scope, outer, home).with_flags(flags),
            owner,
            runtime,
            limit,
            panic: Mutex::new(None),
            panicked: AtomicBool::new(false),
        }
    }

    /// Whether the scope's runtime is the one that `runtime` stands for.
    pub(in crate::scheduler) fn is_of(&self, runtime: *const ()) -> bool {
        ptr::eq(self.runtime, runtime)
    }

    /// The same, isolating the workers that run in it.
    pub(crate) fn isolating(self) -> ScopeFrame {
        let flags = self.node.flags().isolated(Isolation::Here);
        ScopeFrame { node: self.node.with_flags(flags), ..self }
    }

    /// Where the limit of a node was set, if it has one of its own.
    pub(crate) fn place_of_limit(node: &Node) -> Option<&'static Location<'static>> {
        if node.kind != NodeKind::Scope {
            return None;
        }
        // SAFETY: a node of kind Scope is the start of its frame, and so of its limit's, which has not ended.
        unsafe {
            (*ptr::from_ref(node).cast::<ScopeFrame>()).limit.map(|limit| limit.as_ref().place)
        }
    }

    pub(crate) fn owner(&self) -> NonNull<Record> {
        self.owner
    }

    /// Keeps the first panic; gives a later one back.
    pub(crate) fn keep(&self, payload: Payload) -> Option<Payload> {
        self.panicked.store(true, Ordering::Relaxed);
        let mut kept = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        match *kept {
            None => {
                *kept = Some(payload);
                None
            }
            Some(_) => Some(payload),
        }
    }

    /// The panic that was kept. For the owner, after the last child.
    pub(crate) fn take_panic(&self) -> Option<Payload> {
        // The end of the child happens before.
        if !self.panicked.load(Ordering::Relaxed) {
            return None;
        }
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The task that a node belongs to; none for a root.
#[inline]
pub(crate) fn task_of(node: *const Node) -> Option<NonNull<Record>> {
    // SAFETY: nodes that are reachable here are alive: the running task's own, or the parent of
    // an unfinished one.
    let node_ref = unsafe { node.as_ref() }?;
    match node_ref.kind {
        NodeKind::Task => NonNull::new(node.cast_mut().cast()),
        // SAFETY: a node of kind Scope is the start of its frame.
        NodeKind::Scope => Some(unsafe { (*node.cast::<ScopeFrame>()).owner() }),
        NodeKind::Root => None,
    }
}
