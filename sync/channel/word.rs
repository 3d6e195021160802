//! The layout of the words of a [`Ring`](super::ring::Ring).
//!
//! * `tail` is the senders' word, `head` the receivers'. Each holds the **position** of the next
//!   value to be put or taken, modulo 2^45; the number of **permits** at this end (reserved places
//!   in `tail`, promised values in `head`); and two flags. [`STRICT`] means that the first waiter
//!   at this end may not be passed. [`CLOSED`], used in `tail` only, means that no more values are
//!   put.
//! * A [`Notice`] tells one end about the waiters at the other end: whether there are any
//!   ([`WAITS`]), whether the first of them may not be passed ([`FIRST_IS_STRICT`]), how many have
//!   been **called** (in the bits of the permits), and the position at which that number last
//!   changed. While the line is empty, the notice is the [seat](super::line): 0 if it is free, the
//!   address of the node in it, [`BUSY`] while the holder of the lock has blocked it, or
//!   [`NO_SEAT`](LineState::NO_SEAT). Both flags are clear in an address, as nodes are aligned, and
//!   so is [`SENDS`], which is set beside the address of a sender.

use super::line::Side;
use crate::scheduler::wait::waiters::WaitNode;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::load_in_total_order;
use std::ptr;

pub(super) const STRICT: u64 = 1;
pub(super) const CLOSED: u64 = 2;
const WAITS: u64 = 1;
const FIRST_IS_STRICT: u64 = 2;
/// The notice while the holder of the lock has blocked the seat. To all others the line is strict,
/// so whoever frees something comes for the lock.
const BUSY: u64 = WAITS | FIRST_IS_STRICT;
/// Set beside the address of a sender's node.
const SENDS: u64 = 4;
const _: () = assert!(align_of::<WaitNode>() > SENDS as usize);
pub(super) const ONE_PERMIT: u64 = 1 << 2;
const PERMITS: u32 = 17;
pub(super) const ONE_POSITION: u64 = ONE_PERMIT << PERMITS;
/// The largest capacity. At one end, up to this many permits can be out while up to this many
/// threads claim another one.
pub(super) const LARGEST: usize = (1 << (PERMITS - 1)) - 1;

pub(super) fn permits(word: u64) -> i64 {
    (word / ONE_PERMIT % (1 << PERMITS)).cast_signed()
}

/// Returns what is set beside the address of a node of this side.
const fn side<S: Side>() -> u64 {
    if S::SENDS { SENDS } else { 0 }
}

fn position(word: u64) -> u64 {
    word / ONE_POSITION * ONE_POSITION
}

/// Returns how far the position of `to` is ahead of that of `from`. The distance may be negative if
/// the two words were read one after the other.
pub(super) fn distance(from: u64, to: u64) -> i64 {
    position(to).wrapping_sub(position(from)).cast_signed() >> ONE_POSITION.ilog2()
}

/// The state of the waiters at one end, which the other end reads without the lock. Also their
/// seat.
pub(super) struct Notice(AtomicU64);

impl Notice {
    pub(super) fn new() -> Notice {
        Notice(AtomicU64::new(0))
    }

    #[inline]
    pub(super) fn read(&self) -> LineState {
        // MUTANT(ring.notice.read): relaxed
        LineState(load_in_total_order(&self.0))
    }

    /// Seats this node, if the seat is free.
    #[inline]
    pub(super) fn sit<S: Side>(&self, node: *const WaitNode) -> bool {
        let node = node.expose_provenance() as u64 | side::<S>();
        // MUTANT(ring.seat.sit): relaxed
        self.0.compare_exchange(0, node, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes a node out of the seat, if it is still there.
    #[inline]
    pub(super) fn take<S: Side>(&self, node: *const WaitNode) -> bool {
        let node = node.addr() as u64 | side::<S>();
        // MUTANT(ring.seat.take): relaxed, split
        self.0.compare_exchange(node, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Blocks the seat until the line is written as empty, and returns what was there. Requires the
    /// channel's lock, and an empty line.
    pub(super) fn block_seat(&self) -> LineState {
        // MUTANT(ring.seat.block): relaxed, split
        LineState(self.0.swap(BUSY, Ordering::SeqCst))
    }

    /// Requires the channel's lock. [`EMPTY`](LineState::EMPTY) frees the seat.
    pub(super) fn write(&self, line: LineState) {
        // Somebody may sit in a seat that is not blocked. Only the holder of the lock sets and
        // clears WAITS.
        // MUTANT(ring.notice.free): false
        if !line.waits() && self.0.load(Ordering::Relaxed) & WAITS == 0 {
            return;
        }
        // MUTANT(ring.notice.write): relaxed
        self.0.swap(line.0, Ordering::SeqCst);
    }
}

/// The state of a line of waiters.
#[derive(Clone, Copy)]
pub(super) struct LineState(u64);

impl LineState {
    /// The line is empty.
    pub(super) const EMPTY: LineState = LineState(0);
    /// The line is empty, and the seat may not be used.
    pub(super) const NO_SEAT: LineState = LineState(FIRST_IS_STRICT);

    /// The line is not empty. `since` holds the position at which the line began, a waiter was last
    /// served, or a called waiter last came.
    pub(super) fn new(is_strict: bool, called: usize, since: u64) -> LineState {
        let strict = if is_strict { FIRST_IS_STRICT } else { 0 };
        let called = called.min(LARGEST) as u64 * ONE_PERMIT;
        LineState(position(since) | called | strict | WAITS)
    }

    #[inline(always)]
    pub(super) fn waits(self) -> bool {
        self.0 & !FIRST_IS_STRICT != 0
    }

    /// Returns the node in the seat, if its waiter is of this side.
    #[inline(always)]
    pub(super) fn seated<S: Side>(self) -> Option<*const WaitNode> {
        let is_node = self.0 & (BUSY | SENDS) == side::<S>() && self.0 != 0;
        is_node.then(|| ptr::with_exposed_provenance((self.0 - side::<S>()) as usize))
    }

    /// Returns whether the line is not empty, or the seat is blocked.
    pub(super) fn waits_in_line(self) -> bool {
        self.0 & WAITS != 0
    }

    pub(super) fn is_strict(self) -> bool {
        self.0 & BUSY == BUSY
    }

    /// Returns how many waiters have been called and have not come yet.
    pub(super) fn called(self) -> i64 {
        permits(self.0)
    }

    /// Returns how many values have passed the line since the position that `new` was given.
    pub(super) fn passed(self, word: u64) -> i64 {
        distance(self.0, word)
    }
}
