//! The last value of a watch, and who waits for the next one.
//!
//! # Versions
//!
//! Values are counted from 1 on. A receiver has a number of its own, that of the last value which it has **seen**, and waits while
//! there is none with a greater one. So it sees the latest only, however many there were, and each at most once. Neither a wait
//! that ends early nor one who waits changes that number: it is written by the call that gives the value out. A cancelled wait
//! has therefore nothing to give back.
//!
//! # Snapshots
//!
//! A value lies in an [`Arc`], which is replaced under the lock and given out as it is. Nobody holds a lock while it looks
//! at a value, for as long as it likes, and no foreign code (the closures of users, the destructor and the `clone` of a value)
//! runs under one. What is to change a value does so with a copy, which takes the value's place if no other one
//! has come meanwhile; else it is done again with that one.
//!
//! # A grant is no more than a call
//!
//! A new value, and the end of the last sender, call all who wait, in [`Turns`]. Who was called looks again: versions only grow, and
//! the end is for ever, so it finds what it was called for, or something newer.

use crate::scheduler::wait::waiters::{Turns, WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{Mutex, MutexGuard};
use crate::sync::TryRecvError;
use crate::sync::holder::Holder;
use std::sync::{Arc, PoisonError};

/// The only answer: look again.
const LOOK: u32 = 0;

/// Has seen nothing.
pub(super) const NOTHING: u64 = 0;

/// A value, and its number.
pub(super) type Numbered<T> = (Arc<T>, u64);

pub(crate) struct State<T> {
    value: Arc<T>,
    /// Who has sent it.
    writer: Holder,
    senders: usize,
    receivers: usize,
    turns: Turns,
}

impl<T> AsMut<Turns> for State<T> {
    fn as_mut(&mut self) -> &mut Turns {
        &mut self.turns
    }
}

pub(super) struct Shared<T> {
    /// The number of the value. Written under the lock, and may be read without.
    version: AtomicU64,
    state: Mutex<State<T>>,
}

/// A value that was not sent, as there is a newer one than that which it was made from.
pub(super) struct Outrun {
    /// Who has sent that one.
    pub(super) by: Holder,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T, writer: Holder) -> Shared<T> {
        let state =
            State { value: Arc::new(value), writer, senders: 1, receivers: 1, turns: Turns::new() };
        Shared { version: AtomicU64::new(NOTHING + 1), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without the lock: there may be a newer one. What its sender did before is seen.
    pub(super) fn version(&self) -> u64 {
        // MUTANT(watched.version): relaxed
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn latest(&self) -> Numbered<T> {
        let state = self.lock();
        (Arc::clone(&state.value), self.version.load(Ordering::Relaxed))
    }

    /// The value, if it is newer than what was seen.
    pub(super) fn newer(&self, seen: u64) -> Result<Numbered<T>, TryRecvError> {
        let state = self.lock();
        match self.version.load(Ordering::Relaxed) {
            version if version > seen => Ok((Arc::clone(&state.value), version)),
            _ if state.senders == 0 => Err(TryRecvError::Closed),
            _ => Err(TryRecvError::Empty),
        }
    }

    /// Puts a value in the place of another one; if `from` is given, of that alone.
    pub(super) fn replace(
        &self,
        value: Arc<T>,
        from: Option<u64>,
        writer: Holder,
    ) -> Result<(), Outrun> {
        let mut state = self.lock();
        let version = self.version.load(Ordering::Relaxed);
        // MUTANT(watched.outrun): false
        if from.is_some_and(|from| from != version) {
            let by = state.writer;
            drop(state);
            return Err(Outrun { by });
        }
        let before = std::mem::replace(&mut state.value, value);
        state.writer = writer;
        // MUTANT(watched.replace): relaxed
        self.version.store(version + 1, Ordering::Release);
        Turns::end(&Changing { shared: self, seen: version }, state, LOOK, LOOK);
        // It may be the last reference.
        drop(before);
        Ok(())
    }

    pub(super) fn add_sender(&self) {
        self.lock().senders += 1;
    }

    pub(super) fn add_receiver(&self) {
        self.lock().receivers += 1;
    }

    /// One sender less; the last one ends all waits.
    pub(super) fn drop_sender(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        if state.senders == 0 {
            Turns::end(&Changing { shared: self, seen: NOTHING }, state, LOOK, LOOK);
        }
    }

    pub(super) fn drop_receiver(&self) {
        self.lock().receivers -= 1;
    }

    pub(super) fn receivers(&self) -> usize {
        self.lock().receivers
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().senders == 0
    }

    /// Where receivers wait.
    pub(super) fn places(&self) -> Vec<String> {
        self.lock().turns.waiters.places()
    }
}

/// A watch, to be waited for by a receiver that has seen so many.
pub(super) struct Changing<'a, T> {
    pub(super) shared: &'a Shared<T>,
    pub(super) seen: u64,
}

impl<T> Waitable for Changing<'_, T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "a change of a watched value"
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        &mut state.turns.waiters
    }

    fn try_enter(&self, state: &mut State<T>, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        state.turns.mark(node);
        let newer = self.shared.version.load(Ordering::Relaxed) > self.seen;
        // MUTANT(watched.enter.look): with (state.senders == 0).then_some(LOOK)
        (newer || state.senders == 0).then_some(LOOK)
    }

    /// Nothing was taken.
    fn give_back(&self, _: &WaitNode) {}
}
