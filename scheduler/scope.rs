//! A scope that is open on a task's stack: a node whose children may borrow from that frame.

use crate::retire::branch;
use crate::retire::extras::Extras;
use crate::retire::record::{Payload, Record};
use crate::retire::tree::{Node, NodeKind, Restriction};
use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Worker;
use crate::shim::Mutex;
use std::ptr::NonNull;
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
    /// The first panic of a child whose handle is gone.
    panic: Mutex<Option<Payload>>,
}

// SAFETY: `owner` and `shared` never change; the owner is a record, which is shared by design, and
// `shared` is only compared. The rest is Sync.
unsafe impl Sync for ScopeFrame {}

impl ScopeFrame {
    /// A scope of the task that runs on `worker`, which is `owner`.
    pub(crate) fn new(worker: &Worker, owner: NonNull<Record>, restricts: bool) -> ScopeFrame {
        // SAFETY: the running task is alive.
        let home = unsafe { owner.as_ref() }.node.home();
        let outer = worker.node.get();
        let restriction = if restricts {
            Restriction::Here
        } else {
            // SAFETY: the node that runs.
            unsafe { &*outer }.restriction.inherited()
        };
        ScopeFrame {
            node: Node::new(NodeKind::Scope, outer, home).with_restriction(restriction),
            owner,
            shared: worker.shared.get(),
            panic: Mutex::new(None),
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
            branch::unlink(&self.node);
        }
        if let Some(extras) = self.node.last_extras() {
            // SAFETY: unlinked, and the owner is the last who uses it.
            unsafe { Extras::end(extras) };
        }
    }

    /// The panic that was kept. For the owner, after the last child.
    pub(crate) fn take_panic(&mut self) -> Option<Payload> {
        self.panic.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}
