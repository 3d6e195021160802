//! The memory of coroutines: stacks, records, the retire queue.

mod alt_stack;
mod guard;
pub(crate) mod memory;
pub(crate) mod overflow;
pub(crate) mod pool;
#[cfg(all(test, not(loom)))]
mod rerun;
mod slab;
pub(crate) mod stack;
