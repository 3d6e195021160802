//! A door that many go through and one closes: the last of them to leave learns that it was the last.
//!
//! # Protocol
//!
//! One word: CLOSED, and the number of those inside. WaitFuture is refused once CLOSED is set, so the number only
//! falls from then on. Of the one who sets it and those who leave after that, exactly one sees the word become
//! CLOSED with nobody inside: the closer if nobody was, else the last to leave.
//!
//! Whoever leaves releases what it did inside, and the closer what it did before; whoever is told that it is the last
//! acquires both. One who is refused acquires what the closer did before.
//!
//! The Windows kernel has the same by the name of run-down protection (`ExAcquireRundownProtection`).

use crate::shim::atomic::{AtomicU32, Ordering};

const CLOSED: u32 = 1 << 31;

/// See the module's documentation.
pub(crate) struct Rundown(AtomicU32);

impl Rundown {
    pub(crate) fn new() -> Rundown {
        Rundown(AtomicU32::new(0))
    }

    /// Goes in, to leave again; false if it is closed. One locked instruction.
    pub(crate) fn enter(&self) -> bool {
        let inside = |word: u32| (word & CLOSED == 0).then_some(word + 1);
        // MUTANT(rundown.enter): relaxed, split
        self.0.fetch_update(Ordering::Relaxed, Ordering::Acquire, inside).is_ok()
    }

    /// For one who is inside; true if it has been closed and this was the last. One locked instruction.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        // MUTANT(rundown.leave): acquire, release, split
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & !CLOSED != 0, "left without having entered");
        before == CLOSED | 1
    }

    /// Lets nobody in any more; true if this has closed it and nobody is inside.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        // MUTANT(rundown.close): acquire, release, split
        self.0.fetch_or(CLOSED, Ordering::AcqRel) == 0
    }
}
