//! The layout of the words of a [`Ring`](super::ring::Ring).
//!
//! * `tail` is the senders' word, `head` the receivers'. Each has the **position** of the next
//!   value that is put, or taken, modulo 2^45; the number of **permits** at this end, that is of places
//!   that are reserved, or of values that are promised; and two flags. [`STRICT`]: the first waiter
//!   at this end is not to be passed. [`CLOSED`], in `tail` alone: nothing is put any more.
//! * A [`Notice`] tells one end about the waiters at the other end: whether there are any
//!   ([`WAITS`]), whether the first of them is not to be passed ([`FIRST_IS_STRICT`]), how many
//!   have been **called**, in the place of the permits, and the position at which that number has
//!   changed last.

use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::load_in_total_order;

pub(super) const STRICT: u64 = 1;
pub(super) const CLOSED: u64 = 2;
const WAITS: u64 = 1;
const FIRST_IS_STRICT: u64 = 2;
pub(super) const ONE_PERMIT: u64 = 1 << 2;
const PERMITS: u32 = 17;
pub(super) const ONE_POSITION: u64 = ONE_PERMIT << PERMITS;
/// The largest capacity. So many permits can be out at one end, and as many threads may claim one
/// at the same time.
pub(super) const LARGEST: usize = (1 << (PERMITS - 1)) - 1;

pub(super) fn permits(word: u64) -> i64 {
    (word / ONE_PERMIT % (1 << PERMITS)).cast_signed()
}

fn position(word: u64) -> u64 {
    word / ONE_POSITION * ONE_POSITION
}

/// How far the position of `to` is ahead of that of `from`. It may be behind, if the words were
/// read one after the other.
pub(super) fn distance(from: u64, to: u64) -> i64 {
    position(to).wrapping_sub(position(from)).cast_signed() >> ONE_POSITION.ilog2()
}

/// What one end knows of the waiters at the other end, without the lock.
pub(super) struct Notice(AtomicU64);

impl Notice {
    pub(super) fn new() -> Notice {
        Notice(AtomicU64::new(0))
    }

    pub(super) fn read(&self) -> Told {
        // MUTANT(ring.notice.read): relaxed
        Told(load_in_total_order(&self.0))
    }

    /// Under the lock.
    pub(super) fn write(&self, told: Told) {
        // MUTANT(ring.notice.write): relaxed
        self.0.swap(told.0, Ordering::SeqCst);
    }
}

/// The state of a line of waiters.
#[derive(Clone, Copy)]
pub(super) struct Told(u64);

impl Told {
    /// Nobody waits.
    pub(super) const NOBODY: Told = Told(0);

    /// Somebody waits. `since` has the position at which one of `called` was called last, or came.
    pub(super) fn new(is_strict: bool, called: usize, since: u64) -> Told {
        let strict = if is_strict { FIRST_IS_STRICT } else { 0 };
        let called = called.min(LARGEST) as u64 * ONE_PERMIT;
        Told(position(since) | called | strict | WAITS)
    }

    #[inline(always)]
    pub(super) fn waits(self) -> bool {
        self.0 & WAITS != 0
    }

    pub(super) fn is_strict(self) -> bool {
        self.0 & FIRST_IS_STRICT != 0
    }

    /// Waiters that are about to come.
    pub(super) fn called(self) -> i64 {
        permits(self.0)
    }

    /// How many values have passed since somebody was called, or came.
    pub(super) fn passed(self, word: u64) -> i64 {
        distance(self.0, word)
    }
}
