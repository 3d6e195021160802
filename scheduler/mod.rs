//! The scheduler: how tasks start, travel between workers, wait, and end.
//!
//! `README.md` is the map of the protocols.
//!
//! | | |
//! | --- | --- |
//! | `worker` | what a thread owns, what other threads may touch of it, what the workers share |
//! | `run_loop` | what a worker does next |
//! | `queue` | the queues of tasks |
//! | `steal` | a worker without work: search and sleep |
//! | `balance` | which worker starts a task, where it matters |
//! | `life` | a task is spawned, joined, and ends |
//! | `wait` | how a task waits |
//! | `cancel` | how a task is cancelled, and notices |
//! | `stacks` | stack exhaustion |
//! | `spans` | spans of the crate tracing, task by task |
//! | `timers` | each worker's wheel, deadlines, and the timekeeper for busy workers |
//! | `blocking` | threads for calls that block |
//! | `worker_set` | a set of workers that all of them read |
//! | `simulation` | the scheduler on one thread, driven by a seed |

/// The most workers that a runtime may have.
pub(crate) const MAX_WORKERS: usize = 4096;

pub(crate) mod balance;
pub(crate) mod blocking;
pub(crate) mod cancel;
pub(crate) mod life;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod queue;
pub(crate) mod run_loop;
#[cfg(all(feature = "sim", not(loom)))]
pub(crate) mod simulation;
pub(crate) mod spans;
pub(crate) mod stacks;
pub(crate) mod steal;
pub(crate) mod timers;
pub(crate) mod wait;
pub(crate) mod worker;
pub(crate) mod worker_set;
