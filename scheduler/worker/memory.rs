//! The memory that a worker keeps for itself.

use crate::retire::pool::StackPool;
use crate::retire::record_pool::RecordPool;
use crate::retire::stack::StackClass;
use std::cell::{Cell, RefCell};

/// Warm stacks that a sleeping worker keeps.
const WARM_STACKS: usize = 64;

/// See the module's documentation.
pub(crate) struct Memory {
    pub(crate) stacks: RefCell<StackPool>,
    /// The stack class of the worker's coroutines.
    pub(crate) class: StackClass,
    pub(crate) records: RecordPool,
    /// No stack could be had. Cleared when the worker gets one.
    pub(crate) exhausted: Cell<bool>,
}

impl Memory {
    pub(crate) fn new(class: StackClass) -> Memory {
        Memory {
            stacks: RefCell::new(StackPool::new(WARM_STACKS)),
            class,
            records: RecordPool::default(),
            exhausted: Cell::new(false),
        }
    }
}
