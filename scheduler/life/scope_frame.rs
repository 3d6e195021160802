//! An open scope on a task's stack: a node with children that may borrow from that frame.

use crate::scheduler::timers::limit::Limit;
use crate::shim::Mutex;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::task::outcome::Payload;
use crate::task::record::Record;
use crate::task::words::tree::{Isolation, Node, NodeKind};
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

/// An open scope. Lives in the frame of the call that opened it, which does not return before the
/// last child has ended.
#[repr(C)]
pub(crate) struct ScopeFrame {
    /// First, so that a pointer to a node of kind Scope is a pointer to its frame.
    pub(crate) node: Node,
    owner: NonNull<Record>,
    /// The shared state of the runtime's workers; compared, never followed.
    runtime: *const (),
    /// The time limit of the scope, if it has one.
    pub(crate) limit: Option<NonNull<Limit>>,
    /// The first panic of a child that no handle will observe.
    panic: Mutex<Option<Payload>>,
    panicked: AtomicBool,
}

// SAFETY: `owner` and `runtime` never change; the owner is a record, which is shared by design, and
// `runtime` is only compared. The rest is Sync.
unsafe impl Sync for ScopeFrame {}

impl ScopeFrame {
    /// Makes a scope of `owner`, which runs in the node `outer`. `runtime` identifies the runtime.
    pub(in crate::scheduler) fn new(
        outer: &Node,
        runtime: *const (),
        owner: NonNull<Record>,
        limit: Option<NonNull<Limit>>,
    ) -> ScopeFrame {
        // SAFETY: the running task is alive.
        let home = unsafe { owner.as_ref() }.node.home();
        let inherited = outer.flags().inherited();
        let flags = if limit.is_some() { inherited.timed() } else { inherited };
        ScopeFrame {
            node: Node::new(NodeKind::Scope, ptr::from_ref(outer), home).with_flags(flags),
            owner,
            runtime,
            limit,
            panic: Mutex::new(None),
            panicked: AtomicBool::new(false),
        }
    }

    /// Whether `runtime` identifies the scope's runtime.
    pub(in crate::scheduler) fn is_of(&self, runtime: *const ()) -> bool {
        ptr::eq(self.runtime, runtime)
    }

    /// Makes the scope isolate the workers that run in it.
    pub(crate) fn isolating(self) -> ScopeFrame {
        let flags = self.node.flags().isolated(Isolation::Here);
        ScopeFrame { node: self.node.with_flags(flags), ..self }
    }

    /// Where the limit of a node was set, if the node has one of its own.
    pub(crate) fn place_of_limit(node: &Node) -> Option<&'static Location<'static>> {
        if node.kind != NodeKind::Scope {
            return None;
        }
        // SAFETY: a node of kind Scope is the start of its frame. The scope has not ended, and so
        // neither has its limit.
        unsafe {
            (*ptr::from_ref(node).cast::<ScopeFrame>()).limit.map(|limit| limit.as_ref().place)
        }
    }

    pub(crate) fn owner(&self) -> NonNull<Record> {
        self.owner
    }

    /// Keeps the first panic, and gives a later one back.
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

    /// Takes the panic that was kept. Called by the owner, after the last child has ended.
    pub(crate) fn take_panic(&self) -> Option<Payload> {
        // Relaxed: the end of the child happens before this.
        if !self.panicked.load(Ordering::Relaxed) {
            return None;
        }
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The task that a node belongs to. None for a root.
#[inline]
pub(crate) fn task_of(node: *const Node) -> Option<NonNull<Record>> {
    // SAFETY: callers pass the running task's own node or the parent of an unfinished one, and
    // both are alive.
    let node_ref = unsafe { node.as_ref() }?;
    match node_ref.kind {
        NodeKind::Task => NonNull::new(node.cast_mut().cast()),
        // SAFETY: a node of kind Scope is the start of its frame.
        NodeKind::Scope => Some(unsafe { (*node.cast::<ScopeFrame>()).owner() }),
        NodeKind::Root => None,
    }
}
