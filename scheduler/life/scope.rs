//! A scope that is open on a task's stack: a node whose children may borrow from that frame.

use crate::scheduler::life::complete::unlink_node;
use crate::scheduler::timers::Limit;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::shim::Mutex;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::task::extras::Extras;
use crate::task::outcome::Payload;
use crate::task::record::Record;
use crate::task::words::tree::{Node, NodeKind, Restriction};
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
    /// Of the runtime; compared, never followed.
    shared: *const Shared,
    /// When its time is up.
    pub(crate) limit: Option<NonNull<Limit>>,
    /// The first panic of a child whose handle is gone, if there was one.
    panic: Mutex<Option<Payload>>,
    panicked: AtomicBool,
}

// SAFETY: `owner` and `shared` never change; the owner is a record, which is shared by design, and
// `shared` is only compared. The rest is Sync.
unsafe impl Sync for ScopeFrame {}

impl ScopeFrame {
    /// A scope of the task that runs on `worker`, which is `owner`.
    pub(crate) fn new(
        worker: &Worker,
        owner: NonNull<Record>,
        limit: Option<NonNull<Limit>>,
    ) -> ScopeFrame {
        // SAFETY: the running task is alive.
        let home = unsafe { owner.as_ref() }.node.home();
        let outer = worker.node.get();
        // SAFETY: the node that runs.
        let inherited = unsafe { &*outer }.bonds().inherited();
        let bonds = if limit.is_some() { inherited.timed() } else { inherited };
        ScopeFrame {
            node: Node::new(NodeKind::Scope, outer, home).with_bonds(bonds),
            owner,
            shared: worker.shared.get(),
            limit,
            panic: Mutex::new(None),
            panicked: AtomicBool::new(false),
        }
    }

    /// The same, restricting the workers that run in it.
    pub(crate) fn restricting(self) -> ScopeFrame {
        let bonds = self.node.bonds().restricted(Restriction::Here);
        ScopeFrame { node: self.node.with_bonds(bonds), ..self }
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

    /// Whether a worker belongs to the scope's runtime.
    pub(crate) fn is_of(&self, worker: &Worker) -> bool {
        worker.shared.get() == self.shared
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

    /// Takes the scope out of the tree. For the owner, after the last child.
    #[inline]
    pub(crate) fn end(&self) {
        if self.node.is_linked() {
            unlink_node(&self.node);
        }
        if let Some(extras) = self.node.extras_as_allocated() {
            // SAFETY: unlinked, and the owner is the last who uses it.
            unsafe { Extras::end(extras) };
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
