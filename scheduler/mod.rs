//! Workers: how tasks wait, wake, travel and end.
//!
//! `README.md` is the map of the protocols. `worker` is what a thread owns; `run` its loop and its
//! switches; `front`, `run_queue`, `inbox` and `item` its queues; `search` and `idle` what it does
//! when they are empty, `spread` who starts tasks; `wait`, `cancel`, `hold` and `complete` how a task sleeps and ends.

pub(crate) mod blocking;
pub(crate) mod cancel;
pub(crate) mod complete;
mod front;
mod hold;
mod idle;
mod inbox;
mod item;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod no_suspend;
pub(crate) mod root;
pub(crate) mod run;
mod run_queue;
pub(crate) mod scope;
mod search;
pub(crate) mod shared;
mod shortage;
pub(crate) mod spawn;
mod spread;
pub(crate) mod thread;
mod verdict;
pub(crate) mod wait;
pub(crate) mod worker;
