//! The queues that only the worker itself puts tasks into. Its other queues are in its remote part.

use crate::scheduler::queue::public::Deque;
use crate::scheduler::queue::run_queue::RunQueue;
use crate::scheduler::worker::release::SharedRef;
use crate::task::reference::RunRef;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// See the module's documentation.
pub(crate) struct Queues {
    pub(crate) ready: RunQueue,
    /// Fresh local tasks, which no other worker may steal. Not linked through the records, so that
    /// a task that is claimed in place can leave a stale entry.
    pub(crate) local: RefCell<VecDeque<SharedRef>>,
    pub(crate) deque: Deque,
    /// A task that needs a stack of its own, and waits for the loop to leave its stack.
    pub(crate) dedicated: Cell<Option<RunRef>>,
    /// The first ready task comes before all others: it was stolen just now.
    pub(crate) has_next: Cell<bool>,
    /// The worker has left the searchers without telling the others of one task in the injector or
    /// its own deque, since it takes that task next.
    pub(crate) takes_next: Cell<bool>,
}

impl Queues {
    pub(crate) fn new() -> Queues {
        Queues {
            ready: RunQueue::new(),
            local: RefCell::new(VecDeque::new()),
            deque: Deque::new(),
            dedicated: Cell::new(None),
            has_next: Cell::new(false),
            takes_next: Cell::new(false),
        }
    }

    /// Whether a task waits for a stack of its own.
    pub(crate) fn has_dedicated(&self) -> bool {
        let task = self.dedicated.take();
        let waits = task.is_some();
        self.dedicated.set(task);
        waits
    }
}
