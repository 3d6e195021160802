//! Models of the protocols of this layer, one file each; run by ci/loom.sh.

mod join;
mod queue;
mod record;
mod tree;
mod wait;

use crate::retire::record::{Birth, Record, Traits, layout_of};
use crate::retire::record_pool;
use crate::retire::tree::{Node, Restriction};
use crate::shim::thread::{Thread, current, park};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr::{self, NonNull};

/// A record for `f`, with a run reference and a handle's (or none, if detached).
pub(crate) fn record<T>(f: impl FnOnce() -> T, detached: bool) -> NonNull<Record> {
    make_record(f, detached, ptr::null(), Traits::default())
}

/// A record with both references, of a child of the task `parent`.
pub(crate) fn record_below<T>(f: impl FnOnce() -> T, parent: NonNull<Record>) -> NonNull<Record> {
    make_record(f, false, parent.as_ptr().cast(), Traits::default())
}

/// As `record_below`, of a task that stands for a fork of `parent`.
pub(crate) fn record_of_fork<T>(f: impl FnOnce() -> T, parent: NonNull<Record>) -> NonNull<Record> {
    let traits = Traits { forked: true, ..Traits::default() };
    make_record(f, false, parent.as_ptr().cast(), traits)
}

fn make_record<T>(
    f: impl FnOnce() -> T,
    detached: bool,
    parent: *const Node,
    traits: Traits,
) -> NonNull<Record> {
    fn make<F: FnOnce() -> T, T>(f: F, birth: Birth) -> NonNull<Record> {
        let memory = record_pool::allocate(layout_of::<F, T>());
        // SAFETY: the memory is for this layout, and ours.
        unsafe { Record::new(memory, f, birth) }
    }
    let birth = Birth {
        restriction: Restriction::None,
        parent,
        id: 1,
        spawned_at: Location::caller(),
        traits,
        extras: None,
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
    queued: Cell<usize>,
    taken: Cell<usize>,
}

impl Processor {
    pub(crate) fn new() -> Processor {
        Processor { thread: RefCell::new(None), queued: Cell::new(0), taken: Cell::new(0) }
    }

    /// For the waiter's thread, before it makes itself known.
    pub(crate) fn introduce(&self) {
        *self.thread.borrow_mut() = Some(current());
    }

    /// Queues the waiter: what `resume` does.
    pub(crate) fn resume(&self) {
        self.queued.set(self.queued.get() + 1);
        let thread = self.thread.borrow().clone();
        thread.expect("a waiter introduces itself before it is known").unpark();
    }

    /// Leaves the processor until queued: what `suspend` does.
    pub(crate) fn suspend(&self) {
        while self.queued.get() == self.taken.get() {
            park();
        }
        self.taken.set(self.taken.get() + 1);
    }

    /// How many times the waiter was queued.
    pub(crate) fn wakes(&self) -> usize {
        self.queued.get()
    }
}
