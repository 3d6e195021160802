//! The queues of tasks.
//!
//! | | |
//! | --- | --- |
//! | `private_deque` | fresh tasks of the worker that spawned them, private except to thieves |
//! | `fork_list` | second halves of joins, on the stacks of their tasks |
//! | `public` | the queues that every worker takes from: a deque per worker, and the injector |
//! | `item` | an entry of a public queue |
//! | `run_queue` | started tasks of this worker that are ready to go on |
//! | `ready_stack` | ready tasks that are in no queue yet |
//! | `inbox` | tasks of this worker that other threads have woken |

pub(crate) mod fork_list;
pub(crate) mod inbox;
pub(crate) mod item;
pub(crate) mod private_deque;
pub(crate) mod public;
pub(crate) mod ready_stack;
pub(crate) mod run_queue;
