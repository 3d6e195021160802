//! Workers: how tasks wait, wake, travel and end.
//!
//! `README.md` is the map of the protocols.
//!
//! | | |
//! | --- | --- |
//! | a worker | `worker`: what a thread owns, and what others may touch of it; `thread`: from the thread's start to its end; `shared`: what the workers of one runtime share, the injector too |
//! | its loop | `run`: the loop and its switches; `pick`: what comes next; `call`: how a task runs on the present stack; `check_in`: where a task that computes lets others in |
//! | queues | `front`, `forks`, `run_queue`, `inbox`; `public`: those of which everybody takes, and `item`: what lies in them |
//! | nothing to do | `search`, `idle`; `loot`: what a thief remembers |
//! | who starts tasks | `spread`: a worker that has too many stands back; `crowd`: even shares of those that wait before they compute; `habits`: which ones do |
//! | a task's life | `spawn`, `fork`, `wait`, `in_place`, `external`, `cancel`, `reason`, `hook`, `watching`, `complete`, `unresponsive`, `rundown`; `scope` and `root`: the nodes that are not tasks |
//! | primitives | `waiters`: who waits for them, tasks, threads and futures; `waker`: tasks that poll futures |
//! | time | `timers`: the wheel of each worker, deadlines, and who watches for those who are busy |
//! | no other task may run | `no_suspend`: sections that say so; `hold`: a wait in the middle of an unwinding, or in such a section |
//! | nothing but descendants may run | `restrict` |
//! | no stack to be had | `shortage`: who waits, lends and gives back; `verdict`: who has to fail |
//! | calls that block | `blocking`: the threads for them |
//! | all of it on one thread, by a seed | `simulation` |

/// As many as a runtime may have.
pub(crate) const MAX_WORKERS: usize = 4096;

pub(crate) mod blocking;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod check_in;
pub(crate) mod complete;
pub(crate) mod coroutine;
mod crowd;
pub(crate) mod external;
pub(crate) mod fork;
mod forks;
mod front;
mod habits;
mod hold;
pub(crate) mod hook;
mod idle;
mod in_place;
mod inbox;
mod item;
mod loot;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod no_suspend;
mod pick;
mod public;
pub(crate) mod reason;
mod restrict;
pub(crate) mod root;
pub(crate) mod run;
mod run_queue;
pub(crate) mod rundown;
pub(crate) mod scope;
mod search;
pub(crate) mod shared;
mod shortage;
#[cfg(all(feature = "sim", not(loom)))]
pub(crate) mod simulation;
pub(crate) mod spawn;
mod spread;
pub(crate) mod thread;
pub(crate) mod timers;
pub(crate) mod unresponsive;
mod verdict;
pub(crate) mod wait;
pub(crate) mod waiters;
pub(crate) mod waker;
pub(crate) mod watching;
pub(crate) mod worker;
