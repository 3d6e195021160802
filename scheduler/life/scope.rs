//! Opening and ending scopes.

use crate::scheduler::life::complete::unlink_node;
use crate::scheduler::life::external::Outside;
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::timers::limit::Limit;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::task::cold::ColdData;
use crate::task::reference::TaskRef;
use std::ptr::{self, NonNull};

impl Worker {
    /// The frame of a scope of `owner`, which is the task that runs here.
    pub(crate) fn frame_of_scope(
        &self,
        owner: TaskRef<'_>,
        limit: Option<NonNull<Limit>>,
    ) -> ScopeFrame {
        ScopeFrame::new(self.running_node(), self.shared.get().cast(), owner, limit)
    }
}

impl Outside<()> {
    /// The frame of a scope that a thread opens which is not a worker. The scope belongs to this
    /// task, a child of the root, and lies beside it below the root: so the task may end before the
    /// frame. The caller keeps the root open longer than the frame.
    pub(crate) fn frame_of_scope(&self) -> ScopeFrame {
        ScopeFrame::new(self.parent(), ptr::from_ref(self.shared()).cast(), self.task(), None)
    }
}

impl ScopeFrame {
    /// The runtime of the scope.
    #[inline(always)]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: both ways to make a frame pass the shared state of the runtime, which does not end
        // before the scope, a node of its tree.
        unsafe { &*self.runtime.cast() }
    }

    /// Takes the scope out of the tree. Called by the owner, after the last child has ended.
    #[inline]
    pub(crate) fn end(&self) {
        if self.node.is_linked() {
            unlink_node(self.live_node());
        }
        if let Some(cold) = self.node.cold_as_allocated() {
            // SAFETY: the scope is unlinked, and its owner is the last to use the cold data.
            unsafe { ColdData::end(cold) };
        }
    }
}
