//! One end of a [`Ring`](super::ring::Ring): its word, and what its callers know of the other end.

use super::word::{Notice, ONE_PERMIT, ONE_POSITION, STRICT, permits};
use crate::shim::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::shim::load_in_total_order;
use crossbeam_utils::CachePadded;

/// A claim at every 64th position may end the contended mode.
const SAMPLE: u64 = 64;

/// The tail (senders) or the head (receivers) of a ring.
pub(super) struct End {
    pub(super) word: CachePadded<AtomicU64>,
    /// The word of the other end as a caller here last saw it. Most callers need not look there
    /// again.
    pub(super) other_seen: CachePadded<AtomicU64>,
    /// About the waiters of this end, for the callers of the other end. Also their seat.
    pub(super) waiters: CachePadded<Notice>,
    /// The position, with STRICT set, at which a waiter was called from the seat, or 0 if it has
    /// come. A hint.
    pub(super) called_since: AtomicU64,
    /// Several callers use this end at once.
    contended: AtomicBool,
}

impl End {
    pub(super) fn starting_at(start: u64) -> End {
        let word = || CachePadded::new(AtomicU64::new(start));
        let waiters = CachePadded::new(Notice::new());
        End {
            word: word(),
            other_seen: word(),
            waiters,
            called_since: AtomicU64::new(0),
            contended: AtomicBool::new(false),
        }
    }

    /// Returns whether `so` holds for the other end's word as last seen, or else for its present
    /// value.
    #[inline]
    pub(super) fn sees(&self, other: &End, so: impl Fn(u64) -> bool) -> bool {
        if so(self.other_seen.load(Ordering::Relaxed)) {
            return true;
        }
        so(self.load_other(other))
    }

    /// Reads the word of the other end, and remembers it.
    #[inline]
    pub(super) fn load_other(&self, other: &End) -> u64 {
        let now = load_in_total_order(&*other.word);
        self.other_seen.store(now, Ordering::Relaxed);
        now
    }

    /// Returns whether several callers use this end at once.
    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed)
    }

    /// Marks this end as contended, after a failed compare-and-swap.
    #[cold]
    pub(super) fn contend(&self) {
        self.contended.store(true, Ordering::Relaxed);
    }

    /// Adds a permit, and keeps it if `may` holds for the word before. A refused permit is
    /// subtracted again; until then, other callers see it as a permit that is out.
    pub(super) fn claim(&self, may: impl Fn(u64) -> bool) -> bool {
        // MUTANT(ring.claim): split
        let word = self.word.fetch_add(ONE_PERMIT, Ordering::SeqCst);
        if permits(word) == 0 && (word / ONE_POSITION).is_multiple_of(SAMPLE) {
            self.contended.store(false, Ordering::Relaxed);
        }
        let may = may(word);
        if !may {
            self.word.fetch_sub(ONE_PERMIT, Ordering::SeqCst);
        }
        may
    }

    /// Sets or clears STRICT. Requires the channel's lock.
    pub(super) fn set_strict(&self, is_strict: bool) {
        let was_strict = self.word.load(Ordering::Relaxed) & STRICT != 0;
        if is_strict && !was_strict {
            // MUTANT(ring.strict): split
            self.word.fetch_or(STRICT, Ordering::SeqCst);
        }
        if was_strict && !is_strict {
            self.word.fetch_and(!STRICT, Ordering::SeqCst);
        }
    }
}
