//! The scopes that isolate a worker. See the module `isolation`.

use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::queue::run_queue::RunQueue;
use crate::shim::time::{Duration, Instant};
use crate::task::reference::{Ready, TaskRef};
use crate::task::words::tree::Node;
use std::cell::{Cell, RefCell};

/// The shortest sleep between two looks.
pub(super) const SHORTEST: Duration = Duration::from_micros(50);

/// A scope that isolates a worker.
pub(super) struct IsolatedScope {
    pub(super) scope: *const Node,
    /// Members that were started here and have not ended.
    pub(super) members: usize,
    /// Ready outsiders that were met while this scope was the innermost.
    pub(super) kept: RunQueue,
}

/// The scopes that isolate a worker.
#[derive(Default)]
pub(crate) struct Isolations {
    /// Nested scopes, the innermost last.
    pub(super) scopes: RefCell<Vec<IsolatedScope>>,
    pub(super) any: Cell<bool>,
    /// The worker was woken to search, and has found nothing since.
    pub(super) vain: Cell<bool>,
    /// The time since when there has been nothing to do.
    pub(super) idle_since: Cell<Option<Instant>>,
    /// The present idle period has been reported.
    pub(super) reported: Cell<bool>,
    /// The length of the next sleep.
    pub(super) sleep: Cell<Duration>,
}

impl Isolations {
    /// Returns whether the worker is isolated.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.any.get()
    }

    /// The innermost scope that isolates the worker, if there is one. The reference is for code
    /// that runs on the worker.
    pub(super) fn innermost(&self) -> Option<LiveNode<'_>> {
        let scope = self.scopes.borrow().last()?.scope;
        // SAFETY: a scope is in the list while its owner, or a member that runs here, has not
        // ended. So the scope is open.
        Some(unsafe { LiveNode::new(scope) })
    }

    /// Keeps an outsider until the innermost isolation ends.
    pub(super) fn keep_waiting(&self, task: Ready) {
        if let Some(isolated) = self.scopes.borrow().last() {
            isolated.kept.push(task);
        }
    }

    /// Calls `f` for each outsider that is kept.
    pub(crate) fn for_each_kept(&self, mut f: impl FnMut(TaskRef<'_>)) {
        self.scopes.borrow().iter().for_each(|isolated| isolated.kept.for_each(&mut f));
    }

    pub(super) fn found(&self) {
        self.vain.set(false);
        self.idle_since.set(None);
        self.reported.set(false);
        self.sleep.set(SHORTEST);
    }
}
