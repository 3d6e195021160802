//! An entry of a public queue: a fresh task, or a started one that may change workers.

use crate::task::record::Record;
use std::ptr::NonNull;

const STARTED: usize = 1;

/// The address of a record, with one bit. An item holds the task's run reference, or a stale
/// reference of its own if the fresh task has been claimed elsewhere.
pub(crate) struct Item(usize);

/// An item taken apart.
pub(crate) enum Runnable {
    /// A fresh task, which must be claimed before it is started.
    Fresh(NonNull<Record>),
    /// A suspended coroutine, which goes on at the worker that takes it.
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
        // SAFETY: the address was made from a NonNull in `fresh` or `started`; it is even, so
        // clearing the bit restores it.
        let record = unsafe { NonNull::new_unchecked(address) };
        if self.0 & STARTED == 0 { Runnable::Fresh(record) } else { Runnable::Started(record) }
    }
}
