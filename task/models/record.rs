//! The references of a record, the claim of a task in a public queue, and cold data that two
//! threads make at the same time.

use super::{end, record};
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::cold::ColdData;
use crate::task::record::{Phase, Record, RunEnd};
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

    fn release(&self, n: u32) {
        // SAFETY: the caller has these references.
        if unsafe { self.record.as_ref() }.release(n) {
            assert_eq!(self.body.write(), 0, "freed twice");
            // SAFETY: no reference is left.
            unsafe { end(self.record) };
        }
    }
}

/// Releases the run reference of a task that has ended, and `n - 1` other references.
fn release_run(shared: &Shared, n: u32) {
    // SAFETY: the caller has these references.
    if let RunEnd::Last = unsafe { shared.record.as_ref() }.release_run(n) {
        assert_eq!(shared.body.write(), 0, "freed twice");
        // SAFETY: no reference is left.
        unsafe { end(shared.record) };
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
        release_run(&shared, 2);
    });
    let adder = spawn(move || {
        shared.use_it();
        // SAFETY: this thread has a reference.
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
    /// The queues' entries. A thread takes an entry by a swap.
    entries: [AtomicPtr<Record>; 2],
    /// Written by each owner of the task, like its place.
    context: Baton,
    runs: Baton,
    ended: Baton,
}

impl Public {
    fn release(&self, n: u32) {
        // SAFETY: the caller has these references.
        if unsafe { self.record.as_ref() }.release(n) {
            assert_eq!(self.ended.write(), 0, "freed twice");
            // SAFETY: no reference is left, and the outcome is gone.
            unsafe { end(self.record) };
        }
    }

    /// Runs a claimed task to its end, and releases its run reference.
    fn run(&self) {
        assert_eq!(self.runs.write(), 0, "run twice");
        self.context.write();
        // SAFETY: the caller has claimed the task.
        unsafe { Record::run(self.record) };
        // SAFETY: the caller has the run reference.
        match unsafe { self.record.as_ref() }.join.finish() {
            // SAFETY: the handle is gone, so the outcome is the finisher's.
            Finished::Detached => drop(unsafe { Record::drop_outcome(self.record) }),
            Finished::Unclaimed => {}
            Finished::Waiter(_) => panic!("this model has no waiter"),
        }
        self.release(1);
    }

    /// Takes an entry and claims its task, like `Worker::open`.
    fn take(&self, entry: usize, claims: fn(&Record) -> bool) {
        let taken = self.entries[entry].swap(std::ptr::null_mut(), Ordering::Acquire);
        let Some(record) = NonNull::new(taken) else { return };
        // SAFETY: the entry has a reference.
        if claims(unsafe { record.as_ref() }) { self.run() } else { self.release(1) }
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
    let public = Stage::new(Public {
        record: NonNull::dangling(),
        entries: [(); 2].map(|()| AtomicPtr::new(std::ptr::null_mut())),
        context: Baton::new(),
        runs: Baton::new(),
        ended: Baton::new(),
    });
    let task = record(|| (), false);
    // SAFETY: no other thread has seen the field yet.
    unsafe { (&raw const public.record).cast_mut().write(task) };
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
fn loom_a_stale_entry_may_claim_a_task_that_is_queued_again() {
    explore(3, || claim(Again::FromPrivate, Record::claim));
    explore(3, || claim(Again::AtOnce, Record::claim));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_claim_that_is_a_load_and_a_store() {
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

/// A task and one of its forks, or two of its forks, make its cold data at the same time.
fn cold_of_two(get: fn(&Record) -> &ColdData) {
    let shared = Stage::new(Shared { record: record(|| (), true), body: Baton::new() });
    // SAFETY: the record is freed below, after the join.
    let address = move || std::ptr::from_ref(get(unsafe { shared.record.as_ref() })).addr();
    let other = spawn(address);
    let (mine, other) = (address(), other.join().unwrap());
    assert_eq!(mine, other, "one thread has overwritten the other's cold data");
    shared.release(1);
    // SAFETY: the threads have ended.
    unsafe { shared.end() };
}

#[test]
fn loom_cold_data_are_made_once() {
    explore(ALL, || cold_of_two(|record| record.node.cold_or_new()));
}

#[test]
#[should_panic(expected = "overwritten the other's cold data")]
fn loom_negative_cold_data_that_are_stored_without_an_exchange() {
    explore(ALL, || {
        cold_of_two(|record| {
            // Like `Node::cold_or_new`, with a store instead of the exchange.
            if record.cold().is_none() {
                let fresh = Box::into_raw(Box::new(ColdData::new()));
                record.node.cold.store(fresh, Ordering::Release);
            }
            record.cold().expect("made above")
        });
    });
}
