//! What a channel holds beyond its ring: the ring of a channel with unlimited room, or with room
//! for more values than are allocated at once, is small, and *overflows*.
//!
//! A sender that finds the ring full puts its value here, under the channel's lock. While there are
//! values here, the tail of the ring is STRICT: all senders come here, so that no value passes
//! an earlier value of its sender. The holder of the lock moves values on into the ring, in their
//! order, as far as there is room ([`Channel::refill`](super::state::Channel::refill)).
//!
//! No value is forgotten here: values that wait for a place are announced like senders that wait
//! for one, in the notice of the tail, and the caller that announces them looks for room
//! afterwards. A receiver that frees a place reads the notice afterwards, and comes for the lock
//! once half of the ring is free, so that one lock moves many values. So does a receiver that finds
//! the ring empty and STRICT.
//!
//! A permit of a sender is a place of the whole channel. While one is out, the tail is STRICT too,
//! so that nobody takes the place without the lock. A receiver in line is called rather than
//! granted a permit, and counts the values here: a permit that is used late would hide them.
//!
//! Permits of receivers there are nevertheless: of callers that claim one, and of a receiver that
//! may not be passed. If they stand for all values of the ring, a receiver that finds none takes
//! the first value all the same, and the first value here takes a place in the ring under the same
//! lock ([`Ring::exchange`]). So the owners of the permits still get one each, in order. Only a
//! receiver that may not be passed keeps others from that: it gets the next value that a permit
//! lets into the ring.
//!
//! The end: CLOSED is set in the ring when no value is left here. Until then, the senders find the
//! end here.

use super::line::{Senders, Supply};
use super::ring::Ring;
use super::ring::supply::OfRing;
use super::word::LineState;
use crate::scheduler::wait::waiters::WaitNode;
use std::collections::VecDeque;
use std::marker::PhantomData;

/// All of it is under the channel's lock.
pub(super) struct Overflow<T> {
    pub(super) values: VecDeque<T>,
    /// The room of the whole channel.
    capacity: usize,
    /// Places for which a sender has a permit.
    reserved: usize,
    pub(super) is_closed: bool,
}

impl<T> Overflow<T> {
    pub(super) fn new(capacity: usize) -> Overflow<T> {
        Overflow { values: VecDeque::new(), capacity, reserved: 0, is_closed: false }
    }

    /// Gives back memory after a burst. This is so rare that it costs nothing overall.
    pub(super) fn shrink(&mut self) {
        if self.values.capacity() > 64 && self.values.len() < self.values.capacity() / 8 {
            self.values.shrink_to(self.values.capacity() / 2);
        }
    }
}

/// An overflowing ring as the [`Supply`] of the senders.
pub(super) struct OfOverflow<'a, T>(pub(super) &'a Ring<T>, pub(super) &'a mut Overflow<T>);

impl<T> OfOverflow<'_, T> {
    fn ring(&self) -> OfRing<'_, T, Senders> {
        OfRing { ring: self.0, beyond: 0, side: PhantomData }
    }
}

impl<T> Supply for OfOverflow<'_, T> {
    fn free(&self) -> usize {
        let OfOverflow(ring, overflow) = self;
        let taken = ring.taken() + overflow.values.len() + overflow.reserved;
        overflow.capacity.saturating_sub(taken)
    }

    fn set_aside(&mut self) -> bool {
        // First, so that no sender without the lock takes the place that is reserved here. (As yet
        // it could not: the ring is smaller than the channel.) The announcement ends it.
        self.0.set_overflowed(true);
        let may = !self.is_over() && self.free() > 0;
        self.1.reserved += usize::from(may);
        may
    }

    fn take_back(&mut self) {
        self.1.reserved -= 1;
    }

    fn is_over(&self) -> bool {
        self.1.is_closed
    }

    fn is_strict(&self) -> bool {
        false
    }

    fn position(&self) -> u64 {
        self.ring().position()
    }

    fn block_seat(&mut self) -> Option<*const WaitNode> {
        self.ring().block_seat()
    }

    /// A sender that waits is served as soon as a place is free anywhere, values once half of the
    /// ring is free.
    fn announce(&self, line: LineState) {
        let OfOverflow(ring, overflow) = self;
        let has_overflowed = !overflow.values.is_empty() || overflow.reserved > 0;
        ring.set_overflowed(has_overflowed || line.is_strict());
        // MUTANT(overflow.urgent): with line.is_strict()
        let is_urgent = line.waits_in_line();
        if is_urgent || !overflow.values.is_empty() {
            ring.announce_overflow(is_urgent);
        } else {
            ring.seat::<Senders>().write(line);
        }
    }
}
