//! Models of the protocols of this layer, one file each; run by ci/loom.sh.
//!
//! The glue between them (`Worker`, `Searcher`) needs stacks, threads of its own and a clock; where a
//! model needs it, it repeats the few lines that matter and names the function.
//!
//! Not modelled: the public deques and the injector (of another crate, whose insides loom does not see), and
//! `exhaustion` and the blocking pool, which work under one lock.

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

/// The idle protocol and the sleeping places of a few workers.
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

/// Tasks that are told apart by their address, and how often each was taken.
struct Tasks<const N: usize> {
    records: [NonNull<Record>; N],
    taken: [std::cell::Cell<usize>; N],
    /// Written by whoever takes a task: what its spawner did is seen, and nobody else has it.
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

    /// What a spawner does before it lets go of a task.
    fn spawn(&self, task: usize) -> NonNull<Record> {
        self.bodies[task].set(1);
        self.records[task]
    }

    /// Takes a task; its number.
    fn take(&self, record: NonNull<Record>) -> usize {
        let task = self.records.iter().position(|r| *r == record).expect("one of ours");
        self.taken[task].set(self.taken[task].get() + 1);
        self.bodies[task].set(self.bodies[task].get() + 1);
        task
    }

    /// All were taken, once each.
    fn end(&self) {
        for (task, taken) in self.taken.iter().enumerate() {
            assert_eq!(taken.get(), 1, "times that task {task} was taken");
            // SAFETY: taken out by its only user.
            unsafe { crate::task::models::end(self.records[task]) };
        }
    }
}
