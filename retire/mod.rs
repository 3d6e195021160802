//! The memory of coroutines and tasks: stacks and their guards, pools of both, and how all of it is
//! given back.
//!
//! `STACKS.md` is the essay on stacks; `queue` says how the memory of records comes home.

mod alt_stack;
pub(crate) mod chain;
pub(crate) mod context;
mod guard;
pub(crate) mod memory;
pub(crate) mod overflow;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod record_pool;
#[cfg(all(test, not(loom)))]
#[path = "../tests/common/rerun.rs"]
pub(crate) mod rerun;
mod slab;
mod spare_slab;
pub(crate) mod stack;
