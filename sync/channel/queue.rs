//! The values of a channel without room, or with room for all or very many. All of it is under the
//! channel's lock.
//!
//! # Without room (capacity 0)
//!
//! Tasks and threads meet directly: the one that comes second, and finds the other one in line,
//! moves the value from the sender's cell to the receiver's, and wakes the first. A future has no
//! cell, since it may be dropped at any time. Callers that meet a future, or that enter their lines
//! at the same time, come to each other by permits:
//!
//! There are as many places as receivers that wait, or that have a permit but have not taken their
//! value yet. A sender that comes first waits; the receiver that comes grants it a place, and waits
//! for the value. If the receiver has left before the sender runs, the place is gone, and the
//! sender waits again.
//!
//! Once the value is with the receiver, or in the queue, the two have met. That stands: if either
//! is cancelled then, the value has been sent and received all the same.

use super::line::{Ends, Receivers, Side, Supply};
use super::state::{Refused, Tried};
use super::word::ONE_POSITION;
use crate::scheduler::wait::waiters::Wakes;
use std::collections::VecDeque;
use std::marker::PhantomData;

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

    /// Returns the number of permits that are out.
    fn permits<S: Side>(&mut self) -> &mut usize {
        if S::SENDS { &mut self.reserved } else { &mut self.promised }
    }

    /// Serves the waiters of one side.
    fn serve<S: Side>(&mut self, ends: &mut Ends, wakes: &mut Wakes) {
        let receivers = ends.receivers.len();
        S::line(ends).serve(&mut OfQueue::<T, S>(self, receivers, PhantomData), wakes);
    }

    /// Puts the value of the cell in, or takes one out into the cell, if that is possible and no
    /// waiter must do so first.
    pub(super) fn try_move<S: Side>(
        &mut self,
        cell: &mut Option<T>,
        ends: &mut Ends,
        wakes: &mut Wakes,
    ) -> Tried<()> {
        let receivers = ends.receivers.len();
        let supply = OfQueue::<T, S>(self, receivers, PhantomData);
        if supply.is_over() {
            return Err(Refused::Closed);
        }
        let is_free = supply.free() > 0;
        if S::line(ends).is_strict(&supply) {
            return Err(Refused::Later);
        }
        // A sender needs a place all the same: another one may have been granted the place that
        // this receiver is.
        // MUTANT(queue.meet): true
        let may_meet = S::SENDS && is_free || !S::SENDS && self.reserved == 0;
        // MUTANT(queue.meet.in_order): true
        let comes_next = self.capacity == 0 && self.values.is_empty();
        if comes_next
            && may_meet
            // SAFETY: the waiters of this channel have cells for its values.
            && let Some(wake) = unsafe { S::Other::line(ends).meet(cell) }
        {
            wakes.add(wake);
            return Ok(());
        }
        if !is_free {
            return Err(Refused::Later);
        }
        self.do_move::<S>(cell, ends, wakes);
        Ok(())
    }

    /// Does the same with a permit, which is used up.
    pub(super) fn by_permit<S: Side>(
        &mut self,
        cell: &mut Option<T>,
        ends: &mut Ends,
        wakes: &mut Wakes,
    ) -> Tried<()> {
        *self.permits::<S>() -= 1;
        if S::SENDS && self.closed {
            return Err(Refused::Closed);
        }
        // The receiver that made this place has left.
        if S::SENDS && self.room(ends.receivers.len()) == 0 {
            return Err(Refused::Later);
        }
        self.do_move::<S>(cell, ends, wakes);
        Ok(())
    }

    fn do_move<S: Side>(&mut self, cell: &mut Option<T>, ends: &mut Ends, wakes: &mut Wakes) {
        if S::SENDS {
            self.values.push_back(cell.take().expect("a value is put once"));
            self.put = self.put.wrapping_add(ONE_POSITION);
        } else {
            *cell = self.values.pop_front();
            debug_assert!(cell.is_some(), "the caller has seen a value");
            self.taken = self.taken.wrapping_add(ONE_POSITION);
            // After a burst. This is so rare that it costs nothing overall.
            if self.values.capacity() > 64 && self.values.len() < self.values.capacity() / 8 {
                self.values.shrink_to(self.values.capacity() / 2);
            }
        }
        self.serve::<S::Other>(ends, wakes);
        if !S::SENDS && self.closed {
            self.serve::<Receivers>(ends, wakes);
        }
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

/// A queue as the [`Supply`] of one side, given the number of waiting receivers: without room, they
/// are its places.
pub(super) struct OfQueue<'a, T, S>(
    pub(super) &'a mut Queue<T>,
    pub(super) usize,
    pub(super) PhantomData<S>,
);

impl<T, S: Side> Supply for OfQueue<'_, T, S> {
    fn free(&self) -> usize {
        let OfQueue(queue, receivers, _) = self;
        if S::SENDS { queue.room(*receivers) } else { queue.values.len() - queue.promised }
    }

    fn set_aside(&mut self) -> bool {
        let may = !self.is_over() && self.free() > 0;
        *self.0.permits::<S>() += usize::from(may);
        may
    }

    fn take_back(&mut self) {
        *self.0.permits::<S>() -= 1;
    }

    fn is_over(&self) -> bool {
        self.0.closed && (S::SENDS || self.0.values.is_empty())
    }

    fn is_strict(&self) -> bool {
        self.0.capacity == 0 || !S::SENDS && self.0.closed
    }

    fn position(&self) -> u64 {
        if S::SENDS { self.0.taken } else { self.0.put }
    }
}
