//! Run-down protection: a gate that many parties enter and leave, and that one party closes. The
//! last to leave after the closing learns that it was the last.
//!
//! # Protocol
//!
//! One word holds CLOSED and the number of parties inside. Entering is refused once CLOSED is set,
//! so the number only falls from then on. The word becomes CLOSED with no party inside exactly
//! once, and one party sees that: the closer, if the gate was empty, or else the last to leave.
//!
//! Leaving releases what the party did inside, and closing releases what the closer did before.
//! The party that learns that it was the last acquires both. A refused entry acquires what the
//! closer did before.
//!
//! The Windows kernel has the same mechanism under this name (`ExAcquireRundownProtection`).

use crate::shim::atomic::{AtomicU32, Ordering};

const CLOSED: u32 = 1 << 31;

/// A gate that can be closed once.
pub(crate) struct Rundown(AtomicU32);

impl Rundown {
    pub(crate) fn new() -> Rundown {
        Rundown(AtomicU32::new(0))
    }

    /// Enters, and must then leave. Returns `false` if the gate is closed. One locked instruction.
    pub(crate) fn enter(&self) -> bool {
        let inside = |word: u32| (word & CLOSED == 0).then_some(word + 1);
        // MUTANT(rundown.enter): relaxed, split
        self.0.fetch_update(Ordering::Relaxed, Ordering::Acquire, inside).is_ok()
    }

    /// Leaves, for a party inside. Returns `true` if the gate is closed and this was the last
    /// party inside. One locked instruction.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        // MUTANT(rundown.leave): acquire, release, split
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & !CLOSED != 0, "left without having entered");
        before == CLOSED | 1
    }

    /// Closes the gate. Returns `true` if this call has closed it and no party is inside.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        // MUTANT(rundown.close): acquire, release, split
        self.0.fetch_or(CLOSED, Ordering::AcqRel) == 0
    }
}
