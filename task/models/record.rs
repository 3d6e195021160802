//! The references of a record, the claim of a task that lies in public, and the cold data that two
//! make at once.

use super::{end, record};
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::cold::ColdData;
use crate::task::record::{Phase, Record, RunEnd};
use crate::task::words::join::Finished;
use std::ptr::NonNull;

/// A record whose uses are watched.
struct Shared {
    record: NonNull<Record>,
    body: Baton,
}

impl Shared {
    fn use_it(&self) {
        self.body.read();
        // SAFETY: the caller holds a reference.
        unsafe { self.record.as_ref() }.place.load(Ordering::Relaxed);
    }

    fn release(&self, n: u32) {
        // SAFETY: the caller holds these references.
        if unsafe { self.record.as_ref() }.release(n) {
            assert_eq!(self.body.write(), 0, "freed twice");
            // SAFETY: no reference is left.
            unsafe { end(self.record) };
        }
    }
}

/// Gives up the run reference, of a task that has ended, and `n - 1` others.
fn release_run(shared: &Shared, n: u32) {
    // SAFETY: the caller holds these references.
    if let RunEnd::Last = unsafe { shared.record.as_ref() }.release_run(n) {
        assert_eq!(shared.body.write(), 0, "freed twice");
        // SAFETY: no reference is left.
        unsafe { end(shared.record) };
    }
}

fn references() {
    // Two for a thread that gives both up at once, one each for two others.
    let shared = Stage::new(Shared { record: record(|| (), false), body: Baton::new() });
    // SAFETY: we hold references.
    let counted = unsafe { shared.record.as_ref() };
    counted.add_reference();
    counted.add_reference();
    let both = spawn(move || {
        shared.use_it();
        release_run(&shared, 2);
    });
    let adder = spawn(move || {
        shared.use_it();
        // SAFETY: this thread's reference.
        unsafe { shared.record.as_ref() }.add_reference();
        shared.release(1);
        shared.use_it();
        shared.release(1);
    });
    shared.use_it();
    shared.release(1);
    both.join().unwrap();
    adder.join().unwrap();
    assert_eq!(shared.body.read(), 1, "not freed");
    // SAFETY: the threads have ended.
    unsafe { shared.end() };
}

#[test]
fn loom_the_last_release_frees_after_all_uses() {
    explore(2, references);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_references_without_order() {
    plant("task/record.rs", ORDERS);
    explore(ALL, references);
}

/// A task in public queues, and its handle.
struct Public {
    record: NonNull<Record>,
    /// The entries: each taken by whoever swaps it out.
    entries: [AtomicPtr<Record>; 2],
    /// What whoever has the task in hand writes, as its place.
    context: Baton,
    runs: Baton,
    ended: Baton,
}

impl Public {
    fn release(&self, n: u32) {
        // SAFETY: the caller holds these references.
        if unsafe { self.record.as_ref() }.release(n) {
            assert_eq!(self.ended.write(), 0, "freed twice");
            // SAFETY: no reference is left, and the outcome is gone.
            unsafe { end(self.record) };
        }
    }

    /// Runs a claimed task to its end and gives up its run reference.
    fn run(&self) {
        assert_eq!(self.runs.write(), 0, "run twice");
        self.context.write();
        // SAFETY: claimed by the caller.
        unsafe { Record::run(self.record) };
        // SAFETY: the run reference.
        match unsafe { self.record.as_ref() }.join.finish() {
            // SAFETY: the handle is gone: the outcome is ours.
            Finished::Detached => drop(unsafe { Record::drop_outcome(self.record) }),
            Finished::Unclaimed => {}
            Finished::Waiter(_) => panic!("nobody waits"),
        }
        self.release(1);
    }

    /// What a worker does with an entry: see `Worker::open`.
    fn take(&self, entry: usize, claims: fn(&Record) -> bool) {
        let taken = self.entries[entry].swap(std::ptr::null_mut(), Ordering::Acquire);
        let Some(record) = NonNull::new(taken) else { return };
        // SAFETY: the entry holds a reference.
        if claims(unsafe { record.as_ref() }) { self.run() } else { self.release(1) }
    }
}

/// Whether a claimed task is queued in public once more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    /// After it has been private.
    FromPrivate,
    AtOnce,
}

/// The owner of the handle claims the task where it lies while a thief takes the entry; then it
/// puts the task into a second queue, as `start_next` does when there is no stack, and a second
/// thief comes. Whoever is last finds a stale entry.
fn claim(again: Again, claims: fn(&Record) -> bool) {
    let public = Stage::new(Public {
        record: NonNull::dangling(),
        entries: [(); 2].map(|()| AtomicPtr::new(std::ptr::null_mut())),
        context: Baton::new(),
        runs: Baton::new(),
        ended: Baton::new(),
    });
    let task = record(|| (), false);
    // SAFETY: nobody else has seen it yet.
    unsafe { (&raw const public.record).cast_mut().write(task) };
    // SAFETY: we hold the handle.
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
            // Not a store: loom does not see that it comes after an early thief's update.
            public.entries[1].swap(task.as_ptr(), Ordering::Release);
        } else {
            public.run();
        }
    }
    if !handle.join.detach() {
        // SAFETY: the task has ended, and the outcome is the handle's.
        drop(unsafe { Record::drop_outcome(task) });
    }
    public.release(1);
    thief.join().unwrap();
    if let Some(second) = second {
        second.join().unwrap();
        public.take(1, claims);
    }
    assert_eq!(public.runs.read(), 1, "not run");
    assert_eq!(public.ended.read(), 1, "not freed");
    // SAFETY: the threads have ended.
    unsafe { public.end() };
}

#[test]
fn loom_a_public_task_is_run_by_one_claimant() {
    explore(ALL, || claim(Again::No, Record::claim));
}

#[test]
fn loom_a_stale_entry_is_as_good_as_a_new_one() {
    explore(3, || claim(Again::FromPrivate, Record::claim));
    explore(3, || claim(Again::AtOnce, Record::claim));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_claim_that_looks_and_then_takes() {
    explore(3, || {
        claim(Again::No, |task| {
            let ours = task.phase() == Phase::Ready;
            if ours {
                task.set_phase(Phase::Running);
            }
            ours
        });
    });
}

/// A task and a fork of it, or two forks of it, need its cold data, which it does not have.
fn cold_of_two(get: fn(&Record) -> &ColdData) {
    let shared = Stage::new(Shared { record: record(|| (), true), body: Baton::new() });
    // SAFETY: freed below.
    let address = move || std::ptr::from_ref(get(unsafe { shared.record.as_ref() })).addr();
    let other = spawn(address);
    let (mine, other) = (address(), other.join().unwrap());
    assert_eq!(mine, other, "one has made the cold of the other forgotten");
    shared.release(1);
    // SAFETY: the threads have ended.
    unsafe { shared.end() };
}

#[test]
fn loom_cold_data_are_made_once() {
    explore(ALL, || cold_of_two(|record| record.node.cold_or_new()));
}

#[test]
#[should_panic(expected = "cold of the other forgotten")]
fn loom_negative_extras_that_are_stored_without_a_look() {
    explore(ALL, || {
        cold_of_two(|record| {
            // As `Node::cold_or_new`, with a store for the exchange.
            if record.cold().is_none() {
                let fresh = Box::into_raw(Box::new(ColdData::new()));
                record.node.cold.store(fresh, Ordering::Release);
            }
            record.cold().expect("made above")
        });
    });
}
