//! An entry of a public queue: a fresh task, or a started one that may change workers.

use crate::task::record::Record;
use crate::task::reference::{Ready, RunRef};
use std::ptr::NonNull;

const STARTED: usize = 1;

/// The address of a record, with one bit. An item holds the task's run reference, or a stale
/// reference of its own if the fresh task has been claimed elsewhere.
pub(crate) struct Item(usize);

/// A task that was taken out of a public queue.
pub(crate) enum Runnable {
    /// A fresh task, claimed.
    Fresh(RunRef),
    /// A suspended fiber, which goes on at the worker that has taken it.
    Started(Ready),
}

impl Item {
    pub(crate) fn fresh(run: RunRef) -> Item {
        Item(run.into_pointer().as_ptr().expose_provenance())
    }

    pub(crate) fn started(ready: Ready) -> Item {
        Item(ready.into_pointer().as_ptr().expose_provenance() | STARTED)
    }

    pub(crate) fn is_started(&self) -> bool {
        self.0 & STARTED != 0
    }

    /// Returns the record, and whether its task has been started.
    pub(crate) fn into_parts(self) -> (NonNull<Record>, bool) {
        let address = std::ptr::with_exposed_provenance_mut(self.0 & !STARTED);
        (NonNull::new(address).expect("made from a reference"), self.0 & STARTED != 0)
    }
}
