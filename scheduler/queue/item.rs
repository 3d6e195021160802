//! What lies in a public queue: a fresh task, or a started one that may change workers.

use crate::task::record::Record;
use std::ptr::NonNull;

const STARTED: usize = 1;

/// A record's address with one bit. Holds the task's run reference, or (a fresh task that somebody
/// claimed elsewhere) a stale reference of its own.
pub(crate) struct Item(usize);

/// An item taken apart.
pub(crate) enum Runnable {
    /// To be claimed before it is started.
    Fresh(NonNull<Record>),
    /// A suspended coroutine that goes on wherever it is taken.
    Started(NonNull<Record>),
}

impl Item {
    pub(crate) fn fresh(record: NonNull<Record>) -> Item {
        Item(record.as_ptr().expose_provenance())
    }

    pub(crate) fn started(record: NonNull<Record>) -> Item {
        Item(record.as_ptr().expose_provenance() | STARTED)
    }

    pub(crate) fn open(self) -> Runnable {
        let address = std::ptr::with_exposed_provenance_mut(self.0 & !STARTED);
        // SAFETY: made from a NonNull above; a record's address is even.
        let record = unsafe { NonNull::new_unchecked(address) };
        if self.0 & STARTED == 0 { Runnable::Fresh(record) } else { Runnable::Started(record) }
    }
}
