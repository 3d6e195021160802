//! Loom models of the protocols of this layer; run by ci/loom.sh.
//!
//! | file | |
//! | --- | --- |
//! | `attachment` | two threads attach a value |
//! | `children` | links, ends, look-ups and the walk of a cancel |
//! | `join` | the join word, alone and with the wait word of its waiter |
//! | `queue` | the retire queue |
//! | `record` | references, claims, cold data |
//! | `tree` | the count of children |
//! | `wait` | the wait word |

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
use crate::task::cell::{Body, layout_of};
use crate::task::cold::ColdData;
use crate::task::record::{Birth, Record, Traits};
use crate::task::words::tree::{InheritedFlags, Node};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr::{self, NonNull};

/// Makes a record for `f`, with a run reference and, unless it is detached, a handle's reference.
pub(crate) fn record<T>(f: impl FnOnce() -> T, detached: bool) -> NonNull<Record> {
    make_record(f, detached, ptr::null())
}

/// Makes the record of a child of `parent`, with both references.
pub(crate) fn record_below<T>(f: impl FnOnce() -> T, parent: *const Node) -> NonNull<Record> {
    make_record(f, false, parent)
}

fn make_record<T>(f: impl FnOnce() -> T, detached: bool, parent: *const Node) -> NonNull<Record> {
    fn make<B: Body<T>, T>(body: B, birth: Birth) -> NonNull<Record> {
        let memory = record_pool::allocate(layout_of::<B, T>());
        // SAFETY: the memory was just allocated for this layout.
        unsafe { Record::new(memory, body, birth) }
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
    // SAFETY: no reference is left, and the outcome is gone. The cold data end by `ColdData::end`.
    record_pool::free(unsafe { Record::end(record, ColdData::end) });
}

/// Stands for the scheduler: the queue that a waker puts the waiter into, and the waiter's thread.
pub(crate) struct Processor {
    thread: RefCell<Option<Thread>>,
    /// The queue's ordering: all that happened before the push is visible after the pop.
    queued: AtomicUsize,
    taken: Cell<usize>,
}

impl Processor {
    pub(crate) fn new() -> Processor {
        Processor { thread: RefCell::new(None), queued: AtomicUsize::new(0), taken: Cell::new(0) }
    }

    /// Stores the waiter's thread. Called by that thread, before others can find the waiter.
    pub(crate) fn introduce(&self) {
        *self.thread.borrow_mut() = Some(current());
    }

    /// Queues the waiter, like the scheduler's `resume`.
    pub(crate) fn resume(&self) {
        self.queued.fetch_add(1, Ordering::Release);
        let thread = self.thread.borrow().clone();
        thread.expect("the waiter must call `introduce` first").unpark();
    }

    /// Parks the thread until the waiter is queued, like the scheduler's `suspend`.
    pub(crate) fn suspend(&self) {
        while self.wakes() == self.taken.get() {
            park();
        }
        self.taken.set(self.taken.get() + 1);
    }

    /// Returns how many times the waiter was queued.
    pub(crate) fn wakes(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }
}
