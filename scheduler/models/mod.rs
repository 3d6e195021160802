//! Loom models of the protocols of this layer; run by ci/loom.sh.
//!
//! | file | |
//! | --- | --- |
//! | `cancel` | cancels: against a wait, a link, a query, a handle, the end of a node |
//! | `fork_list` | the fork list: owner against thieves |
//! | `hook` | hooks, watchers, and queries after the end of a task |
//! | `idle` | sleepers, searchers and wakers |
//! | `inbox` | the inbox of a worker, and the wake-up of the worker |
//! | `private_deque` | the private deque: owner against thieves and sleepers |
//! | `requests` | requests for work to a private deque and a fork list |
//! | `root` | the end of a runtime |
//! | `rundown` | run-down protection |
//!
//! The code that connects the protocols (`Worker`, `Searcher`) needs stacks, threads and a clock. A
//! model that depends on such code repeats the few lines that matter, and names the function.
//!
//! Not modelled are the public deques and the injector, because they are in another crate that loom
//! does not instrument, and `exhaustion` and the blocking pool, because they work under one lock.

mod cancel;
mod fork_list;
mod hook;
mod idle;
mod inbox;
mod private_deque;
mod requests;
mod root;
mod rundown;

use crate::scheduler::steal::idle::{Idle, Sleeper, Sleepers};
use crate::shim::Cell;
use crate::task::models::record as new_record;
use crate::task::record::Record;
use std::ptr::NonNull;

/// The idle protocol, with the sleepers of a few workers.
pub(super) struct Dormitory<const N: usize> {
    pub(super) idle: Idle,
    pub(super) sleepers: [Sleeper; N],
}

impl<const N: usize> Dormitory<N> {
    pub(super) fn new() -> Self {
        Dormitory { idle: Idle::new(), sleepers: [(); N].map(|()| Sleeper::new()) }
    }
}

impl<const N: usize> Sleepers for Dormitory<N> {
    fn sleeper(&self, worker: usize) -> &Sleeper {
        &self.sleepers[worker]
    }
}

/// Tasks, identified by their addresses, with a count of how often each was taken.
struct Tasks<const N: usize> {
    records: [NonNull<Record>; N],
    taken: [std::cell::Cell<usize>; N],
    /// Written by the spawner and by the thread that takes the task. loom reports a write that is
    /// not ordered after the other one.
    bodies: [Cell<usize>; N],
}

impl<const N: usize> Tasks<N> {
    fn new() -> Self {
        Tasks {
            records: [(); N].map(|()| new_record(|| (), true)),
            taken: [(); N].map(|()| std::cell::Cell::new(0)),
            bodies: [(); N].map(|()| Cell::new(0)),
        }
    }

    /// Makes a task ready to be pushed, like its spawner.
    fn spawn(&self, task: usize) -> NonNull<Record> {
        self.bodies[task].set(1);
        self.records[task]
    }

    /// Takes a task, and returns its number.
    fn take(&self, record: NonNull<Record>) -> usize {
        let task = self.records.iter().position(|r| *r == record).expect("one of ours");
        self.taken[task].set(self.taken[task].get() + 1);
        self.bodies[task].set(self.bodies[task].get() + 1);
        task
    }

    /// Asserts that each task was taken once, and frees them.
    fn end(&self) {
        for (task, taken) in self.taken.iter().enumerate() {
            assert_eq!(taken.get(), 1, "times that task {task} was taken");
            // SAFETY: the task was taken, and no other thread uses it.
            unsafe { crate::task::models::end(self.records[task]) };
        }
    }
}
