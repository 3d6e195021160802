//! The memory that a worker keeps for itself.

use crate::retire::pool::StackPool;
use crate::retire::record_pool::RecordPool;
use crate::retire::stack::StackClass;
use crate::scheduler::steal::idle::FEW;
use crate::shim::time::Instant;
use std::cell::{Cell, RefCell};

/// Warm stacks that a sleeping worker keeps.
const WARM_STACKS: usize = 64;

/// See the module's documentation.
pub(crate) struct Memory {
    pub(crate) stacks: RefCell<StackPool>,
    /// The stack class of the worker's fibers.
    pub(crate) class: StackClass,
    pub(crate) records: RecordPool,
    /// No stack could be had. Cleared when the worker gets one within the limit. The fields below
    /// are in use only while this is set; `exhaustion` explains them.
    pub(crate) exhausted: Cell<bool>,
    /// When the worker began to starve.
    pub(crate) starving_since: Cell<Option<Instant>>,
    /// The number of tasks that all workers had started when the worker last looked, not counting
    /// those with extra stacks for ancestors, and since when that number has not grown.
    pub(crate) started: Cell<u64>,
    pub(crate) stalled_since: Cell<Option<Instant>>,
    /// Since when, and how many times, the kernel has refused memory for each stack that the worker
    /// has asked for.
    pub(crate) refused: Cell<Option<(Instant, u32)>>,
    /// The worker is to look at fresh tasks although it has ready ones.
    pub(crate) in_turn: Cell<bool>,
}

impl Memory {
    pub(crate) fn new(class: StackClass, workers: usize) -> Memory {
        let stacks = StackPool::new(WARM_STACKS);
        Memory {
            stacks: RefCell::new(if workers > FEW { stacks.for_a_crowd() } else { stacks }),
            class,
            records: RecordPool::default(),
            exhausted: Cell::new(false),
            starving_since: Cell::new(None),
            started: Cell::new(0),
            stalled_since: Cell::new(None),
            refused: Cell::new(None),
            in_turn: Cell::new(false),
        }
    }
}
