//! The references of a record, the claim of a task in a public queue, and cold data that two
//! threads make at the same time.

use super::{end, record};
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, models};
use crate::shim::thread::spawn;
use crate::task::cold::ColdData;
use crate::task::record::{Phase, Record, RunEnd};
use crate::task::reference::{RunRef, TaskRef};
use crate::task::words::join::Finished;
use std::ptr::NonNull;

/// A record with a baton that checks its uses.
struct Shared {
    record: NonNull<Record>,
    body: Baton,
}

impl Shared {
    fn use_it(&self) {
        self.body.read();
        // SAFETY: the caller has a reference.
        unsafe { self.record.as_ref() }.place.load(Ordering::Relaxed);
    }

    /// Releases references of the caller's, and frees the record after the last one.
    fn release(&self, releases: impl FnOnce(&Record) -> bool) {
        // SAFETY: the caller has these references.
        if releases(unsafe { self.record.as_ref() }) {
            assert_eq!(self.body.write(), 0, "freed twice");
            // SAFETY: no reference is left, and the outcome is gone.
            unsafe { end(self.record) };
        }
    }

    fn release_one(&self) {
        self.release(|record| record.release(1));
    }
}

fn references() {
    // Two references for a thread that releases both at once, and one for each of two other
    // threads.
    let shared = Stage::new(Shared { record: record(|| (), false), body: Baton::new() });
    // SAFETY: this thread has references.
    let counted = unsafe { shared.record.as_ref() };
    counted.add_reference();
    counted.add_reference();
    let both = spawn(move || {
        shared.use_it();
        // The run reference of a task that has ended, and another one.
        shared.release(|record| matches!(record.release_run(2), RunEnd::Last));
    });
    let adder = spawn(move || {
        shared.use_it();
        // SAFETY: this thread has a reference.
        unsafe { shared.record.as_ref() }.add_reference();
        shared.release_one();
        shared.use_it();
        shared.release_one();
    });
    shared.use_it();
    shared.release_one();
    both.join().unwrap();
    adder.join().unwrap();
    assert_eq!(shared.body.read(), 1, "not freed");
}

models! {
    fn loom_the_last_release_frees_after_all_uses() = explore(2, references);

    fn loom_negative_references_without_order() = explore(ALL, references),
        without ORDERS in "task/record.rs", fails: "Causality violation";
}

/// A task in public queues, and its handle.
struct Public {
    task: Shared,
    /// The queues' entries. A thread takes an entry by a swap.
    entries: [AtomicPtr<Record>; 2],
    /// Written by each owner of the task, like its place.
    context: Baton,
    runs: Baton,
}

impl Public {
    /// Runs a claimed task to its end, and releases its run reference.
    fn run(&self) {
        assert_eq!(self.runs.write(), 0, "run twice");
        self.context.write();
        // SAFETY: the caller has claimed the task.
        unsafe { RunRef::new(self.task.record).run() };
        // SAFETY: the caller has the run reference.
        match unsafe { self.task.record.as_ref() }.join.finish() {
            // SAFETY: the handle is gone, so the outcome is the finisher's.
            Finished::Detached => drop(unsafe { TaskRef::new(self.task.record).drop_outcome() }),
            Finished::Unclaimed => {}
            Finished::Waiter(_) => panic!("this model has no waiter"),
        }
        self.task.release_one();
    }

    /// Takes an entry and claims its task, like `Worker::open`.
    fn take(&self, entry: usize, claims: fn(&Record) -> bool) {
        let taken = self.entries[entry].swap(std::ptr::null_mut(), Ordering::Acquire);
        let Some(record) = NonNull::new(taken) else { return };
        // SAFETY: the entry has a reference.
        if claims(unsafe { record.as_ref() }) { self.run() } else { self.task.release_one() }
    }
}

/// Whether a claimed task enters a public queue once more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    /// After it has been private.
    FromPrivate,
    AtOnce,
}

/// The owner of the handle claims the task in its queue while a thief takes the entry. The owner
/// then puts the task into a second queue, as `start_next` does when there is no stack, and a
/// second thief takes that entry. The last of them finds a stale entry.
fn claim(again: Again, claims: fn(&Record) -> bool) {
    let task = record(|| (), false);
    let public = Stage::new(Public {
        task: Shared { record: task, body: Baton::new() },
        entries: [(); 2].map(|()| AtomicPtr::new(std::ptr::null_mut())),
        context: Baton::new(),
        runs: Baton::new(),
    });
    // SAFETY: this thread has the handle's reference.
    let handle = unsafe { task.as_ref() };
    handle.set_phase(Phase::Ready);
    public.entries[0].store(task.as_ptr(), Ordering::Release);
    let thief = spawn(move || public.take(0, claims));
    let second = (again != Again::No).then(|| spawn(move || public.take(1, claims)));
    if handle.phase() == Phase::Ready && claims(handle) {
        // The entry goes stale and keeps its reference.
        handle.add_reference();
        if again != Again::No {
            public.context.write();
            if again == Again::FromPrivate {
                handle.unclaim_privately();
                handle.set_phase(Phase::Ready);
            } else {
                handle.unclaim();
            }
            // A swap: loom would not order a store after the update of an early thief.
            public.entries[1].swap(task.as_ptr(), Ordering::Release);
        } else {
            public.run();
        }
    }
    if !handle.join.detach() {
        // SAFETY: the task has ended, and the outcome is the handle's.
        drop(unsafe { TaskRef::new(task).drop_outcome() });
    }
    public.task.release_one();
    thief.join().unwrap();
    if let Some(second) = second {
        second.join().unwrap();
        public.take(1, claims);
    }
    assert_eq!(public.runs.read(), 1, "not run");
    assert_eq!(public.task.body.read(), 1, "not freed");
}

fn claim_by_a_load_and_a_store(task: &Record) -> bool {
    let ours = task.phase() == Phase::Ready;
    if ours {
        task.set_phase(Phase::Running);
    }
    ours
}

models! {
    fn loom_a_public_task_is_run_by_one_claimant() =
        explore(ALL, || claim(Again::No, Record::claim));

    fn loom_a_stale_entry_may_claim_a_task_that_is_queued_again() =
        explore(3, || claim(Again::FromPrivate, Record::claim));

    fn loom_a_stale_entry_may_claim_a_task_that_is_queued_again_at_once() =
        explore(3, || claim(Again::AtOnce, Record::claim));

    fn loom_negative_a_claim_that_is_a_load_and_a_store() =
        explore(3, || claim(Again::No, claim_by_a_load_and_a_store)), fails: "Causality violation";
}

/// A task and one of its forks, or two of its forks, make its cold data at the same time.
fn cold_of_two(get: fn(&Record) -> &ColdData) {
    let shared = Stage::new(Shared { record: record(|| (), true), body: Baton::new() });
    // SAFETY: the record is freed below, after the join.
    let address = move || std::ptr::from_ref(get(unsafe { shared.record.as_ref() })).addr();
    let other = spawn(address);
    let (mine, other) = (address(), other.join().unwrap());
    assert_eq!(mine, other, "one thread has overwritten the other's cold data");
    shared.release_one();
}

/// Like `Node::cold_or_new`, with a store instead of the exchange.
fn cold_or_stored(record: &Record) -> &ColdData {
    if record.cold().is_none() {
        let fresh = Box::into_raw(Box::new(ColdData::new()));
        record.node.cold.store(fresh, Ordering::Release);
    }
    record.cold().expect("made above")
}

models! {
    fn loom_cold_data_are_made_once() =
        explore(ALL, || cold_of_two(|record| record.node.cold_or_new()));

    fn loom_negative_cold_data_that_are_stored_without_an_exchange() =
        explore(ALL, || cold_of_two(cold_or_stored)), fails: "overwritten the other's cold data";
}
