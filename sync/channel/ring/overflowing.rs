//! What a ring that [overflows](super::super::overflow) does for its channel.

use super::Ring;
use super::slot::look_until;
use crate::shim::atomic::Ordering;
use crate::shim::load_in_total_order;
use crate::sync::channel::errors::{Refused, Tried};
use crate::sync::channel::line::Senders;
use crate::sync::channel::word::{CLOSED, LineState, ONE_POSITION, STRICT, distance, permits};
use std::collections::VecDeque;

impl<T> Ring<T> {
    /// Moves values in from the front of the overflow, as far as there is room. Returns
    /// how many. Requires the channel's lock.
    pub(in crate::sync::channel) fn put_all(&self, values: &mut VecDeque<T>) -> usize {
        loop {
            let tail = load_in_total_order(&*self.tail.word);
            let room = self.amount::<Senders>(tail, self.tail.load_other(&self.head));
            let most = usize::try_from(room - permits(tail)).unwrap_or(0);
            let count = most.min(values.len());
            if count == 0 {
                return 0;
            }
            let position = |i: usize| tail.wrapping_add(i as u64 * ONE_POSITION);
            let (done, seen) = (Ordering::SeqCst, Ordering::Relaxed);
            // MUTANT(ring.put_all): split
            if self.tail.word.compare_exchange(tail, position(count), done, seen).is_ok() {
                values.drain(..count).enumerate().for_each(|(i, v)| self.write(position(i), v));
                return count;
            }
        }
    }

    /// Takes the first value although all are promised, and puts in the first of `values`, which is
    /// not empty. The owners of the permits get those behind the first. Fails if the first waiter
    /// may not be passed. `Missed` if another caller interfered. Requires the channel's lock.
    pub(in crate::sync::channel) fn exchange(&self, values: &mut VecDeque<T>) -> Tried<T> {
        let head = load_in_total_order(&*self.head.word);
        if head & STRICT != 0 {
            return Err(Refused::Behind);
        }
        let has = distance(head, load_in_total_order(&*self.tail.word)) > 0;
        if !has || !self.pass(head) {
            return Err(Refused::Missed);
        }
        let value = self.read(head)?;
        // A refused claim of a sender may hide the place for a moment. The owner of a permit that
        // comes meanwhile waits for the stamp.
        look_until(|| (self.put_all(values) > 0).then_some(()));
        Ok(value)
    }

    /// Returns how many places are filled or reserved, or a greater number.
    pub(in crate::sync::channel) fn taken(&self) -> usize {
        let head = load_in_total_order(&*self.head.word);
        let tail = load_in_total_order(&*self.tail.word);
        (distance(head, tail) + permits(tail)).min(self.capacity).unsigned_abs() as usize
    }

    /// Returns whether there is a place without a permit.
    pub(in crate::sync::channel) fn has_room(&self) -> bool {
        let tail = load_in_total_order(&*self.tail.word);
        self.amount::<Senders>(tail, self.tail.load_other(&self.head)) > permits(tail)
    }

    /// Sends all senders to the lock, or no more. Requires the channel's lock.
    pub(in crate::sync::channel) fn set_overflowed(&self, has_overflowed: bool) {
        self.tail.set_strict(has_overflowed);
    }

    /// Announces what waits for places: receivers come for the lock when half of the ring is free,
    /// or, if `is_urgent`, whenever they have freed one. Requires the channel's lock.
    pub(in crate::sync::channel) fn announce_overflow(&self, is_urgent: bool) {
        let since = self.head.word.load(Ordering::Relaxed);
        self.tail.waiters.write(LineState::new(is_urgent, self.slots.len() / 2, since));
    }

    /// Returns whether the ring may have overflowed.
    pub(in crate::sync::channel) fn has_overflowed(&self) -> bool {
        self.overflows && load_in_total_order(&*self.tail.word) & STRICT != 0
    }

    /// Returns whether the ring is closed, or `None` if that is to be asked under the lock.
    pub(in crate::sync::channel) fn knows_closed(&self) -> Option<bool> {
        let tail = load_in_total_order(&*self.tail.word);
        let is_closed = tail & CLOSED != 0;
        (is_closed || !self.overflows || tail & STRICT == 0).then_some(is_closed)
    }
}
