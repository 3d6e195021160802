//! One end of a [`Ring`](super::ring::Ring).

use super::word::{ONE_PERMIT, ONE_POSITION, STRICT, permits};
use crate::shim::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::shim::load_in_total_order;
use crossbeam_utils::CachePadded;

/// At each so many positions it is asked whether many still come at once.
const SAMPLE: u64 = 64;

/// What those at one end move.
pub(super) struct End {
    pub(super) word: CachePadded<AtomicU64>,
    /// A word of the other end that somebody has seen, so that not everybody has to look there.
    pub(super) other_seen: CachePadded<AtomicU64>,
    /// Many come at once.
    contended: AtomicBool,
}

impl End {
    pub(super) fn starting_at(start: u64) -> End {
        let word = || CachePadded::new(AtomicU64::new(start));
        End { word: word(), other_seen: word(), contended: AtomicBool::new(false) }
    }

    /// Whether `so` holds for a word of the other end that was seen, or else for the present one.
    #[inline]
    pub(super) fn sees(&self, other: &End, so: impl Fn(u64) -> bool) -> bool {
        if so(self.other_seen.load(Ordering::Relaxed)) {
            return true;
        }
        so(self.look(other))
    }

    /// The word of the other end.
    pub(super) fn look(&self, other: &End) -> u64 {
        let now = load_in_total_order(&*other.word);
        self.other_seen.store(now, Ordering::Relaxed);
        now
    }

    /// Whether many come here at once.
    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed)
    }

    /// Somebody was in somebody else's way.
    #[cold]
    pub(super) fn contend(&self) {
        self.contended.store(true, Ordering::Relaxed);
    }

    /// Adds a permit, if `may` holds for the word. Until then it looks to others as if the permit were
    /// out.
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

    /// Sets or clears STRICT. Under the lock.
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
