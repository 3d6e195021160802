//! Back to work: a task that was woken goes to the queue of its home, wherever the waker runs.

use crate::scheduler::worker::shared::Shared;
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::Arc;
use crate::shim::atomic::Ordering;
use crate::task::record::Record;
use std::ptr::{self, NonNull};

/// Puts a task whose PARKED bit the caller has cleared back to work, at its home.
pub(crate) fn resume(record: *const Record) {
    let record = NonNull::new(record.cast_mut()).expect("a waiter is not null");
    let home = home_of(record);
    match Worker::current() {
        Some(worker) if ptr::eq(worker, home) => worker.make_ready(record),
        worker => deliver(worker, home, record, record),
    }
}

/// The same of several that have one home, linked to each other, each to the one that comes before it.
pub(crate) fn resume_all(last: NonNull<Record>, first: NonNull<Record>) {
    let home = home_of(first);
    match Worker::current() {
        Some(worker) if ptr::eq(worker, home) => worker.make_all_ready(last, first),
        worker => deliver(worker, home, last, first),
    }
}

/// The worker where a task that waits has its coroutine.
#[inline(always)]
fn home_of<'a>(record: NonNull<Record>) -> &'a Worker {
    // SAFETY: a task that waits has not ended.
    let place = unsafe { record.as_ref() }.place.load(Ordering::Relaxed);
    // SAFETY: the coroutine of a waiting task is alive, and stays where it is until it is queued; a worker lives
    // as long as one of its tasks has not ended.
    unsafe { &*(*ptr::with_exposed_provenance::<Fiber>(place)).worker.get() }
}

/// Sends tasks to a home that is not the present worker.
#[inline(never)]
fn deliver(worker: Option<&Worker>, home: &Worker, last: NonNull<Record>, first: NonNull<Record>) {
    home.remote.sleeper.assert_reachable();
    let shared = home.shared.get();
    if let Some(worker) = worker
        && ptr::eq(worker.shared.get(), shared)
    {
        return send(worker.shared(), home, last, first);
    }
    // Once they are in the inbox the tasks may run, end, and their runtime with them; hold on to what the
    // rest of the call uses.
    // SAFETY: the pointer came from an Arc that the worker's thread holds.
    let shared = unsafe {
        Arc::increment_strong_count(shared);
        Arc::from_raw(shared)
    };
    send(&shared, home, last, first);
}

fn send(shared: &Shared, home: &Worker, last: NonNull<Record>, first: NonNull<Record>) {
    let index = home.remote.index;
    if home.remote.inbox.push_all(last, first) {
        shared.idle.notify_worker(shared, index);
    }
}

impl Worker {
    /// As `make_ready`, of several that are linked to each other, each to the one that comes before it.
    fn make_all_ready(&self, last: NonNull<Record>, first: NonNull<Record>) {
        let mut at = last;
        let mut later: *mut Record = ptr::null_mut();
        // Turned round: each to the one that comes after it.
        while at != first {
            // SAFETY: in the caller's hand.
            let link = unsafe { &at.as_ref().link };
            let before = link.load(Ordering::Relaxed);
            link.store(later, Ordering::Relaxed);
            later = at.as_ptr();
            at = NonNull::new(before).expect("the chain leads to the first");
        }
        self.make_ready(first);
        while let Some(record) = NonNull::new(later) {
            // SAFETY: as above.
            later = unsafe { record.as_ref() }.link.load(Ordering::Relaxed);
            self.make_ready(record);
        }
    }
}
