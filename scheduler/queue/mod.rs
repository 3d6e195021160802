//! The queues of tasks.
//!
//! | | |
//! | --- | --- |
//! | `private` | fresh tasks of the worker that spawned them, private but for a boundary |
//! | `fork_list` | second halves of joins, on the stacks of their tasks |
//! | `public` | what every worker takes from: each worker's deque, and the injector; `item`: what lies there |
//! | `run_queue` | tasks of this worker that are ready to go on |
//! | `inbox` | the same, from other threads |

pub(crate) mod fork_list;
pub(crate) mod inbox;
pub(crate) mod item;
pub(crate) mod private_deque;
pub(crate) mod public;
pub(crate) mod run_queue;
