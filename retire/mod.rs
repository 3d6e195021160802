//! The memory of coroutines and tasks: stacks and their guards, records and their words, and how
//! all of it is given back.
//!
//! `STACKS.md` is the essay on stacks; each word's module begins with its protocol; `queue` says how
//! records come home.

mod alt_stack;
pub(crate) mod attachment;
pub(crate) mod branch;
pub(crate) mod cause;
pub(crate) mod cell;
pub(crate) mod chain;
pub(crate) mod context;
pub(crate) mod coroutine;
pub(crate) mod extras;
mod guard;
pub(crate) mod join;
pub(crate) mod memory;
#[cfg(all(test, loom))]
pub(crate) mod models;
pub(crate) mod outcome;
pub(crate) mod overflow;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod record_pool;
#[cfg(all(test, not(loom)))]
#[path = "../tests/common/rerun.rs"]
pub(crate) mod rerun;
mod slab;
mod spare_slab;
pub(crate) mod stack;
pub(crate) mod thread_waiter;
pub(crate) mod tree;
pub(crate) mod wait;
