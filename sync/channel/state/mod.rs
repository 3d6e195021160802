//! The state that the two ends of a channel share: the values, and the waiters at both ends.
//!
//! # Permits
//!
//! A waiter is called, from the line or from its seat, or granted a **permit** (see
//! [`line`](super::line)), or its value is moved while it waits: into the cell of a receiver in the
//! seat, or, without room, between any two that meet.
//!
//! A permit is not a value. A receiver's permit stands for one of the values in the channel, which
//! is then *promised*; a sender's permit stands for one of the free places, which is then
//! *reserved*. No other caller gets a promised value or a reserved place. The owner of a permit is
//! sure of some value or place, but not of a particular one, and takes or fills it when it runs. A
//! waiter that is cancelled before that has nothing to lose: its permit goes to the next waiter.
//!
//! # The end
//!
//! A closed channel accepts no more values. Receivers take the remaining values, and are then told
//! of the end. A promised value may still come back, so the other receivers wait until it is taken.
//!
//! # Where the values lie
//!
//! In a [`Ring`], which callers that need not wait use without the lock. What does not fit in there
//! lies in the [`Overflow`], under the lock. Without room, values pass from hand to hand
//! ([`rendezvous`]).

mod overflowing;
pub(super) mod waiting;

use super::errors::{Refused, Tried};
use super::line::{
    CALL, CALL_FROM_SEAT, Ends, Line, MOVED, PERMIT, Receivers, Senders, Side, Supply,
};
use super::overflow::{OfOverflow, Overflow};
use super::rendezvous::{self, OfRendezvous, Rendezvous};
use super::ring::Ring;
use super::ring::supply::OfRing;
use super::word::{LineState, Notice};
use crate::scheduler::wait::waiters::{Wakes, with_wakes};
use crate::shim::Mutex;
use crate::shim::atomic::AtomicUsize;
use crate::task::outcome::{drop_all, resume_in_destructor};
use std::hint::cold_path;
use std::marker::PhantomData;
use std::mem;

pub(crate) struct State<T> {
    pub(super) ends: Ends,
    overflow: Overflow<T>,
    /// Used only if there is no ring.
    rendezvous: Rendezvous<T>,
}

pub(super) struct Channel<T> {
    capacity: usize,
    /// `None` without room.
    pub(super) ring: Option<Ring<T>>,
    /// Used only if there is no ring.
    spot: Notice,
    pub(super) state: Mutex<State<T>>,
    /// The number of handles of each end.
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
}

impl<T> Channel<T> {
    pub(super) fn new(capacity: usize) -> Channel<T> {
        let ends = Ends { senders: Line::new(), receivers: Line::new() };
        Channel {
            capacity,
            ring: Ring::new(capacity),
            spot: Notice::new(),
            state: Mutex::new(State {
                ends,
                overflow: Overflow::new(capacity),
                rendezvous: Rendezvous::new(),
            }),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        }
    }

    /// Runs `f` with the line of one side, and what its callers wait for.
    fn with_side<S: Side, R>(
        &self,
        State { ends, overflow, rendezvous }: &mut State<T>,
        f: impl FnOnce(&mut Line, &mut dyn Supply) -> R,
    ) -> R {
        let receivers = ends.receivers.len();
        match &self.ring {
            Some(ring) if S::SENDS && ring.overflows() => {
                f(S::line(ends), &mut OfOverflow(ring, overflow))
            }
            Some(ring) => {
                let beyond = overflow.values.len();
                f(S::line(ends), &mut OfRing::<T, S> { ring, beyond, side: PhantomData })
            }
            None => f(S::line(ends), &mut OfRendezvous::<T, S>(rendezvous, receivers, PhantomData)),
        }
    }

    /// Runs `f` under the lock, then wakes the waiters that it has served. Without room, the spot
    /// is blocked meanwhile.
    fn locked<R>(&self, f: impl FnOnce(&mut State<T>, &mut Wakes) -> R) -> R {
        with_wakes(&self.state, |state, wakes| {
            self.block_spot(state);
            let result = f(state, wakes);
            self.clear_spot(state);
            result
        })
    }

    /// Returns where a waiter of the side waits without the lock.
    #[inline]
    fn seat<S: Side>(&self) -> &Notice {
        match &self.ring {
            Some(ring) => ring.seat::<S>(),
            None => {
                // A branch, not two conditional moves.
                cold_path();
                &self.spot
            }
        }
    }

    /// Blocks the spot of a channel without room before a line is changed.
    fn block_spot(&self, state: &mut State<T>) {
        if self.ring.is_none() {
            rendezvous::block(&self.spot, &mut state.ends);
        }
    }

    /// Clears the spot, if nobody needs the lock any more.
    fn clear_spot(&self, state: &State<T>) {
        if self.ring.is_none() && state.rendezvous.is_clear(&state.ends) {
            self.spot.write(LineState::EMPTY);
        }
    }

    /// Runs `f` with the line of one side under the lock, then wakes the waiters that it has
    /// served.
    pub(super) fn with_line<S: Side, R>(
        &self,
        f: impl FnOnce(&mut Line, &mut dyn Supply, &mut Wakes) -> R,
    ) -> R {
        self.locked(|state, wakes| {
            self.with_side::<S, R>(state, |line, supply| {
                line.admit(supply);
                let result = f(line, supply, wakes);
                line.announce(supply);
                result
            })
        })
    }

    /// Without room: meets a waiter, if no other waiter must do so first.
    fn meet<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        // SAFETY: the waiters of this channel have cells for its values.
        match unsafe { rendezvous::meet::<S, T>(&self.spot, cell) } {
            Err(Refused::Behind) => self.locked(|State { ends, rendezvous, .. }, wakes| {
                rendezvous.try_move::<S>(cell, ends, wakes)
            }),
            tried => tried,
        }
    }

    /// Puts a value in, if there is a place and no waiter must have it first. Empties `value` on
    /// success. `Later` may stand for any reason but `Missed`.
    #[inline(always)]
    pub(super) fn try_put(&self, value: &mut Option<T>) -> Tried<()> {
        let Some(ring) = &self.ring else {
            return self.meet::<Senders>(value);
        };
        if let Some(node) = ring.seat::<Receivers>().read().seated::<Receivers>()
            && ring.hand_over(node, value)
        {
            return Ok(());
        }
        match ring.try_put(value) {
            Ok(()) => {
                // MUTANT(ring.put.look): false
                if ring.calls::<Receivers>() {
                    self.serve_ring::<Receivers>(ring);
                }
                Ok(())
            }
            Err(Refused::Missed) => self.insist::<Senders>(ring, value),
            _ if ring.overflows() => self.put_beyond(value, false),
            refused => refused,
        }
    }

    /// Serves the waiters of one side of the ring, after something has become free.
    #[cold]
    #[inline(never)]
    fn serve_ring<S: Side>(&self, ring: &Ring<T>) {
        if let Some(wake) = ring.call_seated::<S>() {
            return wake.deliver();
        }
        if S::SENDS && ring.overflows() {
            return self.serve::<S>();
        }
        let mut state = self.state.lock();
        let alone = self.with_side::<S, _>(&mut state, |line, supply| {
            line.admit(supply);
            line.serve_alone(supply)
        });
        if let Some(wake) = alone {
            drop(state);
            return wake.deliver();
        }
        let mut wakes = Wakes::default();
        self.serve_in::<S>(&mut state, &mut wakes);
        drop(state);
        wakes.deliver();
    }

    /// Serves the waiters of one side, and the values that wait for a place.
    fn serve_in<S: Side>(&self, state: &mut State<T>, wakes: &mut Wakes) {
        if S::SENDS {
            self.refill(state, wakes);
        }
        self.with_side::<S, _>(state, |line, supply| {
            line.admit(supply);
            line.serve(supply, wakes);
        });
    }

    /// Claims a permit and uses it, where several callers of the side come at once.
    #[cold]
    #[inline(never)]
    fn insist<S: Side>(&self, ring: &Ring<T>, cell: &mut Option<T>) -> Tried<()> {
        while !ring.claim::<S>() {
            // While the claim stood, the ring showed one place or value less. A caller that freed
            // one meanwhile may therefore have left the waiters to this one. Mostly this caller
            // takes that place or value itself when it tries again, but not if the line has become
            // strict, so it serves the waiters.
            // MUTANT(ring.claim.in_vain): false
            if ring.calls::<S>() {
                self.serve::<S>();
            }
            match ring.why::<S>() {
                Refused::Missed => {}
                _ if S::SENDS && ring.overflows() => return self.put_beyond(cell, false),
                why => return Err(why),
            }
        }
        self.by_claim::<S>(ring, cell)
    }

    /// Takes a value out, if there is one without a permit and no waiter must have it first.
    /// `Later` may stand for any reason but `Missed`.
    #[inline(always)]
    pub(super) fn try_take(&self) -> Tried<T> {
        let Some(ring) = &self.ring else {
            let mut taken = None;
            self.meet::<Receivers>(&mut taken)?;
            return Ok(taken.expect("a successful try has taken a value"));
        };
        match ring.try_take() {
            Ok(value) => {
                // MUTANT(ring.take.look): false
                if ring.calls::<Senders>() {
                    self.serve_ring::<Senders>(ring);
                }
                Ok(value)
            }
            Err(Refused::Missed) => {
                let mut taken = None;
                self.insist::<Receivers>(ring, &mut taken)?;
                Ok(taken.expect("a successful try has taken a value"))
            }
            refused => refused,
        }
    }

    /// Moves a value on this side, like [`try_put`](Channel::try_put) out of the cell, or like
    /// [`try_take`](Channel::try_take) into it.
    pub(super) fn try_move<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        loop {
            let tried = self.try_once::<S>(cell);
            let (Err(Refused::Later | Refused::Beyond), Some(ring)) = (&tried, &self.ring) else {
                return tried;
            };
            match ring.why::<S>() {
                Refused::Missed => {}
                Refused::Beyond => match self.locked(|state, wakes| self.take_beyond(state, wakes))
                {
                    Ok(value) => {
                        *cell = Some(value);
                        return Ok(());
                    }
                    Err(Refused::Missed) => {}
                    Err(why) => return Err(why),
                },
                why => return Err(why),
            }
        }
    }

    /// As [`try_move`](Channel::try_move), but `Later` may stand for any reason but
    /// `Missed`.
    #[inline(always)]
    fn try_once<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        match S::SENDS {
            true => self.try_put(cell),
            false => self.try_take().map(|value| *cell = Some(value)),
        }
    }

    /// Moves a value for a caller that does not wait. If the line is strict, the caller gets a
    /// place or a value that the waiters do not need. If there is none, `Later`, `Behind`
    /// or `Beyond`.
    pub(super) fn move_now<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        loop {
            let tried = match self.try_move::<S>(cell) {
                Err(Refused::Behind)
                    if self.with_line::<S, _>(|line, supply, wakes| line.ask(supply, wakes)) =>
                {
                    self.by_permit::<S>(cell)
                }
                tried => tried,
            };
            // `Missed`: the slot was void.
            // MUTANT(channel.void): with true
            let is_done = tried != Err(Refused::Missed);
            if is_done {
                return tried;
            }
        }
    }

    /// Moves a value with a permit, which is used up.
    pub(super) fn by_permit<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        match &self.ring {
            Some(ring) if S::SENDS && ring.overflows() => self.put_beyond(cell, true),
            Some(ring) => self.by_claim::<S>(ring, cell),
            None => self.locked(|State { ends, rendezvous, .. }, wakes| {
                rendezvous.by_permit::<S>(cell, ends, wakes)
            }),
        }
    }

    /// Does the same with a permit of the ring.
    fn by_claim<S: Side>(&self, ring: &Ring<T>, cell: &mut Option<T>) -> Tried<()> {
        let tried = ring.by_permit::<S>(cell);
        // MUTANT(ring.by_permit.look): false
        if ring.calls::<S::Other>() {
            self.serve_ring::<S::Other>(ring);
        }
        // The first receiver may not be passed, so nobody else frees places for the values beyond
        // the ring.
        // MUTANT(overflow.by_permit): false
        if !S::SENDS && ring.seat::<Receivers>().read().is_strict() && ring.has_overflowed() {
            self.serve::<Senders>();
        }
        // If a closed channel is empty now, its waiting receivers are told of the end. A late put
        // leaves a void slot, which counts as a value until it is skipped; a receiver may have
        // waited because of it.
        // MUTANT(ring.by_permit.end): false
        if ring.receivers_wait() && ring.is_closed() {
            self.serve::<Receivers>();
        }
        tried
    }

    /// Moves a value for a caller that has waited and got this answer.
    #[inline(always)]
    pub(super) fn move_after<S: Side>(&self, answer: u32, cell: &mut Option<T>) -> Tried<()> {
        match answer {
            MOVED => Ok(()),
            CALL_FROM_SEAT => {
                self.came_from_seat::<S>();
                // The second attempt, if any, also finds the reason why there is nothing.
                self.try_once::<S>(cell).or_else(|_| self.try_move::<S>(cell))
            }
            PERMIT => self.by_permit::<S>(cell),
            CALL => {
                let tried = self.try_move::<S>(cell);
                self.with_line::<S, _>(|line, supply, wakes| line.came(supply, wakes));
                tried
            }
            _ => Err(Refused::Closed),
        }
    }

    fn came_from_seat<S: Side>(&self) {
        self.ring.as_ref().into_iter().for_each(Ring::came_from_seat::<S>);
    }

    /// Reserves a place for a sender that has waited and got this answer.
    #[cfg(feature = "futures")]
    pub(super) fn reserve_after(&self, answer: u32) -> Tried<()> {
        match answer {
            PERMIT => Ok(()),
            CALL if self.with_line::<Senders, _>(|line, supply, wakes| {
                line.came_for_permit(supply, wakes)
            }) =>
            {
                Ok(())
            }
            CALL => Err(Refused::Later),
            _ => Err(Refused::Closed),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn serve<S: Side>(&self) {
        self.locked(|state, wakes| self.serve_in::<S>(state, wakes));
    }

    fn receivers_wait(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::receivers_wait)
    }

    /// Returns whether many callers of the side come at once.
    pub(super) fn many<S: Side>(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::many::<S>)
    }

    pub(super) fn close(&self) {
        self.locked(|state, wakes| {
            state.overflow.is_closed = true;
            match &self.ring {
                Some(ring) if !ring.overflows() => ring.close(),
                Some(_) => {}
                None => state.rendezvous.close(),
            }
            // An overflow that is empty closes its ring.
            self.serve_in::<Senders>(state, wakes);
            self.serve_in::<Receivers>(state, wakes);
        });
    }

    /// Takes back an unused permit.
    pub(super) fn take_back<S: Side>(&self) {
        self.with_line::<S, _>(|line, supply, wakes| line.take_back(supply, wakes));
    }

    /// Returns whether a future should let others of its executor go first.
    pub(super) fn is_hogged<S: Side>(&self) -> bool {
        self.with_side::<S, _>(&mut self.state.lock(), |line, supply| line.is_hogged(supply))
            || self.ring.as_ref().is_some_and(Ring::is_hogged::<S>)
    }

    /// Closes the channel and drops its values, which have no receiver any more.
    pub(super) fn close_and_empty(&self) {
        self.close();
        let (overflow, mut values) = self.locked(|state, wakes| {
            let overflow = mem::take(&mut state.overflow.values);
            self.refill(state, wakes);
            (overflow, state.rendezvous.drain())
        });
        values.extend(self.ring.iter().flat_map(Ring::drain).chain(overflow));
        if let Some(payload) = drop_all(values) {
            resume_in_destructor(payload);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.ring {
            Some(ring) => {
                ring.knows_closed().unwrap_or_else(|| self.state.lock().overflow.is_closed)
            }
            None => self.state.lock().rendezvous.is_closed(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.ring {
            Some(ring) if ring.has_overflowed() => {
                let state = self.state.lock();
                ring.len() + state.overflow.values.len()
            }
            Some(ring) => ring.len(),
            None => self.state.lock().rendezvous.len(),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the locations in the code where senders and receivers wait. A waiter in a seat
    /// enters the line.
    pub(super) fn locations(&self) -> (Vec<String>, Vec<String>) {
        (self.locations_of::<Senders>(), self.locations_of::<Receivers>())
    }

    fn locations_of<S: Side>(&self) -> Vec<String> {
        self.with_line::<S, _>(|line, _, _| line.locations())
    }
}
