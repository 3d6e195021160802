//! Puts a woken task back to work: into the queue of its home worker, whichever thread wakes it.

use crate::scheduler::worker::shared::Shared;
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::Arc;
use crate::shim::atomic::Ordering;
use crate::task::record::Record;
use std::ptr::{self, NonNull};

/// Queues a task at its home worker. The caller has cleared the task's PARKED bit.
pub(crate) fn resume(record: *const Record) {
    let record = NonNull::new(record.cast_mut()).expect("a waiter is not null");
    let home = home_of(record);
    match Worker::current() {
        Some(worker) if ptr::eq(worker, home) => worker.make_ready(record),
        worker => deliver(worker, home, record, record),
    }
}

/// Same as [`resume`], for several tasks with one home. Each task is linked to the one before it.
pub(crate) fn resume_all(last: NonNull<Record>, first: NonNull<Record>) {
    let home = home_of(first);
    match Worker::current() {
        Some(worker) if ptr::eq(worker, home) => worker.make_all_ready(last, first),
        worker => deliver(worker, home, last, first),
    }
}

/// Returns the worker that has the coroutine of a waiting task.
#[inline(always)]
fn home_of<'a>(record: NonNull<Record>) -> &'a Worker {
    // SAFETY: a waiting task has not ended, so its record is alive.
    let place = unsafe { record.as_ref() }.place.load(Ordering::Relaxed);
    // SAFETY: the coroutine of a waiting task is alive, and stays with its worker until the task
    // is queued. A worker lives as long as one of its tasks has not ended.
    unsafe { &*(*ptr::with_exposed_provenance::<Fiber>(place)).worker.get() }
}

/// Sends tasks to a home that is not the calling thread's worker.
#[inline(never)]
fn deliver(worker: Option<&Worker>, home: &Worker, last: NonNull<Record>, first: NonNull<Record>) {
    home.remote.sleeper.assert_reachable();
    let shared = home.shared.get();
    if let Some(worker) = worker
        && ptr::eq(worker.shared.get(), shared)
    {
        return send(worker.shared(), home, last, first);
    }
    // Once the tasks are in the inbox they may run and end, and their runtime with them. A
    // reference keeps `shared` alive for the rest of the call.
    // SAFETY: the pointer came from an `Arc`, which the home's thread holds as long as the tasks
    // are not queued.
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
    /// Same as `make_ready`, for several tasks. Each task is linked to the one before it.
    fn make_all_ready(&self, last: NonNull<Record>, first: NonNull<Record>) {
        let mut at = last;
        let mut later: *mut Record = ptr::null_mut();
        // Reverses the list: each task is then linked to the one after it.
        while at != first {
            // SAFETY: the caller has woken the tasks, and they cannot run before they are queued.
            let link = unsafe { &at.as_ref().link };
            let before = link.load(Ordering::Relaxed);
            link.store(later, Ordering::Relaxed);
            later = at.as_ptr();
            at = NonNull::new(before).expect("the linked tasks lead to `first`");
        }
        self.make_ready(first);
        while let Some(record) = NonNull::new(later) {
            // SAFETY: the task is not queued yet, so it cannot have run or ended.
            later = unsafe { record.as_ref() }.link.load(Ordering::Relaxed);
            self.make_ready(record);
        }
    }
}
