//! The queues that a worker alone puts tasks into. The rest of them is in its remote part.

use crate::scheduler::queue::public::Deque;
use crate::scheduler::queue::run_queue::RunQueue;
use crate::task::record::Record;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::{self, NonNull};

/// See the module's documentation.
pub(crate) struct Queues {
    pub(crate) ready: RunQueue,
    /// Fresh tasks that nobody may steal. Not linked through the records, so that the entry of a task
    /// that is claimed in place can stay, stale.
    pub(crate) local: RefCell<VecDeque<NonNull<Record>>>,
    pub(crate) deque: Deque,
    /// A task that needs a stack of its own and waits for the loop to leave its.
    pub(crate) dedicated: Cell<*const Record>,
    /// The first of the ready tasks comes before all others: it was stolen just now.
    pub(crate) has_next: Cell<bool>,
    /// As a searcher that left it has told nobody of one task in the injector or its own deque, which it
    /// takes next.
    pub(crate) takes_next: Cell<bool>,
}

impl Queues {
    pub(crate) fn new() -> Queues {
        Queues {
            ready: RunQueue::new(),
            local: RefCell::new(VecDeque::new()),
            deque: Deque::new(),
            dedicated: Cell::new(ptr::null()),
            has_next: Cell::new(false),
            takes_next: Cell::new(false),
        }
    }
}
