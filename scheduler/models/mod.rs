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

use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::root::Root;
use crate::scheduler::steal::idle::{Idle, Rest, Roused, Sleeper, Sleepers};
use crate::shim::Cell;
use crate::task::models::{end, record as new_record, record_below};
use crate::task::record::Record;
use crate::task::reference::{Ready, RunRef, TaskRef};
use crate::task::words::tree::Node;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

/// A node that the model keeps from its end.
fn live(node: &Node) -> LiveNode<'_> {
    // SAFETY: the models end a node after its last use.
    unsafe { LiveNode::new(node) }
}

/// A task of a model, which is freed after its last use.
#[derive(Clone, Copy)]
struct Task(NonNull<Record>);

impl Task {
    /// Makes a child of a root, with a run reference and a handle's.
    fn below(root: &Root) -> Task {
        Task(record_below(|| (), &raw const root.node))
    }

    /// Makes a child of this task, with a run reference and a handle's.
    fn child(self) -> Task {
        Task(record_below(|| (), self.0.as_ptr().cast()))
    }

    /// Releases references of the caller, and frees the task with the last one.
    fn let_go(self, references: u32) {
        if self.release(references) {
            // SAFETY: no reference is left, and the closure has no outcome.
            unsafe { end(self.0) };
        }
    }

    /// Frees the task with its last references.
    fn free(self, references: u32) {
        assert!(self.release(references), "a reference is left");
        // SAFETY: no reference is left, and the closure has no outcome.
        unsafe { end(self.0) };
    }
}

impl Deref for Task {
    type Target = Record;

    fn deref(&self) -> &Record {
        // SAFETY: the models free a task after its last use.
        unsafe { self.0.as_ref() }
    }
}

/// Ends a task of a model, which has its run reference.
fn finish(task: &Record) {
    // SAFETY: the run reference is the model's, and stays so.
    super::life::complete::finish(&ManuallyDrop::new(unsafe { RunRef::new(NonNull::from(task)) }));
}

/// The idle protocol, with the sleepers of a few workers.
pub(super) struct Dormitory<const N: usize> {
    pub(super) idle: Idle,
    pub(super) sleepers: [Sleeper; N],
}

impl<const N: usize> Dormitory<N> {
    pub(super) fn new() -> Self {
        Dormitory { idle: Idle::new(N), sleepers: [(); N].map(|()| Sleeper::new()) }
    }

    /// Sleeps as worker 0 until `take` has found something. `look` is the look before each sleep.
    fn sleep_until(&self, look: impl Fn() -> bool, take: impl Fn() -> bool) {
        self.sleepers[0].introduce();
        loop {
            let roused = self.idle.rest(self, 0, Rest::Sleep, &look);
            let found = take();
            if roused == Roused::ToSearch {
                let _ = self.idle.stop_searching();
            }
            if found {
                return;
            }
        }
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
    fn spawn(&self, task: usize) -> RunRef {
        self.bodies[task].set(1);
        // SAFETY: the record has a run reference, and is spawned once.
        unsafe { RunRef::new(self.records[task]) }
    }

    /// Makes a task ready to be queued, like the thread that wakes it.
    fn wake(&self, task: usize) -> Ready {
        // SAFETY: the record is pushed and taken once.
        unsafe { Ready::new(self.spawn(task).into_pointer()) }
    }

    /// A task, to be looked for.
    fn task(&self, task: usize) -> TaskRef<'_> {
        // SAFETY: the record is freed at the end of the model.
        unsafe { TaskRef::new(self.records[task]) }
    }

    /// Takes a fresh task, and returns its number.
    fn take(&self, run: RunRef) -> usize {
        self.take_record(run.into_pointer())
    }

    /// Takes a ready task, and returns its number.
    fn take_ready(&self, ready: Ready) -> usize {
        self.take_record(ready.into_pointer())
    }

    fn take_record(&self, record: NonNull<Record>) -> usize {
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
            unsafe { end(self.records[task]) };
        }
    }
}
