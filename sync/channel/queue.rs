//! The values of a channel without room, or with room for all or very many. All of it is under the
//! channel's lock.
//!
//! # Without room (capacity 0)
//!
//! There are as many places as receivers that wait, or that have a permit but have not taken their
//! value yet. A sender that comes first waits; the receiver that comes grants it a place, and waits
//! for the value. If the receiver has left before the sender runs, the place is gone, and the
//! sender waits again. Once the value is in the queue, the two have met. That stands: if the
//! receiver is cancelled then, it receives the value all the same.

use super::line::Supply;
use super::shared::{Ends, Tried};
use super::word::{ONE_POSITION, Told};
use crate::scheduler::wait::waiters::Wakes;
use std::collections::VecDeque;

pub(super) struct Queue<T> {
    values: VecDeque<T>,
    capacity: usize,
    /// Values for which a receiver has a permit.
    promised: usize,
    /// Places for which a sender has a permit.
    reserved: usize,
    closed: bool,
    /// How many values have been put and taken, as positions.
    put: u64,
    taken: u64,
}

/// The places of a queue, for which senders wait.
pub(super) struct Places<'a, T> {
    queue: &'a mut Queue<T>,
    /// The number of waiting receivers.
    receivers: usize,
}

impl<T> Supply for Places<'_, T> {
    fn free(&self) -> usize {
        self.queue.room(self.receivers)
    }

    fn set_aside(&mut self) -> bool {
        let may = !self.queue.closed && self.free() > 0;
        self.queue.reserved += usize::from(may);
        may
    }

    fn take_back(&mut self) {
        self.queue.reserved -= 1;
    }

    fn is_over(&self) -> bool {
        self.queue.closed
    }

    fn is_strict(&self) -> bool {
        self.queue.capacity == 0
    }

    fn position(&self) -> u64 {
        self.queue.taken
    }

    fn announce(&self, _: Told) {}
}

/// The values of a queue, for which receivers wait.
pub(super) struct Values<'a, T>(&'a mut Queue<T>);

impl<T> Supply for Values<'_, T> {
    fn free(&self) -> usize {
        self.0.values.len() - self.0.promised
    }

    fn set_aside(&mut self) -> bool {
        let may = self.free() > 0;
        self.0.promised += usize::from(may);
        may
    }

    fn take_back(&mut self) {
        self.0.promised -= 1;
    }

    fn is_over(&self) -> bool {
        self.0.closed && self.0.values.is_empty()
    }

    fn is_strict(&self) -> bool {
        self.0.capacity == 0 || self.0.closed
    }

    fn position(&self) -> u64 {
        self.0.put
    }

    fn announce(&self, _: Told) {}
}

impl<T> Queue<T> {
    pub(super) fn new(capacity: usize) -> Queue<T> {
        Queue {
            values: VecDeque::new(),
            capacity,
            promised: 0,
            reserved: 0,
            closed: false,
            put: 0,
            taken: 0,
        }
    }

    /// Returns how many places have no permit, given the number of waiting receivers.
    fn room(&self, receivers: usize) -> usize {
        let places = match self.capacity {
            0 => receivers + self.promised,
            capacity => capacity,
        };
        places.saturating_sub(self.values.len() + self.reserved)
    }

    pub(super) fn places(&mut self, receivers: usize) -> Places<'_, T> {
        Places { queue: self, receivers }
    }

    pub(super) fn values(&mut self) -> Values<'_, T> {
        Values(self)
    }

    fn put(&mut self, value: &mut Option<T>, ends: &mut Ends, wakes: &mut Wakes) -> Tried<()> {
        self.values.push_back(value.take().expect("a value is put once"));
        self.put = self.put.wrapping_add(ONE_POSITION);
        ends.receivers.serve(&mut self.values(), wakes);
        Tried::Done(())
    }

    pub(super) fn try_put(
        &mut self,
        value: &mut Option<T>,
        ends: &mut Ends,
        wakes: &mut Wakes,
    ) -> Tried<()> {
        if self.closed {
            return Tried::Closed;
        }
        let places = self.places(ends.receivers.len());
        if places.free() == 0 || ends.senders.is_strict(&places) {
            return Tried::Later;
        }
        self.put(value, ends, wakes)
    }

    pub(super) fn put_by_permit(
        &mut self,
        value: &mut Option<T>,
        ends: &mut Ends,
        wakes: &mut Wakes,
    ) -> Tried<()> {
        self.reserved -= 1;
        if self.closed {
            return Tried::Closed;
        }
        // The receiver that made this place has left.
        if self.room(ends.receivers.len()) == 0 {
            return Tried::Later;
        }
        self.put(value, ends, wakes)
    }

    pub(super) fn try_take(&mut self, ends: &mut Ends, wakes: &mut Wakes) -> Tried<T> {
        let values = self.values();
        if values.free() > 0 && !ends.receivers.is_strict(&values) {
            return Tried::Done(self.take(ends, wakes));
        }
        if values.is_over() { Tried::Closed } else { Tried::Later }
    }

    pub(super) fn take_by_permit(&mut self, ends: &mut Ends, wakes: &mut Wakes) -> T {
        self.promised -= 1;
        self.take(ends, wakes)
    }

    fn take(&mut self, ends: &mut Ends, wakes: &mut Wakes) -> T {
        let value = self.values.pop_front().expect("the caller has seen a value");
        self.taken = self.taken.wrapping_add(ONE_POSITION);
        // After a burst. This is so rare that it costs nothing overall.
        if self.values.capacity() > 64 && self.values.len() < self.values.capacity() / 8 {
            self.values.shrink_to(self.values.capacity() / 2);
        }
        let receivers = ends.receivers.len();
        ends.senders.serve(&mut self.places(receivers), wakes);
        if self.closed {
            ends.receivers.serve(&mut self.values(), wakes);
        }
        value
    }

    /// Refuses all further puts. The caller then serves both lines.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn drain(&mut self) -> Vec<T> {
        std::mem::take(&mut self.values).into()
    }
}
