//! The memory of coroutines and tasks: stacks and their guards, task records, and the pools of
//! both.
//!
//! `STACKS.md` explains how stacks are laid out and given back, and `queue` how the memory of
//! records returns to its worker.

mod alt_stack;
pub(crate) mod context;
mod guard;
pub(crate) mod memory;
pub(crate) mod nesting;
pub(crate) mod overflow;
pub(crate) mod passage;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod record_pool;
#[cfg(all(test, not(loom)))]
#[path = "../tests/common/rerun.rs"]
pub(crate) mod rerun;
mod slab;
mod spare_slab;
pub(crate) mod stack;
