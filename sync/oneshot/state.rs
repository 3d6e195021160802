//! The value between the two ends of a oneshot, and the waiters at both ends.
//!
//! All of it is under one lock, held for a few instructions. The value is moved in and out under
//! the lock, and dropped outside.
//!
//! ```text
//!  OPEN --send--> SENT --take--> OVER
//!   |                             ^
//!   +-- the sender goes, or close +
//! ```
//!
//! # A grant is only a call
//!
//! A waiting receiver is told that the channel is not OPEN any more, and then takes the value
//! itself. Meanwhile the value stays in the channel. So a receiver that is cancelled, times out, or
//! is dropped as a future has nothing to give back, and a forgotten future holds only its place in
//! the list. No other receiver can come in between, because a receiver waits through an exclusive
//! reference. The channel is never OPEN again, so a receiver that was told never waits a second
//! time.
//!
//! A flag says that the receiver does not want a value any more, because it has closed the channel
//! or is gone. The flag is written under the lock, and may be read without. Once it is set, no
//! value is accepted.

use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::{Mutex, MutexGuard};
use crate::sync::TryRecvError;
use std::sync::PoisonError;

/// The only answer: look again.
const LOOK: u32 = 0;

enum Course<T> {
    Open,
    Sent(T),
    Over,
}

pub(crate) struct State<T> {
    course: Course<T>,
    /// Receivers that wait for the value.
    receivers: WaitList,
    /// Senders that wait for the receiver to go.
    senders: WaitList,
}

pub(super) struct Shared<T> {
    unwanted: AtomicBool,
    state: Mutex<State<T>>,
}

impl<T> State<T> {
    /// Leaves OPEN, if the channel is in that state.
    fn end(&mut self, wakes: &mut Wakes) {
        if matches!(self.course, Course::Open) {
            self.course = Course::Over;
            self.receivers.grant_all(LOOK, wakes);
        }
    }
}

impl<T> Shared<T> {
    pub(super) fn new() -> Shared<T> {
        let (receivers, senders) = (WaitList::new(), WaitList::new());
        let state = State { course: Course::Open, receivers, senders };
        Shared { unwanted: AtomicBool::new(false), state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` under the lock, then wakes the waiters that it has called.
    fn with<R>(&self, f: impl FnOnce(&mut State<T>, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        let mut state = self.lock();
        let result = f(&mut state, &mut wakes);
        drop(state);
        wakes.deliver();
        result
    }

    /// Stores the value, unless it is unwanted. Called once at most.
    pub(super) fn send(&self, value: T) -> Result<(), T> {
        self.with(|state, wakes| {
            if self.is_unwanted() {
                return Err(value);
            }
            debug_assert!(matches!(state.course, Course::Open), "it is sent once");
            state.course = Course::Sent(value);
            state.receivers.grant_all(LOOK, wakes);
            Ok(())
        })
    }

    /// Ends the wait of the receiver, because the sender is gone without having sent a value.
    pub(super) fn drop_sender(&self) {
        self.with(State::end);
    }

    pub(super) fn take(&self) -> Result<T, TryRecvError> {
        let mut state = self.lock();
        match std::mem::replace(&mut state.course, Course::Over) {
            Course::Sent(value) => Ok(value),
            Course::Over => Err(TryRecvError::Closed),
            Course::Open => {
                state.course = Course::Open;
                Err(TryRecvError::Empty)
            }
        }
    }

    /// Refuses values from now on. One that is there stays.
    pub(super) fn close(&self) {
        self.with(|state, wakes| {
            // Release: a sender that sees the flag also sees what was done before.
            // MUTANT(oneshot.close): relaxed
            self.unwanted.store(true, Ordering::Release);
            state.end(wakes);
            state.senders.grant_all(LOOK, wakes);
        });
    }

    pub(super) fn is_unwanted(&self) -> bool {
        // MUTANT(oneshot.unwanted): relaxed
        self.unwanted.load(Ordering::Acquire)
    }

    pub(super) fn has_value(&self) -> bool {
        matches!(self.lock().course, Course::Sent(_))
    }

    /// Returns the places in the code where senders and receivers wait.
    pub(super) fn places(&self) -> (Vec<String>, Vec<String>) {
        let state = self.lock();
        (state.senders.places(), state.receivers.places())
    }
}

/// A oneshot as its receiver waits for the value.
pub(super) struct Receiving<'a, T>(pub(super) &'a Shared<T>);

/// A oneshot as its sender waits for the receiver to go.
pub(super) struct Closing<'a, T>(pub(super) &'a Shared<T>);

impl<T> Waitable for Receiving<'_, T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "the value of a oneshot"
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        &mut state.receivers
    }

    fn try_enter(&self, state: &mut State<T>, _: &WaitNode, _: &mut Wakes) -> Option<u32> {
        // MUTANT(oneshot.receive.look): with None
        (!matches!(state.course, Course::Open)).then_some(LOOK)
    }

    /// A grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}

impl<T> Waitable for Closing<'_, T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "the end of a oneshot's receiver"
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        &mut state.senders
    }

    fn try_enter(&self, _: &mut State<T>, _: &WaitNode, _: &mut Wakes) -> Option<u32> {
        // MUTANT(oneshot.closing.look): with None
        self.0.is_unwanted().then_some(LOOK)
    }

    /// A grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}
