//! The scopes that isolate a worker. `isolate` says what for.

use crate::scheduler::queue::run_queue::RunQueue;
use crate::shim::time::{Duration, Instant};
use crate::task::record::Record;
use crate::task::words::tree::Node;
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};

/// Sleep between two looks.
pub(super) const SHORTEST: Duration = Duration::from_micros(50);

/// A scope that isolates a worker.
pub(super) struct IsolatedScope {
    pub(super) scope: *const Node,
    /// The number of its members that run here.
    pub(super) members: usize,
    /// Outsiders that are ready, and were met while it was the innermost one.
    pub(super) kept: RunQueue,
}

/// The scopes that isolate a worker.
#[derive(Default)]
pub(crate) struct Isolations {
    /// Nested, the innermost last.
    pub(super) scopes: RefCell<Vec<IsolatedScope>>,
    pub(super) any: Cell<bool>,
    /// Woken to search, and nothing was found since.
    pub(super) vain: Cell<bool>,
    /// Since when there has been nothing to do, whether that has been reported, and how long to sleep next.
    pub(super) idle_since: Cell<Option<Instant>>,
    pub(super) reported: Cell<bool>,
    pub(super) sleep: Cell<Duration>,
}

impl Isolations {
    /// Whether there are any.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.any.get()
    }

    pub(super) fn innermost(&self) -> *const Node {
        self.scopes.borrow().last().map_or(ptr::null(), |isolated| isolated.scope)
    }

    /// Keeps a outsider until the innermost scope is lifted.
    pub(super) fn keep_waiting(&self, record: NonNull<Record>) {
        if let Some(isolated) = self.scopes.borrow().last() {
            isolated.kept.push(record);
        }
    }

    /// Calls `f` for each of those that are kept.
    pub(crate) fn for_each_kept(&self, mut f: impl FnMut(NonNull<Record>)) {
        self.scopes.borrow().iter().for_each(|isolated| isolated.kept.for_each(&mut f));
    }

    pub(super) fn found(&self) {
        self.vain.set(false);
        self.idle_since.set(None);
        self.reported.set(false);
        self.sleep.set(SHORTEST);
    }
}
