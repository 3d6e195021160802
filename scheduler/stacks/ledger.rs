//! The ledger of a runtime: its workers' notes during stack exhaustion; `exhaustion` explains their
//! use.

use crate::retire::stack::StackExhausted;
use crate::scheduler::worker::Fiber;
use crate::shim::time::Instant;
use crate::shim::{Mutex, MutexGuard};
use crate::task::record::Record;
use std::ptr::NonNull;
use std::sync::PoisonError;

/// An order that a worker carries out on its main coroutine.
pub(crate) enum Order {
    /// Run the task as a guest on the host's stack.
    Visit(NonNull<Record>, *const Fiber),
    /// End the task with an error, for want of a stack.
    Refuse(NonNull<Record>, StackExhausted),
}

// SAFETY: tasks are shared by design. Only the host's own worker follows the pointer to the host,
// and it keeps the host suspended.
unsafe impl Send for Order {}

/// The line of one worker in the ledger.
#[derive(Default)]
pub(crate) struct Line {
    pub(super) starving: bool,
    pub(super) resting: bool,
    pub(crate) orders: Vec<Order>,
}

pub(crate) struct Ledger {
    pub(crate) lines: Vec<Line>,
    /// When the first of the present series of failed attempts was made.
    pub(crate) hopeless: Option<Instant>,
}

/// The ledger under its lock.
pub(crate) struct Exhaustion(Mutex<Ledger>);

impl Exhaustion {
    pub(crate) fn new(workers: usize) -> Exhaustion {
        let lines = (0..workers).map(|_| Line::default()).collect();
        Exhaustion(Mutex::new(Ledger { lines, hopeless: None }))
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
