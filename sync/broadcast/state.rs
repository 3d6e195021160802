//! The ring of a broadcast, and the receivers that wait for the next value.
//!
//! # Numbers and claims
//!
//! Values are numbered from 0. The ring holds the values from `head` up to the last one, `capacity`
//! at most. A receiver has a **position**, the number of the value that it receives next.
//!
//! ```text
//!            head                       tail (the next number)
//!             |  3  |  4  |  5  |  6  |
//!  claims:       1     2     2     3
//!                ^     ^           ^
//!                one   another     a third: positions
//! ```
//!
//! A value is claimed by each receiver that has not passed it yet, and the slot counts these
//! claims. With its last claim, a value leaves the ring, so the ring holds only values that a
//! receiver has yet to take. A receiver that claims a value claims all later ones too, so the first
//! value is always the one that leaves. When the ring is full, a new value drives out the first
//! one. A receiver with a position before `head` is told how many values it has missed, and goes on
//! with the first one.
//!
//! Dropping a receiver gives up its claims, and cloning it doubles them. Both happen in portions,
//! between which the lock is released. Neither disturbs the order: claims are given up from the
//! front on, and the receiver that is cloned keeps its own claims meanwhile. A value that is sent
//! in between has the right claims, because the number of receivers changes with the first portion.
//!
//! # Foreign code
//!
//! A value lies in an [`Arc`], and is cloned and dropped without the lock. A receiver takes the
//! reference out of the ring and keeps it until its copy is made: if `clone` panics, the next call
//! tries again with the same value. The receiver that takes the last reference needs no copy.
//!
//! # A grant is only a call
//!
//! A new value, and the drop of the last sender, call all waiters, in [`Turns`]. A called waiter
//! looks again. Its position has not changed meanwhile, and there is a value for it, or one has
//! been driven out, or none will come. So a cancelled wait has nothing to give back.

use super::errors::BroadcastTryRecvError;
use crate::scheduler::wait::waiters::{Turns, WaitList, WaitNode, Waitable, Wakes};
use crate::shim::{Mutex, MutexGuard};
use crate::task::outcome::{Payload, drop_all, drop_payload, quietly};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// The only answer: look again.
const LOOK: u32 = 0;

/// Claims that are changed before the lock is released for others.
const PORTION: u64 = if cfg!(loom) { 1 } else { 64 };

struct Slot<T> {
    value: Arc<T>,
    claims: usize,
}

pub(crate) struct State<T> {
    ring: VecDeque<Slot<T>>,
    /// The number of the first value in the ring.
    head: u64,
    senders: usize,
    receivers: usize,
    turns: Turns,
}

impl<T> AsMut<Turns> for State<T> {
    fn as_mut(&mut self) -> &mut Turns {
        &mut self.turns
    }
}

impl<T> State<T> {
    /// The number of the next value.
    fn tail(&self) -> u64 {
        self.head + self.ring.len() as u64
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot<T>> {
        self.ring.get_mut((number - self.head) as usize)
    }

    fn drop_first(&mut self) -> Option<Arc<T>> {
        let first = self.ring.pop_front()?;
        self.head += 1;
        // After a burst. This is so rare that it costs nothing overall.
        if self.ring.capacity() > 64 && self.ring.len() < self.ring.capacity() / 8 {
            self.ring.shrink_to(self.ring.capacity() / 2);
        }
        Some(first.value)
    }
}

pub(super) struct Shared<T> {
    /// The greatest length of the ring, which grows as needed.
    capacity: usize,
    state: Mutex<State<T>>,
}

impl<T> Shared<T> {
    pub(super) fn new(capacity: usize) -> Shared<T> {
        let state =
            State { ring: VecDeque::new(), head: 0, senders: 1, receivers: 1, turns: Turns::new() };
        Shared { capacity, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call_all(&self, state: MutexGuard<'_, State<T>>) {
        Turns::end(&Following { shared: self, position: None }, state, LOOK, LOOK);
    }

    /// Sends a value to all receivers, and returns how many there are. Gives the value back if
    /// there are none.
    pub(super) fn send(&self, value: Arc<T>) -> Result<usize, Arc<T>> {
        let mut state = self.lock();
        let receivers = state.receivers;
        if receivers == 0 {
            return Err(value);
        }
        let is_full = state.ring.len() == self.capacity;
        let driven_out = if is_full { state.drop_first() } else { None };
        state.ring.push_back(Slot { value, claims: receivers });
        self.call_all(state);
        drop(driven_out);
        Ok(receivers)
    }

    /// Takes the value at a position, and moves the position on.
    fn take(&self, position: &mut u64) -> Result<Arc<T>, BroadcastTryRecvError> {
        let mut state = self.lock();
        if *position < state.head {
            let missed = state.head - *position;
            *position = state.head;
            return Err(BroadcastTryRecvError::Lagged(missed));
        }
        let is_closed = state.senders == 0;
        let Some(slot) = state.slot(*position) else {
            return Err(match is_closed {
                true => BroadcastTryRecvError::Closed,
                false => BroadcastTryRecvError::Empty,
            });
        };
        *position += 1;
        slot.claims -= 1;
        if slot.claims > 0 {
            return Ok(Arc::clone(&slot.value));
        }
        Ok(state.drop_first().expect("the value without claims is the first one"))
    }

    /// Returns how many values there are from a position on.
    fn len_from(&self, position: u64) -> usize {
        let state = self.lock();
        (state.tail() - position.max(state.head)) as usize
    }

    #[cfg(all(test, loom))]
    pub(super) fn len(&self) -> usize {
        self.lock().ring.len()
    }

    pub(super) fn add_sender(&self) {
        self.lock().senders += 1;
    }

    /// Removes a sender. The last one ends all waits.
    pub(super) fn drop_sender(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        if state.senders == 0 {
            self.call_all(state);
        }
    }

    /// Adds a receiver of the values that are sent from now on.
    pub(super) fn add_receiver(&self) -> Place<T> {
        let mut state = self.lock();
        state.receivers += 1;
        Place { position: state.tail(), held: None }
    }

    /// Adds a receiver at the place of another one, which does not move meanwhile.
    pub(super) fn add_receiver_at(&self, place: &Place<T>) -> Place<T> {
        let mut state = self.lock();
        state.receivers += 1;
        let (mut next, end) = (place.position, state.tail());
        loop {
            next = next.max(state.head);
            for _ in 0..PORTION.min(end.saturating_sub(next)) {
                state.slot(next).expect("a claimed value is in the ring").claims += 1;
                next += 1;
            }
            drop(state);
            if next >= end {
                return Place { position: place.position, held: place.held.clone() };
            }
            state = self.lock();
        }
    }

    /// Removes a receiver, and drops the values that no other receiver claims. Returns the first
    /// panic of a destructor, if any.
    pub(super) fn drop_receiver(&self, place: &mut Place<T>) -> Option<Payload> {
        let mut first = place.held.take().and_then(|held| quietly(|| drop(held)));
        let mut state = self.lock();
        state.receivers -= 1;
        let (mut next, end) = (place.position, state.tail());
        loop {
            let mut unclaimed = [const { None }; PORTION as usize];
            next = next.max(state.head);
            for place in unclaimed.iter_mut().take(end.saturating_sub(next) as usize) {
                let slot = state.slot(next).expect("a claimed value is in the ring");
                slot.claims -= 1;
                if slot.claims == 0 {
                    *place = state.drop_first();
                }
                next += 1;
            }
            drop(state);
            if let Some(payload) = drop_all(unclaimed.into_iter().flatten()) {
                match first {
                    None => first = Some(payload),
                    Some(_) => drop_payload(payload),
                }
            }
            if next >= end {
                return first;
            }
            state = self.lock();
        }
    }

    pub(super) fn receivers(&self) -> usize {
        self.lock().receivers
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().senders == 0
    }

    /// Returns the places in the code where receivers wait.
    pub(super) fn places(&self) -> Vec<String> {
        self.lock().turns.waiters.places()
    }
}

/// The part of a broadcast that belongs to one receiver.
pub(super) struct Place<T> {
    position: u64,
    /// A value that was taken out of the ring, and not yet returned to the caller.
    held: Option<Arc<T>>,
}

impl<T> Place<T> {
    pub(super) fn first() -> Place<T> {
        Place { position: 0, held: None }
    }

    pub(super) fn len(&self, shared: &Shared<T>) -> usize {
        shared.len_from(self.position) + usize::from(self.held.is_some())
    }
}

impl<T: Clone> Place<T> {
    /// Receives the next value.
    pub(super) fn next(&mut self, shared: &Shared<T>) -> Result<T, BroadcastTryRecvError> {
        let value = match self.held.take() {
            Some(value) => value,
            None => shared.take(&mut self.position)?,
        };
        Arc::try_unwrap(value).or_else(|value| {
            let copy = self.held.insert(value).as_ref().clone();
            // All others may have let go of the value meanwhile. A panic of its destructor is
            // discarded, because the copy would be lost on its way.
            if let Some(payload) = quietly(|| self.held = None) {
                drop_payload(payload);
            }
            Ok(copy)
        })
    }
}

/// A broadcast as the receiver with a certain place waits for it.
pub(super) struct Following<'a, T> {
    shared: &'a Shared<T>,
    /// The position, or `None` if the receiver has taken a value already.
    position: Option<u64>,
}

impl<'a, T> Following<'a, T> {
    pub(super) fn new(shared: &'a Shared<T>, place: &Place<T>) -> Following<'a, T> {
        Following { shared, position: place.held.is_none().then_some(place.position) }
    }
}

impl<T> Waitable for Following<'_, T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "a value of a broadcast"
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        &mut state.turns.waiters
    }

    fn try_enter(&self, state: &mut State<T>, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        state.turns.mark(node);
        let waits = self.position.is_some_and(|position| position >= state.tail());
        // MUTANT(broadcast.enter.look): with (state.senders == 0).then_some(LOOK)
        (!waits || state.senders == 0).then_some(LOOK)
    }

    /// A grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}
