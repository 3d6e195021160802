//! The state that the two ends of a channel share: the values, and the waiters at both ends.
//!
//! # Permits
//!
//! A waiter is either called or granted a **permit** (see [`line`](super::line)). A permit is not a
//! value. A receiver's permit stands for one of the values in the channel, which is then
//! *promised*; a sender's permit stands for one of the free places, which is then *reserved*. No
//! other caller gets a promised value or a reserved place. The owner of a permit is sure of some
//! value or place, but not of a particular one, and takes or fills it when it runs. A waiter that
//! is cancelled before that has nothing to lose: its permit goes to the next waiter.
//!
//! # The end
//!
//! A closed channel accepts no more values. Receivers take the remaining values, and are then told
//! of the end. A promised value may still come back, so the other receivers wait until it is taken.
//!
//! # Where the values lie
//!
//! In a [`Ring`], if the capacity allows all slots to be allocated at once. Callers that need not
//! wait use the ring without the lock. Otherwise the values lie in a [`Queue`], under the lock.

use super::line::{CALL, Either, Line, PERMIT, returns};
use super::queue::{self, Queue};
use super::ring::{self, Ring};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::AtomicUsize;
use crate::shim::{Mutex, MutexGuard};
use crate::task::outcome::{drop_all, resume_in_destructor};
use std::sync::PoisonError;

/// The waiters at both ends. Under the lock.
pub(crate) struct Ends {
    pub(super) senders: Line,
    pub(super) receivers: Line,
}

pub(crate) struct State<T> {
    pub(super) ends: Ends,
    /// Used only if there is no ring.
    queue: Queue<T>,
}

type Places<'a, T> = Either<ring::Places<'a, T>, queue::Places<'a, T>>;
type Values<'a, T> = Either<ring::Values<'a, T>, queue::Values<'a, T>>;

impl<T> State<T> {
    /// Returns the line of the senders, and the places that they wait for.
    #[inline]
    fn senders<'a>(&'a mut self, ring: &'a Option<Ring<T>>) -> (&'a mut Line, Places<'a, T>) {
        let State { ends, queue } = self;
        let places = match ring {
            Some(ring) => Either::Ring(ring::Places(ring)),
            None => Either::Queue(queue.places(ends.receivers.len())),
        };
        (&mut ends.senders, places)
    }

    /// Returns the line of the receivers, and the values that they wait for.
    #[inline]
    fn receivers<'a>(&'a mut self, ring: &'a Option<Ring<T>>) -> (&'a mut Line, Values<'a, T>) {
        let State { ends, queue } = self;
        let values = match ring {
            Some(ring) => Either::Ring(ring::Values(ring)),
            None => Either::Queue(queue.values()),
        };
        (&mut ends.receivers, values)
    }
}

/// The result of an attempt to put or take a value.
pub(super) enum Tried<V> {
    Done(V),
    /// The caller would have to wait.
    Later,
    /// A place or a value without a permit is left, but the line is strict: the waiters come first.
    Behind,
    Closed,
    /// Another caller interfered: try again.
    Missed,
}

pub(super) struct Shared<T> {
    capacity: usize,
    pub(super) ring: Option<Ring<T>>,
    state: Mutex<State<T>>,
    /// The number of handles of each end.
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
}

impl<T> Shared<T> {
    pub(super) fn new(capacity: usize) -> Shared<T> {
        let ends = Ends { senders: Line::new(), receivers: Line::new() };
        Shared {
            capacity,
            ring: Ring::new(capacity),
            state: Mutex::new(State { ends, queue: Queue::new(capacity) }),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` under the lock, then wakes the waiters that it has served.
    fn with<R>(&self, f: impl FnOnce(&mut State<T>, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        let mut state = self.lock();
        let result = f(&mut state, &mut wakes);
        drop(state);
        wakes.deliver();
        result
    }

    /// Calls `f` with the senders' line under the lock, then wakes the waiters that it has served.
    fn with_senders<R>(&self, f: impl FnOnce(&mut Line, &mut Places<'_, T>, &mut Wakes) -> R) -> R {
        self.with(|state, wakes| {
            let (line, mut places) = state.senders(&self.ring);
            f(line, &mut places, wakes)
        })
    }

    /// Calls `f` with the receivers' line under the lock, then wakes the waiters that it has
    /// served.
    fn with_receivers<R>(
        &self,
        f: impl FnOnce(&mut Line, &mut Values<'_, T>, &mut Wakes) -> R,
    ) -> R {
        self.with(|state, wakes| {
            let (line, mut values) = state.receivers(&self.ring);
            f(line, &mut values, wakes)
        })
    }

    /// Puts a value in, if there is a place and no waiter must have it first. Empties `value` on
    /// success.
    #[inline]
    pub(super) fn try_put(&self, value: &mut Option<T>) -> Tried<()> {
        let Some(ring) = &self.ring else {
            return self.with(|State { queue, ends }, wakes| queue.try_put(value, ends, wakes));
        };
        loop {
            match ring.try_put(value) {
                Tried::Done(()) => {
                    // MUTANT(ring.put.look): false
                    if ring.calls_receivers() {
                        self.serve_receivers();
                    }
                    return Tried::Done(());
                }
                Tried::Missed => match self.put_beside_others(ring, value) {
                    Tried::Missed => {}
                    tried => return tried,
                },
                tried => return tried,
            }
        }
    }

    /// Puts a value in by a claimed permit, where several senders come at once.
    #[cold]
    #[inline(never)]
    fn put_beside_others(&self, ring: &Ring<T>, value: &mut Option<T>) -> Tried<()> {
        if ring.claim_place() {
            return self.put_by_permit(value);
        }
        // While the claim stood, the ring showed one place less. A caller that freed a place
        // meanwhile may therefore have left the waiters to this one. Mostly this caller takes that
        // place itself when it tries again, but not if the line has become strict, so it serves the
        // waiters.
        if ring.calls_senders() {
            self.serve_senders();
        }
        ring.why_nothing_was_put()
    }

    /// Takes a value out by a claimed permit, where several receivers come at once.
    #[cold]
    #[inline(never)]
    fn take_beside_others(&self, ring: &Ring<T>) -> Tried<T> {
        if ring.claim_value() {
            return self.take_by_permit();
        }
        // MUTANT(ring.take.in_vain): false
        if ring.calls_receivers() {
            self.serve_receivers();
        }
        ring.why_nothing_was_taken()
    }

    /// Puts a value in for a caller that does not wait. If the line is strict, the caller gets a
    /// place that the waiters do not need. If there is none, returns `Later`, `Behind` or `Missed`.
    pub(super) fn put_now(&self, value: &mut Option<T>) -> Tried<()> {
        match self.try_put(value) {
            Tried::Behind if self.with_senders(|line, supply, wakes| line.ask(supply, wakes)) => {
                self.put_by_permit(value)
            }
            tried => tried,
        }
    }

    /// Puts a value in with a permit, which is used up.
    pub(super) fn put_by_permit(&self, value: &mut Option<T>) -> Tried<()> {
        let Some(ring) = &self.ring else {
            return self
                .with(|State { queue, ends }, wakes| queue.put_by_permit(value, ends, wakes));
        };
        let put = ring.put_by_permit(value);
        // A late put leaves a void slot, which counts as a value until it is skipped. A receiver
        // may have waited because of it, and is now told of the end.
        // MUTANT(ring.put_by_permit.look): false
        if ring.calls_receivers() || !put && ring.receivers_wait() {
            self.serve_receivers();
        }
        if put { Tried::Done(()) } else { Tried::Closed }
    }

    /// Reserves a place for a sender that has waited and got this answer.
    #[cfg(feature = "futures")]
    pub(super) fn reserve_after(&self, answer: u32) -> Tried<()> {
        match answer {
            PERMIT => Tried::Done(()),
            CALL if self
                .with_senders(|line, places, wakes| line.came_for_permit(places, wakes)) =>
            {
                Tried::Done(())
            }
            CALL => Tried::Later,
            _ => Tried::Closed,
        }
    }

    /// Puts a value in for a sender that has waited and got this answer.
    pub(super) fn put_after(&self, answer: u32, value: &mut Option<T>) -> Tried<()> {
        match answer {
            PERMIT => self.put_by_permit(value),
            CALL => {
                let tried = self.try_put(value);
                self.with_senders(|line, supply, wakes| line.came(supply, wakes));
                tried
            }
            _ => Tried::Closed,
        }
    }

    /// Takes a value out, if there is one without a permit and no waiter must have it first.
    #[inline]
    pub(super) fn try_take(&self) -> Tried<T> {
        let Some(ring) = &self.ring else {
            return self.with(|State { queue, ends }, wakes| queue.try_take(ends, wakes));
        };
        loop {
            match ring.try_take() {
                Tried::Done(value) => {
                    // MUTANT(ring.take.look): false
                    if ring.calls_senders() {
                        self.serve_senders();
                    }
                    return Tried::Done(value);
                }
                Tried::Missed => match self.take_beside_others(ring) {
                    Tried::Missed => {}
                    tried => return tried,
                },
                tried => return tried,
            }
        }
    }

    /// Takes a value out for a caller that does not wait. If the line is strict, the caller gets a
    /// value that the waiters do not need. If there is none, returns `Later`, `Behind` or `Missed`.
    pub(super) fn take_now(&self) -> Tried<T> {
        match self.try_take() {
            Tried::Behind if self.with_receivers(|line, supply, wakes| line.ask(supply, wakes)) => {
                self.take_by_permit()
            }
            tried => tried,
        }
    }

    /// Takes a value out with a permit, which is used up.
    fn take_by_permit(&self) -> Tried<T> {
        let Some(ring) = &self.ring else {
            return self.with(|State { queue, ends }, wakes| {
                Tried::Done(queue.take_by_permit(ends, wakes))
            });
        };
        let tried = ring.take_by_permit();
        // MUTANT(ring.take_by_permit.look): false
        if ring.calls_senders() {
            self.serve_senders();
        }
        // If a closed channel is empty now, its waiting receivers are told of the end.
        // MUTANT(ring.take_by_permit.end): false
        if ring.receivers_wait() && ring.is_closed() {
            self.serve_receivers();
        }
        tried
    }

    /// Takes a value out for a receiver that has waited and got this answer.
    pub(super) fn take_after(&self, answer: u32) -> Tried<T> {
        match answer {
            PERMIT => self.take_by_permit(),
            CALL => {
                let tried = self.try_take();
                self.with_receivers(|line, supply, wakes| line.came(supply, wakes));
                tried
            }
            _ => Tried::Closed,
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_senders(&self) {
        self.with_senders(|line, supply, wakes| line.serve(supply, wakes));
    }

    #[cold]
    #[inline(never)]
    pub(super) fn serve_receivers(&self) {
        self.with_receivers(|line, supply, wakes| line.serve(supply, wakes));
    }

    pub(super) fn many_send(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::many_send)
    }

    pub(super) fn many_receive(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::many_receive)
    }

    pub(super) fn close(&self) {
        match &self.ring {
            Some(ring) => ring.close(),
            None => self.lock().queue.close(),
        }
        self.serve_senders();
        self.serve_receivers();
    }

    /// Takes back an unused permit of a sender.
    pub(super) fn give_back_place(&self) {
        self.with_senders(|line, supply, wakes| line.take_back(supply, wakes));
    }

    /// Returns whether a sending future should let others of its executor go first.
    pub(super) fn senders_are_hogged(&self) -> bool {
        self.with_senders(|line, places, _| line.is_hogged(places))
    }

    /// Returns whether a receiving future should let others of its executor go first.
    pub(super) fn receivers_are_hogged(&self) -> bool {
        self.with_receivers(|line, values, _| line.is_hogged(values))
    }

    /// Closes the channel and drops its values, which have no receiver any more.
    pub(super) fn close_and_empty(&self) {
        self.close();
        let values = match &self.ring {
            Some(ring) => ring.drain(),
            None => self.lock().queue.drain(),
        };
        if let Some(payload) = drop_all(values) {
            resume_in_destructor(payload);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.ring {
            Some(ring) => ring.is_closed(),
            None => self.lock().queue.is_closed(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.ring {
            Some(ring) => ring.len(),
            None => self.lock().queue.len(),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the places in the code where senders and receivers wait.
    pub(super) fn places(&self) -> (Vec<String>, Vec<String>) {
        let ends = &self.lock().ends;
        (ends.senders.places(), ends.receivers.places())
    }
}

/// A channel as its senders wait for it.
pub(super) struct Sending<'a, T>(pub(super) &'a Shared<T>);

/// A channel as its receivers wait for it.
pub(super) struct Receiving<'a, T>(pub(super) &'a Shared<T>);

impl<T> Waitable for Sending<'_, T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "room in a channel"
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        state.ends.senders.waiting()
    }

    fn try_enter(&self, state: &mut State<T>, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let (line, mut places) = state.senders(&self.0.ring);
        line.enter(&mut places, node)
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        returns(node)
    }

    fn left(&self, state: &mut State<T>, wakes: &mut Wakes) {
        let (line, mut places) = state.senders(&self.0.ring);
        line.serve(&mut places, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        match node.answer() {
            PERMIT => self.0.give_back_place(),
            CALL => self.0.with_senders(|line, supply, wakes| line.came(supply, wakes)),
            _ => {}
        }
    }
}

impl<T> Waitable for Receiving<'_, T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "a value of a channel"
    }

    fn stands(&self) -> bool {
        self.0.capacity() == 0
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        state.ends.receivers.waiting()
    }

    fn try_enter(&self, state: &mut State<T>, node: &WaitNode, wakes: &mut Wakes) -> Option<u32> {
        let (line, mut values) = state.receivers(&self.0.ring);
        let answer = line.enter(&mut values, node);
        if answer.is_none() && self.0.capacity == 0 {
            // A waiting receiver is a place. This one counts, though it is not in the list yet.
            let State { ends, queue } = state;
            ends.senders.serve(&mut queue.places(ends.receivers.len() + 1), wakes);
        }
        answer
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        returns(node)
    }

    fn left(&self, state: &mut State<T>, wakes: &mut Wakes) {
        let (line, mut values) = state.receivers(&self.0.ring);
        line.serve(&mut values, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        match node.answer() {
            PERMIT => self.0.with_receivers(|line, supply, wakes| line.take_back(supply, wakes)),
            CALL => self.0.with_receivers(|line, supply, wakes| line.came(supply, wakes)),
            _ => {}
        }
    }
}
