//! What lies in a channel without room, or with room for all, or for very many: everything under the channel's lock.
//!
//! # Without room (capacity 0)
//!
//! There are as many places as receivers wait, or have a permit and not yet taken their value. A sender that comes first waits; the
//! receiver that comes grants it a place and waits for the value. If the receiver has left before the sender runs, the
//! place is gone, and the sender waits again. Once a value lies there they have met: that stands, and a receiver that
//! is cancelled then receives all the same.

use super::shared::{CLOSED, Ends, PERMIT, Tried};
use crate::scheduler::waiters::Wakes;
use std::collections::VecDeque;

pub(super) struct Queue<T> {
    values: VecDeque<T>,
    capacity: usize,
    /// Values for which a receiver has a permit.
    promised: usize,
    /// Places for which a sender has a permit.
    reserved: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(capacity: usize) -> Queue<T> {
        Queue { values: VecDeque::new(), capacity, promised: 0, reserved: 0, closed: false }
    }

    /// Whether there is a place, if so many more receivers waited.
    fn has_room(&self, ends: &Ends, more: usize) -> bool {
        let places = match self.capacity {
            0 => ends.receivers.len() + more + self.promised,
            capacity => capacity,
        };
        self.values.len() + self.reserved < places
    }

    fn has_value(&self) -> bool {
        self.values.len() > self.promised
    }

    /// Whether nothing will ever be received any more.
    fn is_over(&self) -> bool {
        self.closed && self.values.is_empty()
    }

    fn put(&mut self, value: &mut Option<T>, ends: &mut Ends, wakes: &mut Wakes) -> Tried<()> {
        self.values.push_back(value.take().expect("it is put once"));
        self.promise(ends, wakes);
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
        if !ends.senders.is_empty() || !self.has_room(ends, 0) {
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
        // The receiver that it was for has left.
        if !self.has_room(ends, 0) {
            return Tried::Later;
        }
        self.put(value, ends, wakes)
    }

    pub(super) fn try_take(&mut self, ends: &mut Ends, wakes: &mut Wakes) -> Tried<T> {
        if self.has_value() {
            return Tried::Done(self.take(ends, wakes));
        }
        if self.is_over() { Tried::Closed } else { Tried::Later }
    }

    pub(super) fn take_by_permit(&mut self, ends: &mut Ends, wakes: &mut Wakes) -> T {
        self.promised -= 1;
        self.take(ends, wakes)
    }

    fn take(&mut self, ends: &mut Ends, wakes: &mut Wakes) -> T {
        let value = self.values.pop_front().expect("there is one for who takes");
        // After a burst; so seldom that it costs nothing on the whole.
        if self.values.capacity() > 64 && self.values.len() < self.values.capacity() / 8 {
            self.values.shrink_to(self.values.capacity() / 2);
        }
        self.reserve(0, ends, wakes);
        self.tell_of_the_end(ends, wakes);
        value
    }

    /// Gives a value that is there to the first who waits for one.
    fn promise(&mut self, ends: &mut Ends, wakes: &mut Wakes) {
        if self.has_value()
            && let Some(wake) = ends.receivers.grant_first(PERMIT)
        {
            self.promised += 1;
            wakes.add(wake);
        }
    }

    /// Gives a place that is free to the first who waits for one.
    fn reserve(&mut self, more: usize, ends: &mut Ends, wakes: &mut Wakes) {
        if !self.closed
            && self.has_room(ends, more)
            && let Some(wake) = ends.senders.grant_first(PERMIT)
        {
            self.reserved += 1;
            wakes.add(wake);
        }
    }

    fn tell_of_the_end(&mut self, ends: &mut Ends, wakes: &mut Wakes) {
        if self.is_over() {
            ends.receivers.grant_all(CLOSED, wakes);
        }
    }

    /// Takes what a sender asks for, if it may have it at once.
    pub(super) fn enter_sender(&mut self, ends: &Ends) -> Option<u32> {
        if self.closed {
            return Some(CLOSED);
        }
        let free = ends.senders.is_empty() && self.has_room(ends, 0);
        self.reserved += usize::from(free);
        free.then_some(PERMIT)
    }

    /// The same of a receiver.
    pub(super) fn enter_receiver(&mut self, ends: &mut Ends, wakes: &mut Wakes) -> Option<u32> {
        if self.has_value() {
            self.promised += 1;
            return Some(PERMIT);
        }
        if self.is_over() {
            return Some(CLOSED);
        }
        if self.capacity == 0 {
            // The place that it makes by waiting.
            self.reserve(1, ends, wakes);
        }
        None
    }

    /// Takes the permit of a sender back.
    pub(super) fn unreserve(&mut self, ends: &mut Ends, wakes: &mut Wakes) {
        self.reserved -= 1;
        self.reserve(0, ends, wakes);
    }

    /// Takes the permit of a receiver back.
    pub(super) fn unpromise(&mut self, ends: &mut Ends, wakes: &mut Wakes) {
        self.promised -= 1;
        self.promise(ends, wakes);
    }

    pub(super) fn close(&mut self, ends: &mut Ends, wakes: &mut Wakes) {
        self.closed = true;
        ends.senders.grant_all(CLOSED, wakes);
        self.tell_of_the_end(ends, wakes);
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
