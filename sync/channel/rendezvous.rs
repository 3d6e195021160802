//! A channel without room (capacity 0), where a sender and a receiver have to meet.
//!
//! # The spot
//!
//! Two tasks or threads meet without the lock. The one that comes first puts the address of its
//! node on the *spot*, a [`Notice`] that both sides share, by a compare-and-swap from 0. The one
//! that comes second takes the address away, by a compare-and-swap to 0, moves the value from the
//! sender's cell to the receiver's, and wakes the first. A waiter that gives up takes its own
//! address away. So one word decides who meets whom, and nobody has to look a second time.
//!
//! The spot serves as long as nobody is in a line, no permit is out, and the channel is open. Who
//! needs a line takes the lock, and *blocks* the spot: a node that stands there enters its line
//! first. Until the spot is cleared again, at the end of a critical section that leaves both lines
//! empty, all callers come for the lock.
//!
//! # The lines
//!
//! Whoever finds the spot blocked, and the other side in line, moves the value between the cells,
//! too. A future has no cell, since it may be dropped at any time. Callers that meet a future, or
//! that enter their lines at the same time, come to each other by permits:
//!
//! There are as many places as receivers that wait, or that have a permit but have not taken their
//! value yet. A sender that comes first waits; the receiver that comes grants it a place, and waits
//! for the value. If the receiver has left before the sender runs, the place is gone, and the
//! sender waits again.
//!
//! Once the value is with the receiver, or among the values of the channel, the two have met. That
//! stands: if either is cancelled then, the value has been sent and received all the same.

use super::errors::{Refused, Tried};
use super::line::{Ends, MOVED, Receivers, Senders, Side, Supply};
use super::word::{Notice, ONE_POSITION};
use crate::scheduler::wait::waiters::{WaitNode, Wakes};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr;

/// Meets a waiter of the other side that stands on the spot. Returns `Behind` if the spot is
/// blocked.
///
/// # Safety
/// The cells of the waiters on this spot are of type `Option<T>`.
#[inline]
pub(super) unsafe fn meet<S: Side, T>(spot: &Notice, cell: &mut Option<T>) -> Tried<()> {
    loop {
        let found = spot.read();
        let Some(node) = found.seated::<S::Other>() else {
            return Err(if found.waits_in_line() { Refused::Behind } else { Refused::Later });
        };
        if spot.take::<S::Other>(node) {
            // SAFETY: this call has taken the node away, so that its waiter stays until the wake is
            // delivered, and does not use its cell before. Only waiters that have a cell stand on
            // the spot; its type is the caller's obligation.
            unsafe {
                ptr::swap((*node).cell.get().cast(), cell);
                WaitNode::grant_seated(node, MOVED).deliver();
            }
            return Ok(());
        }
    }
}

/// Blocks the spot, and lets the node that stands there enter its line. Requires the channel's
/// lock.
pub(super) fn block(spot: &Notice, ends: &mut Ends) {
    if spot.read().waits_in_line() {
        return;
    }
    let found = spot.block_seat();
    let sender = found.seated::<Senders>().map(|node| (node, &mut ends.senders));
    let receiver = found.seated::<Receivers>().map(|node| (node, &mut ends.receivers));
    if let Some((node, line)) = sender.or(receiver) {
        // SAFETY: this call has taken the node away. It is pinned, and its waiter stays until it
        // is granted, or has taken the node out under the lock, which the caller has.
        line.waiting().push(unsafe { Pin::new_unchecked(&*node) }, false);
    }
}

/// What is under the lock beside the lines.
pub(super) struct Rendezvous<T> {
    /// Values whose senders had permits, for receivers that wait or have a permit.
    values: VecDeque<T>,
    /// Values for which a receiver has a permit.
    promised: usize,
    /// Places for which a sender has a permit.
    reserved: usize,
    closed: bool,
    /// How many values have been put and taken, as positions.
    put: u64,
    taken: u64,
}

impl<T> Rendezvous<T> {
    pub(super) fn new() -> Rendezvous<T> {
        Rendezvous {
            values: VecDeque::new(),
            promised: 0,
            reserved: 0,
            closed: false,
            put: 0,
            taken: 0,
        }
    }

    /// Returns whether two callers can meet without the lock.
    pub(super) fn is_clear(&self, ends: &Ends) -> bool {
        let nobody_waits = ends.senders.len() == 0 && ends.receivers.len() == 0;
        let no_permits = self.reserved == 0 && self.promised == 0;
        // MUTANT(rendezvous.clear): with nobody_waits
        nobody_waits && no_permits && self.values.is_empty() && !self.closed
    }

    /// Returns how many places have no permit, given the number of waiting receivers.
    fn room(&self, receivers: usize) -> usize {
        (receivers + self.promised).saturating_sub(self.values.len() + self.reserved)
    }

    /// Returns the number of permits that are out.
    fn permits<S: Side>(&mut self) -> &mut usize {
        if S::SENDS { &mut self.reserved } else { &mut self.promised }
    }

    /// Serves the waiters of one side.
    fn serve<S: Side>(&mut self, ends: &mut Ends, wakes: &mut Wakes) {
        let receivers = ends.receivers.len();
        S::line(ends).serve(&mut OfRendezvous::<T, S>(self, receivers, PhantomData), wakes);
    }

    /// Moves a value between the caller's cell and that of a waiter, or puts it in or takes it out,
    /// if that is possible and no waiter must do so first.
    pub(super) fn try_move<S: Side>(
        &mut self,
        cell: &mut Option<T>,
        ends: &mut Ends,
        wakes: &mut Wakes,
    ) -> Tried<()> {
        let receivers = ends.receivers.len();
        let supply = OfRendezvous::<T, S>(self, receivers, PhantomData);
        if supply.is_over() {
            return Err(Refused::Closed);
        }
        let is_free = supply.free() > 0;
        if S::line(ends).is_strict(&supply) {
            return Err(Refused::Later);
        }
        // A sender needs a place all the same: another one may have been granted the place that
        // this receiver is.
        // MUTANT(rendezvous.meet): true
        let may_meet = S::SENDS && is_free || !S::SENDS && self.reserved == 0;
        // MUTANT(rendezvous.meet.in_order): true
        let comes_next = self.values.is_empty();
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

/// A rendezvous as the [`Supply`] of one side, given the number of waiting receivers: they are its
/// places.
pub(super) struct OfRendezvous<'a, T, S>(
    pub(super) &'a mut Rendezvous<T>,
    pub(super) usize,
    pub(super) PhantomData<S>,
);

impl<T, S: Side> Supply for OfRendezvous<'_, T, S> {
    fn free(&self) -> usize {
        let OfRendezvous(state, receivers, _) = self;
        if S::SENDS { state.room(*receivers) } else { state.values.len() - state.promised }
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
        true
    }

    fn position(&self) -> u64 {
        if S::SENDS { self.0.taken } else { self.0.put }
    }
}
