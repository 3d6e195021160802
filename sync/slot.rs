//! What the ends of a broadcast or a watch share: a slot for what has been sent, with
//! the receivers that wait for more.
//!
//! All of it is under one lock, held for a few instructions. The **content** is the ring
//! of a broadcast, or the last value of a watch. The slot counts how many values
//! have been sent. The count is written under the lock, and may be read without. Each receiver has
//! a [`Cursor`], and waits until more values have been sent than it has passed, or until all
//! senders are gone.
//!
//! # A grant is only a call
//!
//! A new value, and the drop of the last sender, call all waiters, in [`Turns`]. A called waiter
//! looks again, with the cursor that it had before. The count only grows, and the end is final, so
//! the waiter finds what it was called for, or something newer. Until then everything stays in the
//! slot. So a receiver that is cancelled, times out, or is dropped as a future has nothing to give
//! back, and a forgotten future holds only its place in the list.
//!
//! No wake-up is lost: a waiter enters the list under the lock, after a look at the count, and the
//! count is changed under the lock.

use super::channel::TryRecvError;
use super::errors::WaitError;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{
    Turns, WaitFuture, WaitList, WaitNode, Waitable, Wakes, enter,
};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{Mutex, MutexGuard};
use std::panic::Location;
use std::time::Instant;

/// The only answer: the waiter is called, and looks again.
const CALL: u32 = 0;

pub(crate) struct State<S> {
    pub(super) content: S,
    pub(super) senders: usize,
    pub(super) receivers: usize,
    turns: Turns,
}

impl<S> AsMut<Turns> for State<S> {
    fn as_mut(&mut self) -> &mut Turns {
        &mut self.turns
    }
}

pub(crate) struct Slot<S> {
    /// How many values have been sent.
    sent: AtomicU64,
    pub(super) state: Mutex<State<S>>,
}

impl<S> Slot<S> {
    /// Creates a slot for one sender and one receiver, into which so many values have been sent.
    pub(super) fn new(content: S, sent: u64) -> Slot<S> {
        let state = State { content, senders: 1, receivers: 1, turns: Turns::new() };
        Slot { sent: AtomicU64::new(sent), state: Mutex::new(state) }
    }

    /// Returns how many values have been sent. Without the lock, there may be more by now. The
    /// caller sees what the sender of the last one did before.
    pub(super) fn sent(&self) -> u64 {
        // MUTANT(slot.sent): relaxed
        self.sent.load(Ordering::Acquire)
    }

    /// Counts a value that has been put into the content, and calls the waiters.
    pub(super) fn count_sent(&self, state: MutexGuard<'_, State<S>>) {
        let sent = self.sent.load(Ordering::Relaxed) + 1;
        // MUTANT(slot.count): relaxed
        self.sent.store(sent, Ordering::Release);
        self.call_all(state);
    }

    fn call_all(&self, state: MutexGuard<'_, State<S>>) {
        let source = SlotWait { slot: self, passed: 0, what: "" };
        Turns::end(&source, state, CALL, CALL);
    }

    pub(super) fn add_sender(&self) {
        self.state.lock().senders += 1;
    }

    /// Removes a sender. The last one ends all waits.
    pub(super) fn drop_sender(&self) {
        let mut state = self.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            self.call_all(state);
        }
    }

    pub(super) fn receivers(&self) -> usize {
        self.state.lock().receivers
    }

    /// Returns whether all senders are gone.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().senders == 0
    }

    /// Returns the locations in the code where callers wait.
    pub(super) fn locations(&self) -> Vec<String> {
        self.state.lock().turns.waiters.locations()
    }
}

/// How far a receiver has come in a slot with this content.
pub(super) trait Cursor<S> {
    type Value;

    /// Names what the receiver waits for, for reports.
    const WHAT: &'static str;

    /// Returns how many values the receiver has passed. It waits until more have been sent.
    fn passed(&self) -> u64;

    /// Receives the next value if it is there.
    fn next(&mut self, slot: &Slot<S>) -> Result<Self::Value, TryRecvError>;
}

/// Receives the next value, and waits for it until the given time, if any.
#[track_caller]
pub(super) fn receive<S, C: Cursor<S>>(
    slot: &Slot<S>,
    cursor: &mut C,
    until: Option<Instant>,
) -> Result<C::Value, WaitError> {
    let mut may_look = !is_cancelled();
    loop {
        if may_look && let Some(result) = look(slot, cursor) {
            return result;
        }
        enter(&SlotWait::new(slot, cursor), 0, until).map_err(WaitError::of)?;
        may_look = true;
    }
}

/// Waits for the next value as a future. When it is ready, [`receive_called`] receives the value.
pub(super) fn wait<'a, S, C: Cursor<S>>(
    slot: &'a Slot<S>,
    cursor: &C,
    location: &'static Location<'static>,
) -> WaitFuture<SlotWait<'a, S>> {
    WaitFuture::new(SlotWait::new(slot, cursor), 0, location)
}

/// Receives the next value, for a receiver that has been called.
pub(super) fn receive_called<S, C: Cursor<S>>(
    slot: &Slot<S>,
    cursor: &mut C,
) -> Result<C::Value, WaitError> {
    look(slot, cursor).expect("a called receiver finds a value or an end")
}

/// Receives the next value. Returns `None` if the receiver has to wait for it.
fn look<S, C: Cursor<S>>(slot: &Slot<S>, cursor: &mut C) -> Option<Result<C::Value, WaitError>> {
    match cursor.next(slot) {
        Ok(value) => Some(Ok(value)),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Closed) => Some(Err(WaitError::Closed)),
        Err(TryRecvError::Lagged(missed)) => Some(Err(WaitError::Lagged(missed))),
    }
}

/// A slot as a caller waits for it that has passed so many values.
pub(crate) struct SlotWait<'a, S> {
    pub(super) slot: &'a Slot<S>,
    pub(super) passed: u64,
    pub(super) what: &'static str,
}

impl<'a, S> SlotWait<'a, S> {
    pub(super) fn new<C: Cursor<S>>(slot: &'a Slot<S>, cursor: &C) -> SlotWait<'a, S> {
        SlotWait { slot, passed: cursor.passed(), what: C::WHAT }
    }
}

impl<S> Waitable for SlotWait<'_, S> {
    type State = State<S>;

    fn what(&self) -> &'static str {
        self.what
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.slot.state.lock()
    }

    fn waiters(state: &mut State<S>) -> &mut WaitList {
        &mut state.turns.waiters
    }

    fn try_enter(&self, state: &mut State<S>, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        state.turns.mark(node);
        // MUTANT(slot.enter.look): with false
        let more = self.slot.sent.load(Ordering::Relaxed) > self.passed;
        // MUTANT(slot.enter.end): with more.then_some(CALL)
        (more || state.senders == 0).then_some(CALL)
    }

    /// A grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}
