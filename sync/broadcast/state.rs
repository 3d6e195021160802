//! The ring of a broadcast, which is the content of its [slot](super::super::slot).
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
//! between which the lock is released. Neither disturbs the order. A receiver that goes gives up
//! its claims from the front on, counts as a receiver until it has none, and so claims what is sent
//! in between too. Of a clone, the number of receivers changes with the first portion, and the
//! receiver that is cloned keeps its own claims meanwhile. The last receiver takes all values with
//! it at once.
//!
//! # Foreign code
//!
//! A value lies in an [`Arc`], and is cloned and dropped without the lock. A receiver takes the
//! reference out of the ring and keeps it until its copy is made: if `clone` panics, the next call
//! tries again with the same value. The receiver that takes the last reference needs no copy.

use crate::sync::TryRecvError;
use crate::sync::slot::{Cursor, Slot};
use crate::task::outcome::{Payload, drop_all, drop_quietly, first_of, quietly};
use std::collections::VecDeque;
use std::sync::Arc;

/// Claims that are changed before the lock is released for others.
const PORTION: u64 = if cfg!(loom) { 1 } else { 64 };

struct Claimed<T> {
    value: Arc<T>,
    claims: usize,
}

pub(super) struct Ring<T> {
    values: VecDeque<Claimed<T>>,
    /// The number of the first value in the ring.
    head: u64,
    /// The greatest length of the ring, which grows as needed.
    capacity: usize,
}

impl<T> Ring<T> {
    pub(super) fn new(capacity: usize) -> Ring<T> {
        Ring { values: VecDeque::new(), head: 0, capacity }
    }

    #[cfg(all(test, loom))]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    fn at(&mut self, number: u64) -> Option<&mut Claimed<T>> {
        self.values.get_mut((number - self.head) as usize)
    }

    fn drop_first(&mut self) -> Option<Arc<T>> {
        let first = self.values.pop_front()?;
        self.head += 1;
        // After a burst. This is so rare that it costs nothing overall.
        if self.values.capacity() > 64 && self.values.len() < self.values.capacity() / 8 {
            self.values.shrink_to(self.values.capacity() / 2);
        }
        Some(first.value)
    }
}

impl<T> Slot<Ring<T>> {
    /// Sends a value to all receivers, and returns how many there are. Gives the value back if
    /// there are none.
    pub(super) fn send(&self, value: Arc<T>) -> Result<usize, Arc<T>> {
        let mut state = self.state.lock();
        let receivers = state.receivers;
        if receivers == 0 {
            return Err(value);
        }
        let ring = &mut state.content;
        let is_full = ring.values.len() == ring.capacity;
        let driven_out = if is_full { ring.drop_first() } else { None };
        ring.values.push_back(Claimed { value, claims: receivers });
        self.count_sent(state);
        drop(driven_out);
        Ok(receivers)
    }

    pub(super) fn capacity(&self) -> usize {
        self.state.lock().content.capacity
    }

    /// Takes the value at a position, and moves the position on.
    fn take(&self, position: &mut u64) -> Result<Arc<T>, TryRecvError> {
        let mut state = self.state.lock();
        let is_closed = state.senders == 0;
        let ring = &mut state.content;
        if *position < ring.head {
            let missed = ring.head - *position;
            *position = ring.head;
            return Err(TryRecvError::Lagged(missed));
        }
        let Some(claimed) = ring.at(*position) else {
            return Err(if is_closed { TryRecvError::Closed } else { TryRecvError::Empty });
        };
        *position += 1;
        claimed.claims -= 1;
        if claimed.claims > 0 {
            return Ok(Arc::clone(&claimed.value));
        }
        Ok(ring.drop_first().expect("the value without claims is the first one"))
    }

    /// Adds a receiver of the values that are sent from now on.
    pub(super) fn add_receiver(&self) -> RingCursor<T> {
        let mut state = self.state.lock();
        state.receivers += 1;
        RingCursor { position: self.sent(), held: None }
    }

    /// Adds a receiver at the position of another one, which does not move meanwhile.
    pub(super) fn add_receiver_at(&self, cursor: &RingCursor<T>) -> RingCursor<T> {
        let mut state = self.state.lock();
        state.receivers += 1;
        let (mut next, end) = (cursor.position, self.sent());
        loop {
            next = next.max(state.content.head);
            for _ in 0..PORTION.min(end.saturating_sub(next)) {
                state.content.at(next).expect("a claimed value is in the ring").claims += 1;
                next += 1;
            }
            drop(state);
            if next >= end {
                return RingCursor { position: cursor.position, held: cursor.held.clone() };
            }
            state = self.state.lock();
        }
    }

    /// Removes a receiver, and drops the values that no other receiver claims. Returns the first
    /// panic of a destructor, if any.
    pub(super) fn drop_receiver(&self, cursor: &mut RingCursor<T>) -> Option<Payload> {
        let mut first = cursor.held.take().and_then(|held| quietly(|| drop(held)));
        let mut next = cursor.position;
        loop {
            let mut state = self.state.lock();
            if state.receivers == 1 {
                state.receivers = 0;
                let left = std::mem::take(&mut state.content.values);
                state.content.head = self.sent();
                drop(state);
                let dropped = drop_all(left.into_iter().map(|claimed| claimed.value));
                return first_of(first.into_iter().chain(dropped));
            }
            let mut unclaimed = [const { None }; PORTION as usize];
            let end = self.sent();
            next = next.max(state.content.head);
            for value in unclaimed.iter_mut().take((end - next) as usize) {
                let ring = &mut state.content;
                let claimed = ring.at(next).expect("a claimed value is in the ring");
                claimed.claims -= 1;
                if claimed.claims == 0 {
                    *value = ring.drop_first();
                }
                next += 1;
            }
            let is_over = next == end;
            if is_over {
                state.receivers -= 1;
            }
            drop(state);
            let dropped = drop_all(unclaimed.into_iter().flatten());
            first = first_of(first.into_iter().chain(dropped));
            if is_over {
                return first;
            }
        }
    }
}

/// How far one receiver has come in the ring of a broadcast.
pub(super) struct RingCursor<T> {
    position: u64,
    /// A value that was taken out of the ring, and not yet returned to the caller.
    held: Option<Arc<T>>,
}

impl<T> RingCursor<T> {
    pub(super) fn first() -> RingCursor<T> {
        RingCursor { position: 0, held: None }
    }

    pub(super) fn len(&self, slot: &Slot<Ring<T>>) -> usize {
        let state = slot.state.lock();
        let first = self.position.max(state.content.head);
        (slot.sent() - first) as usize + usize::from(self.held.is_some())
    }
}

impl<T: Clone> Cursor<Ring<T>> for RingCursor<T> {
    type Value = T;

    const WHAT: &'static str = "a value of a broadcast";

    /// A value that the receiver holds is still to be received.
    fn passed(&self) -> u64 {
        self.position - u64::from(self.held.is_some())
    }

    fn next(&mut self, slot: &Slot<Ring<T>>) -> Result<T, TryRecvError> {
        let value = match self.held.take() {
            Some(value) => value,
            None => slot.take(&mut self.position)?,
        };
        Arc::try_unwrap(value).or_else(|value| {
            let copy = self.held.insert(value).as_ref().clone();
            // All others may have let go of the value meanwhile. A panic of its destructor is
            // discarded, because the copy would be lost on its way.
            drop_quietly(self.held.take());
            Ok(copy)
        })
    }
}
