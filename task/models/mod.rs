//! Models of the protocols of this layer, one file each; run by ci/loom.sh.

mod attachment;
mod children;
mod join;
mod queue;
mod record;
mod tree;
mod wait;

use crate::retire::record_pool;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::thread::{Thread, current, park};
use crate::task::cell::layout_of;
use crate::task::record::{Birth, Record, Traits};
use crate::task::words::tree::{InheritedFlags, Node};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr::{self, NonNull};

/// A record for `f`, with a run reference and a handle's (or none, if detached).
pub(crate) fn record<T>(f: impl FnOnce() -> T, detached: bool) -> NonNull<Record> {
    make_record(f, detached, ptr::null())
}

/// A record with both references, of a child of `parent`.
pub(crate) fn record_below<T>(f: impl FnOnce() -> T, parent: *const Node) -> NonNull<Record> {
    make_record(f, false, parent)
}

fn make_record<T>(f: impl FnOnce() -> T, detached: bool, parent: *const Node) -> NonNull<Record> {
    fn make<F: FnOnce() -> T, T>(f: F, birth: Birth) -> NonNull<Record> {
        let memory = record_pool::allocate(layout_of::<F, T>());
        // SAFETY: the memory is for this layout, and ours.
        unsafe { Record::new(memory, f, birth) }
    }
    let birth = Birth {
        flags: InheritedFlags::FREE,
        parent,
        id: 1,
        spawned_at: Location::caller(),
        traits: Traits::default(),
        cold: None,
        detached,
    };
    make(f, birth)
}

/// Ends a record and frees its memory, after the last release.
///
/// # Safety
/// No reference is left, and the outcome is gone.
pub(crate) unsafe fn end(record: NonNull<Record>) {
    // SAFETY: passed on.
    let layout = unsafe { Record::end(record) }.layout;
    // SAFETY: ended just now; `record` above allocated it.
    unsafe { record_pool::free(record.cast(), layout) };
}

/// The queue that carries a waiter home, and its processor: what the scheduler is for a task.
pub(crate) struct Processor {
    thread: RefCell<Option<Thread>>,
    /// What the queue orders: whoever takes a waiter out sees what happened before it was put in.
    queued: AtomicUsize,
    taken: Cell<usize>,
}

impl Processor {
    pub(crate) fn new() -> Processor {
        Processor { thread: RefCell::new(None), queued: AtomicUsize::new(0), taken: Cell::new(0) }
    }

    /// For the waiter's thread, before it makes itself known.
    pub(crate) fn introduce(&self) {
        *self.thread.borrow_mut() = Some(current());
    }

    /// Queues the waiter: what `resume` does.
    pub(crate) fn resume(&self) {
        self.queued.fetch_add(1, Ordering::Release);
        let thread = self.thread.borrow().clone();
        thread.expect("a waiter introduces itself before it is known").unpark();
    }

    /// Leaves the processor until queued: what `suspend` does.
    pub(crate) fn suspend(&self) {
        while self.wakes() == self.taken.get() {
            park();
        }
        self.taken.set(self.taken.get() + 1);
    }

    /// How many times the waiter was queued.
    pub(crate) fn wakes(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }
}
