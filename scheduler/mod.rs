//! Workers: how tasks wait, wake, travel and end.
//!
//! `README.md` is the map of the protocols.
//!
//! | | |
//! | --- | --- |
//! | `worker` | what a thread owns, and what others may touch of it; what the workers of one runtime share |
//! | `run_loop` | what a worker does next |
//! | `queue` | the queues of tasks |
//! | `steal` | a worker without work: search and sleep |
//! | `balance` | which worker starts a task, where it matters |
//! | `life` | a task is spawned, joined, and ends |
//! | `wait` | how a task waits |
//! | `cancel` | how a task is cancelled, and learns of it |
//! | `stacks` | what happens when there is no stack to be had |
//! | `timers` | the wheel of each worker, deadlines, and who watches for those who are busy |
//! | `blocking` | threads for calls that block |
//! | `simulation` | all of it on one thread, by a seed |

/// As many as a runtime may have.
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
pub(crate) mod stacks;
pub(crate) mod steal;
pub(crate) mod timers;
pub(crate) mod wait;
pub(crate) mod worker;
