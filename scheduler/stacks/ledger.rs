//! What the workers of a runtime note of a shortage of stacks. `exhaustion` says what for.

use crate::retire::stack::StackExhausted;
use crate::scheduler::worker::Fiber;
use crate::shim::time::Instant;
use crate::shim::{Mutex, MutexGuard};
use crate::task::record::Record;
use std::ptr::NonNull;
use std::sync::PoisonError;

/// What a worker is to do on its main coroutine.
pub(crate) enum Order {
    /// Run the task on the host's stack.
    Visit(NonNull<Record>, *const Fiber),
    /// End the task, for want of a stack.
    Refuse(NonNull<Record>, StackExhausted),
}

// SAFETY: tasks are shared by design; the host is followed by its own worker only, which keeps it
// suspended.
unsafe impl Send for Order {}

/// The lines of the ledger, one for each worker.
#[derive(Default)]
pub(crate) struct Line {
    pub(super) starving: bool,
    pub(super) resting: bool,
    pub(crate) orders: Vec<Order>,
}

pub(crate) struct Ledger {
    pub(crate) lines: Vec<Line>,
    /// When the first of the present series of judgements found no way out.
    pub(crate) hopeless: Option<Instant>,
}

/// The ledger, under their lock.
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
