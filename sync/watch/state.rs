//! The last value of a watch, and the receivers that wait for the next one.
//!
//! # Versions
//!
//! Values are numbered from 1. A receiver has the number of the last value that it has **seen**,
//! and waits until there is a greater one. So it sees only the latest value, however many there
//! were, and each value at most once. A wait does not change that number, even if it ends early:
//! the number is written by the call that returns the value. So a cancelled wait has nothing to
//! give back.
//!
//! # Snapshots
//!
//! A value lies in an [`Arc`], which is replaced under the lock and handed out as it is. No lock is
//! held while a caller looks at a value, however long that takes, and no foreign code (the closures
//! of users, the destructor and the `clone` of a value) runs under one. A modification is made to a
//! copy, which replaces the value unless another one has come meanwhile. In that case the
//! modification is repeated with the new value.
//!
//! # A grant is only a call
//!
//! A new value, and the drop of the last sender, call all waiters, in [`Turns`]. A called waiter
//! looks again. Versions only grow, and the end is final, so it finds what it was called for, or
//! something newer.

use crate::scheduler::wait::waiters::{Turns, WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{Mutex, MutexGuard};
use crate::sync::TryRecvError;
use crate::sync::holder::Holder;
use std::sync::{Arc, PoisonError};

/// The only answer: look again.
const LOOK: u32 = 0;

/// The number of a receiver that has seen nothing.
pub(super) const NOTHING: u64 = 0;

/// A value and its number.
pub(super) type Numbered<T> = (Arc<T>, u64);

pub(crate) struct State<T> {
    value: Arc<T>,
    /// The holder that has sent the value.
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

/// Why a value was not sent: there is a newer one than the one that it was made from.
pub(super) struct Outrun {
    /// The holder that has sent the newer value.
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

    /// Returns the number of the last value, without the lock: there may be a newer one by now. The
    /// caller sees what the sender did before.
    pub(super) fn version(&self) -> u64 {
        // MUTANT(watched.version): relaxed
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn latest(&self) -> Numbered<T> {
        let state = self.lock();
        (Arc::clone(&state.value), self.version.load(Ordering::Relaxed))
    }

    /// Returns the value, if it is newer than `seen`.
    pub(super) fn newer(&self, seen: u64) -> Result<Numbered<T>, TryRecvError> {
        let state = self.lock();
        match self.version.load(Ordering::Relaxed) {
            version if version > seen => Ok((Arc::clone(&state.value), version)),
            _ if state.senders == 0 => Err(TryRecvError::Closed),
            _ => Err(TryRecvError::Empty),
        }
    }

    /// Replaces the value. If `from` is given, replaces only the value with that number.
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
        // This may be the last reference, so it is dropped without the lock.
        drop(before);
        Ok(())
    }

    pub(super) fn add_sender(&self) {
        self.lock().senders += 1;
    }

    pub(super) fn add_receiver(&self) {
        self.lock().receivers += 1;
    }

    /// Removes a sender. The last one ends all waits.
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

    /// Returns the places in the code where receivers wait.
    pub(super) fn places(&self) -> Vec<String> {
        self.lock().turns.waiters.places()
    }
}

/// A watch as a receiver waits for a value with a number greater than `seen`.
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

    /// A grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}
