//! The queues of tasks.
//!
//! | | |
//! | --- | --- |
//! | `front` | fresh tasks of the worker that spawned them, private but for a boundary |
//! | `forks` | second halves of joins, on the stacks of their tasks |
//! | `public` | what every worker takes from: each worker's deque, and the injector; `item`: what lies there |
//! | `run_queue` | tasks of this worker that are ready to go on |
//! | `inbox` | the same, from other threads |

pub(crate) mod forks;
pub(crate) mod front;
pub(crate) mod inbox;
pub(crate) mod item;
pub(crate) mod public;
pub(crate) mod run_queue;
