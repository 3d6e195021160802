//! What the ends of a channel share: what lies there, and who waits at the two ends.
//!
//! # Permits
//!
//! A waiter is called, or granted a **permit** (see [`line`](super::line)). A permit is not a value: that of a receiver stands for one of the
//! values that lie there, which is *promised* then, that of a sender for one of the free places, which is
//! *reserved*. Its owner takes or puts a value when it runs. So one that is cancelled in between has nothing that could be
//! lost: its permit goes to the next. Nobody takes what is promised or reserved. The owner of a permit is sure of a value, or a place, and
//! not of which.
//!
//! # The end
//!
//! A closed channel takes nothing any more. What lies there is received; then receivers are told. As long as a value is
//! promised it may come back, so those who come behind wait until it is taken.
//!
//! # Where the values lie
//!
//! In a [`Ring`], which those who need not wait pass without a lock, if it can be made at once for the capacity; else in a
//! [`Queue`], behind the lock.

use super::line::{CALL, Either, Line, PERMIT, returns};
use super::queue::{self, Queue};
use super::ring::{self, Ring};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::AtomicUsize;
use crate::shim::{Mutex, MutexGuard};
use crate::task::outcome::{drop_all, resume_in_destructor};
use std::sync::PoisonError;

/// Who waits. Behind the lock.
pub(crate) struct Ends {
    pub(super) senders: Line,
    pub(super) receivers: Line,
}

pub(crate) struct State<T> {
    pub(super) ends: Ends,
    /// Unless there is a ring.
    queue: Queue<T>,
}

type Places<'a, T> = Either<ring::Places<'a, T>, queue::Places<'a, T>>;
type Values<'a, T> = Either<ring::Values<'a, T>, queue::Values<'a, T>>;

impl<T> State<T> {
    /// The line of the senders, and what they wait for.
    #[inline]
    fn senders<'a>(&'a mut self, ring: &'a Option<Ring<T>>) -> (&'a mut Line, Places<'a, T>) {
        let State { ends, queue } = self;
        let places = match ring {
            Some(ring) => Either::Ring(ring::Places(ring)),
            None => Either::Queue(queue.places(ends.receivers.len())),
        };
        (&mut ends.senders, places)
    }

    /// The line of the receivers, and what they wait for.
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

/// What a try came to.
pub(super) enum Tried<V> {
    Done(V),
    /// It would have to wait.
    Later,
    /// Others are about to have theirs, and there may be something left.
    Behind,
    Closed,
    /// Another one was in the way: try again.
    Missed,
}

pub(super) struct Shared<T> {
    capacity: usize,
    pub(super) ring: Option<Ring<T>>,
    state: Mutex<State<T>>,
    /// Handles of each end.
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

    /// Calls `f` under the lock, and wakes whom it has granted something.
    fn with<R>(&self, f: impl FnOnce(&mut State<T>, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        let mut state = self.lock();
        let result = f(&mut state, &mut wakes);
        drop(state);
        wakes.deliver();
        result
    }

    /// Calls `f` with the line of the senders, under the lock, and wakes whom it has served.
    fn with_senders<R>(&self, f: impl FnOnce(&mut Line, &mut Places<'_, T>, &mut Wakes) -> R) -> R {
        self.with(|state, wakes| {
            let (line, mut places) = state.senders(&self.ring);
            f(line, &mut places, wakes)
        })
    }

    /// The same with that of the receivers.
    fn with_receivers<R>(
        &self,
        f: impl FnOnce(&mut Line, &mut Values<'_, T>, &mut Wakes) -> R,
    ) -> R {
        self.with(|state, wakes| {
            let (line, mut values) = state.receivers(&self.ring);
            f(line, &mut values, wakes)
        })
    }

    /// Puts a value in, if there is a place, and nobody is to have it first. It is taken out of `value` if it was.
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

    /// The same where others do so at the same time.
    #[cold]
    #[inline(never)]
    fn put_beside_others(&self, ring: &Ring<T>, value: &mut Option<T>) -> Tried<()> {
        if ring.claim_place() {
            return self.put_by_permit(value);
        }
        // It looked meanwhile as if there were a place less, so others may have left those who wait to the caller. Mostly it
        // finds that place itself when it tries again, but not if the line is strict by now.
        if ring.calls_senders() {
            self.serve_senders();
        }
        ring.why_nothing_was_put()
    }

    /// The same where others do so at the same time.
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

    /// The same for one that does not wait, and has what is left by those who do: nothing is left if it is to come later.
    pub(super) fn put_now(&self, value: &mut Option<T>) -> Tried<()> {
        match self.try_put(value) {
            Tried::Behind if self.with_senders(|line, supply, wakes| line.ask(supply, wakes)) => {
                self.put_by_permit(value)
            }
            tried => tried,
        }
    }

    /// The same with a permit, which is used up.
    pub(super) fn put_by_permit(&self, value: &mut Option<T>) -> Tried<()> {
        let Some(ring) = &self.ring else {
            return self
                .with(|State { queue, ends }, wakes| queue.put_by_permit(value, ends, wakes));
        };
        let put = ring.put_by_permit(value);
        // If it was too late it may have been what receivers waited for to learn that this is the end.
        // MUTANT(ring.put_by_permit.look): false
        if ring.calls_receivers() || !put && ring.receivers_wait() {
            self.serve_receivers();
        }
        if put { Tried::Done(()) } else { Tried::Closed }
    }

    /// Reserves a place, for a sender that has waited and been given this answer.
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

    /// Puts a value in, for a sender that has waited and been given this answer.
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

    /// Takes a value out, if there is one that is not promised, and nobody is to have it first.
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

    /// The same for one that does not wait, and has what is left by those who do: nothing is left if it is to come later.
    pub(super) fn take_now(&self) -> Tried<T> {
        match self.try_take() {
            Tried::Behind if self.with_receivers(|line, supply, wakes| line.ask(supply, wakes)) => {
                self.take_by_permit()
            }
            tried => tried,
        }
    }

    /// The same with a permit, which is used up.
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
        // It may have been what they waited for to learn that this is the end.
        // MUTANT(ring.take_by_permit.end): false
        if ring.receivers_wait() && ring.is_closed() {
            self.serve_receivers();
        }
        tried
    }

    /// Takes a value out, for a receiver that has waited and been given this answer.
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

    /// Takes the permit of a sender back.
    pub(super) fn give_back_place(&self) {
        self.with_senders(|line, supply, wakes| line.take_back(supply, wakes));
    }

    /// Whether a future that sends is to let others of its executor go first.
    pub(super) fn senders_are_hogged(&self) -> bool {
        self.with_senders(|line, places, _| line.is_hogged(places))
    }

    /// The same of one that receives.
    pub(super) fn receivers_are_hogged(&self) -> bool {
        self.with_receivers(|line, values, _| line.is_hogged(values))
    }

    /// Closes it, and drops what lies there, as nobody will receive it.
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

    /// Where senders and receivers wait.
    pub(super) fn places(&self) -> (Vec<String>, Vec<String>) {
        let ends = &self.lock().ends;
        (ends.senders.places(), ends.receivers.places())
    }
}

/// A channel, to be waited for by senders.
pub(super) struct Sending<'a, T>(pub(super) &'a Shared<T>);

/// A channel, to be waited for by receivers.
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
            // The place that it makes by waiting.
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
